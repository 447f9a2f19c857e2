"""The arms of a recall: their selection, timeouts, outcomes and faults. Makes no calls of its own."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import grpc
from google.protobuf.duration_pb2 import Duration
from grpc import aio
from prometheus_client import Counter

from skein.gateway.v1 import gateway_pb2 as pb
from skein.recall.v1 import recall_pb2
from skein_gateway.errors import RecallIncomplete, RecallTimedOut
from skein_kit.errors import PermissionMissing
from skein_kit.identity.permissions import ACCESS_RULES
from skein_kit.rpc.interceptors import translate_upstream

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine, Sequence

    from skein.memory.v1 import memory_pb2
    from skein.session.v1 import session_pb2
    from skein.tenancy.v1 import subjects_pb2
    from skein_kit.identity.identity_token import Caller

ARMS = Counter("skein_gateway_search_branches_total", "Search branches of recalls, by outcome.", ["branch", "state"])
Response = TypeVar("Response")
# Reserved from the caller's time for merging: this share, and at most these seconds.
_MARGIN_SHARE = 0.1
_MARGIN_SECONDS = 0.25
# Faults of one arm, which leave a partial result. Any other code is the caller's error and fails the call.
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
# Access rules of the RPCs behind these arms.
_RULES = {
    pb.ARM_BLOCKS: ACCESS_RULES["/skein.memory.v1.BlockService/ListAgentBlocks"],
    pb.ARM_PROFILE: ACCESS_RULES["/skein.tenancy.v1.TenancyService/GetSubject"],
}
_SERVICES = {pb.ARM_BLOCKS: "memory", pb.ARM_PROFILE: "tenancy", pb.ARM_WINDOW: "session"}


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedResponse(Generic[Response]):
    """The response of an arm's call, or its fault, with the duration."""

    seconds: float
    response: Response | None = None
    fault: aio.AioRpcError | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ArmOutcome:
    """The outcome of one arm."""

    arm: pb.Arm
    state: pb.ArmState
    seconds: float = 0.0
    hit_count: int = 0
    unembedded_count: int = 0
    filter_emptied: bool = False
    filter_truncated: bool = False
    fault: aio.AioRpcError | None = None

    @classmethod
    def skipped(cls, arm: pb.Arm) -> ArmOutcome:
        """Return the outcome of an arm that does not apply to the request."""
        return cls(arm=arm, state=pb.ARM_STATE_SKIPPED)

    @classmethod
    def failed(cls, arm: pb.Arm, response_or_fault: TimedResponse[Any]) -> ArmOutcome:
        """Return the outcome of a failed call."""
        is_late = (
            response_or_fault.fault is not None and response_or_fault.fault.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        )
        state = pb.ARM_STATE_TIMED_OUT if is_late else pb.ARM_STATE_UNAVAILABLE
        return cls(arm=arm, state=state, seconds=response_or_fault.seconds, fault=response_or_fault.fault)

    @property
    def is_missing(self) -> bool:
        """Tell whether the arm failed."""
        return self.fault is not None

    def status(self) -> pb.ArmStatus:
        """Return the outcome for the response."""
        elapsed = Duration()
        elapsed.FromMicroseconds(round(self.seconds * 1e6))
        return pb.ArmStatus(
            arm=self.arm,
            state=self.state,
            hit_count=self.hit_count,
            elapsed=elapsed,
            filter_emptied=self.filter_emptied,
            filter_truncated=self.filter_truncated,
            unembedded_count=self.unembedded_count,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ArmResult:
    """The outcomes and results of one call, which may cover several arms."""

    outcomes: tuple[ArmOutcome, ...]
    # Best first.
    hits: Sequence[recall_pb2.Hit] = ()
    # Set by the recall service only.
    response: recall_pb2.RecallResponse | None = None
    profile: subjects_pb2.Subject | None = None
    # The recent window of a session, oldest first.
    recent: Sequence[session_pb2.Message] = ()


def select_arms(request: pb.RecallRequest, caller: Caller) -> list[pb.Arm]:
    """Return the arms to call, in order of their numbers. Raises PermissionMissing for an arm that the request names.

    Without named arms, blocks and profile are included if the filter applies to them and the caller may read them.
    """
    if request.arms:
        for arm in request.arms:
            if arm in _RULES:
                _RULES[arm].check(caller)
        return sorted(request.arms)
    arms: list[pb.Arm] = [pb.ARM_MEMORIES, pb.ARM_MESSAGES]
    if request.query and agent_of(request.filter) and filter_allows_blocks(request) and _may(caller, pb.ARM_BLOCKS):
        arms.append(pb.ARM_BLOCKS)
    if subject_of(request.filter) and _may(caller, pb.ARM_PROFILE):
        arms.append(pb.ARM_PROFILE)
    return arms


def _may(caller: Caller, arm: pb.Arm) -> bool:
    try:
        _RULES[arm].check(caller)
    except PermissionMissing:
        return False
    return True


def agent_of(condition: memory_pb2.MemoryFilter) -> str:
    """Return the agent of a filter; empty for none."""
    return condition.agent_id or condition.visible_to.agent_id


def subject_of(condition: memory_pb2.MemoryFilter) -> str:
    """Return the subject of a filter; empty for none."""
    return condition.subject_id or condition.visible_to.subject_id


# Filter conditions that blocks can match.
_OF_BLOCKS = frozenset({"agent_id", "subject_id", "visible_to", "start_time", "end_time"})


def filter_allows_blocks(request: pb.RecallRequest) -> bool:
    """Tell whether blocks, which have neither type nor vector, can match the request."""
    if request.min_similarity or request.mode == recall_pb2.SEARCH_MODE_SEMANTIC:
        return False
    return all(field.name in _OF_BLOCKS for field, _ in request.filter.ListFields())


def arm_timeout_seconds(remaining: float, longest: float) -> float:
    """Return the timeout of an arm in seconds, given the caller's remaining time and the longest timeout."""
    return min(longest, remaining - min(_MARGIN_SECONDS, remaining * _MARGIN_SHARE))


async def call_arm(call: Awaitable[Response]) -> TimedResponse[Response]:
    """Await an arm's call. Returns faults of the arm; raises errors of the caller."""
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


def enforce_partial_policy(outcomes: Sequence[ArmOutcome], on_partial: pb.OnPartial) -> None:
    """Raise the first fault if all arms failed, or an error if any failed and `on_partial` is FAIL."""
    missing = [outcome for outcome in outcomes if outcome.is_missing]
    if not missing:
        return
    if on_partial == pb.ON_PARTIAL_FAIL:
        names = ", ".join(name_of(outcome.arm) for outcome in missing)
        if all(outcome.state == pb.ARM_STATE_TIMED_OUT for outcome in missing):
            raise RecallTimedOut(arms=names)
        raise RecallIncomplete(arms=names)
    if all(outcome.is_missing or outcome.state == pb.ARM_STATE_SKIPPED for outcome in outcomes):
        first = missing[0]
        if first.fault is not None:
            raise translate_upstream(first.fault, service=_SERVICES.get(first.arm, "recall"))


def name_of(arm: pb.Arm) -> str:
    """Return the name of an arm: "memories"."""
    return pb.Arm.Name(arm).removeprefix("ARM_").lower()


def record_arm_metrics(outcomes: Sequence[ArmOutcome]) -> None:
    """Count the outcomes in the metrics."""
    for outcome in outcomes:
        _counter(outcome.arm, outcome.state).inc()


@cache
def _counter(arm: pb.Arm, state: pb.ArmState) -> Counter:
    return ARMS.labels(name_of(arm), pb.ArmState.Name(state).removeprefix("ARM_STATE_").lower())
