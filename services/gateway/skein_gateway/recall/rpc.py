"""Recall: every arm at once, each within its share of the caller's time, and the best of all that answered."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC
from heapq import merge
from typing import TYPE_CHECKING, Any

import grpc
from grpc import aio

from skein.gateway.v1 import gateway_pb2 as pb
from skein.memory.v1 import blocks_pb2
from skein.recall.v1 import recall_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_gateway.recall.arms import (
    ArmOutcome,
    ArmResult,
    TimedResponse,
    agent_of,
    arm_timeout_seconds,
    call_arm,
    enforce_partial_policy,
    filter_allows_blocks,
    gather_or_cancel,
    record_arm_metrics,
    select_arms,
    subject_of,
)
from skein_gateway.recall.text_match import ranked, terms_of
from skein_kit.rpc.pagination import fit_items
from skein_kit.rpc.well_known_types import read_time

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from datetime import datetime

    from skein.memory.v1 import blocks_pb2_grpc
    from skein.recall.v1 import recall_pb2_grpc
    from skein.tenancy.v1 import tenancy_pb2_grpc
    from skein_kit.identity.identity_token import Caller

DEFAULT_LIMIT = 10
# As many as one agent can have about one person and about nobody together.
MOST_BLOCKS = 200
# More text than this is looked through in a thread, so that nobody else waits for it.
MAX_INLINE_CHARACTERS = 100_000
_KINDS = {pb.ARM_MEMORIES: recall_pb2.ITEM_KIND_MEMORY, pb.ARM_MESSAGES: recall_pb2.ITEM_KIND_MESSAGE}


@dataclass(frozen=True, kw_only=True, slots=True)
class RecallResult:
    """What the arms found, each by itself."""

    parts: Sequence[ArmResult]

    @property
    def outcomes(self) -> list[ArmOutcome]:
        """Return what became of each arm."""
        return [outcome for part in self.parts for outcome in part.outcomes]

    def answer(self, limit: int) -> pb.RecallResponse:
        """Return the best hits of all arms, as many as fit one answer beside the profile.

        Ties come in order of id so that the same call gives the same answer.
        """
        found = [part.hits for part in self.parts if part.hits]
        profile = next((part.profile for part in self.parts if part.profile is not None), None)
        # What the recall service found by itself is in order and fits.
        hits: Sequence[recall_pb2.Hit] = found[0] if found else ()
        if len(found) > 1:
            hits = list(merge(*found, key=lambda hit: (-hit.score, hit.item_id)))
        if len(found) > 1 or profile is not None:
            hits = fit_items(hits[:limit], beside=0 if profile is None else profile.ByteSize())
        index = next((part.response for part in self.parts if part.response is not None), None)
        outcomes = self.outcomes
        return pb.RecallResponse(
            hits=hits if len(hits) <= limit else hits[:limit],
            arms=[outcome.status() for outcome in outcomes],
            incomplete=[outcome.arm for outcome in outcomes if outcome.is_missing],
            model="" if index is None else index.model,
            dense_path="" if index is None else index.dense_path,
            emptied_by=() if index is None else index.emptied_by,
            formula="" if index is None else index.formula,
            profile=profile,
        )


class Recalling:
    """The arms of a recall."""

    def __init__(
        self,
        recall: recall_pb2_grpc.RecallServiceAsyncStub,
        blocks: blocks_pb2_grpc.BlockServiceAsyncStub,
        tenancy: tenancy_pb2_grpc.TenancyServiceAsyncStub,
        *,
        arm_seconds: float,
    ) -> None:
        """Ask these services; `arm_seconds` is the most that an arm may take."""
        self._recall = recall
        self._blocks = blocks
        self._tenancy = tenancy
        self._arm_seconds = arm_seconds

    async def recall(self, caller: Caller, request: pb.RecallRequest, remaining: float) -> pb.RecallResponse:
        """Ask the arms within the `remaining` seconds.

        A refusal that is the caller's fault fails the call and cancels the other arms, as cancelling the call does.
        """
        recalled = await self.ask(caller, request, self.seconds(remaining))
        enforce_partial_policy(recalled.outcomes, request.on_partial)
        return recalled.answer(request.limit or DEFAULT_LIMIT)

    def seconds(self, remaining: float) -> float:
        """Return the seconds that each arm gets of those that the caller has left."""
        return arm_timeout_seconds(remaining, self._arm_seconds)

    async def ask(
        self,
        caller: Caller,
        request: pb.RecallRequest,
        seconds: float,
        *others: Callable[[float], Coroutine[Any, Any, ArmResult]],
    ) -> RecallResult:
        """Ask the arms that are wanted and `others`, at once and each for so many seconds at most.

        What did not answer is among the outcomes.
        """
        arms = select_arms(request, caller)
        of_index = [arm for arm in arms if arm in _KINDS]
        callings = [self._index(of_index, request, seconds)] if of_index else []
        callings += [other(seconds) for other in others]
        skipped = list[ArmResult]()
        for arm, can_be_asked, ask in (
            (pb.ARM_BLOCKS, bool(request.query) and filter_allows_blocks(request), self._core_memory),
            (pb.ARM_PROFILE, bool(subject_of(request.filter)), self._profile),
        ):
            if arm not in arms:
                continue
            if can_be_asked:
                callings.append(ask(request, seconds))
            else:
                skipped.append(ArmResult(outcomes=(ArmOutcome.skipped(arm),)))
        parts = await gather_or_cancel(*callings) if callings else []
        recalled = RecallResult(parts=sorted([*parts, *skipped], key=lambda part: part.outcomes[0].arm))
        record_arm_metrics(recalled.outcomes)
        return recalled

    async def _index(self, arms: Sequence[pb.Arm], request: pb.RecallRequest, seconds: float) -> ArmResult:
        """Ask for memories and messages: one question and one order, because that is twice as fast as two."""
        part = recall_pb2.RecallRequest(
            query=request.query,
            embedding=request.embedding,
            limit=request.limit,
            kinds=[_KINDS[arm] for arm in arms],
            filter=request.filter if request.HasField("filter") else None,
            min_similarity=request.min_similarity,
            show_superseded=request.show_superseded,
            weights=request.weights,
            fusion=request.fusion,
            mode=request.mode,
        )
        return of_index(arms, await call_arm(self._recall.Recall(part, timeout=seconds)))

    async def _core_memory(self, request: pb.RecallRequest, seconds: float) -> ArmResult:
        """Ask for the blocks that the context sees, and look for the query's words in them."""
        start, end = (
            read_time(request.filter, name, within="filter.", may_be_infinite=True)
            for name in ("start_time", "end_time")
        )
        agent_id, subject_id = agent_of(request.filter), subject_of(request.filter)
        found: TimedResponse[blocks_pb2.ListAgentBlocksResponse] | TimedResponse[blocks_pb2.ListBlocksResponse]
        if agent_id:
            of_agent = blocks_pb2.ListAgentBlocksRequest(
                agent_id=agent_id, subject_id=subject_id, page_size=MOST_BLOCKS, hide_other_subjects=True
            )
            found = await call_arm(self._blocks.ListAgentBlocks(of_agent, timeout=seconds))
        else:
            of_all = blocks_pb2.ListBlocksRequest(is_template=False, page_size=MOST_BLOCKS)
            found = await call_arm(self._blocks.ListBlocks(of_all, timeout=seconds))
        if found.response is None:
            return ArmResult(outcomes=(ArmOutcome.failed(pb.ARM_BLOCKS, found),))
        blocks = [block for block in found.response.blocks if block.subject_id in {"", subject_id}]
        passing = [block for block in blocks if _is_between(block, start, end)]
        limit = request.limit or DEFAULT_LIMIT
        if sum(len(block.value) for block in passing) > MAX_INLINE_CHARACTERS:
            hits = await asyncio.to_thread(of_blocks, passing, request.query, limit)
        else:
            hits = of_blocks(passing, request.query, limit)
        outcome = ArmOutcome(
            arm=pb.ARM_BLOCKS,
            state=pb.ARM_STATE_OK,
            seconds=found.seconds,
            hit_count=len(hits),
            filter_emptied=bool(blocks) and not passing,
            filter_truncated=bool(found.response.next_page_token),
        )
        return ArmResult(outcomes=(outcome,), hits=hits)

    async def _profile(self, request: pb.RecallRequest, seconds: float) -> ArmResult:
        """Ask who the person is that the filter names. Not everybody who is spoken of has a profile."""
        of_subject = subjects_pb2.GetSubjectRequest(subject_id=subject_of(request.filter))
        try:
            found = await call_arm(self._tenancy.GetSubject(of_subject, timeout=seconds))
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
            return ArmResult(outcomes=(ArmOutcome(arm=pb.ARM_PROFILE, state=pb.ARM_STATE_OK),))
        if found.response is None:
            return ArmResult(outcomes=(ArmOutcome.failed(pb.ARM_PROFILE, found),))
        outcome = ArmOutcome(arm=pb.ARM_PROFILE, state=pb.ARM_STATE_OK, seconds=found.seconds)
        return ArmResult(outcomes=(outcome,), profile=found.response.subject)


