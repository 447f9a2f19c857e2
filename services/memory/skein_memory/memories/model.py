"""Memories and the rules they obey. No gRPC, no SQL, no clock."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from skein_kit.errors import ContentEmpty, ContentTooLong, FieldInvalid
from skein_kit.filters.fields import fold_case
from skein_kit.ids import min_id_at, new_ids
from skein_kit.policies.store import Policy
from skein_kit.search_text.postings import Document, header_of_memory, is_name
from skein_memory.errors import LevelOutOfRange, MemoryNotFound, ReadersWidened
from skein_memory.events.model import Event, time_of_next_record
from skein_memory.memories import memory_type
from skein_memory.memories.near_text import rough_beginning
from skein_memory.validation import check_revision, check_storable

FACT = "fact"
# Longest content of a memory: the hundred thousand characters that a batch of twenty still carries in one message.
MAX_CONTENT_CHARACTERS = 100_000
# Of the principals of extractors.
EXTRACTOR_PREFIX = "extractor:"
DEFAULT_TYPE = "note"
DEFAULT_CONFIDENCE = 0.7
DEFAULT_IMPORTANCE = 0.5
# Clocks differ. An id from the future would sort before all later memories until then.
MAX_AHEAD = timedelta(minutes=5)
# An entry of a B-tree holds some 2,700 bytes, and lists are filtered by source.
MAX_SOURCE_BYTES = 2000
# Characters of the content that count in a fingerprint.
_PREFIX_CHARACTERS = 160
# Fingerprints of memories with a key lie in the lower half of all numbers, so that they can be scanned alone.
_UPPER_HALF = 1 << 127
FIRST_WITHOUT_KEY = UUID(int=_UPPER_HALF)
# Of memories, the highest first.
LEVELS = ("strategic", "tactical", "operational", "contextual")
_TEXTS = (
    "external_id", "title", "key", "content", "source", "source_agent", "agent_id", "subject_id", "session_id",
)  # fmt: skip


class FactKey(NamedTuple):
    """The subject of a fact, "" for none, and its key: unique among the facts of a tenant."""

    subject_id: str
    key: str

    @property
    def folded(self) -> tuple[str, str]:
        """Return the form in which keys are compared: case does not matter."""
        return self.subject_id, fold_key(self.key)


def _lines(*parts: str | None) -> str:
    return "\n".join(part for part in parts if part)


def fold_key(key: str) -> str:
    """Return a fact's key in the form in which keys are compared."""
    return fold_case(key)


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

    @property
    def fact_key(self) -> FactKey | None:
        """Return its fact key; None unless it is a fact with a key."""
        return FactKey(self.subject_id or "", self.key) if self.type == FACT and self.key else None

    def is_expired(self, at: datetime) -> bool:
        """Return whether it has expired at the time `at`."""
        return self.expire_time is not None and self.expire_time <= at

    @property
    def body(self) -> str:
        """Return the text whose words are searched, without its header."""
        return _lines(self.content, self.data_text)

    @property
    def header(self) -> str:
        """Return the header of the text: title, key, tags, and the ids that are names."""
        return header_of_memory(self.title, self.key, self.tags, (self.subject_id, self.agent_id, self.source_agent))

    @property
    def speaker(self) -> str | None:
        """Return the subject where it reads as a name that the text lacks: it precedes the embedded text."""
        subject = self.subject_id
        if subject is None or not is_name(subject):
            return None
        return None if re.search(rf"\b{re.escape(subject)}\b", self.text, re.IGNORECASE) else subject

    @property
    def embedded_text(self) -> str:
        """Return the text whose meaning is searched. Recall composes the same text in its query memory_texts."""
        return self.text if self.speaker is None else f"{self.speaker}: {self.text}"

    @property
    def text(self) -> str:
        """Return title, key, content and the texts of the data."""
        return _lines(self.title, self.key, self.content, self.data_text)

    @property
    def data_text(self) -> str | None:
        """Return the searched text of the data; None for nothing."""
        return memory_type.search_text(self.type, self.data, other_texts=(self.title, self.key, self.content))

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

    @property
    def reader_conditions(self) -> frozenset[tuple[str, str | None]]:
        """Return the ids that a reader must have, each with its field; empty: all read it. See `visible_to`."""
        outer = {"user": ("agent_id",), "session": ("agent_id", "subject_id")}.get(self.scope, ())
        inner = {"agent": "agent_id", "user": "subject_id", "session": "session_id"}.get(self.scope)
        conditions = {(name, value) for name in outer if (value := getattr(self, name))}
        return frozenset(conditions if inner is None else {*conditions, (inner, getattr(self, inner))})

    def check_may_hold(self, text_of: Draft) -> None:
        """Reject a text that would reach further readers here. Raises ReadersWidened."""
        if not text_of.reader_conditions <= self.reader_conditions:
            raise ReadersWidened

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

    def check(self, at: datetime) -> None:
        """Reject fields that no memory may have. Raises TextNotStorable, FieldInvalid and MemoryDataInvalid."""
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
class Scores:
    """A memory's scores at one moment, and the formula that they follow."""

    confidence: float
    importance: float
    formula: str
    version: int


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryScores:
    """The scores of a memory when it was read, and its use."""

    scores: Scores
    access_count: int
    last_access_time: datetime | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """A memory: its content, times and principals."""

    memory_id: UUID
    draft: Draft
    revision: int
    # Time of the last change, in Skein or in the system of its import; time when Skein recorded it, for as-of reads.
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

    @property
    def is_extracted(self) -> bool:
        """Return whether an extractor found it in a message."""
        return self.created_by.startswith(EXTRACTOR_PREFIX)

    def is_expired(self, at: datetime) -> bool:
        """Return whether it has expired at the time `at`."""
        return self.draft.is_expired(at)

    def is_visible(self, at: datetime) -> bool:
        """Return whether readers see it at the time `at`: it is neither deleted nor expired."""
        return self.is_active and not self.is_expired(at)

    def is_recalled(self, at: datetime) -> bool:
        """Return whether searches find it at the time `at`: it is visible and not archived."""
        return self.is_visible(at) and self.draft.archive_time is None

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
        return None if self.is_expired(at) else self.index_document

    @property
    def index_document(self) -> Document | None:
        """Return the document that the search index may still have after it expired; None for no document."""
        draft = self.draft
        if not self.is_active or draft.archive_time is not None:
            return None
        return Document(
            item_id=self.memory_id,
            kind="memory",
            text=draft.body,
            header=draft.header,
            embedded_text=draft.embedded_text,
            revision=self.revision,
            type=draft.type,
            scope=draft.scope,
            source=draft.source,
            key=draft.key,
            importance=draft.importance,
            agent_id=draft.agent_id,
            subject_id=draft.subject_id,
            session_id=draft.session_id,
            speaker=draft.speaker,
            expire_time=draft.expire_time,
        )

    def revise(self, draft: Draft, *, at: datetime, by: str) -> Memory:
        """Return its next revision, with the content `draft`. Raises ReadersWidened."""
        draft.check_may_hold(self.draft)
        return self._next_revision(at, by, draft=draft)

    def restore(self, draft: Draft, *, at: datetime, by: str) -> Memory:
        """Return its next revision, with a content of another time that comes with its own readers."""
        return self._next_revision(at, by, draft=draft)

    def delete(self, *, at: datetime, by: str) -> Memory:
        """Return its next revision, deleted."""
        return self._next_revision(at, by, delete_time=at)

    def undelete(self, *, at: datetime, by: str) -> Memory:
        """Return its next revision, no longer deleted."""
        return self._next_revision(at, by, delete_time=None)

    def _next_revision(self, at: datetime, by: str, **changes: Any) -> Memory:
        return replace(
            self,
            **changes,
            revision=self.revision + 1,
            update_time=at,
            record_time=time_of_next_record(self.record_time, at),
            updated_by=by,
        )

    def check_revision(self, revision: int) -> None:
        """Reject a revision that is not the current one; 0 matches any revision."""
        check_revision(revision, self.revision)

    def check_visible(self, at: datetime) -> None:
        """Reject a deleted or expired memory as if it were not there."""
        if not self.is_visible(at):
            raise MemoryNotFound


