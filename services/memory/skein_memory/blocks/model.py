"""Blocks of core memory and the rules they obey. No gRPC, no SQL, no clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from typing import Any, Self, TypeAlias
from uuid import UUID

from skein_kit.errors import FieldInvalid
from skein_kit.ids import new_id
from skein_kit.json_values import exact
from skein_kit.text.writers import Writers
from skein_memory.errors import BlockNotFound, BlockReadOnly, BlockTooLong
from skein_memory.events.model import time_of_next_record
from skein_memory.validation import check_revision, check_storable

# The place of a block in lists: its id and its space.
Position: TypeAlias = tuple[str, UUID]
# The default limit of a value, in characters.
DEFAULT_LIMIT = 2000
NEARLY_FULL = 0.9
# Blocks of one agent about one subject, or without a subject.
MAX_BLOCKS_PER_AGENT = 100
# Fields that state something, each with the principals that it has words of.
STATED_FIELDS = ("label", "value", "description", "template_name", "subject_id", "metadata")
_TEXTS = ("label", "value", "description", "template_name", "subject_id")


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockDraft:
    """The validated content of a block, with defaults. `metadata` is JSON text."""

    label: str
    value: str
    max_characters: int
    description: str | None
    read_only: bool
    is_template: bool
    template_name: str | None
    # Empty: no subject.
    subject_id: str
    metadata: str | None

    def with_value(self, value: str) -> Self:
        return replace(self, value=value).validate()

    def validate(self) -> Self:
        """Return it if it obeys the rules."""
        check_storable([(name, getattr(self, name)) for name in _TEXTS], [("metadata", self.metadata)])
        if not self.label or self.label != self.label.strip() or not self.label.isprintable():
            raise FieldInvalid(
                violations=[("label", "must have 1 to 50 characters, in one line, without spaces around")]
            )
        if len(self.value) > self.max_characters:
            raise BlockTooLong(limit=self.max_characters, length=len(self.value))
        return self


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """A block: its content, times and principals."""

    block_id: str
    draft: BlockDraft
    revision: int
    create_time: datetime
    # Time of the last change, in Skein or in the system of its import; time when Skein recorded it, for as-of reads.
    update_time: datetime
    record_time: datetime
    delete_time: datetime | None
    created_by: str
    updated_by: str
    # By field; the trust follows from their ratings. None: none is rated, or it was not read.
    writers: Writers
    trust: float | None = field(default=None, compare=False)
    # In lists: where it lies.
    space_id: UUID | None = field(default=None, compare=False)

    @classmethod
    def create(cls, draft: BlockDraft, *, block_id: str, at: datetime, by: str) -> Self:
        """Return a new block, with an id of its own unless the caller chose one."""
        check_storable([("block_id", block_id)], [])
        return cls(
            block_id=block_id or str(new_id(at)),
            draft=draft,
            revision=1,
            create_time=at,
            update_time=at,
            record_time=at,
            delete_time=None,
            created_by=by,
            updated_by=by,
            writers=Writers.of(STATED_FIELDS, by),
        )

    @property
    def is_active(self) -> bool:
        """Return whether it is not deleted."""
        return self.delete_time is None

    @property
    def is_nearly_full(self) -> bool:
        """Return whether its value is near its limit."""
        return len(self.draft.value) >= NEARLY_FULL * self.draft.max_characters

    def revise(
        self, draft: BlockDraft, *, at: datetime, by: str, also_by: Sequence[str] = (), is_edit: bool = False
    ) -> Block:
        """Return its next revision, with the content `draft`. Raises BlockReadOnly.

        The content of a read-only block changes only together with `read_only`. What changes is a statement of `by` and
        of those whom an import names. A value that was edited, or contains the former one, stays its writers' too.
        """
        if self.draft.read_only and draft.read_only and self.draft.value != draft.value:
            raise BlockReadOnly
        writers, before, after = self.writers, asdict(self.draft), asdict(draft)
        for name in STATED_FIELDS:
            if before[name] == after[name]:
                continue
            keeps_words = name == "value" and (is_edit or (bool(before[name]) and before[name] in after[name]))
            former = writers.of_fields.get(name, ()) if keeps_words else ()
            writers = writers.replaced(name, *former, by, *also_by)
        return self._next_revision(at, by, draft=draft, writers=writers)

    def revert(self, earlier: Block, *, at: datetime, by: str) -> Block:
        """Return its next revision, with the content and the writers of an earlier one; `by` states it again."""
        self.check_writable()
        writers = earlier.writers.joined(Writers.of(STATED_FIELDS, by))
        return replace(self.revise(earlier.draft, at=at, by=by), writers=writers)

    def write(self, value: str, *, at: datetime, by: str) -> Block:
        """Return its next revision, with another value. Raises BlockReadOnly and BlockTooLong."""
        self.check_writable()
        return self.revise(self.draft.with_value(value), at=at, by=by, is_edit=True)

    def delete(self, *, at: datetime, by: str) -> Block:
        """Return its next revision, deleted."""
        return self._next_revision(at, by, delete_time=at)

    def undelete(self, *, at: datetime, by: str) -> Block:
        """Return its next revision, no longer deleted: `by` states it again."""
        writers = self.writers.joined(Writers.of(STATED_FIELDS, by))
        return self._next_revision(at, by, delete_time=None, writers=writers)

    def _next_revision(self, at: datetime, by: str, **changes: Any) -> Block:
        return replace(
            self,
            **changes,
            revision=self.revision + 1,
            update_time=at,
            record_time=time_of_next_record(self.record_time, at),
            updated_by=by,
        )

    def check_revision(self, revision: int) -> None:
        """Reject a deleted block, and a revision that is not the current one; 0 matches any revision."""
        if not self.is_active:
            raise BlockNotFound
        check_revision(revision, self.revision)

    def check_writable(self) -> None:
        """Reject a write into a read-only block."""
        if self.draft.read_only:
            raise BlockReadOnly

    @property
    def state(self) -> str:
        """Return its content as JSON text, for its revisions."""
        state_fields = asdict(self.draft)
        state_fields["metadata"] = None if self.draft.metadata is None else exact.loads(self.draft.metadata)
        record: dict[str, object] = {"create_time": self.create_time, "update_time": self.update_time}
        record |= {"created_by": self.created_by, "updated_by": self.updated_by}
        if self.delete_time is not None:
            record["delete_time"] = self.delete_time
        state_fields["writers"] = self.writers.of_fields
        return exact.dumps({**state_fields, **{name: _text(value) for name, value in record.items()}})


def revision_of(block_id: str, state: str, *, revision: int, record_time: datetime) -> Block:
    """Read an earlier revision of a block; older versions of Skein stored no update_time beside the record_time."""
    state_fields = exact.loads(state)
    if state_fields["metadata"] is not None:
        state_fields["metadata"] = exact.dumps(state_fields["metadata"])
    delete_time = state_fields.get("delete_time")
    return Block(
        block_id=block_id,
        draft=BlockDraft(**{field.name: state_fields[field.name] for field in fields(BlockDraft)}),
        revision=revision,
        create_time=datetime.fromisoformat(state_fields["create_time"]),
        update_time=datetime.fromisoformat(state_fields["update_time"])
        if "update_time" in state_fields
        else record_time,
        record_time=record_time,
        delete_time=None if delete_time is None else datetime.fromisoformat(delete_time),
        created_by=state_fields["created_by"],
        updated_by=state_fields["updated_by"],
        writers=Writers({name: tuple(names) for name, names in state_fields["writers"].items()}),
    )


def _text(value: object) -> str:
    """Return a time in its JSON form."""
    return value.isoformat() if isinstance(value, datetime) else str(value)
