"""Rounds: calls that tenants with work get periodically, repeated while the response says that there is more."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any

import grpc
from grpc import aio

from skein_kit.telemetry import logs
from skein_kit.telemetry.metrics import without_tracing
from skein_worker.job_queue.job_queue import Job, JobHandler
from skein_worker.rounds.tenant_visits import IdleBackoff, RoundProgress, TenantCall, TenantVisitor
from skein_worker.system_identity import SystemIdentity

if TYPE_CHECKING:
    from skein_worker.rounds.tenant_visits import ListDueTenants

_CALL_SECONDS = 60.0
_RETRY_SECONDS = 60.0
# The shortest pause before a call whose job is limited is repeated.
_MIN_LIMITED_SECONDS = 5.0

log = logs.get("worker")


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """A part of a round: a service's list of the tenants with work, and the calls that each of them gets in order."""

    list_due: ListDueTenants
    # Creates the request of the list.
    request: Callable[[], Any]
    calls: Sequence[Callable[[], Awaitable[Any]]]
    # The calls act in one space of the tenant, and so each of them is made in every space.
    in_each_space: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Round:
    """A round: its name, the seconds between two rounds, and its stages in order.

    A call is repeated while its response has `more`. With `max_backoff_seconds`, a tenant without an `active` response
    is visited less and less often.
    """

    name: str
    seconds: float
    stages: Sequence[Stage]
    # A call without a tenant, before the stages.
    first_call: Callable[[], Awaitable[Any]] | None = None
    priority: int = 1
    # How often one visit repeats a call; the next round continues.
    max_repeats: int = 20
    # The longest pause between two visits of a tenant without progress; 0 visits it in every round.
    max_backoff_seconds: float = 0.0
    # The shortest pause after a round, in durations of the round, which is long when many tenants have work.
    pause_factor: float = 4.0
    # Seconds for which one job runs round after round.
    turn_seconds: float = 0.0
    # Called with each tenant and response.
    on_response: Callable[[str, Any], None] | None = None
    # Called after a complete round with the tenants that had work and the seconds until the next round.
    on_end: Callable[[Collection[str], float], None] | None = None


