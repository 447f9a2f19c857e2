"""Memories as port 7140 reads and writes them ↔ messages of the RPCs. Rules and shapes only."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from skein.memory.v1 import memory_pb2 as pb
from skein_pc2.memory_service import query
from skein_pc2.protocol import fields

# Relations from a memory to its parent, and to its context group.
PARENT_RELATION, MEMBER_RELATION = "child_of", "member_of"
# Relations that records show as fields.
STRUCTURAL_RELATIONS = frozenset({PARENT_RELATION, MEMBER_RELATION})
# Relation for names that cannot be relations; the label has the name.
_DEFAULT_RELATION = "related"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_LEVELS = {"short": pb.LEVEL_CONTEXTUAL, "medium": pb.LEVEL_OPERATIONAL, "long": pb.LEVEL_STRATEGIC}
_TIERS = {
    pb.LEVEL_CONTEXTUAL: "short",
    pb.LEVEL_OPERATIONAL: "medium",
    pb.LEVEL_TACTICAL: "medium",
    pb.LEVEL_STRATEGIC: "long",
}
# A context group's id is this prefix and a number that every JSON reader represents exactly.
GROUP_PREFIX, MAX_GROUP_NUMBER = "group-", 2**53 - 1
_MAX_TTL = timedelta(days=36_500)
_DEFAULT_TYPE, _DEFAULT_LEVEL = "general", pb.LEVEL_CONTEXTUAL
# Types whose data has a schema; an object sent as content is stored in the metadata instead.
_SCHEMA_TYPES = frozenset({"episodic", "semantic", "procedural", "resource", "task", "objective"})
_OBJECT_KEY = "pc2_content"
# Searched characters of an object without a text.
_MAX_SEARCHED_CHARACTERS = 10_000
_MAX_TITLE_CHARACTERS, _MAX_ID_CHARACTERS = 1000, 255
_MICROSECONDS = 1_000_000


def parse_draft(values: Mapping[str, Any], memory_id: str) -> pb.Memory:
    """Read a memory to create; `memory_id` is used unless the assistant chose an id."""
    result = pb.Memory(
        external_id=fields.text(values, "memory_id") or memory_id,
        session_id=fields.text(values, "session_id"),
        subject_id=fields.text(values, "user_id"),
        source_agent=fields.text(values, "source_agent"),
        type=_DEFAULT_TYPE,
        level=_DEFAULT_LEVEL,
    )
    _read_content(values.get("content"), result)
    _read_attributes(values, result)
    _move_object_to_metadata(result)
    # Search reads titles and subjects, which hold a fact's topic and the memory's subject.
    result.title = _title_of(result)
    result.subject_id = result.subject_id or _subject_of(result)
    if values.get("expires_at") is not None:
        result.expire_time.FromDatetime(fields.read_time(values["expires_at"], "expires_at"))
    elif values.get("ttl") is not None:
        result.ttl.FromTimedelta(_parse_ttl(values))
    return result


def parse_update(memory_id: str, update: Mapping[str, Any], at: datetime) -> tuple[pb.Memory, list[str]]:
    """Read an update: the new values, and the paths of the changed fields."""
    result, mask = pb.Memory(memory_id=memory_id), []
    if "content" in update:
        mask += _read_content(update["content"], result)
    mask += _read_attributes(update, result)
    if update.get("expires_at") is not None:
        result.expire_time.FromDatetime(fields.read_time(update["expires_at"], "expires_at"))
    elif update.get("ttl") is not None:
        result.expire_time.FromDatetime(at + _parse_ttl(update))
    # An explicit null removes the expiry.
    return result, [*mask, *(["expire_time"] if {"expires_at", "ttl"} & update.keys() else [])]


def depends_on_stored(mask: Sequence[str]) -> bool:
    """Say whether an update depends on the stored memory."""
    return "metadata" in mask or "content" in mask


def merge_into(stored: pb.Memory, changes: pb.Memory, mask: Sequence[str]) -> tuple[pb.Memory, list[str]]:
    """Merge an update into a stored memory: metadata is merged, a content replaces the content."""
    result, names = pb.Memory(), list(mask)
    result.CopyFrom(changes)
    result.revision = stored.revision
    metadata = pb.Memory(metadata=stored.metadata).metadata
    if "content" in names:
        metadata.fields.pop(_OBJECT_KEY, None)
        result.type = result.type or stored.type
    for key, value in changes.metadata.fields.items():
        metadata.fields[key].CopyFrom(value)
    result.metadata.CopyFrom(metadata)
    if "content" in names:
        _move_object_to_metadata(result)
        # A text replaces an object, but not data with a schema.
        if result.type not in _SCHEMA_TYPES and "data" not in names:
            names.append("data")
        elif result.type in _SCHEMA_TYPES and "data" in names:
            names.remove("data")
    if result.metadata != stored.metadata and "metadata" not in names:
        names.append("metadata")
    # A title or subject from a typed client does not change.
    if _title_of(result) != _title_of(stored) == stored.title:
        result.title = _title_of(result)
        names.append("title")
    if _subject_of(result) != _subject_of(stored) == stored.subject_id:
        result.subject_id = _subject_of(result)
        names.append("subject_id")
    return result, names


def to_record(memory: pb.Memory) -> dict[str, Any]:
    """Return a memory as a record, without its relations."""
    metadata = fields.to_json(memory.metadata)
    metadata.pop(_OBJECT_KEY, None)
    created_at = epoch_seconds(memory, "create_time")
    return {
        "memory_id": name(memory),
        "content": _to_content(memory),
        "memory_type": memory.type,
        "memory_tier": tier(memory),
        "importance": memory.importance,
        "importance_score": memory.importance,
        "access_count": memory.access_count,
        "last_accessed_at": epoch_seconds(memory, "last_access_time") or created_at,
        "created_at": created_at,
        "updated_at": epoch_seconds(memory, "update_time"),
        "expires_at": epoch_seconds(memory, "expire_time"),
        "metadata": metadata,
        "tags": list(memory.tags),
        "session_id": memory.session_id or None,
    }


def tier(memory: pb.Memory) -> str:
    """Return the tier of a memory: short, medium or long."""
    return _TIERS.get(memory.level, "medium")


def level_names(value: object, field: str = "memory_tier") -> list[str]:
    """Return the levels of a tier, by their names in filters."""
    tier = _TIERS[_parse_level(value, field)]
    return [pb.Level.Name(level).removeprefix("LEVEL_").lower() for level, name in _TIERS.items() if name == tier]


def epoch_seconds(message: Any, field: str) -> float | None:
    """Return a time field in seconds since 1970; None when it is not set."""
    if not message.HasField(field):
        return None
    time: Timestamp = getattr(message, field)
    return time.seconds + time.nanos // 1000 / _MICROSECONDS


def name(memory: pb.Memory) -> str:
    """Return a memory's name on the ports."""
    return memory.external_id or memory.memory_id


