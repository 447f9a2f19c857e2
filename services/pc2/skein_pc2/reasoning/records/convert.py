"""Memories as port 5596 writes them ↔ memories of the public RPCs. Shapes only; the clock is passed in.

The metadata key `pc2` contains values without a memory field: the agent that stored the memory, strength, url. It also
contains sent fields that the memory's fields do not return unchanged.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from google.protobuf.struct_pb2 import Struct

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.json_values import exact
from skein_pc2.protocol import fields
from skein_pc2.protocol.frames import repeat_key, timestamp
from skein_pc2.reasoning.records import memory_lists, record_values
from skein_pc2.reasoning.records.strength import MAX_STRENGTH, NEW_STRENGTH, Strength

PC2 = "pc2"
# Keys that have a field of the memory.
MEMORY_KEYS = frozenset(
    {"type", "memory_type", "title", "url", "source", "source_agent", "session_id", "user_id", "tags", "metadata"}
)
# Record fields that the port computes; clients may send them back, which has no effect.
COMPUTED_FIELDS = frozenset({"id", "created_at", "last_accessed", "strength", "forgotten"})
# Key under `pc2`: the kind of a person's memory, such as reminder.
KIND = "kind"
_SENT = "sent"
# Deeper objects are stored as JSON text: the surrounding messages use some of protobuf's levels.
_MAX_OBJECT_LEVELS = 16
_DIGITS = 16
_DECIMALS = 6


def new_id(message: Mapping[str, Any], position: int = 0) -> str:
    """Create a memory id; a repeated message (with a request_id) gets the same id."""
    key = repeat_key(dict(message))
    if not key:
        return f"mem_{secrets.token_hex(_DIGITS // 2)}"
    return hashed_id(key, str(position))


def hashed_id(*names: str) -> str:
    """Return an id that is a hash of the names."""
    return f"mem_{hashlib.sha256(record_values.to_compact_json(names).encode()).hexdigest()[:_DIGITS]}"


def parse_memory(values: Mapping[str, Any], *, external_id: str, importance: float) -> pb.Memory:
    """Read a memory as assistants send it: content, type, title, url, source_agent (or source), tags, metadata."""
    url, source_agent = record_values.text(values, "url"), record_values.text(values, "source_agent")
    pc2_fields: dict[str, Any] = {"agent": record_values.AGENT, "strength": NEW_STRENGTH}
    if url:
        pc2_fields["url"] = url
    metadata = {**fields.mapping(values.get("metadata"), "metadata"), PC2: pc2_fields}
    return pb.Memory(
        external_id=external_id,
        type=record_values.type_name(values.get("type", values.get("memory_type"))),
        content=record_values.required_text(values, "content", "text"),
        title=record_values.text(values, "title"),
        source=record_values.text(values, "source") or source_agent or url,
        source_agent=source_agent,
        session_id=record_values.text(values, "session_id"),
        subject_id=record_values.text(values, "user_id"),
        tags=fields.texts(values.get("tags"), "tags"),
        importance=importance,
        metadata=record_values.struct(metadata, "metadata"),
    )


def with_text_content(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the values with an object or list as content replaced by its JSON text, which is searchable."""
    content = values.get("content")
    if isinstance(content, dict | list) and content:
        return {**values, "content": record_values.replace_unstorable(record_values.to_compact_json(content))}
    return values


def to_record(memory: pb.Memory, at: datetime) -> dict[str, Any]:
    """Return a memory as a record of §2: fields as sent, and computed ones. Times are seconds since 1970.

    A field that a typed client changed since has its present value.
    """
    strength = strength_of(memory, at)
    stored = _stored_fields(memory)
    sent_values = {name: value for name, (value, before) in _sent_fields(memory).items() if stored.get(name) == before}
    return {
        **stored,
        **sent_values,
        "id": memory_lists.memory_id(memory),
        "created_at": memory_lists.create_time_of(memory).timestamp(),
        "last_accessed": strength.last_accessed.timestamp(),
        "strength": round_strength(strength.value_at(at)),
        "forgotten": strength.is_forgotten(at),
    }


