"""Admission control: runs, queues or refuses the calls of a service, before all of them become slow.

It limits a call where it enters the cluster, and once more in the first other process that it reaches, which has its
own processor. Calls within the process of an admitted call, and calls further on, run at once: if they waited for each
other, they could deadlock. The worker limits the cluster's own background work.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Hashable
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from prometheus_client import Counter, Gauge, Histogram

from skein_kit.admission.adaptive_limit import DELAYS, AdaptiveLimit
from skein_kit.admission.fair_queue import CallState, FairQueue, QueuedCall
from skein_kit.admission.processor_time import ProcessorTime
from skein_kit.calls.call import IN_PROCESS, Call
from skein_kit.errors import Overloaded
from skein_kit.identity.permissions import OPERATOR, SYSTEM
from skein_kit.rpc.request_body import CompleteBody

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Iterator

    from skein_kit.settings import ProcessSettings

    Handler = Callable[[Any, Call], Awaitable[Any]]


# Seconds of a call of which nothing is known, and of each byte of its request: what parsing and storing take.
_INITIAL_SECONDS = 0.01
_SECONDS_PER_BYTE = 2e-7
# Requests up to this size are alike; from then on, those within a factor of four.
_SMALL_BYTES = 16 * 1024
# Weights of a new observation in the running mean: a dear call is believed sooner than a cheap one.
_RISE, _FALL = 0.5, 0.2
# Estimates in memory; one that is dropped begins anew.
_MAX_ESTIMATES = 20_000


class CostEstimates:
    """Running means of processor time, in seconds."""

    def __init__(self) -> None:
        """Start without observations."""
        # The estimate used last comes last.
        self._means: OrderedDict[tuple[str, Hashable, int], float] = OrderedDict()

    def expect(self, path: str, key: Hashable, size: int) -> float:
        """Return the seconds that a call of a method will take for a tenant, with a request of so many bytes."""
        own = (path, key, _size_class(size))
        for known in (own, (path, None, own[2])):
            mean = self._means.get(known)
            if mean is not None:
                self._means.move_to_end(known)
                return mean
        return _initial(size)

    def observe(self, path: str, key: Hashable, size: int, seconds: float) -> None:
        """Note the seconds that a call took."""
        size_class = _size_class(size)
        # That of all tenants is for a tenant without one of its own.
        for known, rise in (((path, key, size_class), _RISE), ((path, None, size_class), _FALL)):
            mean = self._means.get(known)
            if mean is None:
                # The first call of a process fills caches: by itself it makes no cheap method a costly one.
                mean, rise = min(_initial(size), seconds), _FALL  # noqa: PLW2901 - the weight of this observation.
            self._means[known] = mean + (seconds - mean) * (rise if seconds > mean else _FALL)
            self._means.move_to_end(known)
        while len(self._means) > _MAX_ESTIMATES:
            self._means.popitem(last=False)


def _initial(size: int) -> float:
    return _INITIAL_SECONDS + size * _SECONDS_PER_BYTE


def _size_class(size: int) -> int:
    return (size // _SMALL_BYTES).bit_length() // 2


LIMIT = Gauge("skein_admission_limit", "Concurrent calls that the adaptive limit of the service allows.", ["service"])
QUEUE = Gauge("skein_admission_queue_calls", "Calls in the fair queue.", ["service"])
SHED = Counter(
    "skein_admission_shed_calls_total",
    "Calls refused because the fair queue was full (queue_full), or after the longest wait in it (queue_timeout).",
    ["service", "reason"],
)
WAIT = Histogram(
    "skein_admission_wait_seconds",
    "Time that a call spent in the fair queue, whether it was admitted or refused.",
    ["service"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5),
)

_LOOP = "event loop"
# Bounds of the adaptive limit. Fewer calls leave cores idle while one waits for the database; more only wait for each
# other: a process runs one thread of Python and ten connections.
_MIN_CALLS = 8
_MAX_CALLS = 256
# Delay of the event loop, of database connections or of the embedder above which the limit falls: a few calls' work.
_TARGET_DELAY_SECONDS = 0.01
# Seconds of processor time up to which threads of costlier calls pause for a call.
_MAX_CHEAP = 0.06
# Pause before a retry that refused callers get, multiplied when many calls are refused.
_RETRY_AFTER_SECONDS = 0.25
_MAX_RETRY_FACTOR = 8
_SHARE_WEIGHT = 0.02
# End of the names of services that other services call for every caller.
_INTERNAL_SUFFIX = "InternalService"
_OPERATORS, _INTERNAL = "operators", "internal"
# The hops of a call over a socket up to which it is limited: from outside, or from the first service it reached.
_MAX_HOPS = 1


class AdmissionControl:
    """Admission control of one service."""

    def __init__(self, service: str, settings: ProcessSettings, *, is_edge: bool) -> None:
        """At the edge every call comes from outside, whatever its metadata says."""
        self._is_edge = is_edge
        self._limit = AdaptiveLimit(
            minimum=settings.admission_calls or _MIN_CALLS,
            maximum=settings.admission_calls or _MAX_CALLS,
            target_seconds=_TARGET_DELAY_SECONDS,
        )
        self._queue = FairQueue(
            self._limit,
            max_waiting=settings.admission_queue,
            wait_seconds=settings.admission_wait_seconds,
            costly_seconds=settings.admission_costly_seconds,
        )
        self._estimates = CostEstimates()
        self._is_sampling = False
        # Running mean: the share of calls that was admitted.
        self._admitted_share = 1.0
        self._wait = WAIT.labels(service)
        self._shed_counters = {
            CallState.FULL: SHED.labels(service, "queue_full"),
            CallState.LATE: SHED.labels(service, "queue_timeout"),
        }
        LIMIT.labels(service).set_function(lambda: self._limit.value)
        QUEUE.labels(service).set_function(lambda: self._queue.waiting)

    @contextmanager
    def observe_delays(self) -> Iterator[None]:
        """Feed the limit with the queueing delays of this process while the block runs."""
        DELAYS.add(self._limit)
        try:
            yield
        finally:
            DELAYS.remove(self._limit)

    def limit_concurrency(self, path: str, handler: Handler) -> Handler:
        """Wrap a method's handler: its calls run when they are admitted."""
        is_internal = path.split("/")[1].endswith(_INTERNAL_SUFFIX)

        async def run_admitted(request: Any, call: Call) -> Any:
            key, has_priority = (_INTERNAL, True) if is_internal else _flow(call)
            size = _size_of(request)
            expect = partial(self._estimates.expect, path, key, size)
            queued_call = await self._admit(key, call, expect=expect, size=size, has_priority=has_priority)
            call.is_admitted = True
            used = ProcessorTime(
                queued_call.cost,
                max_cheap=_MAX_CHEAP,
                on_growth=lambda seconds: self._queue.raise_cost(queued_call, seconds),
            )
            try:
                return await used.measure(handler(request, call))
            finally:
                used.close()
                # First, so that calls like it that wait are taken for what it was.
                self._estimates.observe(path, key, size, used.seconds)
                self._queue.finish(queued_call, time.monotonic())

        def answer(request: Any, call: Call) -> Awaitable[Any]:
            return run_admitted(request, call) if self._limits(call) else handler(request, call)

        return answer

    def _limits(self, call: Call) -> bool:
        """Return whether this service limits the call."""
        if self._is_edge:
            call.hops = 0
            return True
        if call.hops > (0 if call.peer_address == IN_PROCESS else _MAX_HOPS):
            return False
        return call.caller is None or SYSTEM not in call.caller.permissions

    async def _admit(
        self, key: Hashable, call: Call, *, expect: Callable[[], float], size: int, has_priority: bool
    ) -> QueuedCall:
        """Wait until a call is admitted. Raises Overloaded."""
        loop, at = asyncio.get_running_loop(), time.monotonic()
        if not self._is_sampling:
            # Samples the delay of the event loop: nearly 0 while it is idle.
            self._is_sampling = True
            loop.call_soon(self._on_loop_sample, at)
        remaining = None if call.deadline is None else call.deadline - loop.time()
        queued_call = self._queue.enqueue(
            key, at=at, cost=expect(), size=size, remaining=remaining, has_priority=has_priority, expect=expect
        )
        if queued_call.state is CallState.RUNNING:
            self._wait.observe(0.0)
            self._admitted_share += (1 - self._admitted_share) * _SHARE_WEIGHT
            return queued_call
        if queued_call.state is CallState.WAITING:
            state = await self._wait_admitted(queued_call, loop)
            self._wait.observe(time.monotonic() - at)
            if state is CallState.RUNNING:
                self._admitted_share += (1 - self._admitted_share) * _SHARE_WEIGHT
                return queued_call
        self._admitted_share -= self._admitted_share * _SHARE_WEIGHT
        self._shed_counters[queued_call.state].inc()
        factor = 1 / max(self._admitted_share, 1 / _MAX_RETRY_FACTOR)
        raise Overloaded(retry_after=_RETRY_AFTER_SECONDS * factor)

    async def _wait_admitted(self, queued_call: QueuedCall, loop: asyncio.AbstractEventLoop) -> CallState:
        """Wait until a call is admitted or refused; return its state."""
        state_change = loop.create_future()

        def notify() -> None:
            if not state_change.done():
                state_change.set_result(None)

        queued_call.on_change = notify
        timer = loop.call_later(queued_call.wait_until - queued_call.arrival_time, self._time_out, queued_call)
        try:
            await state_change
        except asyncio.CancelledError:
            self._queue.finish(queued_call, time.monotonic())
            raise
        finally:
            timer.cancel()
        return queued_call.state

    def _time_out(self, queued_call: QueuedCall) -> None:
        self._queue.time_out(queued_call, time.monotonic())

    def _on_loop_sample(self, at: float) -> None:
        self._is_sampling = False
        self._limit.observe_delay(_LOOP, time.monotonic() - at)


def _size_of(request: Any) -> int:
    """Return the bytes that a waiting request holds; 0 for a message of this process."""
    if isinstance(request, CompleteBody):
        return request.size
    return len(request) if type(request) is bytes else 0


def _flow(call: Call) -> tuple[Hashable, bool]:
    """Return the key of a call's flow, and whether the flow goes before those of tenants."""
    caller = call.caller
    if caller is None:
        return ("address", call.client_address), False
    if OPERATOR in caller.permissions:
        return _OPERATORS, True
    return (caller.principal if caller.tenant_id is None else caller.tenant_id), False
