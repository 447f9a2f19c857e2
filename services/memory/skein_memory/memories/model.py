"""Memories and the rules they obey. No gRPC, no SQL, no clock."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from uuid import UUID

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.errors import (
    ContentEmpty,
    ContentTooLong,
    DuplicateInBatch,
    FieldInvalid,
    RevisionStale,
)
from skein_kit.ids import min_id_at, new_ids
from skein_kit.rpc.row_times import read_past_time, require_keep_times
from skein_kit.rpc.well_known_types import json_text, read_time
from skein_kit.search_text import vector_columns
from skein_kit.search_text.postings import Document
from skein_memory.errors import MemoryNotFound
from skein_memory.events.model import Event
from skein_memory.memories import memory_type
from skein_memory.memories.hashes import content_hash, fingerprint
from skein_memory.validation import check_storable, prefix_field_paths

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    import numpy as np
    from numpy.typing import NDArray

    from skein_kit.identity.identity_token import Caller
    from skein_memory.scoring.model import MemoryScores

FACT = "fact"
DEFAULT_TYPE = "note"
DEFAULT_CONFIDENCE = 0.7
DEFAULT_IMPORTANCE = 0.5
# Clocks differ. An id from the future would sort before all later memories until then.
MAX_AHEAD = timedelta(minutes=5)
# An entry of a B-tree holds some 2,700 bytes, and lists are filtered by source.
MAX_SOURCE_BYTES = 2000
_TEXTS = (
    "external_id", "title", "key", "content", "source", "source_agent", "agent_id", "subject_id", "session_id",
)  # fmt: skip


# Names as the database has them, by number; an unspecified one has none.
SCOPES: Mapping[int, str] = {
    value: name.removeprefix("SCOPE_").lower() for name, value in pb.Scope.items() if value != pb.SCOPE_UNSPECIFIED
}

LEVELS: Mapping[int, str] = {
    value: name.removeprefix("LEVEL_").lower() for name, value in pb.Level.items() if value != pb.LEVEL_UNSPECIFIED
}


class FactKey(NamedTuple):
    """The subject of a fact, "" for none, and its key: unique among the facts of a tenant."""

    subject_id: str
    key: str

    @property
    def folded(self) -> tuple[str, str]:
        """Return the form in which keys are compared: case does not matter."""
        return self.subject_id, fold_key(self.key)


def fold_key(key: str) -> str:
    """Return a fact's key in the form in which keys are compared."""
    return key.lower()


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """The validated content of a memory, with defaults. `data` and `metadata` are JSON text."""

    external_id: str | None
    type: str
    title: str | None
    key: str | None
    content: str
    data: str | None
    tags: tuple[str, ...]
    source: str | None
    source_agent: str | None
    agent_id: str | None
    subject_id: str | None
    session_id: str | None
    scope: str
    level: str
    confidence: float
    importance: float
    expire_time: datetime | None
    archive_time: datetime | None
    valid_from_time: datetime | None
    valid_to_time: datetime | None
    metadata: str | None
    create_time: datetime

    @classmethod
    def of(cls, memory: pb.Memory, *, at: datetime, max_content: int, agent_id: str = "") -> Self:
        """Read a caller's message at the time `at`; `agent_id` is the default."""
        content = memory.content.strip()
        if len(content) > max_content:
            raise ContentTooLong(limit=max_content, length=len(content))
        if not content and not memory.data.fields and memory.type != memory_type.VAULT:
            raise ContentEmpty
        draft = cls(
            external_id=memory.external_id or None,
            type=memory.type or DEFAULT_TYPE,
            title=memory.title or None,
            key=memory.key or None,
            content=content,
            data=_data_of(memory),
            tags=tuple(dict.fromkeys(memory.tags)),
            source=memory.source or None,
            source_agent=memory.source_agent or None,
            agent_id=memory.agent_id or agent_id or None,
            subject_id=memory.subject_id or None,
            session_id=memory.session_id or None,
            scope=SCOPES.get(memory.scope, "global"),
            level=LEVELS.get(memory.level, "operational"),
            confidence=memory.confidence if memory.HasField("confidence") else DEFAULT_CONFIDENCE,
            importance=memory.importance if memory.HasField("importance") else DEFAULT_IMPORTANCE,
            expire_time=_expiry_of(memory, at),
            archive_time=read_time(memory, "archive_time"),
            # The world is older than 1970.
            valid_from_time=read_time(memory, "valid_from_time", before_1970=True),
            valid_to_time=read_time(memory, "valid_to_time", before_1970=True),
            metadata=json_text(memory, "metadata"),
            create_time=read_time(memory, "create_time") or at,
        )
        draft._check(at)
        return draft

    @property
    def fact_key(self) -> FactKey | None:
        """Return its fact key; None unless it is a fact with a key."""
        return FactKey(self.subject_id or "", self.key) if self.type == FACT and self.key else None

    def is_expired(self, at: datetime) -> bool:
        """Return whether it has expired at the time `at`."""
        return self.expire_time is not None and self.expire_time <= at

    @property
    def text(self) -> str:
        """Return the text that is searched."""
        return "\n".join(part for part in (self.title, self.key, self.content, self.data_text) if part)

    @property
    def data_text(self) -> str | None:
        """Return the searched text of the data; None for nothing."""
        return memory_type.search_text(self.type, self.data, beside=(self.title, self.key, self.content))

    @property
    def content_hash(self) -> bytes:
        """Return the SHA-256 by which the same memory stored again is recognised."""
        return content_hash(self.type, self.content, self.data)

    @property
    def fingerprint(self) -> UUID:
        """Return the number that it shares with its duplicates."""
        return fingerprint(
            self.type, key=self.key, title=self.title, content=self.content, content_hash=self.content_hash
        )

    def check_has_readers(self, at: datetime) -> None:
        """Reject a memory without readers: it expired before `at`, or its scope is a user who is not named.

        Imports do not call this: they store what another system kept.
        """
        violations = []
        if self.is_expired(at):
            violations.append(("expire_time", "lies in the past"))
        if self.scope == "user" and self.subject_id is None:
            violations.append(("subject_id", "must name the person whom a memory of the scope user is for"))
        if violations:
            raise FieldInvalid(violations=violations)

    def _check(self, at: datetime) -> None:
        texts = [(name, getattr(self, name)) for name in _TEXTS]
        check_storable(
            [*texts, *(("tags", tag) for tag in self.tags)], [("data", self.data), ("metadata", self.metadata)]
        )
        if self.source is not None and len(self.source.encode()) > MAX_SOURCE_BYTES:
            raise FieldInvalid(violations=[("source", f"takes more than {MAX_SOURCE_BYTES} bytes")])
        if self.valid_from_time and self.valid_to_time and self.valid_from_time > self.valid_to_time:
            raise FieldInvalid(violations=[("valid_to_time", "lies before valid_from_time")])
        memory_type.check_objective_id(self.type, self.data)
        memory_type.validate_data(
            self.type, self.data, draft_fields={"title": self.title, "content": self.content, "source": self.source}
        )
        if self.create_time > at + MAX_AHEAD:
            raise FieldInvalid(violations=[("create_time", "lies in the future")])


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """A memory: its content, times and principals."""

    memory_id: UUID
    draft: Draft
    revision: int
    # When it was last changed, wherever that was; and when Skein recorded that, which as-of reads go by.
    update_time: datetime
    record_time: datetime
    delete_time: datetime | None
    created_by: str
    updated_by: str
    # Only of memories that are read for a response.
    memory_scores: MemoryScores | None = field(default=None, compare=False)
    # An older release wrote the row, by other rules for its searched text: its document is computed again.
    needs_reindex: bool = field(default=False, compare=False)

    @property
    def is_active(self) -> bool:
        """Return whether it is not deleted."""
        return self.delete_time is None

    def is_expired(self, at: datetime) -> bool:
        """Return whether it has expired at the time `at`."""
        return self.draft.is_expired(at)

    def is_visible(self, at: datetime) -> bool:
        """Return whether readers see it at the time `at`: it is neither deleted nor expired."""
        return self.is_active and not self.is_expired(at)

    @property
    def fact_key(self) -> FactKey | None:
        """Return its fact key; a deleted fact has none."""
        return self.draft.fact_key if self.is_active else None

    @property
    def occupied_level(self) -> str | None:
        """Return the level whose capacity it takes; None for a deleted or archived memory."""
        return self.draft.level if self.is_active and self.draft.archive_time is None else None

    def document(self, at: datetime) -> Document | None:
        """Return its document in the search index; None when it is not recalled at the time `at`."""
        return None if self.is_expired(at) else self.indexed

    @property
    def indexed(self) -> Document | None:
        """Return the document that the search index may still have after it expired; None for no document."""
        draft = self.draft
        if not self.is_active or draft.archive_time is not None:
            return None
        return Document(
            item_id=self.memory_id,
            kind="memory",
            text=draft.text,
            revision=self.revision,
            type=draft.type,
            scope=draft.scope,
            source=draft.source,
            key=draft.key,
            importance=draft.importance,
            agent_id=draft.agent_id,
            subject_id=draft.subject_id,
            session_id=draft.session_id,
            expire_time=draft.expire_time,
        )

    def revise(self, draft: Draft, *, at: datetime, by: str) -> Memory:
        """Return its next revision, with the content `draft`."""
        return self._next(at, by, draft=draft)

    def delete(self, *, at: datetime, by: str) -> Memory:
        """Return its next revision, deleted."""
        return self._next(at, by, delete_time=at)

    def undelete(self, *, at: datetime, by: str) -> Memory:
        """Return its next revision, no longer deleted."""
        return self._next(at, by, delete_time=None)

    def _next(self, at: datetime, by: str, **changes: Any) -> Memory:
        return replace(self, **changes, revision=self.revision + 1, update_time=at, record_time=at, updated_by=by)

    def check_revision(self, revision: int) -> None:
        """Reject a revision that is not the current one; 0 matches any revision."""
        if revision and revision != self.revision:
            raise RevisionStale(given=revision, current=self.revision)

    def check_visible(self, at: datetime) -> None:
        """Reject a deleted or expired memory as if it were not there."""
        if not self.is_visible(at):
            raise MemoryNotFound


