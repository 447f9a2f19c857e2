"""`orchestrator-pg`: the Memory Orchestrator's own tables in Postgres.

Entries become memories, also those of the type conversation, because tags, vectors, relationships and priorities refer
to them. `data` is their whole content, as assistants read it. Soft-deleted rows and expired states are ignored; expired
memories are imported as expired.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from google.protobuf.message import Message

from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2, states_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_importers.records import Kind, Record, UnreadableRecord
from skein_importers.sources.base import Membership, Notes, OAuthClient, Person, Realm
from skein_importers.sources.postgres import Database, Table, open_database
from skein_importers.sources.rows import InvalidRow, Row, format_iso, set_times, struct, to_timestamp
from skein_kit.filters.fields import importance_of

NAME = "orchestrator-pg"
# Numbers of rows, which nothing refers to, and copies.
_NUMBER = "left out: the number of the row, which nothing refers to"
_UNREAD: Mapping[str, str] = {
    "text_content": "left out: a copy of the content's text",
    **dict.fromkeys(("state_id", "tag_id", "embedding_id", "relationship_id"), _NUMBER),
    # Computed for reading.
    **dict.fromkeys(("session_known", "memory_id_comes", "source_memory_id_comes", "target_memory_id_comes"), ""),
}
TABLES = {
    "user_profiles": Table(
        needs=("user_id",),
        may_have=("created_at", "updated_at", "profile_data", "preferences", "is_active"),
        order=("user_id",),
        optional=True,
        unread=_UNREAD,
    ),
    "sessions": Table(
        needs=("session_id", "created_at"),
        may_have=("user_id", "updated_at", "ended_at", "metadata", "summary", "is_archived", "session_type"),
        order=("session_id",),
        unread=_UNREAD,
    ),
    "agent_states": Table(
        needs=("agent_id", "state_data"),
        may_have=("session_id", "created_at", "updated_at", "expires_at", "state_id"),
        order=("agent_id", "session_id", "updated_at", "state_id"),
        optional=True,
        unread=_UNREAD,
    ),
    "memory_entries": Table(
        needs=("memory_id", "memory_type", "content", "created_at"),
        may_have=("session_id", "source_agent", "updated_at", "expires_at", "priority", "is_active"),
        order=("memory_id",),
        unread=_UNREAD,
    ),
    "memory_tags": Table(needs=("memory_id", "tag"), order=("memory_id",), optional=True, unread=_UNREAD),
    "vector_embeddings": Table(
        needs=("memory_id", "embedding", "embedding_model"),
        order=("memory_id", "embedding_model"),
        as_text=frozenset({"embedding"}),
        optional=True,
        unread=_UNREAD,
    ),
    "memory_relationships": Table(
        needs=("source_memory_id", "target_memory_id", "relationship_type"),
        may_have=("relationship_id", "metadata", "created_at"),
        order=("source_memory_id", "target_memory_id", "relationship_type"),
        optional=True,
        unread=_UNREAD,
    ),
    "memory_access_logs": Table(needs=("operation",), order=("operation",), optional=True),
}
_LOWEST, _HIGHEST = 1, 10
_MAX_SUMMARY = 100_000
# Types whose data has a schema.
_TYPES_WITH_SCHEMA = frozenset(
    {"episodic", "semantic", "procedural", "resource", "task", "objective", "knowledge_vault"}
)
# Content keys without a meaning of their own.
_DESCRIPTIVE_KEYS = frozenset({"text", "source_agent", "metadata"})
_DELETED = "deleted there (is_active is false)"
_EXPIRED = "expired"


class Orchestrator:
    """An open database of a Memory Orchestrator."""

    name = NAME

    def __init__(self, database: Database, now: datetime) -> None:
        """Read `database`; states that expired before `now` are ignored."""
        self._database = database
        self._now = now

    def tenants(self) -> list[Realm]:
        """Return its one realm."""
        return [Realm(key="orchestrator", name="Memory Orchestrator", slug="orchestrator")]

    def accounts(self, notes: Notes) -> Iterator[Person | OAuthClient | Membership | UnreadableRecord]:
        """Return nothing: there are no accounts."""
        del notes
        return iter(())

    def records(self, realm: Realm, notes: Notes) -> Iterator[Record | UnreadableRecord]:
        """Read profiles, sessions, agent states, entries, their vectors and relationships."""
        del realm
        yield from self._table("user_profiles", "user_id", notes, self._subject)
        yield from self._table("sessions", "session_id", notes, self._session)
        yield from self._states(notes)
        yield from self._entries(notes)
        yield from self._table(
            "vector_embeddings",
            "memory_id",
            notes,
            self._embedding,
            self._imported_columns("vector_embeddings", "memory_id"),
        )
        ends = self._imported_columns("memory_relationships", "source_memory_id", "target_memory_id")
        yield from self._table("memory_relationships", "source_memory_id", notes, self._link, ends)
        logged = self._database.count("memory_access_logs")
        if logged:
            notes.ignored["memory_access_logs", "who read what there; the access log here tells of this cluster"] += (
                logged
            )

    def _table(
        self,
        table: str,
        key: str,
        notes: Notes,
        read: Callable[[Row], tuple[Kind, Message] | None],
        extra_columns: Mapping[str, str] | None = None,
    ) -> Iterator[Record | UnreadableRecord]:
        """Read a table row by row; invalid rows become UnreadableRecord."""
        for values in self._database.rows(table, extra_columns=extra_columns):
            notes.read(table)
            field = "profile" if table == "user_profiles" else "metadata"
            row = Row(table, str(values[key]), values, notes, f"{field}.orchestrator")
            try:
                result = read(row)
            except (InvalidRow, ValueError) as error:
                yield UnreadableRecord(where=row.where, reason=str(error), table=table)
                continue
            if result is not None:
                record = Record(where=row.where, kind=result[0], item=set_times(row, *result), table=table)
                row.count_unread(_UNREAD)
                yield record

    def _subject(self, row: Row) -> tuple[Kind, Message]:
        extra = _times(row)
        profile = row.mapping("profile_data", extra)
        preferences = row.mapping("preferences", extra)
        active = row.boolean("is_active", default=True)
        subject = subjects_pb2.Subject(
            subject_id=row.required_text("user_id"),
            status=subjects_pb2.SUBJECT_STATUS_ACTIVE if active else subjects_pb2.SUBJECT_STATUS_INACTIVE,
            profile=struct({**profile, **_under_orchestrator(extra)}),
        )
        if preferences:
            subject.preferences.CopyFrom(struct(preferences))
        name = profile.get("name") or profile.get("display_name")
        if isinstance(name, str):
            subject.display_name = name[:255]
        return Kind.SUBJECT, subject

    def _session(self, row: Row) -> tuple[Kind, Message]:
        extra = _times(row, "updated_at", "ended_at")
        metadata = row.mapping("metadata", extra)
        session = session_pb2.Session(
            session_id=row.required_text("session_id"),
            subject_id=row.text("user_id"),
            session_type=row.text("session_type", 100),
            summary=row.text("summary", _MAX_SUMMARY),
        )
        if (create_time := row.time("created_at")) is not None:
            session.create_time.CopyFrom(to_timestamp(create_time))
        if (end_time := row.time("ended_at")) is not None:
            session.end_time.CopyFrom(to_timestamp(end_time))
        if row.boolean("is_archived", default=False):
            session.state = session_pb2.SESSION_STATE_HIDDEN
        elif row.value("ended_at") is not None:
            session.state = session_pb2.SESSION_STATE_ENDED
        if metadata or extra:
            session.metadata.CopyFrom(struct({**metadata, **_under_orchestrator(extra)}))
        return Kind.SESSION, session

    def _states(self, notes: Notes) -> Iterator[Record | UnreadableRecord]:
        """Read states; of several without a session, the newest counts."""
        last: Record | UnreadableRecord | None = None
        for state in self._table("agent_states", "agent_id", notes, self._state):
            if isinstance(last, Record) and isinstance(state, Record) and last.name == state.name:
                notes.count_ignored("agent_states", "an older state of the same agent and session")
            elif last is not None:
                yield last
            last = state
        if last is not None:
            yield last

    def _state(self, row: Row) -> tuple[Kind, Message] | None:
        expire_time = row.time("expires_at")
        if expire_time is not None and expire_time <= self._now:
            row.notes.count_ignored(row.table, _EXPIRED)
            return None
        extra: dict[str, Any] = {}
        data = row.mapping("state_data", extra)
        state = states_pb2.AgentState(
            agent_id=row.required_text("agent_id"),
            session_id=row.text("session_id"),
            state_data=struct({**data, **extra}),
        )
        if expire_time is not None:
            state.expire_time.CopyFrom(to_timestamp(expire_time))
        return Kind.AGENT_STATE, state

    def _entries(self, notes: Notes) -> Iterator[Record | UnreadableRecord]:
        extra_columns = {
            "session_known": "EXISTS (SELECT FROM sessions WHERE sessions.session_id = memory_entries.session_id)"
        }
        if self._database.has("memory_tags"):
            extra_columns["tags"] = (
                "ARRAY(SELECT memory_tags.tag FROM memory_tags "
                "WHERE memory_tags.memory_id = memory_entries.memory_id ORDER BY memory_tags.tag)"
            )
            if "tag_id" in self._database.columns("memory_tags"):
                extra_columns["tag_id"] = (
                    "(SELECT TRUE FROM memory_tags WHERE memory_tags.memory_id = memory_entries.memory_id "
                    "AND memory_tags.tag_id IS NOT NULL LIMIT 1)"
                )
        yield from self._table("memory_entries", "memory_id", notes, self._memory, extra_columns)

    def _memory(self, row: Row) -> tuple[Kind, Message] | None:
        if not row.boolean("is_active", default=True):
            row.notes.count_ignored(row.table, _DELETED)
            return None
        expire_time = row.time("expires_at")
        extra = _times(row, "updated_at", unless_equal_to="created_at")
        content = _content(row, extra)
        text = content.get("text")
        if not (isinstance(text, str) and text.strip()) and not content.keys() - _DESCRIPTIVE_KEYS:
            raise InvalidRow("content is empty")
        entry_metadata = content.get("metadata")
        source_agent = row.text("source_agent", 255) or content.get("source_agent")
        memory = memory_pb2.Memory(
            external_id=row.required_text("memory_id"),
            type=row.name("memory_type", "note"),
            content=text if isinstance(text, str) else "",
            source_agent=source_agent[:255] if isinstance(source_agent, str) else "",
            tags=row.tags("tags", row.value("tags") or ()),
            importance=_importance(row),
        )
        if memory.type in _TYPES_WITH_SCHEMA:
            row.count_converted(
                "content", f"kept as metadata.orchestrator.content: data of the type {memory.type} has a form"
            )
            extra["content"] = content
        else:
            memory.data.CopyFrom(struct(content))
        if row.value("session_id") is not None:
            memory.session_id = row.text("session_id")
            if not row.value("session_known"):
                memory.session_id = ""
                extra["session_id"] = row.text("session_id")
                row.count_converted("session_id", "no such session: kept as metadata.orchestrator.session_id")
        if (create_time := row.time("created_at")) is not None:
            memory.create_time.CopyFrom(to_timestamp(create_time))
        if expire_time is not None:
            memory.expire_time.CopyFrom(to_timestamp(expire_time))
        if isinstance(entry_metadata, dict) or extra:
            memory.metadata.CopyFrom(
                struct({**(entry_metadata if isinstance(entry_metadata, dict) else {}), **_under_orchestrator(extra)})
            )
        return Kind.MEMORY, memory

    def _embedding(self, row: Row) -> tuple[Kind, Message] | None:
        if not row.value("memory_id_comes"):
            row.notes.count_ignored(row.table, "its memory is not imported")
            return None
        try:
            values = [float(number) for number in row.text("embedding").strip("[]{}() ").split(",")]
        except ValueError:
            raise InvalidRow("embedding is no list of numbers") from None
        return Kind.EMBEDDING, recall_pb2.PutEmbeddingRequest(
            external_id=row.required_text("memory_id"),
            model=row.required_text("embedding_model"),
            embeddings=[recall_pb2.Embedding(values=values)],
        )

    def _link(self, row: Row) -> tuple[Kind, Message] | None:
        if not (row.value("source_memory_id_comes") and row.value("target_memory_id_comes")):
            row.notes.count_ignored(row.table, "one of its memories is not imported or missing")
            return None
        extra = _times(row, "created_at")
        metadata = row.mapping("metadata", extra)
        link = memory_pb2.Link(
            from_memory_id=row.required_text("source_memory_id"),
            to_memory_id=row.required_text("target_memory_id"),
            relation=row.name("relationship_type", "related"),
        )
        if link.relation != row.text("relationship_type"):
            link.label = row.text("relationship_type")
        if metadata or extra:
            link.metadata.CopyFrom(struct({**metadata, **_under_orchestrator(extra)}))
        return Kind.LINK, link

    def _imported_columns(self, table: str, *columns: str) -> Mapping[str, str]:
        """Return SQL expressions that say whether a column's memory is imported."""
        at = self._now.astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ")
        conditions = ["memory_entries.memory_id = {table}.{column}"]
        if "is_active" in self._database.columns("memory_entries"):
            conditions.append("memory_entries.is_active IS NOT FALSE")
        if "expires_at" in self._database.columns("memory_entries"):
            conditions.append(f"(memory_entries.expires_at IS NULL OR memory_entries.expires_at > '{at}')")
        condition = "EXISTS (SELECT FROM memory_entries WHERE " + " AND ".join(conditions) + ")"
        return {f"{column}_comes": condition.format(table=table, column=column) for column in columns}