async def run_turn(run_round: Callable[[], Awaitable[float]], stop: asyncio.Event, *, seconds: float) -> float:
    """Run round after round for some seconds, because a job of the queue costs more than a round without work.

    `run_round` returns the pause until the next round. Return the seconds until the next turn.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while True:
        pause = await run_round()
        if stop.is_set() or pause >= seconds:
            return pause
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), pause)
        if stop.is_set() or loop.time() >= end:
            return 0.0


@dataclass(slots=True)
class _LimitedCalls:
    """The calls whose job is paused or limited in a tenant, between two complete rounds.

    They alone are repeated before the next round, so a long pause between rounds does not stretch their work.
    Another worker that takes over the job begins with a complete round.
    """

    # When the next complete round is due, by the event loop's clock.
    round_time: float = 0.0
    # When each call is repeated.
    retry_times: dict[TenantCall, float] = field(default_factory=dict)

    def due(self, at: float) -> frozenset[TenantCall] | None:
        """Return the calls to repeat, None for a complete round."""
        if not self.retry_times or at >= self.round_time:
            return None
        return frozenset(call for call, retry_time in self.retry_times.items() if retry_time <= at)

    def pause(self, at: float) -> float:
        """Return the seconds until the next visit or round."""
        return max(0.0, min([self.round_time, *self.retry_times.values()]) - at)


class TenantRounds:
    """The jobs of the rounds."""

    def __init__(self, visitor: TenantVisitor, system: SystemIdentity, rounds: Sequence[Round]) -> None:
        self._visitor = visitor
        self._system = system
        self._rounds = rounds
        self._backoffs = {
            each.name: IdleBackoff(each.seconds, each.max_backoff_seconds)
            for each in rounds
            if each.max_backoff_seconds
        }
        self._limited_calls = {each.name: _LimitedCalls() for each in rounds}

    @property
    def periodic_jobs(self) -> Sequence[Job]:
        """One job for each round."""
        return [Job(name=each.name, dedupe_key=each.name, priority=each.priority) for each in self._rounds]

    def handlers(self) -> Mapping[str, JobHandler]:
        """Return the handlers by the names of their jobs."""
        return {each.name: self._handler(each) for each in self._rounds}

    def _handler(self, tenant_round: Round) -> JobHandler:
        async def run(_payload: bytes, stop: asyncio.Event) -> float:
            return await run_turn(lambda: self._run_round(tenant_round, stop), stop, seconds=tenant_round.turn_seconds)

        return run

    async def _run_round(self, tenant_round: Round, stop: asyncio.Event) -> float:
        """Visit the tenants with work; return the seconds until the next round.

        Before the next complete round is due, repeat only calls whose job was paused or limited.
        """
        loop, limited = asyncio.get_running_loop(), self._limited_calls[tenant_round.name]
        start = loop.time()
        progress = self._visitor.begin(stop, self._backoffs.get(tenant_round.name))
        only = limited.due(start)
        with without_tracing():
            if only is None and tenant_round.first_call is not None:
                await self._call_once(tenant_round, tenant_round.first_call, progress)
            for index in range(len(tenant_round.stages)):
                if not progress.is_stopped:
                    await self._visit_due(tenant_round, index, progress, only=only)
        if progress.failures:
            log.warning(
                "round_incomplete",
                round=tenant_round.name,
                tenants=progress.visited_count,
                failures=progress.failures,
            )
        if progress.is_stopped:
            return min(_RETRY_SECONDS, tenant_round.seconds)
        end = loop.time()
        shortest_pause = tenant_round.pause_factor * (end - start)
        if only is None:
            pause = max(tenant_round.seconds, shortest_pause)
            limited.round_time = end + pause
            limited.retry_times.clear()
            if tenant_round.on_end is not None:
                tenant_round.on_end(progress.tenant_ids, pause)
        for tenant_call in only or ():
            limited.retry_times.pop(tenant_call, None)
        for tenant_call, seconds in progress.retry_seconds.items():
            limited.retry_times[tenant_call] = end + max(_MIN_LIMITED_SECONDS, seconds)
        return max(limited.pause(end), shortest_pause)

    async def _call_once(
        self, tenant_round: Round, call: Callable[[], Awaitable[Any]], progress: RoundProgress
    ) -> None:
        try:
            async with self._system.as_system(seconds=_CALL_SECONDS):
                response = await call()
        except aio.AioRpcError as error:
            progress.add_failure(error)
        else:
            if tenant_round.on_response is not None:
                tenant_round.on_response("", response)

    async def _visit_due(
        self, tenant_round: Round, stage_index: int, progress: RoundProgress, *, only: Collection[TenantCall] | None
    ) -> None:
        stage = tenant_round.stages[stage_index]

        async def visit(tenant_id: str) -> bool:
            # A call that fails does not keep the tenant from the next one.
            active = False
            spaces = await self._system.spaces(tenant_id, seconds=_CALL_SECONDS) if stage.in_each_space else [""]
            for space_id, (index, call) in product(spaces, enumerate(stage.calls)):
                tenant_call = TenantCall(tenant_id, stage_index, index, space_id)
                if only is not None and tenant_call not in only:
                    continue
                try:
                    active = await self._call_until_done(tenant_round, call, tenant_call, progress) or active
                except aio.AioRpcError as error:
                    progress.add_failure(error)
                    active = error.code() is not grpc.StatusCode.NOT_FOUND
                    if progress.is_stopped:
                        break
            return active

        if only is None:
            await self._visitor.visit_due(stage.list_due, stage.request(), visit, progress)
        else:
            tenant_ids = {each.tenant_id for each in only if each.stage_index == stage_index}
            await self._visitor.visit_each(sorted(tenant_ids), visit, progress)

    async def _call_until_done(
        self, tenant_round: Round, call: Callable[[], Awaitable[Any]], tenant_call: TenantCall, progress: RoundProgress
    ) -> bool:
        """Repeat a call while there is more; return whether the tenant had work."""
        active, tenant_id = False, tenant_call.tenant_id
        for _ in range(tenant_round.max_repeats):
            async with self._system.as_system(
                tenant_id=tenant_id, space_id=tenant_call.space_id, seconds=_CALL_SECONDS
            ):
                response = await call()
            if tenant_round.on_response is not None:
                tenant_round.on_response(tenant_id, response)
            active = active or getattr(response, "active", False)
            if "retry_delay" in response.DESCRIPTOR.fields_by_name and response.HasField("retry_delay"):
                progress.add_limited(tenant_call, response.retry_delay.ToTimedelta().total_seconds())
            if progress.stop.is_set() or not getattr(response, "more", False):
                break
        return active