def drafts_of(
    memories: Sequence[pb.Memory], *, at: datetime, max_content: int, agent_id: str, is_import: bool = False
) -> list[Draft]:
    """Read a batch; errors have the place of their memory in the metadata "index"."""
    drafts = []
    taken: set[tuple[str, object]] = set()
    for index, memory in enumerate(memories):
        with prefix_field_paths(f"memories[{index}]", index=index):
            draft = Draft.of(memory, at=at, max_content=max_content, agent_id=agent_id)
            if not is_import:
                draft.check_has_readers(at)
            # An expired fact shares its key with others.
            folded = None if draft.fact_key is None or draft.is_expired(at) else draft.fact_key.folded
            for field, name in (("external_id", draft.external_id), ("key", folded)):
                if name is not None and (field, name) in taken:
                    raise DuplicateInBatch(violations=[(field, "comes twice in the batch")])
                if name is not None:
                    taken.add((field, name))
        drafts.append(draft)
    return drafts


def create_memories(drafts: Sequence[Draft], *, at: datetime, by: str) -> list[Memory]:
    """Create memories from drafts, in order: of two with one create_time the later has the higher id."""
    indexes_by_time: dict[UUID, list[int]] = {}
    for place, draft in enumerate(drafts):
        indexes_by_time.setdefault(min_id_at(draft.create_time), []).append(place)
    ids: dict[int, UUID] = {}
    for group in indexes_by_time.values():
        # Ids carry milliseconds, so memories of one millisecond are ordered here.
        ordered = sorted(group, key=lambda place: (drafts[place].create_time, place))
        ids.update(zip(ordered, new_ids(drafts[group[0]].create_time, len(group)), strict=True))
    return [
        Memory(
            memory_id=ids[place],
            draft=draft,
            revision=1,
            update_time=min(at, draft.create_time),
            record_time=at,
            delete_time=None,
            created_by=by,
            updated_by=by,
        )
        for place, draft in enumerate(drafts)
    ]


