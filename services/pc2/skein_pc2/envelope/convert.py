"""The orchestrator's memories ↔ those of the public RPCs. Rules and shapes only; the clock is passed in."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.filters.fields import DEFAULT_PRIORITY, importance_of, priority_of
from skein_pc2.protocol.fields import invalid, mapping, read_time, required_text, struct, text, texts, to_json

_TYPE = re.compile(r"[a-z][a-z0-9_]{0,63}")
_MIN_PRIORITY, _MAX_PRIORITY = 1, 10
# The type of a `save` without a type.
SAVED_TYPE = "context"
# Keys of a content that memories have fields for; other keys become data.
_MEMORY_FIELD_KEYS = frozenset({"text", "source_agent", "metadata"})
_MAX_TYPES, _MAX_TAGS = 50, 50
# Timestamps count from here, in UTC.
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a zone would be written out.
# Years after 9999 do not exist for datetime and protobuf.
_LAST_TIME = datetime(9999, 12, 31, tzinfo=UTC)


def new_memory_id() -> str:
    """Create an id of the protocol's form."""
    return f"mem-{secrets.token_hex(8)}"


def parse_create(payload: Mapping[str, Any], *, session_id: str, at: datetime) -> pb.Memory:
    """Read the payload of `create` without its id. Raises RequestError."""
    if payload.get("memory_type") in (None, ""):
        raise invalid("memory_type", "is needed, such as conversation")
    content = _parse_content(payload)
    result = pb.Memory(
        type=parse_memory_type(payload["memory_type"]),
        tags=texts(payload.get("tags"), "tags"),
        importance=_parse_importance(payload.get("priority")),
        session_id=session_id,
    )
    _set_content(result, content)
    _require_text(result, content)
    _set_expire_time(result, payload.get("ttl"), at)
    return result


def parse_update(payload: Mapping[str, Any], at: datetime) -> tuple[pb.Memory, list[str]]:
    """Read the payload of `update`: the memory, and the paths of the changed fields.

    Text, source_agent and metadata stay as they are unless the content names them.
    """
    result = pb.Memory(memory_id=parse_memory_id(payload))
    paths: list[str] = []
    if payload.get("content") is not None:
        content = _parse_content(payload)
        paths += ["data", *_set_content(result, content)]
        if "content" in paths:
            _require_text(result, content)
    if payload.get("tags") is not None:
        result.tags.extend(texts(payload["tags"], "tags"))
        paths.append("tags")
    if payload.get("ttl") is not None:
        _set_expire_time(result, payload["ttl"], at)
        paths.append("expire_time")
    if payload.get("priority") is not None:
        result.importance = _parse_importance(payload["priority"])
        paths.append("importance")
    if not paths:
        raise invalid("payload", "has nothing to change: content, tags, ttl or priority")
    return result, paths


def parse_save(message: Mapping[str, Any], payload: Mapping[str, Any], *, session_id: str, at: datetime) -> pb.Memory:
    """Read a `save`. Its data is the content, beside the action or as the payload, and may have any shape."""
    value = payload if message.get("data") is None else message["data"]
    content = value if isinstance(value, dict) else {"text": value} if isinstance(value, str) else {"value": value}
    kind = payload.get("memory_type") or content.get("memory_type") or SAVED_TYPE
    result = parse_create({"memory_type": kind, "content": content}, session_id=session_id, at=at)
    if not result.content and isinstance(content.get("content"), str):
        result.content = text(content, "content", "data.content")
    return result


def parse_memory_type(value: object) -> str:
    """Read a memory_type: "User-Preference" is user_preference."""
    if isinstance(value, str):
        name = value.strip().lower().replace("-", "_").replace(" ", "_")
        if _TYPE.fullmatch(name):
            return name
    raise invalid("memory_type", "is a name of letters, digits and underscores, such as user_preference")


def parse_memory_id(payload: Mapping[str, Any]) -> str:
    """Read a payload's memory_id."""
    return required_text(payload, "memory_id")


def parse_filter(filters: Mapping[str, Any], field: str, *, session_id: str) -> pb.MemoryFilter:
    """Read the conditions of any filter, within one session.

    A memory passes with any one of several types or tags.
    """
    types = texts(filters.get("memory_types") or filters.get("memory_type"), f"{field}.memory_types")
    tags = texts(filters.get("tags"), f"{field}.tags")
    if len(types) > _MAX_TYPES:
        raise invalid(f"{field}.memory_types", f"are at most {_MAX_TYPES}")
    if len(tags) > _MAX_TAGS:
        raise invalid(f"{field}.tags", f"are at most {_MAX_TAGS}")
    result = pb.MemoryFilter(types=[parse_memory_type(name) for name in types], tags_any=tags, session_id=session_id)
    time_range = mapping(filters.get("time_range"), f"{field}.time_range")
    for name, target in (("start", result.start_time), ("end", result.end_time)):
        if time_range.get(name) is not None:
            target.FromDatetime(read_time(time_range[name], f"{field}.time_range.{name}"))
    return result


