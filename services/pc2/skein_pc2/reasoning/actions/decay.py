"""Memories and messages as the decay manager reads them and sends them back. No calls; the clock is passed in."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from google.protobuf.struct_pb2 import Struct

from skein.memory.v1 import memory_pb2 as pb
from skein.session.v1 import session_pb2
from skein_pc2.protocol.frames import local_timestamp
from skein_pc2.reasoning.records import convert as records
from skein_pc2.reasoning.records import memory_lists, record_values
from skein_pc2.reasoning.records.strength import Strength

DEFAULT_TERM = "short_term"
_TERM_SUFFIX = "_term"
# Key under `pc2` in the metadata for the decay manager's changes.
_DECAY = "decay"
_DECIMALS = 3
# Item fields that `records.changes` writes into memory fields.
_MEMORY_FIELDS = frozenset(
    {"id", "memory_id", "memory_type", "content", "text", "title", "priority", "tags", "metadata"}
)
_MESSAGE_FIELDS = frozenset({"id", "message_id"})
_MISSING = object()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def memory_item(memory: pb.Memory, at: datetime) -> dict[str, Any]:
    """Return a memory as an item of `get_all_memories`, with the decay manager's changes."""
    return {
        "id": memory_lists.memory_id(memory),
        "type": memory.type if is_term(memory.type) else DEFAULT_TERM,
        "memory_type": memory.type,
        "freshness_score": freshness(memory_lists.create_time_of(memory), at),
        "timestamp": local_timestamp(memory_lists.create_time_of(memory)),
        "session_id": memory.session_id,
        "content": memory.content,
        "priority": record_values.to_priority(memory.importance),
        **records.read_pc2_object(memory.metadata, _DECAY),
    }


def message_item(message: session_pb2.Message, at: datetime) -> dict[str, Any]:
    """Return a message as an item of `get_all_memories`, with the decay manager's changes."""
    create_time = message.create_time.ToDatetime(tzinfo=UTC)
    return {
        "id": message.message_id,
        "message_id": message.message_id,
        "type": DEFAULT_TERM,
        "freshness_score": freshness(create_time, at),
        "timestamp": local_timestamp(create_time),
        "session_id": message.session_id,
        "content": message.content,
        **records.read_pc2_object(message.metadata, _DECAY),
    }


def change_memory(memory: pb.Memory, item: Mapping[str, Any], at: datetime) -> list[str]:
    """Apply an item to a memory; return the paths of changed fields. Raises RequestError."""
    previous_item = memory_item(memory, at)
    values = {name: value for name, value in item.items() if name != "type"}
    for name in ("type", "memory_type"):
        value = item.get(name)
        if value and value != previous_item[name] and not is_term(value):
            values["type"] = value
    paths = records.apply_changes(memory, values)
    if _store_changes(memory.metadata, previous_item, item, _MEMORY_FIELDS) and "metadata" not in paths:
        paths.append("metadata")
    return paths


def change_message(message: session_pb2.Message, item: Mapping[str, Any], at: datetime) -> bool:
    """Apply an item to a message's metadata; return whether it changed.

    The message's text never changes; only `get_all_memories` shows a changed content.
    """
    return _store_changes(message.metadata, message_item(message, at), item, _MESSAGE_FIELDS)


def new_memory(item: Mapping[str, Any], *, external_id: str, at: datetime) -> pb.Memory:
    """Create a memory from an item without a known id, such as a consolidated one. Raises RequestError."""
    memory_type = item.get("memory_type") if is_term(item.get("type")) else item.get("type", item.get("memory_type"))
    memory = records.parse_memory(
        {**item, "type": memory_type},
        external_id=external_id,
        importance=record_values.parse_importance(item.get("priority")),
    )
    create_time = _parse_time(item.get("timestamp"))
    if create_time is not None and create_time >= _EPOCH:
        memory.create_time.FromDatetime(min(create_time, at))
    previous_item = {**memory_item(memory, at), "id": external_id}
    _store_changes(memory.metadata, previous_item, item, _MEMORY_FIELDS)
    return memory


def freshness(create_time: datetime, at: datetime) -> float:
    """Return a freshness that falls from 1 with each day, as strength does."""
    return round(Strength(last_accessed=create_time).value_at(at), _DECIMALS)


def is_term(value: object) -> bool:
    """Say whether a type is a duration such as short_term."""
    return isinstance(value, str) and value.endswith(_TERM_SUFFIX)


def content_key(item: Mapping[str, Any]) -> tuple[object, ...]:
    """Return a key for items without an id."""
    return tuple(str(item.get(name)) for name in ("session_id", "timestamp", "content"))


def _store_changes(
    metadata: Struct, previous_item: Mapping[str, Any], item: Mapping[str, Any], excluded_fields: frozenset[str]
) -> bool:
    """Store the fields of an item that differ from the previous item; return whether there are any."""
    changed_fields = {
        name: item[name]
        for name in item
        if name not in excluded_fields and previous_item.get(name, _MISSING) != item[name]
    }
    if changed_fields:
        records.set_pc2_object(metadata, _DECAY, {**records.read_pc2_object(metadata, _DECAY), **changed_fields})
    return bool(changed_fields)


def _parse_time(value: object) -> datetime | None:
    """Read a time, local without a zone; None for anything else."""
    try:
        return datetime.fromisoformat(value).astimezone(UTC) if isinstance(value, str) else None
    except (ValueError, OverflowError):
        return None
