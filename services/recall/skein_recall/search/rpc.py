"""The RPCs that search: parse, one call, reply."""

from __future__ import annotations

import time

from skein.recall.v1 import recall_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.ids import now
from skein_kit.policies.history import read_as_of_time
from skein_recall.quality.recent_queries import RecentQueries
from skein_recall.receipts.writer import ReceiptRecorder
from skein_recall.search import convert
from skein_recall.search.known_items import KnownItems
from skein_recall.search.searcher import RecallSearcher
from skein_recall.usage.store import SearchCounter


class SearchHandlers:
    """Recall, its search by a stored item, and the check of items that were found."""

    def __init__(
        self,
        searcher: RecallSearcher,
        recent: RecentQueries,
        receipts: ReceiptRecorder,
        known_items: KnownItems,
        counter: SearchCounter,
    ) -> None:
        self._searcher = searcher
        self._recent = recent
        self._receipts = receipts
        self._known_items = known_items
        self._counter = counter

    async def CheckItems(self, request: pb.CheckItemsRequest, context: Context) -> pb.CheckItemsResponse:
        items, reader = convert.known_items(request)
        checked = await self._known_items.check(caller_of(context).require_tenant(), items, reader, now())
        return pb.CheckItemsResponse(items=map(convert.checked_item, checked))

    async def Recall(self, request: pb.RecallRequest, context: Context) -> pb.RecallResponse:
        seconds, started = context.time_remaining(), time.monotonic()
        caller, at = caller_of(context), now()
        tenant_id = caller.require_tenant()
        as_of_time = read_as_of_time(request, at=at)
        zone = await self._searcher.zone_of_days(tenant_id, convert.named_days(request), as_of_time)
        query = convert.recall_query(request, zone, at)
        self._recent.add(tenant_id, query.text)
        policy = await self._receipts.policy_of_receipt(tenant_id)
        result = await self._searcher.recall(tenant_id, query, seconds=seconds, has_receipt=policy is not None)
        response = convert.response(pb.RecallResponse, result)
        if policy is not None:
            self._receipts.record(caller, policy, request, result, response)
        milliseconds = (time.monotonic() - started) * 1000
        self._counter.add(tenant_id, at, milliseconds, is_unanswered=not response.hits)
        return response

    async def FindSimilar(self, request: pb.FindSimilarRequest, context: Context) -> pb.FindSimilarResponse:
        seconds = context.time_remaining()
        tenant_id = caller_of(context).require_tenant()
        as_of_time = read_as_of_time(request, at=now())
        item = await self._searcher.read_reference_item(
            tenant_id, convert.reference(request), as_of_time, seconds=seconds
        )
        zone = await self._searcher.zone_of_days(tenant_id, convert.named_days(request), as_of_time)
        query = convert.similar_query(request, item, zone, as_of_time)
        return convert.response(pb.FindSimilarResponse, await self._searcher.recall(tenant_id, query, seconds=seconds))
