"""What the worker asks for: each RPC reads its request, makes one call, and replies."""

from __future__ import annotations

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.calls.call import Context, caller
from skein_kit.ids import add_months, month_start, now
from skein_kit.rpc.well_known_types import to_timestamp
from skein_memory.parts import Rpcs

DEFAULT_MONTHS_AHEAD = 3
# Memories that a call looks at for decay, and those that one transaction does.
DEFAULT_DECAYED = 500
DECAYED_AT_ONCE = 100
# Memories that a call brings up to date.
DEFAULT_REINDEXED = 500


class MaintenanceHandlers(Rpcs):
    """Partitions made ahead, and rows past their time removed."""

    async def EnsurePartitions(
        self, request: pb.EnsurePartitionsRequest, context: Context
    ) -> pb.EnsurePartitionsResponse:
        ahead = request.months_ahead or DEFAULT_MONTHS_AHEAD
        at, kept = now(), self._parts.settings.access_log_months
        created, horizon = await self._parts.months.ensure_ahead(at, ahead)
        if kept:
            await self._parts.access_log.drop_before(add_months(month_start(at), -kept))
        return pb.EnsurePartitionsResponse(created_count=created, horizon_time=to_timestamp(horizon))

    async def DeleteExpired(self, request: pb.DeleteExpiredRequest, context: Context) -> pb.DeleteExpiredResponse:
        who, at = caller(context), now()
        deleted = await self._parts.memories.delete_expired(who.tenant(), at)
        deleted += await self._parts.erasing.erase_expired(who.tenant(), at=at, by=who.principal)
        await self._parts.levels.keep_capacities(who.tenant(), at=at, by=who.principal)
        await self._parts.secrets.keep_wrapped(who.tenant())
        await self._parts.watches.keep_wrapped(who.tenant())
        deleted += await self._parts.deliveries.delete_old(who.tenant(), at)
        deleted += await self._parts.blocks.detach_purged(who.tenant(), at=at, by=who.principal)
        await self._parts.erasure_completer.complete(who.tenant())
        return pb.DeleteExpiredResponse(deleted_count=deleted)

    async def DecayMemories(self, request: pb.DecayMemoriesRequest, context: Context) -> pb.DecayMemoriesResponse:
        who, left, decayed, more = caller(context), request.limit or DEFAULT_DECAYED, 0, True
        while left > 0 and more:
            portion = min(left, DECAYED_AT_ONCE)
            done = await self._parts.curating.decay_portion(who.tenant(), limit=portion, at=now(), by=who.principal)
            decayed, more, left = decayed + done.decayed, done.more, left - portion
        return pb.DecayMemoriesResponse(decayed_count=decayed, more=more)

    async def ReindexMemories(self, request: pb.ReindexMemoriesRequest, context: Context) -> pb.ReindexMemoriesResponse:
        count = request.limit or DEFAULT_REINDEXED
        done, more = await self._parts.outdated.refresh(caller(context).tenant(), at=now(), count=count)
        return pb.ReindexMemoriesResponse(reindexed_count=done, more=more)

    async def ContinueSnapshots(
        self, request: pb.ContinueSnapshotsRequest, context: Context
    ) -> pb.ContinueSnapshotsResponse:
        found, more = await self._parts.snapshots.continue_snapshots(caller(context).tenant())
        return pb.ContinueSnapshotsResponse(more=more, active=found)

    async def PurgeTenant(self, request: pb.PurgeTenantRequest, context: Context) -> pb.PurgeTenantResponse:
        await self._parts.archives.delete_files(caller(context).tenant())
        counts, more = await self._parts.memories.purge_tenant(caller(context).tenant(), request.limit)
        return pb.PurgeTenantResponse(deleted_counts=counts, more=more)
