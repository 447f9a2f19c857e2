"""BuildContext: the hits of a recall and the recent window of a session, packed into one text with citations."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any

import grpc
from grpc import aio

from skein.gateway.v1 import gateway_pb2 as pb
from skein.memory.v1 import curation_pb2, curation_pb2_grpc, pages_pb2
from skein.session.v1 import session_pb2, session_pb2_grpc
from skein_gateway.context import convert, ledger_messages
from skein_gateway.context.convert import MAX_LINEAGES, Origins, origins_of, pack_items
from skein_gateway.context.model import MIN_PAGE_BUDGET, Citation, Item, ItemKind, PackOptions
from skein_gateway.context.recorder import ContextRecorder
from skein_gateway.context.turns import LedgerTurns
from skein_gateway.recall.rpc import (
    BranchOutcome,
    BranchResult,
    RecallHandler,
    RecallResult,
    as_of_time,
    both,
    branch_timeout_seconds,
    call_branch,
    enforce_partial_policy,
    item_filter,
    may_call,
    subject_of,
)
from skein_kit.calls.call import Context, named_space
from skein_kit.calls.call import caller as caller_of
from skein_kit.errors import FieldInvalid
from skein_kit.identity.permissions import ACCESS_RULES
from skein_kit.ids import now
from skein_kit.policies.history import read_as_of_time
from skein_kit.search_text.list_questions import asks_for_all
from skein_kit.text.source_keys import NEUTRAL_TRUST
from skein_kit.text.token_estimate import DEFAULT_BUDGET

# Hits that the packer chooses from, and where the query asks for all of something.
DEFAULT_LIMIT, LIST_LIMIT = 30, 60
# Most messages of the recent window.
MAX_RECENT = 200
_WINDOW = ACCESS_RULES["/skein.session.v1.SessionService/GetRecentWindow"]


class ContextHandler:
    """The BuildContext RPC."""

    def __init__(
        self,
        recall: RecallHandler,
        sessions: session_pb2_grpc.SessionServiceAsyncStub,
        curation: curation_pb2_grpc.CurationServiceAsyncStub,
        recorder: ContextRecorder,
        turns: LedgerTurns,
        *,
        lineage_seconds: float,
    ) -> None:
        """Recall through `recall`; read recent windows from `sessions`, and lineages from `curation` in this time.

        `recorder` has the receipts of texts stored; `turns` makes the texts of ledgers.
        """
        self._recall = recall
        self._sessions = sessions
        self._curation = curation
        self._recorder = recorder
        self._turns = turns
        self._lineage_seconds = lineage_seconds

    async def BuildContext(self, request: pb.BuildContextRequest, context: Context) -> pb.BuildContextResponse:
        read_as_of_time(request.recall, at=now(), within="recall.")
        recall_request = pb.RecallRequest()
        recall_request.CopyFrom(request.recall)
        few_or_many = LIST_LIMIT if asks_for_all(request.recall.query) else DEFAULT_LIMIT
        recall_request.limit = request.recall.limit or few_or_many
        recall_request.show_superseded = False
        # Packing finds duplicates of all branches, near ones too.
        recall_request.show_duplicates = True
        extra_branches = []
        if request.session_id:
            _WINDOW.check_reach(caller_of(context), named_space())
            extra_branches.append(partial(self._window, request))
        if _has_page(request) and may_call(caller_of(context), pb.BRANCH_PAGE):
            extra_branches.append(partial(self._page, recall_request))
        search = self._recall.call_branches(recall_request, context, *extra_branches)
        if request.ledger_id:
            return await self._turn(request, recall_request, search, context)
        result = await search
        enforce_partial_policy(result.outcomes, recall_request.on_partial)
        response = result.response(recall_request.limit)
        recent = result.recent
        options = convert.pack_options(request)
        page = _page_items(result, options)
        packed = await pack_items(list(convert.items_of(response, recent, page)), options)
        if response.receipt_id:
            inputs = convert.context_inputs(request, options, response, recent, _page_request(result, page))
            self._recorder.record(
                response.receipt_id, packed, inputs, subject_ids=convert.subjects_of(inputs, response, recent)
            )
        origins = await self._origins(request, packed.citations, context) if request.cite_origins else {}
        answer = _answer(response)
        answer.text, answer.token_count, answer.omitted_count = packed.text, packed.token_count, packed.omitted_count
        answer.citations.extend(convert.citations(packed.citations, origins))
        return answer

    async def _turn(
        self,
        request: pb.BuildContextRequest,
        recall_request: pb.RecallRequest,
        search: Coroutine[Any, Any, RecallResult],
        context: Context,
    ) -> pb.BuildContextResponse:
        """Answer a turn of a ledger, which is read while `search` runs."""
        if request.recall.HasField("as_of_time"):
            search.close()
            raise FieldInvalid(violations=[("ledger_id", "must be empty with recall.as_of_time")])
        seconds = branch_timeout_seconds(context.time_remaining(), self._lineage_seconds)
        result, known = await both(search, self._turns.read(request, seconds=seconds))
        enforce_partial_policy(result.outcomes, recall_request.on_partial)
        response = result.response(recall_request.limit)
        # The prompt has no message that waits for approval: it may be refused.
        recent = [message for message in result.recent if not message.pending_approval]
        page = _page_items(result, convert.pack_options(request))
        candidates = list(convert.items_of(response, recent, page))
        turn = await self._turns.make(request, known, result, candidates, context, seconds=seconds)
        origins = await self._origins(request, turn.citations, context) if request.cite_origins else {}
        answer = _answer(response)
        answer.text, answer.token_count, answer.omitted_count = turn.text, turn.token_count, turn.omitted_count
        answer.citations.extend(convert.citations(turn.citations, origins))
        ledger_messages.write_turn(answer, turn)
        return answer

    async def _origins(
        self, request: pb.BuildContextRequest, citations: Sequence[Citation], context: Context
    ) -> dict[str, Origins]:
        """Return where the chains of the cited memories end; of lineages that cannot be read, that they are missing."""
        memory_ids = [one.item.item_id for one in citations if one.item.kind is ItemKind.MEMORY]
        origins: dict[str, Origins] = {}
        reader = item_filter(request.recall)
        for start in range(0, len(memory_ids), MAX_LINEAGES):
            batch = memory_ids[start : start + MAX_LINEAGES]
            lineage_request = curation_pb2.GetLineageRequest(
                memory_ids=batch,
                visible_to=None if reader is None else reader.visible_to,
                as_of_time=as_of_time(request.recall),
            )
            seconds = branch_timeout_seconds(context.time_remaining(), self._lineage_seconds)
            try:
                timed = await call_branch(self._curation.GetLineage(lineage_request, timeout=seconds))
            except aio.AioRpcError as error:
                # A memory that was deleted after the search has no lineage any more.
                if error.code() is not grpc.StatusCode.NOT_FOUND:
                    raise
                origins |= dict.fromkeys(batch, Origins(is_truncated=True))
                continue
            if timed.response is None:
                origins |= dict.fromkeys(batch, Origins(is_truncated=True))
            else:
                origins |= origins_of(timed.response, batch)
        return origins

    async def _window(self, request: pb.BuildContextRequest, branch_seconds: float) -> BranchResult:
        half = max(1, (request.token_budget or DEFAULT_BUDGET) // 2)
        window_request = session_pb2.GetRecentWindowRequest(
            session_id=request.session_id, token_budget=half, as_of_time=as_of_time(request.recall)
        )
        timed = await call_branch(self._sessions.GetRecentWindow(window_request, timeout=branch_seconds))
        if timed.response is None:
            return BranchResult(outcomes=(BranchOutcome.failed(pb.BRANCH_WINDOW, timed),))
        subject_id = subject_of(request.recall)
        # A conversation of several people: those of another one are not this person's.
        messages = [one for one in timed.response.messages if not subject_id or one.subject_id in {"", subject_id}]
        recent = messages[-MAX_RECENT:]
        outcome = BranchOutcome(
            branch=pb.BRANCH_WINDOW, state=pb.BRANCH_STATE_OK, seconds=timed.seconds, hit_count=len(recent)
        )
        return BranchResult(outcomes=(outcome,), recent=recent)

    async def _page(self, recall: pb.RecallRequest, branch_seconds: float) -> BranchResult:
        """Read the stable facts of the subject's profile page, of which there need be none."""
        reader = item_filter(recall)
        page_request = pages_pb2.GetPageRequest(
            page_id=f"subject:{subject_of(recall)}",
            visible_to=None if reader is None else reader.visible_to,
            as_of_time=as_of_time(recall),
            brief=True,
        )
        try:
            timed = await call_branch(self._curation.GetPage(page_request, timeout=branch_seconds))
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
            return BranchResult(outcomes=(BranchOutcome(branch=pb.BRANCH_PAGE, state=pb.BRANCH_STATE_OK),))
        if timed.response is None:
            return BranchResult(outcomes=(BranchOutcome.failed(pb.BRANCH_PAGE, timed),))
        if not page_request.HasField("as_of_time"):
            page_request.as_of_time.FromDatetime(now())
        count = sum(len(section.sentences) for section in timed.response.sections)
        outcome = BranchOutcome(branch=pb.BRANCH_PAGE, state=pb.BRANCH_STATE_OK, seconds=timed.seconds, hit_count=count)
        return BranchResult(outcomes=(outcome,), page=timed.response, page_request=page_request)