def create_reply(stored: pb.Memory) -> dict[str, Any]:
    """Return the data of the reply to `create`."""
    return {"memory_id": id_of(stored), "created_at": time_of(stored, "create_time")}


def update_reply(stored: pb.Memory) -> dict[str, Any]:
    """Return the data of the reply to `update`."""
    return {
        "memory_id": id_of(stored),
        "updated_at": time_of(stored, "update_time"),
        "expires_at": time_of(stored, "expire_time"),
    }


def memory_data(stored: pb.Memory) -> dict[str, Any]:
    """Return a memory as `read` and `search` reply with it."""
    return {
        "memory_id": id_of(stored),
        "session_id": stored.session_id or None,
        "memory_type": stored.type,
        "content": _to_content(stored),
        "source_agent": stored.source_agent or None,
        "tags": list(stored.tags),
        "created_at": time_of(stored, "create_time"),
        "updated_at": time_of(stored, "update_time"),
        "expires_at": time_of(stored, "expire_time"),
        "priority": priority_of(stored.importance),
    }


def id_of(stored: pb.Memory) -> str:
    """Return a memory's id on the ports."""
    return stored.external_id or stored.memory_id


def time_of(stored: Any, field: str) -> str | None:
    """Write a time of a memory or a session; None when it is not set."""
    if not stored.HasField(field):
        return None
    value: Timestamp = getattr(stored, field)
    # Replies have many times, and ToDatetime is slow.
    time = _EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    return f"{time.isoformat(timespec='milliseconds')}Z"


def _parse_content(payload: Mapping[str, Any]) -> dict[str, Any]:
    content = payload.get("content")
    if isinstance(content, str):
        content = {"text": content}
    if not isinstance(content, dict) or not content:
        raise invalid("content", "is an object with a text")
    return content


def _require_text(memory: pb.Memory, content: Mapping[str, Any]) -> None:
    if not memory.content.strip() and not content.keys() - _MEMORY_FIELD_KEYS:
        raise invalid("content.text", "needs at least one character that is not a space")


def _set_content(memory: pb.Memory, content: dict[str, Any]) -> Iterable[str]:
    """Set a memory's fields from a content; return the names of the fields that the content has, without `data`."""
    metadata = mapping(content.get("metadata"), "content.metadata")
    memory.content = text(content, "text", "content.text")
    memory.source_agent = text(content, "source_agent", "content.source_agent")
    if metadata:
        memory.metadata.CopyFrom(struct(metadata, "content.metadata"))
    # Memory fields cannot tell an empty value from a missing one, and the service strips texts.
    data = {name: value for name, value in content.items() if name not in _MEMORY_FIELD_KEYS or not value}
    if memory.content != memory.content.strip():
        data["text"] = memory.content
    if data:
        memory.data.CopyFrom(struct(data, "content"))
    names = {"text": "content", "source_agent": "source_agent", "metadata": "metadata"}
    return [field for name, field in names.items() if content.get(name) is not None]


def _parse_importance(priority: object) -> float:
    if priority is None:
        priority = DEFAULT_PRIORITY
    if not isinstance(priority, int) or isinstance(priority, bool) or not _MIN_PRIORITY <= priority <= _MAX_PRIORITY:
        raise invalid("priority", f"is a whole number from {_MIN_PRIORITY} to {_MAX_PRIORITY}")
    return importance_of(priority)


def _set_expire_time(memory: pb.Memory, ttl: object, at: datetime) -> None:
    if ttl is None:
        return
    if not isinstance(ttl, int | float) or isinstance(ttl, bool) or ttl <= 0:
        raise invalid("ttl", "is a number of seconds, more than 0")
    if ttl >= (_LAST_TIME - at).total_seconds():
        raise invalid("ttl", "ends after the year 9999")
    memory.expire_time.FromDatetime(at + timedelta(seconds=ttl))


def _to_content(stored: pb.Memory) -> dict[str, Any]:
    """Return a content as it was sent. Fields that a typed client changed since take precedence."""
    content = to_json(stored.data) if stored.HasField("data") else {}
    if str(content.get("text") or "").strip() != stored.content:
        content["text"] = stored.content
    if stored.source_agent:
        content["source_agent"] = stored.source_agent
    if stored.metadata.fields:
        content["metadata"] = to_json(stored.metadata)
    return content
