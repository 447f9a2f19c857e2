"""The arms of a recall: which to ask, for how long, and what became of each. No calls of its own."""

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

ARMS = Counter("skein_gateway_arms_total", "Arms of recalls, by how they did.", ["arm", "state"])
Response = TypeVar("Response")
# Kept back from the caller's time for merging and answering: this share of it, and never more than these seconds.
_MARGIN_SHARE = 0.1
_MARGIN_SECONDS = 0.25
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
# What whoever asks these arms must be allowed to call.
_RULES = {
    pb.ARM_BLOCKS: ACCESS_RULES["/skein.memory.v1.BlockService/ListAgentBlocks"],
    pb.ARM_PROFILE: ACCESS_RULES["/skein.tenancy.v1.TenancyService/GetSubject"],
}
_SERVICES = {pb.ARM_BLOCKS: "memory", pb.ARM_PROFILE: "tenancy", pb.ARM_WINDOW: "session"}


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedResponse(Generic[Response]):
    """What a call came to: a response, or the fault that stands in its place."""

    seconds: float
    response: Response | None = None
    fault: aio.AioRpcError | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ArmOutcome:
    """What became of one arm."""

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
        """Say that there was nothing to ask."""
        return cls(arm=arm, state=pb.ARM_STATE_SKIPPED)

    @classmethod
    def failed(cls, arm: pb.Arm, asked: TimedResponse[Any]) -> ArmOutcome:
        """Say that there is a fault instead of an answer."""
        late = asked.fault is not None and asked.fault.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        state = pb.ARM_STATE_TIMED_OUT if late else pb.ARM_STATE_UNAVAILABLE
        return cls(arm=arm, state=state, seconds=asked.seconds, fault=asked.fault)

    @property
    def is_missing(self) -> bool:
        """Say whether it did not answer."""
        return self.fault is not None

    def status(self) -> pb.ArmStatus:
        """Report it to the caller."""
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
    """What one call brought: what became of its arms, and what they found."""

    outcomes: tuple[ArmOutcome, ...]
    # Best first.
    hits: Sequence[recall_pb2.Hit] = ()
    # Of the recall service alone.
    response: recall_pb2.RecallResponse | None = None
    profile: subjects_pb2.Subject | None = None
    # The end of a conversation, oldest first.
    recent: Sequence[session_pb2.Message] = ()


def select_arms(request: pb.RecallRequest, caller: Caller) -> list[pb.Arm]:
    """Return the arms to ask, in the order of their numbers. Raises PermissionMissing for one that the caller names.

    Those that nobody names are asked where there is somebody to ask about, and the caller may.
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
    """Return the agent that a filter names; empty for none."""
    return condition.agent_id or condition.visible_to.agent_id


def subject_of(condition: memory_pb2.MemoryFilter) -> str:
    """Return the person that a filter names; empty for none."""
    return condition.subject_id or condition.visible_to.subject_id


# The conditions of a filter that blocks can pass.
_OF_BLOCKS = frozenset({"agent_id", "subject_id", "visible_to", "start_time", "end_time"})


def filter_allows_blocks(request: pb.RecallRequest) -> bool:
    """Say whether a block, which has neither a type nor a vector, can pass what is asked."""
    if request.min_similarity or request.mode == recall_pb2.SEARCH_MODE_SEMANTIC:
        return False
    return all(field.name in _OF_BLOCKS for field, _ in request.filter.ListFields())


def arm_timeout_seconds(remaining: float, longest: float) -> float:
    """Return the seconds that an arm gets of what the caller has left."""
    return min(longest, remaining - min(_MARGIN_SECONDS, remaining * _MARGIN_SHARE))


async def call_arm(calling: Awaitable[Response]) -> TimedResponse[Response]:
    """Await an arm's call. A fault that other arms can make up for stands in for the answer; others are raised."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    try:
        response = await calling
    except aio.AioRpcError as error:
        if error.code() not in _FAULTS:
            raise
        return TimedResponse(seconds=loop.time() - started, fault=error)
    return TimedResponse(seconds=loop.time() - started, response=response)


async def gather_or_cancel(*callings: Coroutine[Any, Any, Response]) -> list[Response]:
    """Await all; the first one that raises cancels the others. One by itself is awaited where it is."""
    if len(callings) == 1:
        return [await callings[0]]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(calling) for calling in callings]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


def enforce_partial_policy(outcomes: Sequence[ArmOutcome], on_partial: pb.OnPartial) -> None:
    """Refuse when no arm answered, with the first one's fault, or when one is missing and the caller wants them all."""
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
    """Return an arm's name in a sentence: "memories"."""
    return pb.Arm.Name(arm).removeprefix("ARM_").lower()


def record_arm_metrics(outcomes: Sequence[ArmOutcome]) -> None:
    """Count what became of arms, for whoever watches the cluster."""
    for outcome in outcomes:
        _counter(outcome.arm, outcome.state).inc()


@cache
def _counter(arm: pb.Arm, state: pb.ArmState) -> Counter:
    return ARMS.labels(name_of(arm), pb.ArmState.Name(state).removeprefix("ARM_STATE_").lower())