def _has_page(request: pb.BuildContextRequest) -> bool:
    """Tell whether profile facts belong into a text: the request is about a person, and wants no other memories."""
    recall = request.recall
    return (
        bool(subject_of(recall))
        and not request.omit_profile_facts
        and (request.token_budget or DEFAULT_BUDGET) >= MIN_PAGE_BUDGET
        and (not recall.branches or pb.BRANCH_MEMORIES in recall.branches)
        and recall.min_trust <= NEUTRAL_TRUST
        and all(field.name == "visible_to" for field, _ in recall.filter.ListFields())
    )


def _page_items(result: RecallResult, options: PackOptions) -> list[Item]:
    found = result.page_result
    return [] if found is None or found.page is None else convert.page_items(found.page, options)


def _page_request(result: RecallResult, page: Sequence[Item]) -> pages_pb2.GetPageRequest | None:
    """Return the request that reads the facts of a text again; None without any."""
    found = result.page_result
    if not page or found is None or found.page_request is None:
        return None
    found.page_request.memory_ids.extend(item.item_id for item in page)
    return found.page_request


def _answer(response: pb.RecallResponse) -> pb.BuildContextResponse:
    """Return what an answer says of its search."""
    return pb.BuildContextResponse(
        branches=response.branches,
        incomplete=response.incomplete,
        model=response.model,
        emptied_by=response.emptied_by,
        formula=response.formula,
        nothing_relevant=response.nothing_relevant,
        pending_embedding_count=response.pending_embedding_count,
        purged_count=response.purged_count,
        receipt_id=response.receipt_id,
        asks_for_all=response.asks_for_all,
    )
