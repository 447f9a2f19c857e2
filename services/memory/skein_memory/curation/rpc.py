"""Curation: each RPC reads its request, makes one call, and replies."""

from __future__ import annotations

from datetime import timedelta

from skein.memory.v1 import curation_pb2 as pb
from skein_kit.calls.call import Context, caller
from skein_kit.errors import FieldInvalid, PageTokenInvalid
from skein_kit.idempotency.store import IdempotencyKey
from skein_kit.ids import EPOCH, now
from skein_kit.rpc.pagination import fit_items, read_token, resolve_page_size, write_token
from skein_kit.rpc.row_times import ImportTimes
from skein_kit.rpc.well_known_types import read_time
from skein_memory.aliases.model import Alias, AliasDraft
from skein_memory.conflicts.model import STATUSES, Resolution, ResolutionDraft, statuses_of
from skein_memory.conflicts.pairs import ConflictFilter
from skein_memory.conflicts.store import ConflictCursor
from skein_memory.curation import convert as curation_wire
from skein_memory.page_builder import PageBuilder
from skein_memory.page_token import read_id_cursor
from skein_memory.parts import Rpcs
from skein_memory.source_trust.model import SourceTrust, TrustDraft, key_of

_DEFAULT_REVIEWED = 20
_DEFAULT_TOP = 20
_DEFAULT_SPAN = timedelta(days=7)
# Portions of candidates that one call for conflicts looks at.
_PORTIONS = 5


