"""The memory scheduler's actions on port 7140: decay, promotion through tiers, archiving, counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import grpc
from google.protobuf.field_mask_pb2 import FieldMask
from grpc import aio

from skein.memory.v1 import curation_pb2
from skein.memory.v1 import memory_pb2 as pb
from skein_pc2.gateway_api.client import GatewayApi
from skein_pc2.memory_service import convert as records
from skein_pc2.memory_service import links, search_filters
from skein_pc2.protocol import fields
from skein_pc2.protocol.actions import ActionRequest
from skein_pc2.protocol.errors import MEMORY_NOT_FOUND, STORAGE_ERROR, RequestError
from skein_pc2.protocol.frames import Message

# Share of its importance that a memory loses per day without use.
_DAILY_LOSS = {"short": 0.1, "medium": 0.05, "long": 0.01}
# The next tier, and the importance below which a memory moves there.
_NEXT_TIER = {"short": (pb.LEVEL_OPERATIONAL, 0.4), "medium": (pb.LEVEL_STRATEGIC, 0.2)}
_DAY = timedelta(days=1)
# Shorter idle times are not written.
_MIN_IDLE = timedelta(hours=1)
_DEFAULT_LIMIT, _MAX_LIMIT = 1000, 1000
_DEFAULT_MIN_AGE_HOURS, _DEFAULT_MAX_IMPORTANCE = 24, 0.5
_DEFAULT_CLEANUP_AGE_DAYS, _DEFAULT_CLEANUP_IMPORTANCE = 90, 0.1
_MAX_AGE = timedelta(days=36_500)
_MAX_ATTEMPTS = 5

Change = tuple[pb.Memory, list[str]]


class Lifecycle:
    """The actions of the memory scheduler."""

    def __init__(self, api: GatewayApi) -> None:
        self._api = api

    async def list_decaying(self, request: ActionRequest) -> Message:
        """List memories that may decay: all except those of the long tier, oldest first."""
        levels = [name for tier in _NEXT_TIER for name in records.level_names(tier)]
        return await self._list(request, pb.MemoryFilter(where=search_filters.one_of("level", levels)))

    async def list_for_consolidation(self, request: ActionRequest) -> Message:
        """List memories of a tier that are old and unimportant enough for the next tier."""
        tier = request.fields.get("memory_tier")
        condition = pb.MemoryFilter(
            where=search_filters.one_of("level", records.level_names("short" if tier is None else tier)),
            max_importance=_parse_max_importance(request, _DEFAULT_MAX_IMPORTANCE),
        )
        condition.end_time.FromDatetime(
            _latest_create_time(request, "min_age_hours", timedelta(hours=1), _DEFAULT_MIN_AGE_HOURS)
        )
        return await self._list(request, condition)

    async def list_for_cleanup(self, request: ActionRequest) -> Message:
        """List memories that are old and unimportant enough to be archived."""
        condition = pb.MemoryFilter(max_importance=_parse_max_importance(request, _DEFAULT_CLEANUP_IMPORTANCE))
        condition.end_time.FromDatetime(_latest_create_time(request, "min_age_days", _DAY, _DEFAULT_CLEANUP_AGE_DAYS))
        return await self._list(request, condition)

    async def decay(self, request: ActionRequest) -> Message:
        """Lower a memory's importance by the days since its last use; below a bound it moves to the next tier."""
        at = datetime.now(UTC)
        before, after = await self._update_with_retry(request, lambda memory: _apply_decay(memory, at))
        return {
            **_to_summary(after),
            "decayed": after.importance != before.importance,
            "old_importance": before.importance,
            "new_importance": after.importance,
        }

    async def consolidate(self, request: ActionRequest) -> Message:
        """Move a memory to the next tier, if there is one."""
        before, after = await self._update_with_retry(request, _promote_tier)
        return {**_to_summary(after), "consolidated": after.level != before.level}

    async def archive(self, request: ActionRequest) -> Message:
        """Archive a memory: lists and searches exclude it, reads by id do not."""
        at = datetime.now(UTC)

        def change(memory: pb.Memory) -> Change:
            if memory.HasField("archive_time"):
                return memory, []
            memory.archive_time.FromDatetime(at)
            return memory, ["archive_time"]

        _, after = await self._update_with_retry(request, change)
        return {**_to_summary(after), "archived": True}

    async def status(self, request: ActionRequest) -> Message:
        """Count memories: exactly, and by tier among the newest that the service samples."""
        call = curation_pb2.GetStatisticsRequest()
        statistics = await self._api.call(self._api.curation.GetStatistics, call, request)
        tiers = dict.fromkeys(_DAILY_LOSS, 0)
        for level, count in statistics.level_counts.items():
            tiers[records.tier(pb.Memory(level=f"LEVEL_{level.upper()}"))] += count
        status = {
            "total_memories": statistics.memory_count,
            "memory_by_tier": tiers,
            # pc2 sees neither the database nor its cache.
            "db_size_mb": 0.0,
            "cache_hit_rate": 0.0,
            "issues": [],
            "timestamp": datetime.now(UTC).timestamp(),
        }
        return {"system_status": status, **({"truncated": True} if statistics.memories_truncated else {})}

    async def _list(self, request: ActionRequest, condition: pb.MemoryFilter) -> Message:
        """List memories oldest first, so that a truncated list has the oldest."""
        limit = min(_MAX_LIMIT, fields.integer(request.fields.get("limit"), "limit", default=_DEFAULT_LIMIT, minimum=1))
        memories, has_more = await links.list_memories(
            self._api, request, condition, order_by="create_time", limit=limit + 1
        )
        if has_more and len(memories) < limit:
            # The oldest are mostly of the long tier, and a scan is bounded; the short tier is among the newest.
            newest, _ = await links.list_memories(
                self._api, request, condition, order_by="create_time desc", limit=limit - len(memories)
            )
            listed_ids = {memory.memory_id for memory in memories}
            memories += [memory for memory in reversed(newest) if memory.memory_id not in listed_ids]
        shown_memories = links.fit_reply(memories, limit)
        memory_records = [records.to_record(memory) for memory in shown_memories]
        return links.list_reply(memory_records, "results", is_truncated=has_more or len(shown_memories) < len(memories))

    async def _update_with_retry(
        self, request: ActionRequest, change: Callable[[pb.Memory], Change]
    ) -> tuple[pb.Memory, pb.Memory]:
        """Change a memory depending on its state; return it before and after. Concurrent changes are retried."""
        memory_id = fields.required_text(request.fields, "memory_id")
        for attempt in range(1, _MAX_ATTEMPTS + 1):
            before = await links.read_memory(self._api, request, memory_id)
            if before is None:
                raise RequestError(MEMORY_NOT_FOUND, "There is no memory of this id")
            copy = pb.Memory()
            copy.CopyFrom(before)
            after, mask = change(copy)
            if not mask:
                return before, before
            try:
                return before, await self._update(request, after, mask)
            except aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.ABORTED or attempt == _MAX_ATTEMPTS:
                    raise
        raise RequestError(STORAGE_ERROR, "The memory changes all the time; try again soon")

    async def _update(self, request: ActionRequest, memory: pb.Memory, mask: Sequence[str]) -> pb.Memory:
        call = pb.UpdateMemoryRequest(memory=memory, update_mask=FieldMask(paths=mask), defer_embedding=True)
        return (await self._api.call(self._api.memories.UpdateMemory, call, request)).memory


