"""Handlers of the RPCs for conflicts."""

from __future__ import annotations

from skein.memory.v1 import curation_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.errors import PageTokenInvalid
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.ids import now
from skein_kit.policies.history import read_as_of_time
from skein_kit.rpc.pagination import read_id, read_token, resolve_page_size, write_token
from skein_kit.rpc.row_times import ImportTimes
from skein_memory.conflicts import convert
from skein_memory.conflicts.candidate_scan import ConflictFilter
from skein_memory.conflicts.store import ConflictCursor, ConflictStore
from skein_memory.paging import PageBuilder, cut_page

# Batches of candidates that one call for conflicts scans.
_MAX_BATCHES = 5


class ConflictHandlers:
    """Conflicts and their resolutions."""

    def __init__(self, store: ConflictStore, idempotency: IdempotencyStore) -> None:
        self._store = store
        self._idempotency = idempotency

    async def ListConflicts(self, request: pb.ListConflictsRequest, context: Context) -> pb.ListConflictsResponse:
        tenant_id, size, at = caller_of(context).require_tenant(), resolve_page_size(request.page_size), now()
        as_of_time = read_as_of_time(request, at=at)
        token_values = read_token(request.page_token, tenant_id, request)
        cursor = ConflictCursor() if token_values is None else ConflictCursor.of(token_values)
        if cursor is None:
            raise PageTokenInvalid
        conflict_filter = ConflictFilter(all_types=request.all_types, statuses=convert.statuses(request))
        builder = PageBuilder[pb.Conflict]()
        for _ in range(_MAX_BATCHES):
            count = size - len(builder.items)
            batch = await self._store.find_conflicts(
                tenant_id, conflict_filter, cursor, count=count, at=at, as_of_time=as_of_time
            )
            cursor = batch.cursor_after(builder.add(convert.conflict(conflict) for conflict, _ in batch.conflicts))
            if cursor is None or len(builder.items) == size or builder.is_full:
                break
        return pb.ListConflictsResponse(
            conflicts=builder.items,
            next_page_token="" if cursor is None else write_token(cursor.to_token, tenant_id, request),
        )

    async def ResolveConflict(self, request: pb.ResolveConflictRequest, context: Context) -> pb.ResolveConflictResponse:
        caller, at = caller_of(context), now()
        draft = convert.resolution_draft(request, ImportTimes.read(request, caller, at, keep_times=request.keep_times))

        async with self._idempotency.begin(caller, request) as write:
            resolution = await self._store.resolve_conflict(
                write.tx, caller.require_tenant(), draft, at=at, by=caller.principal
            )
            return await write.save(pb.ResolveConflictResponse(resolution=convert.resolution(resolution)))

    async def ListConflictResolutions(
        self, request: pb.ListConflictResolutionsRequest, context: Context
    ) -> pb.ListConflictResolutionsResponse:
        tenant_id, size = caller_of(context).require_tenant(), resolve_page_size(request.page_size)
        resolutions = await self._store.list_resolutions(
            tenant_id,
            convert.STATUSES.get(request.status),
            before=read_id(tenant_id, request),
            count=size + 1,
            at=now(),
        )
        page, token = cut_page(map(convert.resolution, resolutions), size, "resolution_id", tenant_id, request)
        return pb.ListConflictResolutionsResponse(resolutions=page, next_page_token=token)
