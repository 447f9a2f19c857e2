"""The RPCs of receipts: parse, one call, reply."""

from __future__ import annotations

import asyncio
from uuid import UUID

from skein.recall.v1 import recall_pb2 as pb
from skein_kit.calls.call import Context, current_call
from skein_kit.calls.call import caller as caller_of
from skein_kit.identity.identity_token import Caller
from skein_kit.identity.space_reach import manages_spaces
from skein_kit.ids import min_id_at
from skein_kit.rpc import pagination
from skein_kit.rpc.well_known_types import read_time
from skein_recall.receipts import convert, difference
from skein_recall.receipts.difference import ReadReceipt
from skein_recall.receipts.reader import ReceiptReader
from skein_recall.receipts.replay import RecallReplayer
from skein_recall.receipts.store import ReceiptStore
from skein_recall.receipts.writer import ReceiptWriter

# Events that explain a difference.
_MAX_CHANGES = 1000
_FIRST_ID, _LAST_ID = UUID(int=0), UUID(int=2**128 - 1)


class ReceiptHandlers:
    """Receipts of the caller's tenant."""

    def __init__(
        self, reader: ReceiptReader, replayer: RecallReplayer, store: ReceiptStore, writer: ReceiptWriter
    ) -> None:
        self._reader = reader
        self._replayer = replayer
        self._store = store
        self._writer = writer

    async def RecordContexts(self, request: pb.RecordContextsRequest, context: Context) -> pb.RecordContextsResponse:
        tenant_id, call = caller_of(context).require_tenant(), current_call()
        if call is not None:
            seconds = asyncio.get_running_loop().time()
            self._writer.add_contexts(
                tenant_id,
                (convert.unsigned_context(record, call, tenant_id, seconds=seconds) for record in request.records),
            )
        return pb.RecordContextsResponse()

    async def GetRecallReceipt(
        self, request: pb.GetRecallReceiptRequest, context: Context
    ) -> pb.GetRecallReceiptResponse:
        caller = caller_of(context)
        signed, content = await self._reader.read(caller, UUID(request.receipt_id))
        return pb.GetRecallReceiptResponse(receipt=convert.receipt(signed, content, has_counts=_sees_counts(caller)))

    async def ListRecallReceipts(
        self, request: pb.ListRecallReceiptsRequest, context: Context
    ) -> pb.ListRecallReceiptsResponse:
        caller, size = caller_of(context), pagination.resolve_page_size(request.page_size)
        tenant_id = caller.require_tenant()
        start, end = read_time(request, "start_time"), read_time(request, "end_time")
        before_id = pagination.read_id(tenant_id, request) or (_LAST_ID if end is None else min_id_at(end))
        from_id = _FIRST_ID if start is None else min_id_at(start)
        receipts = await self._reader.list(caller, request.principal, from_id, before_id, count=size + 1)
        page, next_page_token = pagination.fit_rows(
            receipts,
            lambda receipt: convert.summary(*receipt),
            lambda receipt: [str(receipt[0].receipt_id)],
            request,
            tenant_id,
            size=size,
        )
        return pb.ListRecallReceiptsResponse(receipts=page, next_page_token=next_page_token)

    async def ReplayRecall(self, request: pb.ReplayRecallRequest, context: Context) -> pb.ReplayRecallResponse:
        caller, seconds = caller_of(context), context.time_remaining()
        replay = await self._replayer.replay(
            caller, UUID(request.receipt_id), request.query, request.embedding, seconds=seconds
        )
        return pb.ReplayRecallResponse(
            response=replay.response,
            identical=replay.is_identical,
            gaps=replay.gaps,
            differing_ids=map(str, replay.differing_ids),
            query_unverified=replay.is_query_unverified,
        )

    async def DiffRecall(self, request: pb.DiffRecallRequest, context: Context) -> pb.DiffRecallResponse:
        caller = caller_of(context)
        first, second = [
            ReadReceipt(signed=signed, content=content)
            for receipt_id in (request.receipt_id, request.other_receipt_id)
            for signed, content in [await self._reader.read(caller, UUID(receipt_id))]
        ]
        item_ids = {*convert.item_ids(first.content), *convert.item_ids(second.content)}
        start, beyond = difference.range_between(first, second)
        changes = await self._store.list_changes(
            caller.require_tenant(), sorted(item_ids), start, beyond, count=_MAX_CHANGES + 1
        )
        truncated = len(changes) > _MAX_CHANGES
        response = difference.differences(first, second, changes[:_MAX_CHANGES], truncated=truncated)
        if "corpus" in response.changed_inputs and not _sees_counts(caller):
            response.changed_inputs.remove("corpus")
        return response


def _sees_counts(caller: Caller) -> bool:
    """Return whether a caller may know how many documents the tenant's spaces have."""
    return caller.spaces is None or manages_spaces(caller)
