"""The orchestrator's memories ↔ those of the public RPCs. Rules and shapes only; the clock is passed in."""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from google.protobuf.timestamp_pb2 import Timestamp

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.filters.fields import DEFAULT_PRIORITY, importance_of, priority_of
from skein_pc2.protocol.fields import invalid, mapping, read_time, required_text, struct, text, texts, to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_TYPE = re.compile(r"[a-z][a-z0-9_]{0,63}")
_LOWEST_PRIORITY, _HIGHEST_PRIORITY = 1, 10
# The type of what is saved without one.
SAVED_TYPE = "context"
# What of a content has a field of its own; the rest is data.
_ABOUT = frozenset({"text", "source_agent", "metadata"})
_MOST_TYPES, _MOST_TAGS = 50, 50
# UTC, as Timestamp counts.
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a zone would be written out.
# Year 9999 is the last that calendars agree on.
_LAST_TIME = datetime(9999, 12, 31, tzinfo=UTC)


def new_memory_id() -> str:
    """Make an id of the protocol's form."""
    return f"mem-{secrets.token_hex(8)}"


def memory(payload: Mapping[str, Any], *, session_id: str, at: datetime) -> pb.Memory:
    """Read the payload of `create`, but for the id. Raises Rejected."""
    if payload.get("memory_type") in (None, ""):
        raise invalid("memory_type", "is needed, such as conversation")
    content = _given_content(payload)
    result = pb.Memory(
        type=memory_type(payload["memory_type"]),
        tags=texts(payload.get("tags"), "tags"),
        importance=_importance(payload.get("priority")),
        session_id=session_id,
    )
    _set_content(result, content)
    _must_say_something(result, content)
    _expire(result, payload.get("ttl"), at)
    return result


def update(payload: Mapping[str, Any], at: datetime) -> tuple[pb.Memory, list[str]]:
    """Read the payload of `update`: the memory, and the names of its fields that change.

    What a content does not name of its text, source_agent and metadata stays as it is.
    """
    result = pb.Memory(memory_id=memory_id(payload))
    changed: list[str] = []
    if payload.get("content") is not None:
        content = _given_content(payload)
        changed += ["data", *_set_content(result, content)]
        if "content" in changed:
            _must_say_something(result, content)
    if payload.get("tags") is not None:
        result.tags.extend(texts(payload["tags"], "tags"))
        changed.append("tags")
    if payload.get("ttl") is not None:
        _expire(result, payload["ttl"], at)
        changed.append("expire_time")
    if payload.get("priority") is not None:
        result.importance = _importance(payload["priority"])
        changed.append("importance")
    if not changed:
        raise invalid("payload", "has nothing to change: content, tags, ttl or priority")
    return result, changed


def parse_save(message: Mapping[str, Any], payload: Mapping[str, Any], *, session_id: str, at: datetime) -> pb.Memory:
    """Read a `save`: its `memory_data`, beside the action or as the payload, is the content, whatever its shape."""
    value = payload if message.get("data") is None else message["data"]
    content = value if isinstance(value, dict) else {"text": value} if isinstance(value, str) else {"value": value}
    kind = payload.get("memory_type") or content.get("memory_type") or SAVED_TYPE
    result = memory({"memory_type": kind, "content": content}, session_id=session_id, at=at)
    if not result.content and isinstance(content.get("content"), str):
        result.content = text(content, "content", "data.content")
    return result


def memory_type(value: object) -> str:
    """Read a memory_type: "User-Preference" is user_preference."""
    if isinstance(value, str):
        name = value.strip().lower().replace("-", "_").replace(" ", "_")
        if _TYPE.fullmatch(name):
            return name
    raise invalid("memory_type", "is a name of letters, digits and underscores, such as user_preference")


def memory_id(payload: Mapping[str, Any]) -> str:
    """Read the id of the memory that a payload is about."""
    return required_text(payload, "memory_id")


def condition(filters: Mapping[str, Any], field: str, *, session_id: str) -> pb.MemoryFilter:
    """Read the conditions that all filters of the protocol share, within one session.

    A memory passes with any one of several types or tags.
    """
    types = texts(filters.get("memory_types") or filters.get("memory_type"), f"{field}.memory_types")
    tags = texts(filters.get("tags"), f"{field}.tags")
    if len(types) > _MOST_TYPES:
        raise invalid(f"{field}.memory_types", f"are at most {_MOST_TYPES}")
    if len(tags) > _MOST_TAGS:
        raise invalid(f"{field}.tags", f"are at most {_MOST_TAGS}")
    result = pb.MemoryFilter(types=[memory_type(name) for name in types], tags_any=tags, session_id=session_id)
    span = mapping(filters.get("time_range"), f"{field}.time_range")
    for name, target in (("start", result.start_time), ("end", result.end_time)):
        if span.get(name) is not None:
            target.FromDatetime(read_time(span[name], f"{field}.time_range.{name}"))
    return result


