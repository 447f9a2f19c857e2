"""`contextual-memory`: contextual_memory_pc2's contexts.

| theirs | here |
|---|---|
| context_id | the memory's external id |
| session_id | a session of that id, and the memory's session |
| context_data | the memory's content and data |
| embedding | its vector, where embedding_model names the model |
| created_at, expires_at | when it was made, until when it holds |
| source_agent | the same |
| tags | the same, one value each |
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2
from skein_importers.records import Kind, Record, UnreadableRecord
from skein_importers.sources.assistant_store import (
    AssistantStore,
    StoreFormat,
    convert_rows,
    metadata_of,
    one_realm,
    open_store,
    tags_of,
    text_of,
    unmapped_fields,
    vector_of,
)
from skein_importers.sources.base import Membership, Notes, OAuthClient, Person, Realm
from skein_importers.sources.rows import InvalidRow, Row, parse_json, parse_time, to_timestamp

NAME = "contextual-memory"
STORE_FORMAT = StoreFormat(
    table="contexts", key="context_id", fields=("context_data", "embedding", "source_agent"), containers=("contexts",)
)
_MAPPED = (
    "context_id", "session_id", "context_data", "embedding", "embedding_model", "created_at", "expires_at",
    "source_agent", "tags",
)  # fmt: skip


class ContextualMemory:
    """A store of contexts."""

    name = NAME

    def __init__(self, store: AssistantStore) -> None:
        """Read an open store."""
        self._store = store
        self._now = datetime.now(UTC)

    def tenants(self) -> list[Realm]:
        """Return its one realm."""
        return one_realm(NAME)

    def accounts(self, _notes: Notes) -> Iterator[Person | OAuthClient | Membership | UnreadableRecord]:
        """Return nothing: it has no accounts."""
        return iter(())

    def records(self, _realm: Realm, notes: Notes) -> Iterator[Record | UnreadableRecord]:
        """Read the sessions that contexts name, the contexts, and their vectors."""
        yield from self._sessions(notes)
        yield from convert_rows(self._store.rows(notes), self._memory)
        yield from convert_rows(self._store.rows(notes, "embeddings"), self._embedding, count_rows=False)

    def _sessions(self, notes: Notes) -> Iterator[Record | UnreadableRecord]:
        """Read each session once, with the time of its first context."""
        session_ids: set[str] = set()

        def session(row: Row) -> Iterator[Record]:
            session_id = str(row.value("session_id") or "").strip()
            if not session_id or session_id in session_ids:
                return
            session_ids.add(session_id)
            notes.read(row.table)
            item = session_pb2.Session(session_id=row.text("session_id").strip())
            if (create_time := row.time("created_at")) is not None:
                item.create_time.CopyFrom(to_timestamp(create_time))
            yield Record(where=f"{row.table} {session_id[:80]}", kind=Kind.SESSION, item=item, table=row.table)

        yield from convert_rows(self._store.rows(notes, "sessions of contexts"), session, count_rows=False)

    def _memory(self, row: Row) -> Iterator[Record]:
        external_id = row.required_text("context_id")
        extra = unmapped_fields(row, _MAPPED)
        data = _data(row, extra)
        content = text_of(row, "context_data", data)
        if not content:
            raise InvalidRow("context_data is empty")
        memory = memory_pb2.Memory(
            external_id=external_id,
            type="context",
            content=content,
            session_id=row.text("session_id").strip(),
            source_agent=row.text("source_agent", 255),
            tags=tags_of(row, "tags"),
        )
        if isinstance(data, dict) and (struct := metadata_of("context_data", data)) is not None:
            memory.data.CopyFrom(struct)
        for column, field in (("created_at", memory.create_time), ("expires_at", memory.expire_time)):
            if (time_value := row.time(column)) is not None:
                field.CopyFrom(to_timestamp(time_value))
        if (struct := metadata_of("metadata", extra)) is not None:
            memory.metadata.CopyFrom(struct)
        yield Record(where=row.where, kind=Kind.MEMORY, item=memory, table=row.table)

    def _embedding(self, row: Row) -> Iterator[Record]:
        if row.value("embedding") in (None, "", b"") or self._has_expired(row):
            return
        row.notes.read(row.table)
        vector = vector_of(row.value("embedding"))
        model = row.text("embedding_model")
        if vector is None or not model:
            row.count_converted(
                "embedding",
                "computed again: no model is named" if vector is not None else "computed again: the value is no vector",
            )
            return
        request = recall_pb2.PutEmbeddingRequest(
            external_id=row.required_text("context_id"), model=model, embeddings=[recall_pb2.Embedding(values=vector)]
        )
        yield Record(where=row.where, kind=Kind.EMBEDDING, item=request, table=row.table)

    def _has_expired(self, row: Row) -> bool:
        try:
            return parse_time(row.value("expires_at"))[0] <= self._now
        except ValueError:
            # No time: it never ends.
            return False


@contextmanager
def open_source(source: str) -> Iterator[ContextualMemory]:
    """Open a store. Raises SourceInvalid."""
    with open_store(source, NAME, STORE_FORMAT) as store:
        yield ContextualMemory(store)


def _data(row: Row, extra: dict[str, Any]) -> Any:
    """Return context_data as JSON, or as text."""
    value = row.value("context_data")
    if isinstance(value, str):
        try:
            parse_json(value)
        except ValueError:
            row.count_converted("context_data", "no JSON: the text is the content")
            return row.text("context_data")
    return row.document("context_data", extra)