def group_number(group_id: str) -> int | str:
    """Return a context group's name on the port: the number in its id, or the id that its assistant chose."""
    digits = group_id.removeprefix(GROUP_PREFIX)
    is_number = digits.isascii() and digits.isdecimal() and digits != group_id and not digits.startswith("0")
    return int(digits) if is_number and int(digits) <= MAX_GROUP_NUMBER else group_id


def parse_group_id(value: object, field: str = "group_id") -> str:
    """Read a context group's id: a number, its digits as a text, or an id."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        if value is None:
            raise fields.invalid(field, "is needed")
        raise fields.invalid(field, "is a whole number or a text")
    if isinstance(value, int):
        value = str(value)
    fields.require_text(value, field)
    if not value.strip():
        raise fields.invalid(field, "is needed")
    is_number = value.isascii() and value.isdecimal()
    return f"{GROUP_PREFIX}{value}" if is_number else value


def parse_memory_type(value: object, field: str = "memory_type") -> str:
    """Read a type: "User-Preference" is user_preference."""
    result = _to_snake_case(value) if isinstance(value, str) else ""
    if not result:
        raise fields.invalid(field, "is a name of letters, digits and underscores, such as user_preference")
    return result


def parse_relation(value: str) -> tuple[str, str]:
    """Read a relationship type: the relation, and a label with the original spelling.

    A name that cannot be a relation becomes the label.
    """
    result = _to_snake_case(value)
    return result or _DEFAULT_RELATION, "" if result == value else value[:1000]


def is_relation(value: str) -> bool:
    """Say whether a relationship type can be a relation."""
    return bool(_to_snake_case(value))


def relationship_type(link: pb.Link) -> str:
    """Return a link's relationship type as its assistant sent it."""
    return link.label or link.relation


