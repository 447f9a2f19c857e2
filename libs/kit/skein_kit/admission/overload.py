"""Calls take turns at a service, and those beyond what it can do are refused before all of them become slow.

A call is counted where it enters, and again where the process that it entered hands it to another one, which has a
processor of its own. What a call that has its turn calls within a process, and what is called further on, runs at once:
if it had to wait for a turn, calls could wait for each other.
The cluster's own background work is not counted either, because it is as much as the worker does at once.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from prometheus_client import Counter, Gauge, Histogram

from skein_kit.admission.adaptive_limit import DELAYS, AdaptiveLimit
from skein_kit.admission.fair_queue import CallState, FairQueue, QueuedCall
from skein_kit.calls.call import IN_PROCESS, Call
from skein_kit.errors import Overloaded
from skein_kit.identity.permissions import OPERATOR, SYSTEM
from skein_kit.rpc.request_body import CompleteBody

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Iterator

    from skein_kit.settings import ProcessSettings

    Handler = Callable[[Any, Call], Awaitable[Any]]

LIMIT = Gauge(
    "skein_admission_limit", "Most calls that a service works on at once, as it measured by itself.", ["service"]
)
QUEUE = Gauge("skein_admission_queue", "Calls that wait for their turn.", ["service"])
SHED = Counter(
    "skein_admission_shed_total",
    "Calls refused because the queue had no room (full) or their turn did not come in time (late).",
    ["service", "reason"],
)
WAIT = Histogram(
    "skein_admission_wait_seconds",
    "Time until a call had its turn, or was refused one.",
    ["service"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5),
)

_LOOP = "event loop"
# What a method takes is a running mean of how long its calls last; so much of it is the newest call.
_NEWEST = 0.1
_FIRST_GUESS_SECONDS = 0.01
# Refused callers are told to retry after this time, and after a multiple of it when many calls are refused.
_RETRY_AFTER_SECONDS = 0.25
_MOST_RETRY_FACTOR = 8
_RECENT = 0.02
_MOMENT_SECONDS = 1.0
# What services ask of each other for every caller.
_INTERNAL_SERVICES = ("IdentityService", "UpkeepService", "IndexService")
_OPERATORS, _INTERNAL = "operators", "internal"
# Calls from outside, and calls that the first service of a process chain makes for one.
_DEEPEST = 1


class AdmissionControl:
    """The turns of one service's calls."""

    def __init__(self, service: str, settings: ProcessSettings, *, is_edge: bool) -> None:
        """At the edge every call comes from outside, whatever it claims."""
        self._is_edge = is_edge
        self._limit = AdaptiveLimit(
            least=settings.admission_calls_least,
            most=settings.admission_calls_most,
            target_seconds=settings.admission_delay_seconds,
        )
        self._turns = FairQueue(
            self._limit, most_waiting=settings.admission_waiting, wait_seconds=settings.admission_wait_seconds
        )
        self._is_sampling = False
        # Of the last calls: the share that had a turn.
        self._admitted = 1.0
        self._refused_at = -_MOMENT_SECONDS
        self._wait = WAIT.labels(service)
        self._shed = {CallState.FULL: SHED.labels(service, "full"), CallState.LATE: SHED.labels(service, "late")}
        LIMIT.labels(service).set_function(lambda: self._limit.value)
        QUEUE.labels(service).set_function(lambda: self._turns.waiting)

    @property
    def is_refusing(self) -> bool:
        """Say whether a call was refused a moment ago."""
        return time.monotonic() - self._refused_at < _MOMENT_SECONDS

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Learn until the block ends how long calls wait for what they share in this process."""
        DELAYS.add(self._limit)
        try:
            yield
        finally:
            DELAYS.remove(self._limit)

    def in_turn(self, path: str, handler: Handler) -> Handler:
        """Let the calls of a method run in their turn."""
        is_internal = path.split("/")[1].endswith(_INTERNAL_SERVICES)
        cost = _FIRST_GUESS_SECONDS

        async def counted(request: Any, call: Call) -> Any:
            nonlocal cost
            key, first = (_INTERNAL, True) if is_internal else _flow(call)
            turn = await self._turn(key, call, cost=cost, size=_size_of(request), first=first)
            started, call.has_turn = time.monotonic(), True
            try:
                return await handler(request, call)
            finally:
                ended = time.monotonic()
                self._turns.leave(turn, ended)
                cost += (ended - started - cost) * _NEWEST

        def answer(request: Any, call: Call) -> Awaitable[Any]:
            return counted(request, call) if self._enters(call) else handler(request, call)

        return answer

    def _enters(self, call: Call) -> bool:
        """Say whether a call is counted here."""
        if self._is_edge:
            call.hops = 0
            return True
        if call.hops > (0 if call.peer_address == IN_PROCESS else _DEEPEST):
            return False
        return call.caller is None or SYSTEM not in call.caller.permissions

    async def _turn(self, key: Hashable, call: Call, *, cost: float, size: int, first: bool) -> QueuedCall:
        """Wait for the turn of a call; raise Overloaded when it does not come."""
        loop, at = asyncio.get_running_loop(), time.monotonic()
        if not self._is_sampling:
            # How late the loop comes to what is ready: nothing while it has time.
            self._is_sampling = True
            loop.call_soon(self._sampled, at)
        left = None if call.deadline is None else call.deadline - loop.time()
        turn = self._turns.arrive(key, at=at, cost=cost, size=size, left=left, first=first)
        if turn.state is CallState.RUNNING:
            self._wait.observe(0.0)
            self._admitted += (1 - self._admitted) * _RECENT
            return turn
        if turn.state is CallState.WAITING:
            came = await self._waited(turn, loop)
            self._wait.observe(time.monotonic() - at)
            if came is CallState.RUNNING:
                self._admitted += (1 - self._admitted) * _RECENT
                return turn
        self._admitted -= self._admitted * _RECENT
        self._refused_at = time.monotonic()
        self._shed[turn.state].inc()
        factor = 1 / max(self._admitted, 1 / _MOST_RETRY_FACTOR)
        raise Overloaded(after=_RETRY_AFTER_SECONDS * factor)

    async def _waited(self, turn: QueuedCall, loop: asyncio.AbstractEventLoop) -> CallState:
        """Wait until a call runs or is refused; return which."""
        changed = loop.create_future()

        def told() -> None:
            if not changed.done():
                changed.set_result(None)

        turn.told = told
        timer = loop.call_later(turn.until - turn.arrived, self._late, turn)
        try:
            await changed
        except asyncio.CancelledError:
            self._turns.leave(turn, time.monotonic())
            raise
        finally:
            timer.cancel()
        return turn.state

    def _late(self, turn: QueuedCall) -> None:
        self._turns.late(turn, time.monotonic())

    def _sampled(self, at: float) -> None:
        self._is_sampling = False
        self._limit.delayed(_LOOP, time.monotonic() - at)


def _size_of(request: Any) -> int:
    """Return the bytes that a request holds while it waits; 0 for a message that the process made itself."""
    if isinstance(request, CompleteBody):
        return request.size
    return len(request) if type(request) is bytes else 0


def _flow(call: Call) -> tuple[Hashable, bool]:
    """Return whose call it is, and whether it goes before the tenants'."""
    caller = call.caller
    if caller is None:
        return ("address", call.client_address), False
    if OPERATOR in caller.permissions:
        return _OPERATORS, True
    return (caller.principal if caller.tenant_id is None else caller.tenant_id), False