@contextmanager
def open_source(source: str) -> Iterator[Orchestrator]:
    """Read the database at a URL, as it is now. Raises SourceInvalid."""
    with open_database(source, TABLES, "a Memory Orchestrator") as database:
        yield Orchestrator(database, datetime.now(UTC))


def _content(row: Row, extra: dict[str, Any]) -> dict[str, Any]:
    result = row.document("content", extra)
    if isinstance(result, dict):
        return result
    if isinstance(result, str) or result is None:
        text = result if isinstance(result, str) else extra.pop("content_text", "")
        row.count_converted("content", "a text became content.text")
        return {"text": text}
    row.count_converted("content", "no JSON object: kept as content.value")
    return {"value": result}


def _importance(row: Row) -> float | None:
    value = row.number("priority")
    if value is None:
        return None
    clamped = min(max(value, _LOWEST), _HIGHEST)
    if clamped != value:
        row.count_converted("priority", "moved into 1 to 10")
    row.count_converted("priority", "1 to 10 became importance 0 to 1")
    return importance_of(clamped)


def _times(row: Row, *columns: str, unless_equal_to: str = "") -> dict[str, Any]:
    """Return times without a field, in the form of metadata."""
    extra: dict[str, Any] = {}
    for column in columns or ("created_at", "updated_at"):
        if row.value(column) is None or (unless_equal_to and row.value(column) == row.value(unless_equal_to)):
            continue
        if (time_value := row.time(column)) is not None:
            extra[column] = format_iso(time_value)
    return extra


def _under_orchestrator(extra: dict[str, Any]) -> dict[str, Any]:
    return {"orchestrator": extra} if extra else {}
