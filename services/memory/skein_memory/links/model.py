"""Links between memories and the rules they obey. No gRPC, no SQL, no clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from skein_kit.errors import FieldInvalid
from skein_kit.ids import new_id
from skein_kit.json_values import exact
from skein_kit.rpc.row_times import ImportTimes
from skein_kit.text.source_keys import source_keys
from skein_memory.errors import LinkToItself
from skein_memory.events.model import Event, time_of_next_record
from skein_memory.validation import check_revision, check_storable

DEFAULT_RELATION = "related"
DEFAULT_WEIGHT = 1.0
# Characters of a name of a memory.
MAX_NAME = 255


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkDraft:
    """The validated content of a link. The ends are ids or external ids; `metadata` is JSON text."""

    from_name: str
    to_name: str
    relation: str
    label: str | None
    weight: float
    metadata: str | None
    # None: now.
    times: ImportTimes | None = None

    def check(self) -> None:
        """Reject fields that no link may have. Raises FieldInvalid and TextNotStorable."""
        for field, name in (("from_memory_id", self.from_name), ("to_memory_id", self.to_name)):
            if not 0 < len(name) <= MAX_NAME:
                raise FieldInvalid(violations=[(field, f"must have 1 to {MAX_NAME} characters")])
        check_storable([("label", self.label)], [("metadata", self.metadata)])

    def create_link(
        self,
        from_id: UUID,
        to_id: UUID,
        *,
        at: datetime,
        by: str,
        link_id: UUID | None = None,
        index: int | None = None,
    ) -> Link:
        """Return the link of two memories; `index` is its place in a batch.

        Raises LinkToItself, with the index.
        """
        if from_id == to_id:
            raise LinkToItself(index=index)
        return Link(
            link_id=link_id or new_id(at),
            from_memory_id=from_id,
            to_memory_id=to_id,
            relation=self.relation,
            label=self.label,
            weight=self.weight,
            metadata=self.metadata,
            create_time=self.times.create_time if self.times else at,
            created_by=by,
            revision=1,
            update_time=self.times.update_time if self.times else at,
            updated_by=by,
            record_time=at,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """A directed link between two memories."""

    link_id: UUID
    from_memory_id: UUID
    to_memory_id: UUID
    relation: str
    label: str | None
    weight: float
    metadata: str | None
    create_time: datetime
    created_by: str
    revision: int
    update_time: datetime
    updated_by: str
    # When Skein recorded it, for as-of reads.
    record_time: datetime

    @classmethod
    def create(
        cls, from_memory_id: UUID, to_memory_id: UUID, relation: str, link_id: UUID, *, time: datetime, at: datetime,
        by: str,
    ) -> Link:  # fmt: skip
        """Return a new link of full weight; it was created at `time`, and Skein records it at the time `at`."""
        return cls(
            link_id=link_id,
            from_memory_id=from_memory_id,
            to_memory_id=to_memory_id,
            relation=relation,
            label=None,
            weight=DEFAULT_WEIGHT,
            metadata=None,
            create_time=time,
            created_by=by,
            revision=1,
            update_time=time,
            updated_by=by,
            record_time=at,
        )

    @property
    def pair(self) -> tuple[UUID, UUID, str]:
        """Return the pair and relation, which are unique in the tenant."""
        return self.from_memory_id, self.to_memory_id, self.relation

    @property
    def author_keys(self) -> list[str]:
        """Return the source keys of those that created and changed it last, by which they are rated."""
        return source_keys(self.created_by, self.updated_by)

    @property
    def state(self) -> str:
        """Return, as JSON, the state that is stored when a link changes or is deleted."""
        return exact.dumps(
            {
                "relation": self.relation,
                "label": self.label,
                "weight": self.weight,
                "metadata": None if self.metadata is None else exact.loads(self.metadata),
                "create_time": self.create_time.isoformat(),
                "update_time": self.update_time.isoformat(),
                "created_by": self.created_by,
                "updated_by": self.updated_by,
                "author_keys": self.author_keys,
            }
        )

    def check_revision(self, revision: int) -> None:
        """Reject a revision that is not the current one; 0 matches any revision."""
        check_revision(revision, self.revision)

    def revise(self, draft: LinkDraft, *, at: datetime, by: str) -> Link:
        """Return its next revision, with the content `draft` and the same ends; itself when nothing changes."""
        content = {"relation": draft.relation, "label": draft.label, "weight": draft.weight}
        if all(getattr(self, name) == value for name, value in content.items()) and self._has_metadata(draft.metadata):
            return self
        return replace(
            self,
            relation=draft.relation,
            label=draft.label,
            weight=draft.weight,
            metadata=draft.metadata,
            revision=self.revision + 1,
            update_time=at,
            updated_by=by,
            record_time=time_of_next_record(self.record_time, at),
        )

    def _has_metadata(self, metadata: str | None) -> bool:
        # The database writes JSON in a form of its own.
        return exact.equal_json(self.metadata, metadata)


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkFilter:
    """The requested links; relations None: all."""

    outgoing: bool = True
    incoming: bool = True
    relations: Sequence[str] | None = None
    min_weight: float = 0.0

    @property
    def is_directed(self) -> bool:
        """Return whether links are followed in one direction only."""
        return not (self.outgoing and self.incoming)

    def reversed(self) -> LinkFilter:
        """Return the filter that finds the same links from their other ends."""
        return replace(self, outgoing=self.incoming, incoming=self.outgoing)


def link_event(kind: str, link: Link, fields: Sequence[str] = ()) -> Event:
    """Return the event of a link that was created, updated or removed; `fields` are those that changed."""
    payload: dict[str, object] = {
        "from_memory_id": str(link.from_memory_id),
        "to_memory_id": str(link.to_memory_id),
        "relation": link.relation,
        "revision": link.revision,
    }
    if fields:
        payload["fields"] = list(fields)
    verb = kind.removeprefix("memory_link_")
    return Event(
        type=kind,
        entity_type="link",
        entity_id=str(link.link_id),
        summary=f"{link.relation} link {verb}{': ' if fields else ''}{', '.join(fields)}",
        payload=payload,
    )