def with_times(
    memories: Sequence[Memory], messages: Sequence[pb.Memory], caller: Caller, *, at: datetime
) -> list[Memory]:
    """Return new memories with the update_times of an import. Raises PermissionMissing and FieldInvalid."""
    require_keep_times(caller)
    pairs = zip(memories, messages, strict=True)
    return [
        replace(one, update_time=read_past_time(message, "update_time", at) or one.update_time)
        for one, message in pairs
    ]


def documents_of(
    memories: Sequence[Memory], *, at: datetime, embeddings: Mapping[UUID, NDArray[np.float32]] = MappingProxyType({})
) -> list[Document]:
    """Return the documents of memories that are recalled at the time `at`, with their caller vectors."""
    found = [document for memory in memories if (document := memory.document(at)) is not None]
    return [replace(one, embedding=embeddings[one.item_id]) if one.item_id in embeddings else one for one in found]


def embeddings_of(memories: Sequence[Memory], messages: Sequence[pb.Memory]) -> dict[UUID, NDArray[np.float32]]:
    """Return the caller vectors of a batch by memory id. Raises FieldInvalid for a vector of length zero."""
    found = {}
    for index, (memory, message) in enumerate(zip(memories, messages, strict=True)):
        if message.embedding:
            with prefix_field_paths(f"memories[{index}]", index=index):
                found[memory.memory_id] = vector_columns.normalize(message.embedding)
    return found


