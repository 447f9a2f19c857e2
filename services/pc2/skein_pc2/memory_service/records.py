"""Memories as port 7140 reads and writes them ↔ messages of the RPCs. Rules and shapes only."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from skein.memory.v1 import memory_pb2 as pb
from skein_pc2 import fields
from skein_pc2.messages import timestamp

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.protobuf.timestamp_pb2 import Timestamp

# Relations by which a memory belongs to its parent, and to a context group: both lead from the memory.
PARENT, MEMBER = "child_of", "member_of"
# Relations that the record tells in fields of their own.
STRUCTURAL = frozenset({PARENT, MEMBER})
# What a relation is that has no name of ours; its label says it as it was given.
_OTHER = "related"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_LEVELS = {"short": pb.LEVEL_CONTEXTUAL, "medium": pb.LEVEL_OPERATIONAL, "long": pb.LEVEL_STRATEGIC}
_TIERS = {
    pb.LEVEL_CONTEXTUAL: "short",
    pb.LEVEL_OPERATIONAL: "medium",
    pb.LEVEL_TACTICAL: "medium",
    pb.LEVEL_STRATEGIC: "long",
}
_LONGEST_TTL = timedelta(days=36_500)


def draft(said: Mapping[str, Any], memory_id: str) -> pb.Memory:
    """Read a memory that is to be added; the id is its own, unless its assistant chose one."""
    result = pb.Memory(
        external_id=fields.text(said, "memory_id") or memory_id,
        session_id=fields.text(said, "session_id"),
        source_agent=fields.text(said, "source_agent"),
    )
    _read_content(said.get("content"), result)
    _read_rest(said, result)
    if said.get("expires_at") is not None:
        result.expire_time.FromDatetime(fields.moment(said["expires_at"], "expires_at"))
    elif said.get("ttl") is not None:
        result.ttl.FromTimedelta(_ttl(said))
    return result


def change(memory_id: str, update: Mapping[str, Any], at: datetime) -> tuple[pb.Memory, list[str]]:
    """Read what is to change in a memory: the new values, and the names of the fields that have them."""
    result, mask = pb.Memory(memory_id=memory_id), []
    if "content" in update:
        mask += _read_content(update["content"], result)
    mask += _read_rest(update, result)
    if update.get("expires_at") is not None:
        result.expire_time.FromDatetime(fields.moment(update["expires_at"], "expires_at"))
    elif update.get("ttl") is not None:
        result.expire_time.FromDatetime(at + _ttl(update))
    # Without either it never ends, if that is said: null.
    return result, [*mask, *(["expire_time"] if {"expires_at", "ttl"} & update.keys() else [])]


def record(memory: pb.Memory) -> dict[str, Any]:
    """Write a memory, but for what it is related to."""
    return {
        "memory_id": name(memory),
        "content": _content(memory),
        "memory_type": memory.type,
        "memory_tier": _TIERS.get(memory.level, "medium"),
        "importance": memory.importance,
        "access_count": memory.access_count,
        "last_accessed_at": _written(memory, "last_access_time"),
        "created_at": _written(memory, "create_time"),
        "updated_at": _written(memory, "update_time"),
        "expires_at": _written(memory, "expire_time"),
        "metadata": fields.plain(memory.metadata),
        "tags": list(memory.tags),
        "session_id": memory.session_id or None,
    }


def name(memory: pb.Memory) -> str:
    """Return what a memory is called on the ports."""
    return memory.external_id or memory.memory_id


def is_expired(memory: pb.Memory, at: datetime) -> bool:
    """Say whether a memory's time is over."""
    return memory.HasField("expire_time") and memory.expire_time.ToDatetime(tzinfo=UTC) <= at


def memory_type(value: object, field: str = "memory_type") -> str:
    """Read a type: "User-Preference" is user_preference."""
    found = _snake(value) if isinstance(value, str) else ""
    if not found:
        raise fields.invalid(field, "is a name of letters, digits and underscores, such as user_preference")
    return found


def relation(value: str) -> tuple[str, str]:
    """Read a type of relationship: the relation, and a label when that does not say it as it was given.

    Whatever an assistant calls a relationship is kept: what cannot be the name of a relation is a label.
    """
    found = _snake(value)
    return found or _OTHER, "" if found == value else value[:1000]


def is_relation(value: str) -> bool:
    """Say whether a type of relationship can be the name of a relation."""
    return bool(_snake(value))


def relationship_type(link: pb.Link) -> str:
    """Return what an assistant called a relationship."""
    return link.label or link.relation


def number(value: object, field: str, *, default: float, least: float, most: float = math.inf) -> float:
    """Read a number, which is `default` when it is not there."""
    if value is None:
        return default
    if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
        rule = f"from {least:g} to {most:g}" if most < math.inf else f"of at least {least:g}"
        raise fields.invalid(field, f"is a number {rule}")
    return float(value)


def _read_content(content: object, into: pb.Memory) -> list[str]:
    """Read a content: a text, or an object whose `text` is searched. Return the fields that it set."""
    if isinstance(content, str) and content.strip():
        fields.must_be_text(content, "content")
        into.content = content
        return ["content"]
    if isinstance(content, dict) and content:
        into.content = fields.text(content, "text", "content.text")
        into.data.CopyFrom(fields.struct(content, "content"))
        return ["content", "data"]
    raise fields.invalid("content", "is a text or an object, and not empty")


def _read_rest(said: Mapping[str, Any], into: pb.Memory) -> list[str]:
    mask = []
    if said.get("memory_type") is not None:
        into.type = memory_type(said["memory_type"])
        mask.append("type")
    if said.get("memory_tier") is not None:
        tier = said["memory_tier"]
        level = _LEVELS.get(tier.strip().lower().removesuffix("_term")) if isinstance(tier, str) else None
        if level is None:
            raise fields.invalid("memory_tier", "is short, medium or long")
        into.level = level
        mask.append("level")
    if said.get("importance") is not None:
        into.importance = number(said["importance"], "importance", default=0, least=0, most=1)
        mask.append("importance")
    if said.get("metadata") is not None:
        into.metadata.CopyFrom(fields.struct(fields.mapping(said["metadata"], "metadata"), "metadata"))
        mask.append("metadata")
    if said.get("tags") is not None:
        into.tags.extend(fields.texts(said["tags"], "tags"))
        mask.append("tags")
    return mask


def _ttl(said: Mapping[str, Any]) -> timedelta:
    seconds = number(said["ttl"], "ttl", default=0, least=1, most=_LONGEST_TTL.total_seconds())
    return timedelta(seconds=seconds)


def _content(memory: pb.Memory) -> str | dict[str, Any]:
    if not memory.HasField("data"):
        return memory.content
    content = fields.plain(memory.data)
    if memory.content and str(content.get("text", "")).strip() != memory.content:
        # The text is the truth: a typed client may have changed it since.
        content["text"] = memory.content
    return content


def _snake(value: str) -> str:
    found = value.strip().lower().replace("-", "_").replace(" ", "_")
    return found if _NAME.fullmatch(found) else ""


def _written(memory: pb.Memory, field: str) -> str | None:
    if not memory.HasField(field):
        return None
    value: Timestamp = getattr(memory, field)
    return timestamp(value.ToDatetime(tzinfo=UTC))
