"""What the worker asks for: each RPC reads its request, makes one call, and replies."""

from __future__ import annotations

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.call import Context, caller
from skein_kit.ids import now
from skein_kit.wire import time
from skein_memory.parts import Rpcs

DEFAULT_MONTHS_AHEAD = 3


class UpkeepRpcs(Rpcs):
    """Partitions made ahead, and rows past their time removed."""

    async def EnsurePartitions(
        self, request: pb.EnsurePartitionsRequest, context: Context
    ) -> pb.EnsurePartitionsResponse:
        ahead = request.months_ahead or DEFAULT_MONTHS_AHEAD
        created, horizon = await self._parts.months.ensure_ahead(now(), ahead)
        return pb.EnsurePartitionsResponse(created_count=created, horizon_time=time(horizon))

    async def DeleteExpired(self, request: pb.DeleteExpiredRequest, context: Context) -> pb.DeleteExpiredResponse:
        deleted = await self._parts.memories.delete_expired(caller(context).tenant(), now())
        return pb.DeleteExpiredResponse(deleted_count=deleted)

    async def PurgeTenant(self, request: pb.PurgeTenantRequest, context: Context) -> pb.PurgeTenantResponse:
        counts, more = await self._parts.memories.purge_tenant(caller(context).tenant(), request.limit)
        return pb.PurgeTenantResponse(deleted_counts=counts, more=more)