def secrets_of(memories: Sequence[Memory], messages: Sequence[pb.Memory]) -> dict[UUID, str]:
    """Return the secrets of a batch by memory id."""
    pairs = zip(memories, messages, strict=True)
    return {memory.memory_id: message.secret_value for memory, message in pairs if message.secret_value}


def _data_of(memory: pb.Memory) -> str | None:
    """Read the data as JSON text; a vault's data has the length class of its secret, and never the secret."""
    data = json_text(memory, "data")
    if memory.type != memory_type.VAULT:
        if memory.secret_value:
            raise FieldInvalid(violations=[("secret_value", f"is for memories of the type {memory_type.VAULT}")])
        return data
    return memory_type.vault_data(data, secret=memory.secret_value, length=memory.secret.length_class)


def _expiry_of(memory: pb.Memory, at: datetime) -> datetime | None:
    if not memory.HasField("ttl"):
        return read_time(memory, "expire_time")
    if memory.HasField("expire_time"):
        raise FieldInvalid(violations=[("ttl", "replaces expire_time; set only one of them")])
    return at + memory.ttl.ToTimedelta()


def audience(
    scope: str, *, agent_id: str | None, subject_id: str | None, session_id: str | None
) -> tuple[str | None, ...]:
    """Return the readers and the subject of a memory: one memory replaces another only when these are equal."""
    by_scope: Mapping[str, tuple[str | None, ...]] = {
        "global": (subject_id,),
        "agent": (agent_id, subject_id),
        "user": (subject_id, agent_id),
    }
    return (scope, *by_scope.get(scope, (session_id, subject_id, agent_id)))


def draft_audience(draft: Draft) -> tuple[str | None, ...]:
    """Return the readers and the subject of a draft."""
    return audience(draft.scope, agent_id=draft.agent_id, subject_id=draft.subject_id, session_id=draft.session_id)


def archive(memory: Memory, *, at: datetime, by: str) -> Memory:
    """Return the next revision, archived; the memory itself when it is already."""
    if memory.draft.archive_time is not None:
        return memory
    return memory.revise(replace(memory.draft, archive_time=at), at=at, by=by)


def memory_event(kind: str, memory: Memory, fields: Sequence[str] = ()) -> Event:
    """Return the event of a memory that was created, changed, deleted, ...; `fields` are those that changed."""
    verb = kind.removeprefix("memory_").replace("_", " ")
    payload: dict[str, object] = {"type": memory.draft.type, "revision": memory.revision}
    if fields:
        payload["fields"] = list(fields)
    return Event(
        type=kind,
        entity_type="memory",
        entity_id=str(memory.memory_id),
        summary=f"{memory.draft.type} {verb}{': ' if fields else ''}{', '.join(fields)}",
        payload=payload,
    )


def purge_events(memory_ids: Sequence[UUID], receipt_id: UUID, *, cause: str = "") -> list[Event]:
    """Return the events of purged memories; `cause` is set where no caller requested the purge."""
    payload = {"receipt_id": str(receipt_id)}
    if cause:
        payload["cause"] = cause
    return [
        Event(
            type="memory_forget_hard",
            entity_type="memory",
            entity_id=str(memory_id),
            summary=f"{cause} memory purged".strip(),
            payload=payload,
        )
        for memory_id in memory_ids
    ]


_DRAFT_FIELDS = tuple(field.name for field in fields(Draft))
# Of the first version these are always set.
_ALWAYS_SET = frozenset({"create_time", "scope", "level", "confidence", "importance"})


def changed_fields(before: Memory | None, after: Memory) -> list[str]:
    """Return the fields that differ, in order; those that are set when there was no version before."""
    if before is None:
        return [name for name in _DRAFT_FIELDS if name not in _ALWAYS_SET and getattr(after.draft, name)]
    changed = [name for name in _DRAFT_FIELDS if getattr(before.draft, name) != getattr(after.draft, name)]
    return changed if before.delete_time == after.delete_time else [*changed, "delete_time"]
