"""Rounds: what is asked of a service for every tenant now and then, again while it says that there is more."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grpc import aio

from skein_kit.telemetry import logs
from skein_kit.telemetry.metrics import without_tracing
from skein_worker.job_queue.job_queue import Job
from skein_worker.rounds.idle_backoff import IdleBackoff
from skein_worker.rounds.jobs import TenantVisit

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from skein_worker.job_queue.job_queue import Work
    from skein_worker.rounds.jobs import Jobs
    from skein_worker.system_identity import SystemIdentity

_CALL_SECONDS = 60.0
_RETRY_SECONDS = 60.0

log = logs.get("worker")


@dataclass(frozen=True, kw_only=True, slots=True)
class Round:
    """A round: its name, the seconds between two, and the calls that each tenant gets, one after the other.

    A call whose answer has a field `more` is repeated while that is set. Where answers have a field `active`, a tenant
    of which none is active rests, up to `rest_seconds`.
    """

    name: str
    seconds: float
    calls: Sequence[Callable[[], Awaitable[Any]]]
    priority: int = 1
    # Calls of one kind that one tenant gets; one with more to do has its next turn with all the others.
    calls_per_turn: int = 20
    # 0: every tenant is visited in every round.
    rest_seconds: float = 0.0
    # A round over thousands of tenants rests so many times as long as it took.
    pauses: float = 4.0
    # Seconds for which one job does round after round: the queue is not as punctual as that.
    turn_seconds: float = 0.0
    # Takes what each call answered last in each tenant.
    note: Callable[[str, Any], None] | None = None
    # Takes the tenants there are and the pause that follows, after a round that was not broken off.
    end: Callable[[Collection[str], float], None] | None = None


class TenantRounds:
    """The rounds as jobs of the queue."""

    def __init__(self, jobs: Jobs, system: SystemIdentity, tasks: Sequence[Round]) -> None:
        self._jobs = jobs
        self._system = system
        self._tasks = tasks
        self._rests = {task.name: IdleBackoff(task.seconds, task.rest_seconds) for task in tasks if task.rest_seconds}

    @property
    def standing(self) -> tuple[Job, ...]:
        """Return the jobs that are always there."""
        return tuple(Job(name=task.name, key=task.name, priority=task.priority) for task in self._tasks)

    def works(self) -> Mapping[str, Work]:
        """Return what does each of them."""
        return {task.name: self._work(task) for task in self._tasks}

    def _work(self, task: Round) -> Work:
        async def work(_payload: bytes, leave_off: asyncio.Event) -> float:
            ends = asyncio.get_running_loop().time() + task.turn_seconds
            while True:
                pause = await self._go(task, leave_off)
                if leave_off.is_set() or pause >= task.turn_seconds:
                    return pause
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(leave_off.wait(), pause)
                if leave_off.is_set() or asyncio.get_running_loop().time() >= ends:
                    return 0.0

        return work

    async def _go(self, task: Round, leave_off: asyncio.Event) -> float:
        loop = asyncio.get_running_loop()
        started = loop.time()
        visits = TenantVisit(leave_off=leave_off, rests=self._rests.get(task.name))

        async def turn(tenant_id: str) -> bool:
            # What one call cannot do keeps the others from nothing.
            active = False
            for call in task.calls:
                try:
                    active = await self._repeated(task, call, tenant_id, leave_off) or active
                except aio.AioRpcError as error:
                    visits.failed(error)
                    active = True
                    if visits.is_over():
                        break
            return active

        with without_tracing():
            await self._jobs.visit(turn, visits)
        if visits.failures:
            log.warning("round_incomplete", round=task.name, tenants=visits.visited, failures=visits.failures)
        if visits.is_over():
            return min(_RETRY_SECONDS, task.seconds)
        pause = max(task.seconds, task.pauses * (loop.time() - started))
        if task.end is not None:
            task.end(visits.seen, pause)
        return pause

    async def _repeated(
        self, task: Round, call: Callable[[], Awaitable[Any]], tenant_id: str, leave_off: asyncio.Event
    ) -> bool:
        """Say whether there was something to do."""
        active = False
        for _ in range(task.calls_per_turn):
            async with self._system.acting(tenant_id=tenant_id, seconds=_CALL_SECONDS):
                response = await call()
            if task.note is not None:
                task.note(tenant_id, response)
            active = active or getattr(response, "active", False)
            if leave_off.is_set() or not getattr(response, "more", False):
                break
        return active