def check_content(content: str, *, max_content: int, is_required: bool) -> None:
    """Reject a content of more than `max_content` characters, and an empty one if it is required.

    Raises ContentTooLong and ContentEmpty.
    """
    if len(content) > max_content:
        raise ContentTooLong(limit=max_content, length=len(content))
    if is_required and not content:
        raise ContentEmpty


def create_memories(drafts: Sequence[Draft], *, at: datetime, by: str) -> list[Memory]:
    """Create memories from drafts, in order: of two with one create_time the later has the higher id."""
    indexes_by_time: dict[UUID, list[int]] = {}
    for index, draft in enumerate(drafts):
        indexes_by_time.setdefault(min_id_at(draft.create_time), []).append(index)
    ids: dict[int, UUID] = {}
    for group in indexes_by_time.values():
        # Ids carry milliseconds, so memories of one millisecond are ordered here.
        sorted_indexes = sorted(group, key=lambda index: (drafts[index].create_time, index))
        ids.update(zip(sorted_indexes, new_ids(drafts[group[0]].create_time, len(group)), strict=True))
    return [
        Memory(
            memory_id=ids[index],
            draft=draft,
            revision=1,
            update_time=min(at, draft.create_time),
            record_time=at,
            delete_time=None,
            created_by=by,
            updated_by=by,
        )
        for index, draft in enumerate(drafts)
    ]