def of_index(arms: Sequence[pb.Arm], found: TimedResponse[recall_pb2.RecallResponse]) -> ArmResult:
    """Return what became of the arms that the recall service was asked for with one call."""
    response = found.response
    if response is None:
        return ArmResult(outcomes=tuple(ArmOutcome.failed(arm, found) for arm in arms))
    hits = response.hits
    kinds = [hit.kind for hit in hits]
    # Without a vector to compare with, no hit says whether it has one.
    compared = bool(response.model) and not response.dense_unavailable
    unembedded = [hit.kind for hit in hits if not hit.HasField("similarity")] if compared else []

    def outcome(arm: pb.Arm) -> ArmOutcome:
        found_count, without = kinds.count(_KINDS[arm]), unembedded.count(_KINDS[arm])
        by_words = response.dense_unavailable or 0 < found_count == without
        return ArmOutcome(
            arm=arm,
            state=pb.ARM_STATE_LEXICAL_ONLY if by_words else pb.ARM_STATE_OK,
            seconds=found.seconds,
            hit_count=found_count,
            unembedded_count=without,
            filter_emptied=response.filter_emptied,
            filter_truncated=response.filter_truncated,
        )

    return ArmResult(outcomes=tuple(outcome(arm) for arm in arms), hits=hits, response=response)


def of_blocks(blocks: Sequence[blocks_pb2.Block], query: str, limit: int) -> list[recall_pb2.Hit]:
    """Return the blocks that say most of the query's words, best first."""
    by_id = {block.block_id: block for block in blocks}
    texts = ((block.block_id, f"{block.label}\n{block.description}\n{block.value}") for block in blocks)
    return [
        recall_pb2.Hit(
            kind=recall_pb2.ITEM_KIND_BLOCK,
            item_id=block_id,
            score=score,
            components=[recall_pb2.ScoreComponent(signal="words", raw=found, value=score, weight=1.0, rank=place)],
            block=by_id[block_id],
            has_query_words=True,
        )
        for place, (block_id, score, found) in enumerate(ranked(texts, terms_of(query), limit), start=1)
    ]


def _is_between(block: blocks_pb2.Block, start: datetime | None, end: datetime | None) -> bool:
    """Say whether a block was made from `start` on and before `end`."""
    at = block.create_time.ToDatetime(UTC)
    return (start is None or at >= start) and (end is None or at < end)