def _apply_decay(memory: pb.Memory, at: datetime) -> Change:
    """Lower a memory's importance by its tier's daily loss, since its last use, its last change or its creation."""
    tier = records.tier(memory)
    idle = at - _last_use(memory)
    mask = []
    if idle >= _MIN_IDLE:
        memory.importance = max(0.0, memory.importance * (1 - _DAILY_LOSS[tier] * (idle / _DAY)))
        mask.append("importance")
    level, bound = _NEXT_TIER.get(tier, (memory.level, 0.0))
    if memory.importance < bound:
        memory.level = level
        mask.append("level")
    return memory, mask


def _promote_tier(memory: pb.Memory) -> Change:
    level, _ = _NEXT_TIER.get(records.tier(memory), (memory.level, 0.0))
    if level == memory.level:
        return memory, []
    memory.level = level
    return memory, ["level"]


def _last_use(memory: pb.Memory) -> datetime:
    """Return when a memory was used, changed or created last; an import keeps the time of its creation."""
    # A decay is an update itself, so its loss is not counted twice.
    times = [memory.create_time if memory.revision == 1 else memory.update_time]
    if memory.HasField("last_access_time"):
        times.append(memory.last_access_time)
    return max(time.ToDatetime(tzinfo=UTC) for time in times)


def _to_summary(memory: pb.Memory) -> Message:
    return {
        "memory_id": records.name(memory),
        "importance": memory.importance,
        "memory_tier": records.tier(memory),
    }


def _parse_max_importance(request: ActionRequest, default: float) -> float:
    return records.parse_number(
        request.fields.get("max_importance"), "max_importance", default=default, minimum=0, maximum=1
    )


def _latest_create_time(request: ActionRequest, name: str, unit: timedelta, default: float) -> datetime:
    """Return the latest creation time of a memory that is old enough."""
    age = records.parse_number(request.fields.get(name), name, default=default, minimum=0, maximum=_MAX_AGE / unit)
    return datetime.now(UTC) - age * unit
