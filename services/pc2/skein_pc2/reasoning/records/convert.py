"""Memories as port 5596 writes them ↔ memories of the public RPCs. Shapes only; the clock is passed in.

What the port knows beside a memory's own fields stands in its metadata under `pc2`: who stored it, strength, url, and
the fields that a client sent which the memory's own fields do not give back as they were.
"""

from __future__ import annotations

import hashlib
import secrets
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.json_values import exact
from skein_pc2.protocol import fields
from skein_pc2.protocol.frames import repeat_key, timestamp
from skein_pc2.reasoning.records import memory_lists
from skein_pc2.reasoning.records import record_values as words
from skein_pc2.reasoning.records.strength import MOST, NEW, Strength

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from google.protobuf.struct_pb2 import Struct

PC2 = "pc2"
# What a memory has a place of its own for.
FIELDS = frozenset(
    {"type", "memory_type", "title", "url", "source", "source_agent", "session_id", "user_id", "tags", "metadata"}
)
# Fields of a record that the port computes; a client that sends them sends back what it was told.
COMPUTED = frozenset({"id", "created_at", "last_accessed", "strength", "forgotten"})
# Under `pc2`: the kind of a person's memory, such as reminder.
KIND = "kind"
_SENT = "sent"
# Objects nested deeper are kept as JSON text: what is around them takes some of the levels that protobuf reads.
_MAX_OBJECT_LEVELS = 16
_DIGITS = 16
_DECIMALS = 6


def new_id(message: Mapping[str, Any], place: int = 0) -> str:
    """Make the id of a memory; a message that its sender can repeat (it has a request_id) gets the same one again."""
    again = repeat_key(dict(message))
    if not again:
        return f"mem_{secrets.token_hex(_DIGITS // 2)}"
    return id_of(again, str(place))


def id_of(*names: str) -> str:
    """Make the one id that belongs to some names."""
    return f"mem_{hashlib.sha256(words.to_compact_json(names).encode()).hexdigest()[:_DIGITS]}"


def memory_of(values: Mapping[str, Any], *, external_id: str, importance: float) -> pb.Memory:
    """Read a memory as assistants send it: content, type, title, url, source_agent (or source), tags, metadata."""
    url, source_agent = words.text(values, "url"), words.text(values, "source_agent")
    own: dict[str, Any] = {"agent": words.AGENT, "strength": NEW}
    if url:
        own["url"] = url
    metadata = {**fields.mapping(values.get("metadata"), "metadata"), PC2: own}
    return pb.Memory(
        external_id=external_id,
        type=words.type_name(values.get("type", values.get("memory_type"))),
        content=words.needed(values, "content", "text"),
        title=words.text(values, "title"),
        source=words.text(values, "source") or source_agent or url,
        source_agent=source_agent,
        session_id=words.text(values, "session_id"),
        subject_id=words.text(values, "user_id"),
        tags=fields.texts(values.get("tags"), "tags"),
        importance=importance,
        metadata=words.struct(metadata, "metadata"),
    )


