"""The orchestrator's payloads ↔ messages of the public RPCs. Rules and shapes only; the clock is passed in."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from google.protobuf import json_format
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from skein.memory.v1 import memory_pb2 as pb
from skein.recall.v1 import recall_pb2
from skein_pc2.errors import VALIDATION_ERROR, Rejected
from skein_pc2.messages import timestamp

if TYPE_CHECKING:
    from collections.abc import Mapping

SEMANTIC, KEYWORD, HYBRID = "semantic", "keyword", "hybrid"

_TYPE = re.compile(r"[a-z][a-z0-9_]{0,63}")
_LOWEST_PRIORITY, _DEFAULT_PRIORITY, _HIGHEST_PRIORITY = 1, 5, 10
_DEFAULT_LIMIT, _HIGHEST_LIMIT = 5, 100
_DEFAULT_MIN_SIMILARITY = 0.7
# Signals are fused before the best are taken, so a search by one signal takes more of them and picks its own.
_CANDIDATES = 50
# What in a content says nothing by itself.
_ABOUT = frozenset({"text", "source_agent", "metadata"})
# Year 9999 is the last that calendars agree on.
_LAST_TIME = datetime(9999, 12, 31, tzinfo=UTC)


def new_memory_id() -> str:
    """Make an id of the protocol's form."""
    return f"mem-{secrets.token_hex(8)}"


def repeatable_memory_id(message: Mapping[str, Any]) -> str:
    """Make the id of a request's memory from all that the request says, so that sending it again finds it."""
    text = json.dumps(message, sort_keys=True, separators=(",", ":"))
    return f"mem-{hashlib.sha256(text.encode('ascii')).hexdigest()[:16]}"


def memory(payload: Mapping[str, Any], *, session_id: object, at: datetime) -> pb.Memory:
    """Read the payload of `create`, but for the id."""
    content = payload.get("content")
    if isinstance(content, str):
        content = {"text": content}
    if not isinstance(content, dict) or not content:
        raise _invalid("content", "is an object with a text")
    text = content.get("text", "")
    metadata = content.get("metadata") or {}
    if not isinstance(text, str):
        raise _invalid("content.text", "is a text")
    if not isinstance(metadata, dict):
        raise _invalid("content.metadata", "is an object")
    if not text.strip() and not content.keys() - _ABOUT:
        raise _invalid("content.text", "needs at least one character that is not a space")
    priority = _priority(payload)
    try:
        result = pb.Memory(
            type=memory_type(payload.get("memory_type") or "conversation"),
            content=text,
            data=_struct(content, "content"),
            source_agent=_text(content, "source_agent", "content.source_agent"),
            metadata=_struct(metadata, "content.metadata") if metadata else None,
            tags=_texts(payload.get("tags"), "tags"),
            importance=(priority - _LOWEST_PRIORITY) / (_HIGHEST_PRIORITY - _LOWEST_PRIORITY),
            session_id=_session_id(session_id),
        )
    except UnicodeEncodeError:
        raise _invalid("content", "holds half of a surrogate pair, which is no character") from None
    expires = _expiry(payload.get("ttl"), at)
    if expires is not None:
        result.expire_time.CopyFrom(expires)
    return result


def memory_type(value: object) -> str:
    """Read a memory_type: "User-Preference" is user_preference."""
    if isinstance(value, str):
        name = value.strip().lower().replace("-", "_").replace(" ", "_")
        if _TYPE.fullmatch(name):
            return name
    raise _invalid("memory_type", "is a name of letters, digits and underscores, such as user_preference")


def memory_id(payload: Mapping[str, Any]) -> str:
    """Read the id of the memory that a payload is about."""
    value = payload.get("memory_id")
    if not isinstance(value, str) or not value:
        raise _invalid("memory_id", "is needed")
    _must_be_text(value, "memory_id")
    return value


