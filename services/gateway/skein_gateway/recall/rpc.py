"""Recall: calls all branches concurrently, each with a timeout, and merges their best hits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from heapq import merge
from typing import Any, Generic, TypeVar

import grpc
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from grpc import aio
from prometheus_client import Counter

from skein.gateway.v1 import gateway_pb2 as pb
from skein.memory.v1 import blocks_pb2, blocks_pb2_grpc, memory_pb2, pages_pb2
from skein.recall.v1 import recall_pb2, recall_pb2_grpc
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import subjects_pb2, tenancy_pb2_grpc
from skein_gateway.errors import RecallIncomplete, RecallTimedOut
from skein_gateway.recall.text_match import rank_texts, terms_of
from skein_kit.calls.call import Context, named_space
from skein_kit.calls.call import caller as caller_of
from skein_kit.errors import PermissionMissing, SpacesUnsupported
from skein_kit.identity.identity_token import Caller
from skein_kit.identity.permissions import ACCESS_RULES
from skein_kit.ids import now
from skein_kit.policies.history import read_as_of_time
from skein_kit.rpc.interceptors import translate_upstream
from skein_kit.rpc.pagination import fit_items
from skein_kit.rpc.well_known_types import read_time
from skein_kit.search_text.list_questions import asks_for_all
from skein_kit.text.source_keys import NEUTRAL_TRUST

BRANCHES = Counter(
    "skein_gateway_search_branches_total", "Search branches of recalls, by outcome.", ["branch", "state"]
)
Response = TypeVar("Response")
Other = TypeVar("Other")
# Reserved from the caller's time for merging: this share, and at most these seconds.
_MARGIN_SHARE = 0.1
_MARGIN_SECONDS = 0.25
# Faults of one branch, which leave a partial result. Any other code is the caller's error and fails the call.
_FAULTS = frozenset(
    {
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.DATA_LOSS,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.UNKNOWN,
    }
)
# Access rules of the RPCs behind these branches.
_RULES = {
    pb.BRANCH_BLOCKS: ACCESS_RULES["/skein.memory.v1.BlockService/ListAgentBlocks"],
    pb.BRANCH_PROFILE: ACCESS_RULES["/skein.tenancy.v1.TenancyService/GetSubject"],
    pb.BRANCH_PAGE: ACCESS_RULES["/skein.memory.v1.CurationService/GetPage"],
}
_SERVICES = {
    pb.BRANCH_BLOCKS: "memory",
    pb.BRANCH_PROFILE: "tenancy",
    pb.BRANCH_WINDOW: "session",
    pb.BRANCH_PAGE: "memory",
}
# Hits without a limit, and where the query asks for all of something.
DEFAULT_LIMIT, LIST_LIMIT = 10, 25
# Most blocks that one agent can see: about one subject and about none.
MAX_BLOCKS = 200
# Longer texts are matched in a thread, because they would block the event loop.
MAX_INLINE_CHARACTERS = 100_000
_KINDS = {pb.BRANCH_MEMORIES: recall_pb2.ITEM_KIND_MEMORY, pb.BRANCH_MESSAGES: recall_pb2.ITEM_KIND_MESSAGE}


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedResponse(Generic[Response]):
    """The response of a branch's call, or its fault, with the duration."""

    seconds: float
    response: Response | None = None
    fault: aio.AioRpcError | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class BranchOutcome:
    """The outcome of one branch."""

    branch: pb.Branch
    state: pb.BranchState
    seconds: float = 0.0
    hit_count: int = 0
    unembedded_count: int = 0
    filter_emptied: bool = False
    filter_truncated: bool = False
    fault: aio.AioRpcError | None = None

    @classmethod
    def skipped(cls, branch: pb.Branch) -> BranchOutcome:
        """Return the outcome of a branch that does not apply to the request."""
        return cls(branch=branch, state=pb.BRANCH_STATE_SKIPPED)

    @classmethod
    def failed(cls, branch: pb.Branch, timed: TimedResponse[Any]) -> BranchOutcome:
        """Return the outcome of a failed call."""
        is_late = timed.fault is not None and timed.fault.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        state = pb.BRANCH_STATE_TIMED_OUT if is_late else pb.BRANCH_STATE_UNAVAILABLE
        return cls(branch=branch, state=state, seconds=timed.seconds, fault=timed.fault)

    @property
    def is_missing(self) -> bool:
        """Tell whether the branch failed."""
        return self.fault is not None

    def status(self) -> pb.BranchStatus:
        """Return the outcome for the response."""
        elapsed = Duration()
        elapsed.FromMicroseconds(round(self.seconds * 1e6))
        return pb.BranchStatus(
            branch=self.branch,
            state=self.state,
            hit_count=self.hit_count,
            elapsed=elapsed,
            filter_emptied=self.filter_emptied,
            filter_truncated=self.filter_truncated,
            unembedded_count=self.unembedded_count,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class BranchResult:
    """The outcomes and results of one call, which may cover several branches."""

    outcomes: tuple[BranchOutcome, ...]
    # Best first.
    hits: Sequence[recall_pb2.Hit] = ()
    # Set by the recall service only.
    response: recall_pb2.RecallResponse | None = None
    profile: subjects_pb2.Subject | None = None
    # The recent window of a session, oldest first.
    recent: Sequence[session_pb2.Message] = ()
    # The page with the profile facts, and the request that read it.
    page: pages_pb2.GetPageResponse | None = None
    page_request: pages_pb2.GetPageRequest | None = None
    # All blocks that the reader may see, matching or not; None: they were not read.
    blocks: Sequence[blocks_pb2.Block] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RecallResult:
    """The results of all branches."""

    results: Sequence[BranchResult]

    @property
    def outcomes(self) -> list[BranchOutcome]:
        """Return the outcome of each branch."""
        return [outcome for result in self.results for outcome in result.outcomes]

    @property
    def recent(self) -> list[session_pb2.Message]:
        """Return the recent window of the session, oldest first."""
        return [message for result in self.results for message in result.recent]

    @property
    def page_result(self) -> BranchResult | None:
        """Return what has the page with the profile facts; None without such a page."""
        return next((result for result in self.results if result.page is not None), None)

    def response(self, limit: int) -> pb.RecallResponse:
        """Return the best hits of all branches, as many as fit one message together with the profile.

        Ties are ordered by id, so that equal calls return equal responses.
        """
        hits_by_call = [result.hits for result in self.results if result.hits]
        profile = next((result.profile for result in self.results if result.profile is not None), None)
        # Hits of the recall service alone are sorted and fit.
        hits: Sequence[recall_pb2.Hit] = hits_by_call[0] if hits_by_call else ()
        if len(hits_by_call) > 1:
            hits = list(merge(*hits_by_call, key=hit_order))
        if len(hits_by_call) > 1 or profile is not None:
            hits = fit_items(hits[:limit], used_bytes=0 if profile is None else profile.ByteSize())
        index = next((result.response for result in self.results if result.response is not None), None)
        outcomes = self.outcomes
        return pb.RecallResponse(
            hits=hits if len(hits) <= limit else hits[:limit],
            branches=[outcome.status() for outcome in outcomes],
            incomplete=[outcome.branch for outcome in outcomes if outcome.is_missing],
            model="" if index is None else index.model,
            dense_path="" if index is None else index.dense_path,
            emptied_by=() if index is None else index.emptied_by,
            formula="" if index is None else index.formula,
            profile=profile,
            nothing_relevant=index is not None and index.nothing_relevant,
            query_expansions=() if index is None else index.query_expansions,
            pending_embedding_count=0 if index is None else index.pending_embedding_count,
            purged_count=0 if index is None else index.purged_count,
            receipt_id="" if index is None else index.receipt_id,
            asks_for_all=index is not None and index.asks_for_all,
        )


class RecallHandler:
    """The Recall RPC."""

    def __init__(
        self,
        recall: recall_pb2_grpc.RecallServiceAsyncStub,
        blocks: blocks_pb2_grpc.BlockServiceAsyncStub,
        tenancy: tenancy_pb2_grpc.TenancyServiceAsyncStub,
        *,
        branch_seconds: float,
    ) -> None:
        """Call these services; `branch_seconds` is the longest timeout of a branch."""
        self._recall = recall
        self._blocks = blocks
        self._tenancy = tenancy
        self._branch_seconds = branch_seconds

    async def Recall(self, request: pb.RecallRequest, context: Context) -> pb.RecallResponse:
        read_as_of_time(request, at=now())
        # Receipts have the limit that applied.
        request.limit = request.limit or (LIST_LIMIT if asks_for_all(request.query) else DEFAULT_LIMIT)
        result = await self.call_branches(request, context)
        enforce_partial_policy(result.outcomes, request.on_partial)
        return result.response(request.limit)

    async def call_branches(
        self,
        request: pb.RecallRequest,
        context: Context,
        *extra_branches: Callable[[float], Coroutine[Any, Any, BranchResult]],
    ) -> RecallResult:
        """Call the selected branches and `extra_branches` concurrently, each with a timeout within the caller's time.

        Failed branches are in the outcomes. An error of the caller fails the call and cancels the other branches.
        """
        branches = select_branches(request, caller_of(context))
        branch_seconds = branch_timeout_seconds(context.time_remaining(), self._branch_seconds)
        indexed = [branch for branch in branches if branch in _KINDS]
        calls = [self._search_index(indexed, request, branch_seconds)] if indexed else []
        calls += [extra_branch(branch_seconds) for extra_branch in extra_branches]
        skipped = list[BranchResult]()
        for branch, is_applicable, call_branches in (
            (pb.BRANCH_BLOCKS, bool(request.query) and filter_allows_blocks(request), self._search_blocks),
            (pb.BRANCH_PROFILE, bool(subject_of(request)), self._get_profile),
        ):
            if branch not in branches:
                continue
            if is_applicable:
                calls.append(call_branches(request, branch_seconds))
            else:
                skipped.append(BranchResult(outcomes=(BranchOutcome.skipped(branch),)))
        results = await gather_or_cancel(*calls) if calls else []
        result = RecallResult(results=sorted([*results, *skipped], key=lambda result: result.outcomes[0].branch))
        record_branch_metrics(result.outcomes)
        return result

    async def _search_index(
        self, branches: Sequence[pb.Branch], request: pb.RecallRequest, branch_seconds: float
    ) -> BranchResult:
        """Search memories and messages with one call, which is twice as fast as two."""
        index_request = recall_pb2.RecallRequest(
            query=request.query,
            embedding=request.embedding,
            limit=request.limit,
            kinds=[_KINDS[branch] for branch in branches],
            filter=item_filter(request),
            min_similarity=request.min_similarity,
            show_superseded=request.show_superseded,
            weights=request.weights,
            fusion=request.fusion,
            mode=request.mode,
            min_relevance=request.min_relevance if request.HasField("min_relevance") else None,
            show_duplicates=request.show_duplicates,
            message_filter=request.message_filter if request.HasField("message_filter") else None,
            min_trust=request.min_trust,
            as_of_time=as_of_time(request),
        )
        return index_result(branches, await call_branch(self._recall.Recall(index_request, timeout=branch_seconds)))

    async def _search_blocks(self, request: pb.RecallRequest, branch_seconds: float) -> BranchResult:
        """Read the visible blocks and match the query's words in them."""
        start, end = (
            read_time(request.filter, name, within="filter.", may_be_infinite=True)
            for name in ("start_time", "end_time")
        )
        agent_id, subject_id = agent_of(request.filter), subject_of(request)
        timed: TimedResponse[blocks_pb2.ListAgentBlocksResponse] | TimedResponse[blocks_pb2.ListBlocksResponse]
        if agent_id:
            of_agent = blocks_pb2.ListAgentBlocksRequest(
                agent_id=agent_id,
                subject_id=subject_id,
                page_size=MAX_BLOCKS,
                hide_other_subjects=True,
                as_of_time=as_of_time(request),
            )
            timed = await call_branch(self._blocks.ListAgentBlocks(of_agent, timeout=branch_seconds))
        else:
            of_all = blocks_pb2.ListBlocksRequest(
                is_template=False, page_size=MAX_BLOCKS, as_of_time=as_of_time(request)
            )
            timed = await call_branch(self._blocks.ListBlocks(of_all, timeout=branch_seconds))
        if timed.response is None:
            return BranchResult(outcomes=(BranchOutcome.failed(pb.BRANCH_BLOCKS, timed),))
        blocks = [block for block in timed.response.blocks if block.subject_id in {"", subject_id}]
        trusted = [block for block in blocks if trust_of(block) >= request.min_trust]
        matching = [block for block in trusted if _is_between(block, start, end)]
        limit = request.limit or DEFAULT_LIMIT
        if sum(len(block.value) for block in matching) > MAX_INLINE_CHARACTERS:
            hits = await asyncio.to_thread(block_hits, matching, request.query, limit)
        else:
            hits = block_hits(matching, request.query, limit)
        outcome = BranchOutcome(
            branch=pb.BRANCH_BLOCKS,
            state=pb.BRANCH_STATE_OK,
            seconds=timed.seconds,
            hit_count=len(hits),
            filter_emptied=bool(blocks) and not matching,
            filter_truncated=bool(timed.response.next_page_token),
        )
        return BranchResult(outcomes=(outcome,), hits=hits, blocks=trusted)

    async def _get_profile(self, request: pb.RecallRequest, branch_seconds: float) -> BranchResult:
        """Read the profile of the request's subject, who need not have one."""
        of_subject = subjects_pb2.GetSubjectRequest(subject_id=subject_of(request), as_of_time=as_of_time(request))
        try:
            timed = await call_branch(self._tenancy.GetSubject(of_subject, timeout=branch_seconds))
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
            return BranchResult(outcomes=(BranchOutcome(branch=pb.BRANCH_PROFILE, state=pb.BRANCH_STATE_OK),))
        if timed.response is None:
            return BranchResult(outcomes=(BranchOutcome.failed(pb.BRANCH_PROFILE, timed),))
        outcome = BranchOutcome(branch=pb.BRANCH_PROFILE, state=pb.BRANCH_STATE_OK, seconds=timed.seconds)
        subject = timed.response.subject
        return BranchResult(outcomes=(outcome,), profile=subject if trust_of(subject) >= request.min_trust else None)


def index_result(branches: Sequence[pb.Branch], timed: TimedResponse[recall_pb2.RecallResponse]) -> BranchResult:
    """Return the outcomes of the branches that one call of the recall service covers."""
    response = timed.response
    if response is None:
        return BranchResult(outcomes=tuple(BranchOutcome.failed(branch, timed) for branch in branches))
    hits = response.hits
    kinds = [hit.kind for hit in hits]
    # Without a query vector, hits do not tell whether they have one.
    has_query_vector = bool(response.model) and not response.dense_unavailable
    unembedded = [hit.kind for hit in hits if not hit.HasField("similarity")] if has_query_vector else []

    def outcome(branch: pb.Branch) -> BranchOutcome:
        hit_count, unembedded_count = kinds.count(_KINDS[branch]), unembedded.count(_KINDS[branch])
        by_words = response.dense_unavailable or 0 < hit_count == unembedded_count
        return BranchOutcome(
            branch=branch,
            state=pb.BRANCH_STATE_LEXICAL_ONLY if by_words else pb.BRANCH_STATE_OK,
            seconds=timed.seconds,
            hit_count=hit_count,
            unembedded_count=unembedded_count,
            filter_emptied=response.filter_emptied,
            filter_truncated=response.filter_truncated,
        )

    return BranchResult(outcomes=tuple(outcome(branch) for branch in branches), hits=hits, response=response)


def hit_order(hit: recall_pb2.Hit) -> tuple[float, str]:
    """Return the key by which hits of several branches are merged, best first."""
    return -hit.score, hit.item_id


def trust_of(item: blocks_pb2.Block | subjects_pb2.Subject) -> float:
    """Return the trust of a block or profile."""
    return item.trust if item.HasField("trust") else NEUTRAL_TRUST


def block_hits(blocks: Sequence[blocks_pb2.Block], query: str, limit: int) -> list[recall_pb2.Hit]:
    """Return the blocks that contain most of the query's words, best first; distrusted ones have a lower score."""
    by_id = {block.block_id: block for block in blocks}
    texts = ((block.block_id, f"{block.label}\n{block.description}\n{block.value}") for block in blocks)
    hits = [
        recall_pb2.Hit(
            kind=recall_pb2.ITEM_KIND_BLOCK,
            item_id=block_id,
            score=score,
            components=[recall_pb2.ScoreComponent(signal="words", raw=count, value=score, weight=1.0, rank=rank)],
            block=by_id[block_id],
            has_query_words=True,
        )
        for rank, (block_id, score, count) in enumerate(rank_texts(texts, terms_of(query), len(by_id)), start=1)
    ]
    for hit in hits:
        if hit.block.HasField("trust"):
            hit.trust = hit.block.trust
            _demote(hit)
    return sorted(hits, key=hit_order)[:limit]


def _demote(hit: recall_pb2.Hit) -> None:
    """Lower the score of a distrusted hit in proportion, as the recall service does."""
    if hit.trust < NEUTRAL_TRUST:
        score = hit.score * hit.trust / NEUTRAL_TRUST
        hit.components.add(signal="trust", raw=hit.trust, value=score - hit.score, weight=1.0)
        hit.score = score


def _is_between(block: blocks_pb2.Block, start: datetime | None, end: datetime | None) -> bool:
    """Tell whether a block was created at or after `start` and before `end`."""
    at = block.create_time.ToDatetime(UTC)
    return (start is None or at >= start) and (end is None or at < end)


def select_branches(request: pb.RecallRequest, caller: Caller) -> list[pb.Branch]:
    """Return the branches to call, by their numbers. Raises PermissionMissing for a branch that the request names.

    Without named branches, blocks and profile are included if the filter applies to them and the caller may read them.
    """
    if request.branches:
        for branch in request.branches:
            if branch in _RULES:
                _RULES[branch].check_reach(caller, named_space())
        return sorted(request.branches)
    branches: list[pb.Branch] = [pb.BRANCH_MEMORIES, pb.BRANCH_MESSAGES]
    if (
        request.query
        and agent_of(request.filter)
        and filter_allows_blocks(request)
        and may_call(caller, pb.BRANCH_BLOCKS)
    ):
        branches.append(pb.BRANCH_BLOCKS)
    if subject_of(request) and may_call(caller, pb.BRANCH_PROFILE):
        branches.append(pb.BRANCH_PROFILE)
    return branches


def may_call(caller: Caller, branch: pb.Branch) -> bool:
    """Tell whether a caller may call the RPC behind blocks, profile or page, in the space that the call names."""
    try:
        _RULES[branch].check_reach(caller, named_space())
    except (PermissionMissing, SpacesUnsupported):
        return False
    return True


def as_of_time(request: pb.RecallRequest) -> Timestamp | None:
    """Return the time as of which every branch answers; None for the present."""
    return request.as_of_time if request.HasField("as_of_time") else None


def agent_of(condition: memory_pb2.MemoryFilter) -> str:
    """Return the agent of a filter; empty for none."""
    return condition.agent_id or condition.visible_to.agent_id


def subject_of(request: pb.RecallRequest) -> str:
    """Return the subject of a request; empty for none."""
    return request.subject_id or request.filter.visible_to.subject_id


def item_filter(request: pb.RecallRequest) -> memory_pb2.MemoryFilter | None:
    """Return the filter of a request, whose reader has the request's subject; None for no condition."""
    if not request.subject_id:
        return request.filter if request.HasField("filter") else None
    result = memory_pb2.MemoryFilter()
    result.CopyFrom(request.filter)
    result.visible_to.subject_id = request.subject_id
    return result


# Filter conditions that blocks can match.
_OF_BLOCKS = frozenset({"agent_id", "visible_to", "start_time", "end_time"})


def filter_allows_blocks(request: pb.RecallRequest) -> bool:
    """Tell whether blocks, which have neither type nor vector, can match the request."""
    if request.min_similarity or request.mode == recall_pb2.SEARCH_MODE_SEMANTIC:
        return False
    return all(field.name in _OF_BLOCKS for field, _ in request.filter.ListFields())


def branch_timeout_seconds(remaining: float, longest: float) -> float:
    """Return the timeout of a branch in seconds, given the caller's remaining time and the longest timeout."""
    return min(longest, remaining - min(_MARGIN_SECONDS, remaining * _MARGIN_SHARE))


async def call_branch(call: Awaitable[Response]) -> TimedResponse[Response]:
    """Await a branch's call. Returns faults of the branch; raises errors of the caller."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    try:
        response = await call
    except aio.AioRpcError as error:
        if error.code() not in _FAULTS:
            raise
        return TimedResponse(seconds=loop.time() - started, fault=error)
    return TimedResponse(seconds=loop.time() - started, response=response)


async def gather_or_cancel(*calls: Coroutine[Any, Any, Response]) -> list[Response]:
    """Await all calls; the first error cancels the others. A single call needs no task."""
    if len(calls) == 1:
        return [await calls[0]]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call) for call in calls]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


async def both(first: Coroutine[Any, Any, Response], second: Coroutine[Any, Any, Other]) -> tuple[Response, Other]:
    """Await two calls of different kinds; the first error cancels the other one."""
    results: list[Any] = await gather_or_cancel(first, second)
    return results[0], results[1]


def enforce_partial_policy(outcomes: Sequence[BranchOutcome], on_partial: pb.OnPartial) -> None:
    """Raise the first fault if all branches failed, or an error if any failed and `on_partial` is FAIL."""
    failures = [outcome for outcome in outcomes if outcome.is_missing]
    if not failures:
        return
    if on_partial == pb.ON_PARTIAL_FAIL:
        names = ", ".join(name_of(outcome.branch) for outcome in failures)
        if all(outcome.state == pb.BRANCH_STATE_TIMED_OUT for outcome in failures):
            raise RecallTimedOut(branches=names)
        raise RecallIncomplete(branches=names)
    if all(outcome.is_missing or outcome.state == pb.BRANCH_STATE_SKIPPED for outcome in outcomes):
        failure = failures[0]
        if failure.fault is not None:
            raise translate_upstream(failure.fault, service=_SERVICES.get(failure.branch, "recall"))


def name_of(branch: pb.Branch) -> str:
    """Return the name of a branch: "memories"."""
    return pb.Branch.Name(branch).removeprefix("BRANCH_").lower()


def record_branch_metrics(outcomes: Sequence[BranchOutcome]) -> None:
    """Count the outcomes in the metrics."""
    for outcome in outcomes:
        _counter(outcome.branch, outcome.state).inc()


@cache
def _counter(branch: pb.Branch, state: pb.BranchState) -> Counter:
    return BRANCHES.labels(name_of(branch), pb.BranchState.Name(state).removeprefix("BRANCH_STATE_").lower())
