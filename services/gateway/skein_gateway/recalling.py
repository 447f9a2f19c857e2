"""Recall: every arm at once, each within its share of the caller's time, and the best of all that answered."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import grpc
from google.protobuf.duration_pb2 import Duration
from grpc import aio

from skein.gateway.v1 import gateway_pb2 as pb
from skein.recall.v1 import recall_pb2
from skein_kit.interceptors import passed
from skein_kit.pages import fitting

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from skein.recall.v1 import recall_pb2_grpc

DEFAULT_LIMIT = 10
# Kept back from the caller's time for merging and answering: this share of it, and never more than these seconds.
_MARGIN_SHARE = 0.1
_MARGIN_SECONDS = 0.25
_KINDS = {pb.ARM_MEMORIES: recall_pb2.ITEM_KIND_MEMORY, pb.ARM_MESSAGES: recall_pb2.ITEM_KIND_MESSAGE}
# Faults of an arm, which the others can make up for. Everything else is the caller's own and fails the call.
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What became of one arm: a response, or the fault that stands in its place."""

    arm: pb.Arm
    seconds: float
    response: recall_pb2.RecallResponse | None = None
    fault: aio.AioRpcError | None = None

    @property
    def state(self) -> pb.ArmState:
        """Say how the arm did."""
        if self.response is not None:
            return pb.ARM_STATE_LEXICAL_ONLY if self.response.dense_unavailable else pb.ARM_STATE_OK
        if self.fault is not None and self.fault.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
            return pb.ARM_STATE_TIMED_OUT
        return pb.ARM_STATE_UNAVAILABLE

    @property
    def hits(self) -> Sequence[recall_pb2.Hit]:
        """Return what the arm found."""
        return self.response.hits if self.response is not None else ()

    def status(self) -> pb.ArmStatus:
        """Report it to the caller."""
        elapsed = Duration()
        elapsed.FromMicroseconds(round(self.seconds * 1e6))
        return pb.ArmStatus(
            arm=self.arm,
            state=self.state,
            hit_count=len(self.hits),
            elapsed=elapsed,
            filter_emptied=self.response is not None and self.response.filter_emptied,
            filter_truncated=self.response is not None and self.response.filter_truncated,
        )


def budget(remaining: float, longest: float) -> float:
    """Return the seconds that an arm gets of what the caller has left."""
    return min(longest, remaining - min(_MARGIN_SECONDS, remaining * _MARGIN_SHARE))


def merged(outcomes: Sequence[Outcome], limit: int) -> pb.RecallResponse:
    """Return the best hits of all arms, as many as fit one answer.

    Ties come in order of id so that the same call gives the same answer.
    """
    hits = sorted((hit for outcome in outcomes for hit in outcome.hits), key=lambda hit: (-hit.score, hit.item_id))
    models = [outcome.response.model for outcome in outcomes if outcome.response is not None]
    return pb.RecallResponse(
        hits=fitting(hits[: limit or DEFAULT_LIMIT]),
        arms=[outcome.status() for outcome in outcomes],
        incomplete=[outcome.arm for outcome in outcomes if outcome.response is None],
        model=next(filter(None, models), ""),
    )


class Recalling:
    """The arms of a recall."""

    def __init__(self, recall: recall_pb2_grpc.RecallServiceAsyncStub, *, arm_seconds: float) -> None:
        """Ask the recall service once for each kind of item; `arm_seconds` is the most that an arm may take."""
        self._recall = recall
        self._arm_seconds = arm_seconds

    async def recall(self, request: pb.RecallRequest, remaining: float) -> pb.RecallResponse:
        """Ask the arms within the `remaining` seconds.

        A refusal that is the caller's fault fails the call and cancels the other arms, as cancelling the call does.
        When every arm fails, the first one's fault is the call's.
        """
        seconds = budget(remaining, self._arm_seconds)
        try:
            async with asyncio.TaskGroup() as group:
                asked = [group.create_task(self._ask(arm, request, seconds)) for arm in _arms(request.arms)]
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        outcomes = [task.result() for task in asked]
        faults = [outcome.fault for outcome in outcomes if outcome.fault is not None]
        if len(faults) == len(outcomes):
            raise passed(faults[0], service="recall")
        return merged(outcomes, request.limit)

    async def _ask(self, arm: pb.Arm, request: pb.RecallRequest, seconds: float) -> Outcome:
        loop = asyncio.get_running_loop()
        started = loop.time()
        part = recall_pb2.RecallRequest(
            query=request.query,
            embedding=request.embedding,
            limit=request.limit,
            kinds=[_KINDS[arm]],
            filter=request.filter if request.HasField("filter") else None,
            min_similarity=request.min_similarity,
        )
        try:
            response = await self._recall.Recall(part, timeout=seconds)
        except aio.AioRpcError as error:
            if error.code() not in _FAULTS:
                raise
            return Outcome(arm=arm, seconds=loop.time() - started, fault=error)
        return Outcome(arm=arm, seconds=loop.time() - started, response=response)


def _arms(wanted: Iterable[pb.Arm]) -> list[pb.Arm]:
    return list(wanted) or list(_KINDS)