def created(stored: pb.Memory) -> dict[str, Any]:
    """Write the data of the answer to `create`."""
    return {"memory_id": _id(stored), "created_at": _time(stored, "create_time")}


def data(stored: pb.Memory) -> dict[str, Any]:
    """Write a memory as `read` and `search` return it."""
    return {
        "memory_id": _id(stored),
        "session_id": stored.session_id or None,
        "memory_type": stored.type,
        "content": _content(stored),
        "tags": list(stored.tags),
        "created_at": _time(stored, "create_time"),
        "updated_at": _time(stored, "update_time"),
        "expires_at": _time(stored, "expire_time"),
        "priority": round(_LOWEST_PRIORITY + (_HIGHEST_PRIORITY - _LOWEST_PRIORITY) * stored.importance),
    }


def is_expired(stored: pb.Memory, at: datetime) -> bool:
    """Say whether a memory's ttl is over."""
    return stored.HasField("expire_time") and stored.expire_time.ToDatetime(tzinfo=UTC) <= at


class Search:
    """The payload of `search`."""

    def __init__(self, payload: Mapping[str, Any]) -> None:
        query = payload.get("query")
        if not isinstance(query, str) or not query.strip():
            raise _invalid("query", "is needed")
        filters = payload.get("filters") or {}
        if not isinstance(filters, dict):
            raise _invalid("filters", "is an object")
        self.type = payload.get("search_type") or HYBRID
        if self.type not in (SEMANTIC, KEYWORD, HYBRID):
            raise _invalid("search_type", "is semantic, keyword or hybrid")
        self._query = query
        self.limit = _limit(filters.get("limit", payload.get("limit")))
        self._min_similarity = _similarity(filters.get("min_similarity"))
        self._filter = _filter(filters)

    def request(self) -> recall_pb2.RecallRequest:
        """Write the call that finds candidates."""
        semantic = self.type == SEMANTIC
        candidates = self.limit if self.type == HYBRID else min(_HIGHEST_LIMIT, max(_CANDIDATES, 2 * self.limit))
        try:
            return recall_pb2.RecallRequest(
                query=self._query,
                limit=candidates,
                kinds=[recall_pb2.ITEM_KIND_MEMORY],
                filter=self._filter,
                # Words that are found need no likeness: the threshold speaks of meaning alone.
                min_similarity=self._min_similarity if semantic else 0.0,
            )
        except UnicodeEncodeError:
            raise _invalid("query", "holds half of a surrogate pair, which is no character") from None

    def results(self, response: recall_pb2.RecallResponse) -> list[dict[str, Any]]:
        """Write the hits, best first by the kind of search asked for."""
        scored = [(_score(hit, self.type), hit) for hit in response.hits]
        found = [(score, hit) for score, hit in scored if score is not None]
        found.sort(key=lambda pair: pair[0], reverse=True)
        return [{**data(hit.memory), "similarity_score": round(score, 6)} for score, hit in found[: self.limit]]


def _score(hit: recall_pb2.Hit, search_type: str) -> float | None:
    """Return how well a hit answers this kind of search, 0 to 1; None when it does not."""
    if search_type == SEMANTIC:
        return max(0.0, hit.similarity) if hit.HasField("similarity") else None
    if search_type == KEYWORD:
        values = [component.value for component in hit.components if component.signal == "lexical" and component.rank]
        return values[0] if values else None
    return hit.score


def _filter(filters: Mapping[str, Any]) -> pb.MemoryFilter:
    types = _texts(filters.get("memory_types", filters.get("memory_type")), "filters.memory_types")
    result = pb.MemoryFilter(
        types=[memory_type(name) for name in types], tags_any=_texts(filters.get("tags"), "filters.tags")
    )
    time_range = filters.get("time_range") or {}
    if not isinstance(time_range, dict):
        raise _invalid("filters.time_range", "is an object with start and end")
    for name, target in (("start", result.start_time), ("end", result.end_time)):
        if time_range.get(name) is not None:
            target.FromDatetime(_moment(time_range[name], f"filters.time_range.{name}"))
    return result