def parse_number(value: object, field: str, *, default: float, minimum: float, maximum: float = math.inf) -> float:
    """Read a number; a missing one is `default`."""
    if value is None:
        return default
    if not isinstance(value, int | float) or isinstance(value, bool) or not minimum <= value <= maximum:
        rule = f"from {minimum:g} to {maximum:g}" if maximum < math.inf else f"of at least {minimum:g}"
        raise fields.invalid(field, f"is a number {rule}")
    return float(value)


def _read_content(content: object, memory: pb.Memory) -> list[str]:
    """Read a content: a text, or an object whose `text` is searched. Return the paths set."""
    if isinstance(content, str) and content.strip():
        fields.require_text(content, "content")
        memory.content = content
        return ["content"]
    if isinstance(content, dict) and content:
        memory.data.CopyFrom(fields.struct(content, "content"))
        memory.content = fields.text(content, "text", "content.text") or _texts_of(content)
        return ["content", "data"]
    raise fields.invalid("content", "is a text or an object, and not empty")


def _read_attributes(values: Mapping[str, Any], memory: pb.Memory) -> list[str]:
    mask = []
    if values.get("memory_type") is not None:
        memory.type = parse_memory_type(values["memory_type"])
        mask.append("type")
    if values.get("memory_tier") is not None:
        memory.level = _parse_level(values["memory_tier"], "memory_tier")
        mask.append("level")
    for name in ("importance", "importance_score"):
        if values.get(name) is not None:
            memory.importance = parse_number(values[name], name, default=0, minimum=0, maximum=1)
            mask.append("importance")
            break
    if values.get("metadata") is not None:
        memory.metadata.CopyFrom(fields.struct(fields.mapping(values["metadata"], "metadata"), "metadata"))
        mask.append("metadata")
    if values.get("tags") is not None:
        memory.tags.extend(fields.texts(values["tags"], "tags"))
        mask.append("tags")
    return mask


def _parse_ttl(values: Mapping[str, Any]) -> timedelta:
    seconds = parse_number(values["ttl"], "ttl", default=0, minimum=1, maximum=_MAX_TTL.total_seconds())
    return timedelta(seconds=seconds)


def _parse_level(value: object, field: str) -> pb.Level:
    level = _LEVELS.get(value.strip().lower().removesuffix("_term")) if isinstance(value, str) else None
    if level is None:
        raise fields.invalid(field, "is short, medium or long")
    return level


def _move_object_to_metadata(memory: pb.Memory) -> None:
    """Move an object content into the metadata when the memory's type has a data schema."""
    if memory.HasField("data") and memory.type in _SCHEMA_TYPES:
        memory.metadata.fields[_OBJECT_KEY].struct_value.CopyFrom(memory.data)
        memory.ClearField("data")


def _title_of(memory: pb.Memory) -> str:
    return query.topic_of(memory)[:_MAX_TITLE_CHARACTERS]


def _subject_of(memory: pb.Memory) -> str:
    """Return the metadata's user_id; "" when it cannot be a subject's id."""
    user_id = memory.metadata.fields["user_id"].string_value if "user_id" in memory.metadata.fields else ""
    return user_id if len(user_id) <= _MAX_ID_CHARACTERS else ""


def _to_content(memory: pb.Memory) -> str | dict[str, Any]:
    if _OBJECT_KEY in memory.metadata.fields:
        content = fields.to_json(memory.metadata.fields[_OBJECT_KEY].struct_value)
    elif memory.HasField("data"):
        content = fields.to_json(memory.data)
    else:
        return memory.content
    if memory.content and memory.content not in {str(content.get("text", "")).strip(), _texts_of(content).strip()}:
        # The memory's text is authoritative: a typed client may have changed it.
        content["text"] = memory.content
    return content


def _texts_of(value: object) -> str:
    """Return an object's texts, one per line, as searchable content of an object without a text."""
    lines: list[str] = []
    pending: list[object] = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            lines.append(item.strip())
        elif isinstance(item, dict):
            # Stored objects have lost the order of their keys.
            pending.extend(item[key] for key in sorted(item, reverse=True))
        elif isinstance(item, list):
            pending.extend(reversed(item))
    return "\n".join(line for line in lines if line)[:_MAX_SEARCHED_CHARACTERS]


def _to_snake_case(value: str) -> str:
    result = value.strip().lower().replace("-", "_").replace(" ", "_")
    return result if _NAME.fullmatch(result) else ""