def store_sent_fields(memory: pb.Memory, values: Mapping[str, Any]) -> None:
    """Store those of `values` that the memory's fields do not return unchanged.

    Each is stored with the memory field's present value, so that a later change of that field is detected.
    """
    stored = _stored_fields(memory)
    sent_fields = {
        name: pair for name, pair in _sent_fields(memory).items() if name not in values and stored.get(name) == pair[1]
    }
    for name, value in values.items():
        if name not in COMPUTED_FIELDS and (name not in stored or stored[name] != value):
            sent_fields[name] = (value, stored.get(name))
    sent_values = {name: {"value": value, "before": before} for name, (value, before) in sent_fields.items()}
    set_pc2_object(memory.metadata, _SENT, sent_values)


def apply_changes(memory: pb.Memory, values: Mapping[str, Any]) -> list[str]:
    """Apply an assistant's values to a memory; return the paths of changed fields."""
    before = pb.Memory()
    before.CopyFrom(memory)
    memory.content = record_values.text(values, "content", "text").strip() or memory.content
    memory.title = record_values.text(values, "title") or memory.title
    if values.get("type"):
        memory.type = record_values.type_name(values["type"])
    if values.get("priority") and record_values.to_priority(memory.importance) != str(values["priority"]).upper():
        memory.importance = record_values.parse_importance(values["priority"])
    if values.get("tags") is not None:
        tags = fields.texts(values["tags"], "tags")
        if tags != list(memory.tags):
            memory.tags[:] = tags
    if values.get("metadata") is not None:
        new_metadata = record_values.struct(fields.mapping(values["metadata"], "metadata"), "metadata")
        if PC2 in memory.metadata.fields:
            new_metadata.fields[PC2].CopyFrom(memory.metadata.fields[PC2])
        memory.metadata.CopyFrom(new_metadata)
    paths = ("content", "title", "type", "importance", "tags", "metadata")
    return [path for path in paths if getattr(memory, path) != getattr(before, path)]


def round_strength(strength: float) -> float:
    """Return a strength rounded to six decimals."""
    return round(strength, _DECIMALS)


def has_strength(memory: pb.Memory) -> bool:
    """Say whether a memory has a strength; those of other clients have none and never decay here."""
    return "strength" in _pc2_fields(memory)


def strength_of(memory: pb.Memory, at: datetime) -> Strength:
    """Return a memory's strength; without one it is that of a new memory at any time."""
    pc2_fields = _pc2_fields(memory)
    if "strength" not in pc2_fields:
        return Strength(last_accessed=at)
    return Strength(
        value=_bounded_number(pc2_fields, "strength", NEW_STRENGTH),
        last_accessed=_parse_time(pc2_fields.get("last_accessed")) or memory_lists.create_time_of(memory),
        reinforcements=int(_bounded_number(pc2_fields, "reinforcements", 0)),
        decays=int(_bounded_number(pc2_fields, "decays", 0)),
    )


def set_strength(memory: pb.Memory, strength: Strength) -> None:
    """Set a strength in a memory's metadata, where any client can read it."""
    pc2_fields = memory.metadata.fields[PC2].struct_value
    if "agent" not in pc2_fields.fields:
        pc2_fields["agent"] = record_values.AGENT
    pc2_fields["strength"] = strength.value
    pc2_fields["last_accessed"] = strength.last_accessed.isoformat()
    pc2_fields["reinforcements"] = strength.reinforcements
    pc2_fields["decays"] = strength.decays


def operations(memory: pb.Memory) -> list[str]:
    """Return the operations applied to a memory, newest last."""
    names = _pc2_fields(memory).get("operations")
    return [str(name) for name in names] if isinstance(names, list) else []


def set_operations(memory: pb.Memory, names: Sequence[str]) -> None:
    """Set the operations applied to a memory."""
    memory.metadata.fields[PC2].struct_value["operations"] = list(names)


def set_sync_time(memory: pb.Memory, at: datetime) -> None:
    """Set the time when another system's memory was applied."""
    memory.metadata.fields[PC2].struct_value["synchronized"] = timestamp(at)


def last_sync_time(memory: pb.Memory) -> float | None:
    """Return the time of the last synchronization, in seconds since 1970; None for never."""
    at = _parse_time(_pc2_fields(memory).get("synchronized"))
    return at.timestamp() if at is not None else None