def _moment(value: object, field: str) -> datetime:
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value.strip())
        elif isinstance(value, int | float) and not isinstance(value, bool):
            moment = datetime.fromtimestamp(value, UTC)
        else:
            raise _invalid(field, "is a time such as 2023-06-15T08:30:45Z")
    except (ValueError, OverflowError, OSError):
        raise _invalid(field, "is a time such as 2023-06-15T08:30:45Z") from None
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError:
        raise _invalid(field, "is a time between the years 1970 and 9999") from None


def _limit(value: object) -> int:
    if value is None:
        return _DEFAULT_LIMIT
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise _invalid("filters.limit", "is a whole number of at least 1")
    return min(value, _HIGHEST_LIMIT)


def _similarity(value: object) -> float:
    if value is None:
        return _DEFAULT_MIN_SIMILARITY
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        raise _invalid("filters.min_similarity", "is a number from 0 to 1")
    return float(value)


def _priority(payload: Mapping[str, Any]) -> int:
    value = payload.get("priority")
    if value is None:
        return _DEFAULT_PRIORITY
    if not isinstance(value, int) or isinstance(value, bool) or not _LOWEST_PRIORITY <= value <= _HIGHEST_PRIORITY:
        raise _invalid("priority", f"is a whole number from {_LOWEST_PRIORITY} to {_HIGHEST_PRIORITY}")
    return value


def _expiry(ttl: object, at: datetime) -> Timestamp | None:
    if ttl is None:
        return None
    if not isinstance(ttl, int | float) or isinstance(ttl, bool) or ttl <= 0:
        raise _invalid("ttl", "is a number of seconds, more than 0")
    if ttl >= (_LAST_TIME - at).total_seconds():
        raise _invalid("ttl", "ends after the year 9999")
    result = Timestamp()
    result.FromDatetime(at + timedelta(seconds=ttl))
    return result


def _session_id(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    raise _invalid("session_id", "is a text")


def _texts(value: object, field: str) -> list[str]:
    """Read texts, each once; a text alone is a list of one."""
    if value is None:
        return []
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise _invalid(field, "is a list of texts")
    for item in items:
        _must_be_text(item, field)
    return list(dict.fromkeys(item for item in items if item))


def _must_be_text(value: str, field: str) -> None:
    """Refuse half of a surrogate pair, which JSON can say and protobuf cannot."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _invalid(field, "holds half of a surrogate pair, which is no character") from None


def _text(values: Mapping[str, Any], name: str, field: str) -> str:
    value = values.get(name)
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    raise _invalid(field, "is a text")


def _struct(value: dict[str, Any], field: str) -> Struct:
    try:
        return json_format.ParseDict(value, Struct())
    except (json_format.ParseError, ValueError, OverflowError, RecursionError):
        raise _invalid(field, "holds something too deep, too large or not text for a JSON object") from None


def _content(stored: pb.Memory) -> dict[str, Any]:
    content: dict[str, Any] = json_format.MessageToDict(stored.data) if stored.HasField("data") else {}
    if str(content.get("text", "")).strip() != stored.content:
        # The text is the truth: a typed client may have changed it since.
        content["text"] = stored.content
    content.setdefault("text", stored.content)
    content.setdefault("source_agent", stored.source_agent or None)
    if "metadata" not in content:
        content["metadata"] = json_format.MessageToDict(stored.metadata)
    return content


def _id(stored: pb.Memory) -> str:
    return stored.external_id or stored.memory_id


def _time(stored: pb.Memory, field: str) -> str | None:
    if not stored.HasField(field):
        return None
    value: Timestamp = getattr(stored, field)
    return timestamp(value.ToDatetime(tzinfo=UTC))


def _invalid(field: str, rule: str) -> Rejected:
    return Rejected(VALIDATION_ERROR, f"{field} {rule}", field=field)