def create_reply(stored: pb.Memory) -> dict[str, Any]:
    """Write the data of the answer to `create`."""
    return {"memory_id": id_of(stored), "created_at": time_of(stored, "create_time")}


def update_reply(stored: pb.Memory) -> dict[str, Any]:
    """Write the data of the answer to `update`."""
    return {
        "memory_id": id_of(stored),
        "updated_at": time_of(stored, "update_time"),
        "expires_at": time_of(stored, "expire_time"),
    }


def memory_data(stored: pb.Memory) -> dict[str, Any]:
    """Write a memory as `read` and `search` return it."""
    return {
        "memory_id": id_of(stored),
        "session_id": stored.session_id or None,
        "memory_type": stored.type,
        "content": _content(stored),
        "source_agent": stored.source_agent or None,
        "tags": list(stored.tags),
        "created_at": time_of(stored, "create_time"),
        "updated_at": time_of(stored, "update_time"),
        "expires_at": time_of(stored, "expire_time"),
        "priority": priority_of(stored.importance),
    }


def id_of(stored: pb.Memory) -> str:
    """Return the id by which assistants know a memory."""
    return stored.external_id or stored.memory_id


def time_of(stored: Any, field: str) -> str | None:
    """Write a time of a memory or a session; None when it is not set."""
    if not stored.HasField(field):
        return None
    value: Timestamp = getattr(stored, field)
    # An answer has several of them, and ToDatetime takes its time.
    moment = _EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    return f"{moment.isoformat(timespec='milliseconds')}Z"


def _given_content(payload: Mapping[str, Any]) -> dict[str, Any]:
    content = payload.get("content")
    if isinstance(content, str):
        content = {"text": content}
    if not isinstance(content, dict) or not content:
        raise invalid("content", "is an object with a text")
    return content


def _must_say_something(memory: pb.Memory, content: Mapping[str, Any]) -> None:
    if not memory.content.strip() and not content.keys() - _ABOUT:
        raise invalid("content.text", "needs at least one character that is not a space")


def _set_content(memory: pb.Memory, content: dict[str, Any]) -> Iterable[str]:
    """Let a memory say what a content does; return the names of the fields that it speaks of, beside `memory_data`."""
    metadata = mapping(content.get("metadata"), "content.metadata")
    memory.content = text(content, "text", "content.text")
    memory.source_agent = text(content, "source_agent", "content.source_agent")
    if metadata:
        memory.metadata.CopyFrom(struct(metadata, "content.metadata"))
    # Fields of the memory do not tell an empty value from none, and the service takes the spaces around a text away.
    more = {name: value for name, value in content.items() if name not in _ABOUT or not value}
    if memory.content != memory.content.strip():
        more["text"] = memory.content
    if more:
        memory.data.CopyFrom(struct(more, "content"))
    names = {"text": "content", "source_agent": "source_agent", "metadata": "metadata"}
    return [field for name, field in names.items() if content.get(name) is not None]


def _importance(priority: object) -> float:
    if priority is None:
        priority = DEFAULT_PRIORITY
    if (
        not isinstance(priority, int)
        or isinstance(priority, bool)
        or not _LOWEST_PRIORITY <= priority <= _HIGHEST_PRIORITY
    ):
        raise invalid("priority", f"is a whole number from {_LOWEST_PRIORITY} to {_HIGHEST_PRIORITY}")
    return importance_of(priority)


def _expire(memory: pb.Memory, ttl: object, at: datetime) -> None:
    if ttl is None:
        return
    if not isinstance(ttl, int | float) or isinstance(ttl, bool) or ttl <= 0:
        raise invalid("ttl", "is a number of seconds, more than 0")
    if ttl >= (_LAST_TIME - at).total_seconds():
        raise invalid("ttl", "ends after the year 9999")
    memory.expire_time.FromDatetime(at + timedelta(seconds=ttl))


def _content(stored: pb.Memory) -> dict[str, Any]:
    """Write a content as it was sent. What a typed client has changed since in the memory's own fields leads."""
    content = to_json(stored.data) if stored.HasField("data") else {}
    if str(content.get("text") or "").strip() != stored.content:
        content["text"] = stored.content
    if stored.source_agent:
        content["source_agent"] = stored.source_agent
    if stored.metadata.fields:
        content["metadata"] = to_json(stored.metadata)
    return content
