"""Rows of mem0 as records; `mem0_json` and `mem0_pgvector` read them.

| theirs | here |
|---|---|
| memory, or `data` of a vector store's payload | a memory's content |
| user_id, agent_id, run_id | subject_id, agent_id, session_id |
| categories | tags |
| expiration_date, a day in UTC | expire_time, the end of that day |
| metadata, or further keys of a payload | metadata |
| other fields (hash, actor_id, role, app_id, …) | metadata.mem0 |
| a relation of the graph memory | a memory of the type relationship |
| an entity of the entity collection | a memory of the type entity, with links from its memories |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from skein.memory.v1 import memory_pb2
from skein_importers.records import Kind, Record, derived_id
from skein_importers.sources.assistant_store import metadata_of
from skein_importers.sources.documents import kept_fields
from skein_importers.sources.rows import Row, make_storable, to_timestamp

MEMORIES, RELATIONS = "memories", "relations"
ENTITY_FIELDS = frozenset({"entity_type", "linked_memory_ids"})
# Fields with a place here.
_MAPPED = frozenset(
    {
        *("id", "memory", "data", "user_id", "agent_id", "run_id", "session_id", "created_at", "updated_at"),
        *("metadata", "categories", "expiration_date", "linked_memory_ids"),
    }
)
# Fields of a payload that `get_all` shows beside the metadata.
_PROMOTED = frozenset({"actor_id", "role", "attributed_to", "hash", "app_id"})
# Fields that an index makes.
_DERIVED = frozenset({"text_lemmatized", "vector", "vectors", "embedding"})
_LONGEST_ID = 255
_TITLE = 1000


def payload_entry(identity: object, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return a vector store's payload in the form of an entry of `get_all`."""
    known = _MAPPED | _PROMOTED | ENTITY_FIELDS | _DERIVED
    entry = {name: value for name, value in payload.items() if name in known}
    metadata = {name: value for name, value in payload.items() if name not in known}
    if "metadata" in entry:
        metadata["metadata"] = entry["metadata"]
    return {**entry, "id": identity, "memory": payload.get("data"), "metadata": metadata}


def memory_records(row: Row) -> Iterator[Record]:
    """Convert an entry to a memory. Raises InvalidRow."""
    extra: dict[str, Any] = {}
    metadata = row.mapping("metadata", extra)
    memory = memory_pb2.Memory(
        external_id=row.required_text("id"),
        content=row.required_text("memory" if row.value("memory") is not None else "data"),
        tags=row.tags("categories", row.sequence("categories", extra)),
        subject_id=_identifier(row, "user_id", extra),
        agent_id=_identifier(row, "agent_id", extra),
        session_id=_identifier(row, "run_id" if row.value("run_id") else "session_id", extra),
        source="mem0",
    )
    if ENTITY_FIELDS & row.values.keys():
        memory.type, memory.title = "entity", memory.content[:_TITLE]
    if (create_time := row.time("created_at")) is not None:
        memory.create_time.CopyFrom(to_timestamp(create_time))
    if (expire_time := _expire_time(row)) is not None:
        memory.expire_time.CopyFrom(to_timestamp(expire_time))
    metadata = {**metadata, **_unmapped(row, extra)}
    if (struct := metadata_of("metadata", metadata)) is not None:
        memory.metadata.CopyFrom(struct)
    yield Record(where=row.where, kind=Kind.MEMORY, item=memory, table=row.table)


def relation_records(row: Row) -> Iterator[Record]:
    """Convert a relation of the graph memory, which has no id and names entities by their texts."""
    target = "target" if row.value("target") is not None else "destination"
    parts = [row.required_text("source"), row.required_text("relationship"), row.required_text(target)]
    row.count_converted("relationship", "entities have no ids there: a memory of the type relationship")
    memory = memory_pb2.Memory(
        external_id=derived_id({"mem0": parts, "user_id": row.text("user_id")}),
        type="relationship",
        content=" ".join(part.replace("_", " ") for part in parts),
        subject_id=row.text("user_id", _LONGEST_ID),
        source="mem0",
    )
    if (struct := metadata_of(RELATIONS, {"mem0": make_storable(dict(row.values))})) is not None:
        memory.metadata.CopyFrom(struct)
    yield Record(where=row.where, kind=Kind.MEMORY, item=memory, table=row.table)


def mention(row: Row, memory_id: str, entity_id: str) -> Record:
    """Return the link of a memory to an entity that its text names."""
    link = memory_pb2.Link(from_memory_id=memory_id, to_memory_id=entity_id, relation="mentions")
    return Record(where=row.where, kind=Kind.LINK, item=link, table=row.table)


def _identifier(row: Row, column: str, extra: dict[str, Any]) -> str:
    text = row.text(column)
    if len(text) > _LONGEST_ID:
        row.count_converted(column, "longer than an id: kept as metadata.mem0")
        extra[column] = text
        return ""
    return text


def _expire_time(row: Row) -> datetime | None:
    """Return the end of the day after which mem0 hides a memory."""
    day = row.time("expiration_date")
    if day is None:
        return None
    row.count_converted("expiration_date", "a day became the end of that day in UTC")
    return day.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)


def _unmapped(row: Row, extra: dict[str, Any]) -> dict[str, Any]:
    """Return the values that have no field here."""
    for name in _DERIVED & row.values.keys():
        if row.value(name) is not None:
            row.count_converted(name, "made again by the cluster")
    extra |= kept_fields(row, _MAPPED | _DERIVED)
    return {"mem0": extra} if extra else {}