def documents_of(
    memories: Iterable[Memory], *, at: datetime, embeddings: Mapping[UUID, NDArray[np.float32]] = MappingProxyType({})
) -> list[Document]:
    """Return the documents of memories that are recalled at the time `at`, with their caller vectors."""
    documents = [document for memory in memories if (document := memory.document(at)) is not None]
    return [
        replace(document, embedding=embeddings[document.item_id]) if document.item_id in embeddings else document
        for document in documents
    ]


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


def capacity(policy: Policy, level: str) -> int:
    """Return how many memories a level holds."""
    return {
        "strategic": policy.capacity_strategic,
        "tactical": policy.capacity_tactical,
        "operational": policy.capacity_operational,
        "contextual": policy.capacity_contextual,
    }[level]


def promote(memory: Memory, *, at: datetime, by: str) -> Memory:
    """Return the next revision of a memory, one level higher. Raises LevelOutOfRange at the top."""
    return _move(memory, -1, at=at, by=by)


def demote(memory: Memory, *, at: datetime, by: str) -> Memory:
    """Return the next revision of a memory, one level lower. Raises LevelOutOfRange at the bottom."""
    return _move(memory, 1, at=at, by=by)


def demote_or_hide(memory: Memory, *, at: datetime, by: str) -> tuple[Memory, str]:
    """Return a memory that its level has no capacity for, and its event: demoted a level, or archived."""
    if memory.draft.level == LEVELS[-1]:
        return memory.revise(replace(memory.draft, archive_time=at), at=at, by=by), "memory_archived"
    return demote(memory, at=at, by=by), "memory_demoted"


def _move(memory: Memory, steps: int, *, at: datetime, by: str) -> Memory:
    index = LEVELS.index(memory.draft.level) + steps
    if not 0 <= index < len(LEVELS):
        raise LevelOutOfRange(level=memory.draft.level)
    return memory.revise(replace(memory.draft, level=LEVELS[index]), at=at, by=by)


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


