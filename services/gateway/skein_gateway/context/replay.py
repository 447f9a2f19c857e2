"""ReplayContext: the text of a BuildContext made again, from its receipt and the revisions that the text had."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import merge
from typing import Generic, TypeVar

import grpc
from grpc import aio

from skein.gateway.v1 import gateway_pb2 as pb
from skein.memory.v1 import blocks_pb2, blocks_pb2_grpc, curation_pb2_grpc, memory_pb2, memory_pb2_grpc, pages_pb2
from skein.recall.v1 import recall_pb2, recall_pb2_grpc
from skein.session.v1 import session_pb2, session_pb2_grpc
from skein.tenancy.v1 import subjects_pb2, tenancy_pb2_grpc
from skein_gateway.context import convert
from skein_gateway.context.convert import pack_items
from skein_gateway.context.model import VERSION
from skein_gateway.context.recorder import ContextRecorder
from skein_gateway.errors import ReceiptWithoutContext
from skein_gateway.recall.rpc import block_hits, hit_order
from skein_kit import recall_receipts
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.rpc.interceptors import translate_upstream

T = TypeVar("T")
Trusted = TypeVar("Trusted", blocks_pb2.Block, subjects_pb2.Subject)
# Revisions that are read at the same time.
_CONCURRENT_READS = 16


@dataclass(kw_only=True, slots=True)
class _Items(Generic[T]):
    """Pinned items that are still there, in order, and the ids of the others."""

    present: list[T] = field(default_factory=list)
    purged_ids: list[str] = field(default_factory=list)
    # Messages in cold storage.
    archived_ids: list[str] = field(default_factory=list)


class ContextReplayHandler:
    """The ReplayContext RPC."""

    def __init__(
        self,
        recall: recall_pb2_grpc.RecallServiceAsyncStub,
        memories: memory_pb2_grpc.MemoryServiceAsyncStub,
        blocks: blocks_pb2_grpc.BlockServiceAsyncStub,
        sessions: session_pb2_grpc.SessionServiceAsyncStub,
        tenancy: tenancy_pb2_grpc.TenancyServiceAsyncStub,
        curation: curation_pb2_grpc.CurationServiceAsyncStub,
        recorder: ContextRecorder,
    ) -> None:
        """Receipts that wait in `recorder` are stored first."""
        self._recall = recall
        self._memories = memories
        self._blocks = blocks
        self._sessions = sessions
        self._tenancy = tenancy
        self._curation = curation
        self._recorder = recorder

    async def ReplayContext(self, request: pb.ReplayContextRequest, context: Context) -> pb.ReplayContextResponse:
        if self._recorder.is_pending(caller_of(context).require_tenant(), request.receipt_id):
            await self._recorder.flush()
        try:
            receipt, replay = await self._replay_search(request)
        except aio.AioRpcError as error:
            raise translate_upstream(error, service="recall") from None
        response = pb.ReplayContextResponse(
            gaps=replay.gaps, differing_ids=replay.differing_ids, query_unverified=replay.query_unverified
        )
        if receipt.context.inputs_erased:
            if not any(gap.reason == recall_pb2.REPLAY_GAP_REASON_REQUEST_ERASED for gap in replay.gaps):
                response.gaps.add(reason=recall_pb2.REPLAY_GAP_REASON_REQUEST_ERASED)
            return response
        packer = receipt.context.statement.packer
        if packer != VERSION:
            response.gaps.add(reason=recall_pb2.REPLAY_GAP_REASON_PACKER_CHANGED, name=packer)
        query = receipt.query or request.query
        await self._pack(response, replay.response, receipt.context.inputs, query)
        digest = recall_receipts.context_text_digest(receipt.context.salt, response.text)
        response.identical = digest == receipt.context.statement.text_digest
        return response

    async def _replay_search(
        self, request: pb.ReplayContextRequest
    ) -> tuple[recall_pb2.RecallReceipt, recall_pb2.ReplayRecallResponse]:
        """Return the receipt, which recall has verified for the caller, and the replay of its search."""
        receipt_request = recall_pb2.GetRecallReceiptRequest(receipt_id=request.receipt_id)
        receipt = (await self._recall.GetRecallReceipt(receipt_request)).receipt
        if not receipt.HasField("context"):
            raise ReceiptWithoutContext(receipt_id=request.receipt_id)
        replay_request = recall_pb2.ReplayRecallRequest(
            receipt_id=request.receipt_id, query=request.query, embedding=request.embedding
        )
        return receipt, await self._recall.ReplayRecall(replay_request)

    async def _pack(
        self,
        response: pb.ReplayContextResponse,
        search: recall_pb2.RecallResponse,
        inputs: recall_pb2.ContextInputs,
        query: str,
    ) -> None:
        """Pack the text into the response, and add the gaps of what it was packed from beside the search."""
        blocks = await _read(inputs.blocks, self._read_block, service="memory")
        profiles = await _read(
            [inputs.profile] if inputs.HasField("profile") else [], self._read_profile, service="tenancy"
        )
        messages = await _read(convert.message_pins(inputs), self._read_message, service="session")
        options = convert.recorded_pack_options(inputs, query)
        page = await self._read_page(inputs.page) if inputs.HasField("page") else pages_pb2.GetPageResponse()
        named_ids = {sentence.memory_id for section in page.sections for sentence in section.sentences}
        named_ids.update(id_ for gap in response.gaps for id_ in gap.item_ids)
        pins = [recall_pb2.ItemPin(item_id=id_) for id_ in inputs.page.memory_ids if id_ not in named_ids]
        facts = await _read(pins, partial(self._read_fact, inputs.page), service="memory")
        # They are there, but the page leaves them out, as when its history has ended.
        response.differing_ids.extend(
            pin.item_id for pin in pins if pin.item_id not in {*facts.purged_ids, *response.differing_ids}
        )
        for ids, reason in (
            (
                [*blocks.purged_ids, *profiles.purged_ids, *messages.purged_ids, *facts.purged_ids],
                recall_pb2.REPLAY_GAP_REASON_ITEMS_PURGED,
            ),
            (messages.archived_ids, recall_pb2.REPLAY_GAP_REASON_ITEMS_ARCHIVED),
        ):
            if ids:
                response.gaps.add(reason=reason, item_ids=ids)
        hits = list(merge(search.hits, block_hits(blocks.present, query, len(blocks.present)), key=hit_order))[
            : inputs.hit_count
        ]
        recalled = pb.RecallResponse(hits=hits, profile=profiles.present[0] if profiles.present else None)
        items = list(convert.items_of(recalled, messages.present, convert.page_items(page, options)))
        packed = await pack_items(items, options)
        response.text = packed.text
        response.citations.extend(convert.citations(packed.citations, {}))
        response.token_count, response.omitted_count = packed.token_count, packed.omitted_count

    async def _read_block(self, pin: recall_pb2.ItemPin) -> blocks_pb2.Block | None:
        request = blocks_pb2.GetBlockRequest(block_id=pin.item_id, revision=pin.revision)
        block = (await self._blocks.GetBlock(request)).block
        return _with_trust(block, pin) if block.create_time == pin.create_time else None

    async def _read_profile(self, pin: recall_pb2.ItemPin) -> subjects_pb2.Subject | None:
        request = subjects_pb2.GetSubjectRequest(subject_id=pin.item_id, revision=pin.revision)
        subject = (await self._tenancy.GetSubject(request)).subject
        return _with_trust(subject, pin) if subject.create_time == pin.create_time else None

    async def _read_page(self, request: pages_pb2.GetPageRequest) -> pages_pb2.GetPageResponse:
        """Read the profile facts of a text; an empty page when it shows none, or their history has ended."""
        try:
            return await self._curation.GetPage(request)
        except aio.AioRpcError as error:
            if error.code() not in {grpc.StatusCode.NOT_FOUND, grpc.StatusCode.FAILED_PRECONDITION}:
                raise translate_upstream(error, service="memory") from None
            return pages_pb2.GetPageResponse()

    async def _read_fact(self, page: pages_pb2.GetPageRequest, pin: recall_pb2.ItemPin) -> memory_pb2.Memory:
        """Read a profile fact as of a text; an empty memory when its history has ended."""
        request = memory_pb2.GetMemoryRequest(
            memory_id=pin.item_id,
            show_deleted=True,
            as_of_time=page.as_of_time,
        )
        try:
            return (await self._memories.GetMemory(request)).memory
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.FAILED_PRECONDITION:
                raise
            return memory_pb2.Memory()

    async def _read_message(self, pin: recall_pb2.ItemPin) -> session_pb2.Message | None:
        request = session_pb2.GetMessageRequest(message_id=pin.item_id, revision=pin.revision)
        return (await self._sessions.GetMessage(request)).message


def _with_trust(item: Trusted, pin: recall_pb2.ItemPin) -> Trusted:
    """Return a block or profile with the trust that it had."""
    item.ClearField("trust")
    if pin.HasField("trust"):
        item.trust = pin.trust
    return item


async def _read(
    pins: Sequence[recall_pb2.ItemPin],
    read: Callable[[recall_pb2.ItemPin], Awaitable[T | None]],
    *,
    service: str,
) -> _Items[T]:
    """Read pinned items of a service; `read` returns None for another item with the same id."""
    items = _Items[T]()
    for start in range(0, len(pins), _CONCURRENT_READS):
        batch = pins[start : start + _CONCURRENT_READS]
        results = await asyncio.gather(*map(read, batch), return_exceptions=True)
        for pin, result in zip(batch, results, strict=True):
            code = result.code() if isinstance(result, aio.AioRpcError) else None
            if result is None or code is grpc.StatusCode.NOT_FOUND:
                items.purged_ids.append(pin.item_id)
            elif service == "session" and code is grpc.StatusCode.FAILED_PRECONDITION:
                items.archived_ids.append(pin.item_id)
            elif isinstance(result, aio.AioRpcError):
                raise translate_upstream(result, service=service) from None
            elif isinstance(result, BaseException):
                raise result
            else:
                items.present.append(result)
    return items