def with_text(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Write a content that is an object or a list as one text, by which its memory is found."""
    content = values.get("content")
    if isinstance(content, dict | list) and content:
        return {**values, "content": words.replace_unstorable(words.to_compact_json(content))}
    return values


def record(memory: pb.Memory, at: datetime) -> dict[str, Any]:
    """Write a memory as §2 tells it: the fields as they were sent, and what the port computes. Times are epoch floats.

    A field that a typed client has changed since is told as it is now.
    """
    strength = strength_of(memory, at)
    stored = _stored_fields(memory)
    sent = {name: value for name, (value, before) in _sent(memory).items() if stored.get(name) == before}
    return {
        **stored,
        **sent,
        "id": memory_lists.memory_id(memory),
        "created_at": memory_lists.created(memory).timestamp(),
        "last_accessed": strength.last_accessed.timestamp(),
        "strength": rounded(strength.current(at)),
        "forgotten": strength.is_forgotten(at),
    }


def keep_sent_fields(memory: pb.Memory, values: Mapping[str, Any]) -> None:
    """Keep the fields of `values` that the memory's own fields do not give back as they are.

    Each is kept with what the memory's own field says, so that a later change of that field is seen.
    """
    stored = _stored_fields(memory)
    kept = {name: pair for name, pair in _sent(memory).items() if name not in values and stored.get(name) == pair[1]}
    for name, value in values.items():
        if name not in COMPUTED and (name not in stored or stored[name] != value):
            kept[name] = (value, stored.get(name))
    sent = {name: {"value": value, "before": before} for name, (value, before) in kept.items()}
    set_own_object(memory.metadata, _SENT, sent)


def changes(memory: pb.Memory, values: Mapping[str, Any]) -> list[str]:
    """Change a memory as an assistant says; return the paths of what is otherwise than it was."""
    before = pb.Memory()
    before.CopyFrom(memory)
    memory.content = words.text(values, "content", "text").strip() or memory.content
    memory.title = words.text(values, "title") or memory.title
    if values.get("type"):
        memory.type = words.type_name(values["type"])
    if values.get("priority") and words.priority(memory.importance) != str(values["priority"]).upper():
        memory.importance = words.importance(values["priority"])
    if values.get("tags") is not None:
        tags = fields.texts(values["tags"], "tags")
        if tags != list(memory.tags):
            memory.tags[:] = tags
    if values.get("metadata") is not None:
        given = words.struct(fields.mapping(values["metadata"], "metadata"), "metadata")
        if PC2 in memory.metadata.fields:
            given.fields[PC2].CopyFrom(memory.metadata.fields[PC2])
        memory.metadata.CopyFrom(given)
    paths = ("content", "title", "type", "importance", "tags", "metadata")
    return [path for path in paths if getattr(memory, path) != getattr(before, path)]


def rounded(strength: float) -> float:
    """Return a strength without the noise of floating point."""
    return round(strength, _DECIMALS)


def is_own(memory: pb.Memory) -> bool:
    """Say whether a memory has a strength; others were stored by other doors and never fade here."""
    return "strength" in _own(memory)


def strength_of(memory: pb.Memory, at: datetime) -> Strength:
    """Return a memory's strength; one that has none is as strong as a new one, whenever it is looked at."""
    own = _own(memory)
    if "strength" not in own:
        return Strength(last_accessed=at)
    return Strength(
        value=_number(own, "strength", NEW),
        last_accessed=_moment(own.get("last_accessed")) or memory_lists.created(memory),
        reinforcements=int(_number(own, "reinforcements", 0)),
        decays=int(_number(own, "decays", 0)),
    )


def set_strength(memory: pb.Memory, strength: Strength) -> None:
    """Write a strength into a memory's metadata, where any client reads it."""
    own = memory.metadata.fields[PC2].struct_value
    if "agent" not in own.fields:
        own["agent"] = words.AGENT
    own["strength"] = strength.value
    own["last_accessed"] = strength.last_accessed.isoformat()
    own["reinforcements"] = strength.reinforcements
    own["decays"] = strength.decays


def operations(memory: pb.Memory) -> list[str]:
    """Return which operations were done to a memory, the newest last."""
    names = _own(memory).get("operations")
    return [str(name) for name in names] if isinstance(names, list) else []


def set_operations(memory: pb.Memory, names: Sequence[str]) -> None:
    """Let a memory remember which operations were done to it."""
    memory.metadata.fields[PC2].struct_value["operations"] = list(names)


def set_synchronized(memory: pb.Memory, at: datetime) -> None:
    """Write when another system's word of a memory was taken over."""
    memory.metadata.fields[PC2].struct_value["synchronized"] = timestamp(at)


def synchronized(memory: pb.Memory) -> float | None:
    """Return when that was, in seconds since 1970; None when it was not."""
    at = _moment(_own(memory).get("synchronized"))
    return at.timestamp() if at is not None else None


def given_strength(values: Mapping[str, Any], at: datetime) -> Strength:
    """Read the strength of a memory that another system sends; no time lies ahead of now."""
    value = values.get("strength")
    if value is not None and (not isinstance(value, int | float) or isinstance(value, bool)):
        raise fields.invalid("strength", "is a number")
    given = values.get("last_accessed") or values.get("created_at")
    return Strength(
        value=NEW if value is None else float(min(MOST, max(0.0, value))),
        last_accessed=at if given is None else min(at, fields.read_time(given, "last_accessed")),
    )


def kind(memory: pb.Memory) -> str:
    """Return which kind of a person's memory another dialect of the port has made; "" for any other memory."""
    return str(_own(memory).get(KIND, ""))


def set_kind(memory: pb.Memory, name: str) -> None:
    """Mark a memory as one of a kind."""
    memory.metadata.fields[PC2].struct_value[KIND] = name


def own_object(metadata: Struct, name: str) -> dict[str, Any]:
    """Return an object that the port keeps in the metadata of a memory or message; empty when there is none."""
    own = _own_of(metadata)
    kept = own.get(name)
    if isinstance(text := own.get(f"{name}_json"), str):
        try:
            kept = exact.loads_mixed(text)
        except ValueError:
            return {}
    return kept if isinstance(kept, dict) else {}


def set_own_object(metadata: Struct, name: str, value: Mapping[str, Any]) -> None:
    """Keep an object in the metadata of a memory or message, or nothing in place of an empty one.

    An object that a Struct would change, such as one with large whole numbers, is kept as JSON text.
    """
    if not value and PC2 not in metadata.fields:
        return
    own = metadata.fields[PC2].struct_value
    for key in (name, f"{name}_json"):
        if key in own.fields:
            del own.fields[key]
    if not value:
        return
    if words.json_depth(value, most=_MAX_OBJECT_LEVELS) <= _MAX_OBJECT_LEVELS and words.is_storable(value):
        own.fields[name].struct_value.CopyFrom(words.struct(value, name))
    else:
        own[f"{name}_json"] = exact.dumps(exact.to_decimals(value), ensure_ascii=True)


def _stored_fields(memory: pb.Memory) -> dict[str, Any]:
    """Write the fields of a record that a memory has of its own."""
    metadata = words.plain(memory.metadata)
    own = metadata.pop(PC2, None)
    return {
        "content": memory.content.strip(),
        "type": memory.type,
        "source": memory.source or memory.source_agent,
        "source_agent": memory.source_agent,
        "title": memory.title,
        "url": own.get("url", "") if isinstance(own, dict) else "",
        "tags": list(memory.tags),
        "metadata": metadata,
    }


def _sent(memory: pb.Memory) -> dict[str, tuple[Any, Any]]:
    """Return the fields kept as they were sent, each with what the memory's own field said then."""
    kept = own_object(memory.metadata, _SENT)
    return {name: (field.get("value"), field.get("before")) for name, field in kept.items() if isinstance(field, dict)}


def _own(memory: pb.Memory) -> dict[str, Any]:
    return _own_of(memory.metadata)


def _own_of(metadata: Struct) -> dict[str, Any]:
    if PC2 not in metadata.fields:
        return {}
    own = words.plain_value(metadata.fields[PC2])
    return own if isinstance(own, dict) else {}


def _number(own: Mapping[str, Any], name: str, default: float) -> float:
    value = own.get(name, default)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return min(float(2**31), max(0.0, value)) if is_number else default


def _moment(value: object) -> datetime | None:
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    if found is None:
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