def purge_events(space_ids: Mapping[UUID, UUID], receipt_id: UUID, *, cause: str = "") -> list[Event]:
    """Return the events of purged memories, by their spaces; `cause` is set where no caller requested the purge."""
    payload = {"receipt_id": str(receipt_id)}
    if cause:
        payload["cause"] = cause
    return [
        Event(
            type="memory_purged",
            entity_type="memory",
            entity_id=str(memory_id),
            summary=f"{cause} memory purged".strip(),
            payload=payload,
            space_id=space_id,
        )
        for memory_id, space_id in space_ids.items()
    ]


DRAFT_FIELDS = tuple(field.name for field in fields(Draft))
# Fields that every first version has.
_ALWAYS_SET = frozenset({"create_time", "scope", "level", "confidence", "importance"})


def changed_fields(before: Memory | None, after: Memory) -> list[str]:
    """Return the fields that differ, in order; those that are set when there was no version before."""
    if before is None:
        return [name for name in DRAFT_FIELDS if name not in _ALWAYS_SET and getattr(after.draft, name)]
    names = [name for name in DRAFT_FIELDS if getattr(before.draft, name) != getattr(after.draft, name)]
    return names if before.delete_time == after.delete_time else [*names, "delete_time"]


class _Numeral(str):
    """A number of JSON as it is written."""

    __slots__ = ()


def content_hash(type_name: str, content: str, data: str | None) -> bytes:
    """Return the SHA-256 of a memory's type, content and data (JSON text).

    Different data never has the same hash. Order of names, white space and the form in which Postgres writes a number
    do not count; 3 and 3.0 are different.
    """
    digest = hashlib.sha256(f"{type_name}\n{content}".encode())
    if data is not None:
        # No content holds a NUL character, so no content alone has the hash of one with data.
        digest.update(b"\0")
        digest.update(_canonical(json.loads(data, parse_int=_Numeral, parse_float=_Numeral)).encode())
    return digest.digest()


def hash_without_data(type_name: str, content: str) -> bytes:
    """Return the hash of releases before migration 37, which left the data out."""
    return hashlib.sha256(f"{type_name}\n{content}".encode()).digest()


def _canonical(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(name)}:{_canonical(value[name])}" for name in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_canonical, value)) + "]"
    return _number(value) if isinstance(value, _Numeral) else json.dumps(value)


def _number(numeral: str) -> str:
    """Write a number by sign, digits and exponent: 1e2 and 100 alike, 3.0 with the digits after its point."""
    try:
        sign, digits, exponent = Decimal(numeral).as_tuple()
    except InvalidOperation:
        return numeral
    text = "".join(map(str, digits)).lstrip("0")
    if not isinstance(exponent, int):
        return numeral
    if exponent >= 0:
        short = text.rstrip("0")
        exponent = exponent + len(text) - len(short) if short else 0
        text = short
    # Postgres knows no negative zero.
    return f"{'-' if sign and text else ''}{text or '0'}e{exponent}"


def normalize_spaces(text: str) -> str:
    """Return a text in lower case, its spaces reduced to single ones between words."""
    return " ".join(text.lower().split())


def fingerprint(type_name: str, *, key: str | None, title: str | None, content: str, content_hash: bytes) -> UUID:
    """Return a number that memories of one type share when they have the same key, or title, or beginning.

    The title counts where there is no key, the first 160 characters of the rough text where there is no title either.
    Case and spaces do not matter.
    """
    if key and normalize_spaces(key):
        kind, text = "key", normalize_spaces(key)
    elif title and normalize_spaces(title):
        kind, text = "title", normalize_spaces(title)
    else:
        kind, text = "text", rough_beginning(content, _PREFIX_CHARACTERS)
        if not text:
            # Only structured content: the same when all of it is the same.
            kind, text = "data", content_hash.hex()
    digest = hashlib.sha256(f"{type_name}\n{kind}\n{text}".encode()).digest()[:16]
    number = int.from_bytes(digest, "big") & (_UPPER_HALF - 1)
    return UUID(int=number if kind == "key" else number | _UPPER_HALF)


def has_key(number: UUID) -> bool:
    """Return whether a fingerprint is that of memories with a key."""
    return number < FIRST_WITHOUT_KEY