class CurationRpcs(Rpcs):
    """Trust in sources, conflicts, aliases, and looking over what there is."""

    async def SetSourceTrust(self, request: pb.SetSourceTrustRequest, context: Context) -> pb.SetSourceTrustResponse:
        who, at = caller(context), now()
        draft = TrustDraft.of(request, ImportTimes.of(request, who, at, keep_times=request.keep_times))

        def respond(trust: SourceTrust) -> pb.SetSourceTrustResponse:
            return pb.SetSourceTrustResponse(source_trust=curation_wire.source_trust(trust))

        stored = await self._parts.source_trust.set_source_trust(
            who.tenant(), IdempotencyKey.of(who, request), draft, respond, at=at, by=who.principal
        )
        return pb.SetSourceTrustResponse.FromString(stored) if isinstance(stored, bytes) else stored

    async def GetSourceTrust(self, request: pb.GetSourceTrustRequest, context: Context) -> pb.GetSourceTrustResponse:
        found = await self._parts.source_trust.get_source_trust(caller(context).tenant(), key_of(request.source))
        return pb.GetSourceTrustResponse(source_trust=curation_wire.source_trust(found))

    async def ListSourceTrust(self, request: pb.ListSourceTrustRequest, context: Context) -> pb.ListSourceTrustResponse:
        tenant_id, size = caller(context).tenant(), resolve_page_size(request.page_size)
        place = read_token(request.page_token, tenant_id, request) or [""]
        found = await self._parts.source_trust.list_source_trust(tenant_id, after=place[0], count=size + 1)
        page = fit_items(curation_wire.source_trust(trust) for trust in found[:size])
        token = write_token([page[-1].source_key], tenant_id, request) if len(found) > len(page) else ""
        return pb.ListSourceTrustResponse(source_trust=page, next_page_token=token)

    async def DeleteSourceTrust(
        self, request: pb.DeleteSourceTrustRequest, context: Context
    ) -> pb.DeleteSourceTrustResponse:
        who, at, response = caller(context), now(), pb.DeleteSourceTrustResponse()
        await self._parts.source_trust.delete_source_trust(
            who.tenant(), IdempotencyKey.of(who, request), key_of(request.source), response, at=at, by=who.principal
        )
        return response

    async def ListConflicts(self, request: pb.ListConflictsRequest, context: Context) -> pb.ListConflictsResponse:
        tenant_id, size, at = caller(context).tenant(), resolve_page_size(request.page_size), now()
        words = read_token(request.page_token, tenant_id, request)
        portion = ConflictCursor() if words is None else ConflictCursor.of(words)
        if portion is None:
            raise PageTokenInvalid
        question = ConflictFilter(all_types=request.all_types, statuses=statuses_of(request))
        answer = PageBuilder[pb.Conflict]()
        for _ in range(_PORTIONS):
            count = size - len(answer.items)
            found = await self._parts.conflicts.find_conflicts(tenant_id, question, portion, count=count, at=at)
            portion = found.behind(answer.take(curation_wire.conflict(one) for one, _ in found.conflicts))
            if portion is None or len(answer.items) == size or answer.is_full:
                break
        return pb.ListConflictsResponse(
            conflicts=answer.items,
            next_page_token="" if portion is None else write_token(portion.words, tenant_id, request),
        )

    async def ResolveConflict(self, request: pb.ResolveConflictRequest, context: Context) -> pb.ResolveConflictResponse:
        who, at = caller(context), now()
        draft = ResolutionDraft.of(request, ImportTimes.of(request, who, at, keep_times=request.keep_times))

        def respond(resolution: Resolution) -> pb.ResolveConflictResponse:
            return pb.ResolveConflictResponse(resolution=curation_wire.resolution(resolution))

        stored = await self._parts.conflicts.resolve_conflict(
            who.tenant(), IdempotencyKey.of(who, request), draft, respond, at=at, by=who.principal
        )
        return pb.ResolveConflictResponse.FromString(stored) if isinstance(stored, bytes) else stored

    async def ListConflictResolutions(
        self, request: pb.ListConflictResolutionsRequest, context: Context
    ) -> pb.ListConflictResolutionsResponse:
        tenant_id, size = caller(context).tenant(), resolve_page_size(request.page_size)
        found = await self._parts.conflicts.list_resolutions(
            tenant_id, STATUSES.get(request.status), before=read_id_cursor(request, tenant_id), count=size + 1, at=now()
        )
        page = fit_items(curation_wire.resolution(resolution) for resolution in found[:size])
        token = write_token([page[-1].resolution_id], tenant_id, request) if len(found) > len(page) else ""
        return pb.ListConflictResolutionsResponse(resolutions=page, next_page_token=token)

    async def ResolveEntity(self, request: pb.ResolveEntityRequest, context: Context) -> pb.ResolveEntityResponse:
        who, at = caller(context), now()
        draft = AliasDraft.of(request, ImportTimes.of(request, who, at, keep_times=request.keep_times))

        def respond(alias: Alias, moved: int) -> pb.ResolveEntityResponse:
            return pb.ResolveEntityResponse(alias=curation_wire.alias(alias), moved_count=moved)

        stored = await self._parts.aliases.resolve_entity(
            who.tenant(), IdempotencyKey.of(who, request), draft, respond, at=at, by=who.principal
        )
        return pb.ResolveEntityResponse.FromString(stored) if isinstance(stored, bytes) else stored

    async def GetCanonical(self, request: pb.GetCanonicalRequest, context: Context) -> pb.GetCanonicalResponse:
        canonical_id, alias = await self._parts.aliases.get_canonical(
            caller(context).tenant(), request.memory_id, at=now()
        )
        return pb.GetCanonicalResponse(
            canonical_memory_id=str(canonical_id), alias=None if alias is None else curation_wire.alias(alias)
        )

    async def ListAliases(self, request: pb.ListAliasesRequest, context: Context) -> pb.ListAliasesResponse:
        tenant_id, size = caller(context).tenant(), resolve_page_size(request.page_size)
        found = await self._parts.aliases.list_aliases(
            tenant_id, request.memory_id, after=read_id_cursor(request, tenant_id), count=size + 1, at=now()
        )
        page = fit_items(curation_wire.alias(alias) for alias in found[:size])
        token = write_token([page[-1].alias_memory_id], tenant_id, request) if len(found) > len(page) else ""
        return pb.ListAliasesResponse(aliases=page, next_page_token=token)

    async def RemoveAlias(self, request: pb.RemoveAliasRequest, context: Context) -> pb.RemoveAliasResponse:
        who, at, response = caller(context), now(), pb.RemoveAliasResponse()
        await self._parts.aliases.remove_alias(
            who.tenant(), IdempotencyKey.of(who, request), request.alias_memory_id, response, at=at, by=who.principal
        )
        return response

    async def GetReviewQueue(self, request: pb.GetReviewQueueRequest, context: Context) -> pb.GetReviewQueueResponse:
        limit = request.limit or _DEFAULT_REVIEWED
        found = await self._parts.overview.review(caller(context).tenant(), limit=limit, at=now())
        return pb.GetReviewQueueResponse(items=fit_items(curation_wire.review_item(item) for item in found))

    async def GetTemporalClusters(
        self, request: pb.GetTemporalClustersRequest, context: Context
    ) -> pb.GetTemporalClustersResponse:
        unit, at = _UNITS.get(request.unit, "day"), now()
        end = read_time(request, "end_time") or at
        start = read_time(request, "start_time") or max(EPOCH, end - _DEFAULT_SPAN)
        if end < start:
            raise FieldInvalid(violations=[("end_time", "lies before start_time")])
        found, truncated = await self._parts.overview.clusters(
            caller(context).tenant(), unit, start=start, end=end, at=at
        )
        return pb.GetTemporalClustersResponse(
            clusters=[curation_wire.cluster(one) for one in found], truncated=truncated
        )

    async def GetStatistics(self, request: pb.GetStatisticsRequest, context: Context) -> pb.GetStatisticsResponse:
        found = await self._parts.overview.statistics(
            caller(context).tenant(), top=request.top or _DEFAULT_TOP, at=now()
        )
        return curation_wire.statistics(found)


_UNITS = {
    pb.CLUSTER_UNIT_HOUR: "hour",
    pb.CLUSTER_UNIT_DAY: "day",
    pb.CLUSTER_UNIT_WEEK: "week",
}
