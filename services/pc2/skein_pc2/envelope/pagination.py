"""The filter, order and offset of a `batch_read`. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any

from skein.memory.v1 import memory_pb2 as pb
from skein_pc2.envelope import convert as wire
from skein_pc2.protocol.fields import integer, invalid, mapping, texts

# Most memories that are sorted here, for orders without an index.
MAX_SORTED_MEMORIES = 1000
_MAX_IDS = 1000
_DEFAULT_LIMIT, _MAX_LIMIT = 50, 200
# Rows before a page are read and dropped.
_MAX_OFFSET = 1000
_MAX_REPLY_BYTES = 3 * 1024 * 1024
_DESCENDING = {"desc": True, "descending": True, "asc": False, "ascending": False}
_FIELDS = {
    "created_at": "create_time",
    "updated_at": "update_time",
    "priority": "importance",
}
_INDEXED = frozenset({"create_time desc", "create_time", "update_time desc", "importance desc"})


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchReadQuery:
    """The payload of `batch_read`."""

    memory_ids: list[str]
    filter: pb.MemoryFilter
    limit: int
    offset: int
    column: str
    is_descending: bool

    @classmethod
    def of(cls, payload: Mapping[str, Any], *, session_id: str) -> BatchReadQuery:
        """Read the payload. Memory ids take precedence over limit, offset and order, which clients send as well.

        Raises RequestError.
        """
        filters = mapping(payload.get("filter"), "filter")
        memory_ids = texts(payload.get("memory_ids"), "memory_ids")
        if len(memory_ids) > _MAX_IDS:
            raise invalid("memory_ids", f"are at most {_MAX_IDS}")
        if payload.get("memory_ids") == [] and not filters:
            raise invalid("memory_ids", "names no memory, and there is no filter")
        limit = integer(filters.get("limit"), "filter.limit", default=_DEFAULT_LIMIT, minimum=1)
        offset = integer(filters.get("offset"), "filter.offset", default=0, minimum=0)
        if offset > _MAX_OFFSET:
            rule = f"is at most {_MAX_OFFSET}; narrow the time_range to go further"
            raise invalid("filter.offset", rule)
        column, is_descending = _parse_order(filters.get("sort"))
        return cls(
            memory_ids=memory_ids,
            filter=wire.parse_filter(filters, "filter", session_id=session_id),
            limit=len(memory_ids) or min(limit, _MAX_LIMIT),
            offset=0 if memory_ids else offset,
            column=column,
            is_descending=is_descending,
        )

    @property
    def order_by(self) -> str:
        """The order_by of ListMemories; empty for an order that it lacks."""
        name = f"{self.column} desc" if self.is_descending else self.column
        return name if name in _INDEXED else ""

    def key(self, memory: pb.Memory) -> Any:
        """Return a memory's sort key."""
        return memory.importance if self.column == "importance" else getattr(memory, self.column).ToNanoseconds()


def matches(memory: pb.Memory, condition: pb.MemoryFilter) -> bool:
    """Say whether a memory matches a filter of `wire.parse_filter`."""
    if condition.session_id and memory.session_id != condition.session_id:
        return False
    if condition.types and memory.type not in condition.types:
        return False
    if condition.tags_any and not set(condition.tags_any) & set(memory.tags):
        return False
    create_time = memory.create_time.ToDatetime(tzinfo=UTC)
    if condition.HasField("start_time") and create_time < condition.start_time.ToDatetime(tzinfo=UTC):
        return False
    return not condition.HasField("end_time") or create_time < condition.end_time.ToDatetime(tzinfo=UTC)


def fit_reply(memories: Sequence[pb.Memory]) -> list[pb.Memory]:
    """Return the first memories that fit into one reply, at least one."""
    result: list[pb.Memory] = []
    size = 0
    for memory in memories:
        size += memory.ByteSize()
        if result and size > _MAX_REPLY_BYTES:
            break
        result.append(memory)
    return result


def _parse_order(sort: object) -> tuple[str, bool]:
    if isinstance(sort, str):
        sort = {"field": sort}
    values = mapping(sort, "filter.sort")
    field, order = values.get("field") or "created_at", values.get("order") or "desc"
    if not isinstance(field, str) or field not in _FIELDS:
        raise invalid("filter.sort.field", f"is one of {', '.join(_FIELDS)}")
    if not isinstance(order, str) or order.lower() not in _DESCENDING:
        raise invalid("filter.sort.order", "is asc or desc")
    return _FIELDS[field], _DESCENDING[order.lower()]