def parse_strength(values: Mapping[str, Any], at: datetime) -> Strength:
    """Read the strength of another system's memory; its times are at most `at`."""
    value = values.get("strength")
    if value is not None and (not isinstance(value, int | float) or isinstance(value, bool)):
        raise fields.invalid("strength", "is a number")
    sent_time = values.get("last_accessed") or values.get("created_at")
    return Strength(
        value=NEW_STRENGTH if value is None else float(min(MAX_STRENGTH, max(0.0, value))),
        last_accessed=at if sent_time is None else min(at, fields.read_time(sent_time, "last_accessed")),
    )


def kind_of(memory: pb.Memory) -> str:
    """Return the kind of a person's memory; "" for any other memory."""
    return str(_pc2_fields(memory).get(KIND, ""))


def set_kind(memory: pb.Memory, name: str) -> None:
    """Mark a memory as one of a kind."""
    memory.metadata.fields[PC2].struct_value[KIND] = name


def read_pc2_object(metadata: Struct, name: str) -> dict[str, Any]:
    """Return an object under `pc2` in the metadata of a memory or message; empty when missing."""
    pc2_fields = _read_pc2_fields(metadata)
    stored_object = pc2_fields.get(name)
    if isinstance(text := pc2_fields.get(f"{name}_json"), str):
        try:
            stored_object = exact.loads_mixed(text)
        except ValueError:
            return {}
    return stored_object if isinstance(stored_object, dict) else {}


def set_pc2_object(metadata: Struct, name: str, value: Mapping[str, Any]) -> None:
    """Set an object under `pc2` in the metadata of a memory or message; an empty one is removed.

    An object that a Struct would change, such as one with large whole numbers, is stored as JSON text.
    """
    if not value and PC2 not in metadata.fields:
        return
    pc2_fields = metadata.fields[PC2].struct_value
    for key in (name, f"{name}_json"):
        if key in pc2_fields.fields:
            del pc2_fields.fields[key]
    if not value:
        return
    if record_values.json_depth(
        value, max_depth=_MAX_OBJECT_LEVELS
    ) <= _MAX_OBJECT_LEVELS and record_values.is_storable(value):
        pc2_fields.fields[name].struct_value.CopyFrom(record_values.struct(value, name))
    else:
        pc2_fields[f"{name}_json"] = exact.dumps(exact.to_decimals(value), ensure_ascii=True)


def _stored_fields(memory: pb.Memory) -> dict[str, Any]:
    """Return the record fields that come from memory fields."""
    metadata = record_values.struct_to_json(memory.metadata)
    pc2_fields = metadata.pop(PC2, None)
    return {
        "content": memory.content.strip(),
        "type": memory.type,
        "source": memory.source or memory.source_agent,
        "source_agent": memory.source_agent,
        "title": memory.title,
        "url": pc2_fields.get("url", "") if isinstance(pc2_fields, dict) else "",
        "tags": list(memory.tags),
        "metadata": metadata,
    }


def _sent_fields(memory: pb.Memory) -> dict[str, tuple[Any, Any]]:
    """Return the stored sent fields, each with the memory field's value at that time."""
    sent_fields = read_pc2_object(memory.metadata, _SENT)
    return {
        name: (field.get("value"), field.get("before"))
        for name, field in sent_fields.items()
        if isinstance(field, dict)
    }


def _pc2_fields(memory: pb.Memory) -> dict[str, Any]:
    return _read_pc2_fields(memory.metadata)


def _read_pc2_fields(metadata: Struct) -> dict[str, Any]:
    if PC2 not in metadata.fields:
        return {}
    pc2_fields = record_values.value_to_json(metadata.fields[PC2])
    return pc2_fields if isinstance(pc2_fields, dict) else {}


def _bounded_number(pc2_fields: Mapping[str, Any], name: str, default: float) -> float:
    value = pc2_fields.get(name, default)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return min(float(2**31), max(0.0, value)) if is_number else default


def _parse_time(value: object) -> datetime | None:
    try:
        result = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    if result is None:
        return None
    return result.replace(tzinfo=UTC) if result.tzinfo is None else result.astimezone(UTC)
