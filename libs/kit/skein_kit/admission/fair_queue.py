"""A queue of calls that is fair among tenants, short, and bounded. Pure.

Order: start-time fair queueing over several calls at a time, SFQ(D) (Goyal, Vin and Cheng, SIGCOMM 1996; Jin, Chase and
Kaur, SIGMETRICS 2004). Each tenant is a flow with a virtual time that grows by the cost of its calls. The flow with the
lowest virtual time is next. An idle flow restarts at the present virtual time: it is next, but saves nothing up.

Time: a call waits for a short time, and for much less while the queue has not been empty for that time. This follows
"Fail at Scale" (Maurer, ACM Queue 13/8, 2015), after CoDel. A burst drains; a standing queue only delays every call. A
call that is the only waiting one of its tenant has the longer time, because it does not cause the queue.

Work: costly calls of one tenant run one after another. Side by side they would only share one processor, and calls of
other tenants would wait behind all of them at each step. The sum of the costs of all tenants' costly calls is bounded
too, but one runs whatever it costs. Costly calls are a flow of their own, so that cheap calls of their tenant pass
them. They wait longer than others, because they wait for each other and not for the load.

Size: the queue is bounded in calls and in bytes. A full queue drops the newest call of the flow with the longest queue
(longest queue drop), so that no tenant keeps another out.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from enum import Enum, auto

from skein_kit.admission.adaptive_limit import AdaptiveLimit

# The queue is standing after this multiple of the wait in it without being empty; until then calls wait that long.
BURST = 3
# Bytes of a request that count as one call.
_BYTES_PER_CALL = 64 * 1024
# The largest size of one call, in calls: larger messages are refused later, with their own error.
_MAX_QUEUE_BYTES = 65
# Share of the limit that the running calls of one tenant may take. The rest serves other tenants even if these calls
# hang.
_SHARE = 0.75
# Ranks: calls of operators and of the cluster come first.
_PRIORITY_RANK, _NORMAL_RANK = 0, 1
_MIN_COST = 1e-3
# Seconds of processor time beyond which a call is costly, if nothing else is set: that of some three recalls.
COSTLY = 0.03
# Bounds of the running costly calls of one flow and of all, in microseconds. A call that costs up to the last waits for
# no other tenant.
_MAX_FLOW_COST, _MAX_COST, _EXEMPT_COST = 60_000, 240_000, 120_000
# A call that waits for costly ones of its tenant waits for this multiple of the wait in a standing queue.
_COSTLY_PATIENCE = 300
# Entries of flows without waiting calls that the heap may hold.
_SPARSE = 64


class CallState(Enum):
    """State of a call."""

    WAITING = auto()
    RUNNING = auto()
    # Refused: the queue was full, or the call waited too long.
    FULL = auto()
    LATE = auto()
    # Finished, or cancelled by its caller.
    ENDED = auto()


@dataclass(eq=False, slots=True)
class QueuedCall:
    """One call, running or waiting."""

    flow: Flow
    cost: float
    size: int
    arrival_time: float
    # The time at which it is refused if it still waits.
    wait_until: float
    state: CallState = CallState.WAITING
    # Called when a waiting call's state changes.
    on_change: Callable[[], None] | None = None
    # Returns what the call costs as far as is known now; other calls that ended since may have shown it to be cheap.
    expect: Callable[[], float] | None = None


@dataclass(eq=False, slots=True)
class Flow:
    """The cheap calls, or the costly calls, of one tenant."""

    key: Hashable
    rank: int
    is_costly: bool = False
    waiting: deque[QueuedCall] = field(default_factory=deque)
    # Virtual times: the start of its next call, and the end of its last one.
    start: float = 0.0
    finish: float = 0.0
    running: int = 0
    # Cost of the running costly calls, in microseconds: a sum of whole numbers returns to zero.
    cost: int = 0
    # Size of the waiting calls.
    size: int = 0
    is_queued: bool = False


class FairQueue:
    """The running and the waiting calls of one service. Times are in seconds of a monotonic clock; `at` is now."""

    def __init__(
        self, limit: AdaptiveLimit, *, max_waiting: int, wait_seconds: float, costly_seconds: float = COSTLY
    ) -> None:
        """Run `limit` calls and queue up to `max_waiting` others, for `wait_seconds` each in a standing queue."""
        self._limit = limit
        self._max_waiting = max_waiting
        self._wait_seconds = wait_seconds
        self._costly_seconds = costly_seconds
        self._flows: dict[Hashable, Flow] = {}
        # Heap of flows with waiting calls, by rank and virtual time.
        self._heap: list[tuple[int, float, int, Flow]] = []
        self._numbers = itertools.count()
        self._virtual = 0.0
        self._size = 0
        # Cost of the running costly calls, in microseconds.
        self._cost = 0
        # The time since which the queue has not been empty.
        self._nonempty_since = 0.0
        self.running = 0
        self.waiting = 0

    @property
    def flows(self) -> int:
        """The number of flows in memory."""
        return len(self._flows)

    def enqueue(
        self,
        key: Hashable,
        *,
        at: float,
        cost: float = _MIN_COST,
        size: int = 0,
        remaining: float | None = None,
        has_priority: bool = False,
        expect: Callable[[], float] | None = None,
    ) -> QueuedCall:
        """Run, queue or refuse a call; its `state` says which.

        `cost` is the expected processor time in seconds, and `expect` returns it anew while the call waits.
        `size` is in bytes. `remaining` is the seconds until the caller's deadline. `has_priority`: the call goes before
        those of tenants.
        """
        is_costly = cost > self._costly_seconds and not has_priority
        key = (key, is_costly)
        flow = self._flows.get(key)
        if flow is None:
            flow = self._flows[key] = Flow(key, _PRIORITY_RANK if has_priority else _NORMAL_RANK, is_costly)
        call = QueuedCall(flow, max(cost, _MIN_COST), min(_MAX_QUEUE_BYTES, 1 + size // _BYTES_PER_CALL), at, at)
        call.expect = expect
        # With capacity left, the waiting calls belong to tenants that have reached their share.
        if self.running < self._limit.value and not flow.waiting and self._has_room(call):
            flow.start = max(self._virtual, flow.finish)
            self._run(call)
            return call
        self._update_limit(at)
        self._run_waiting(at)
        call.wait_until = at + self._max_wait(flow, at, remaining)
        if not self._evict_for(call):
            call.state = CallState.FULL
            self._drop_idle_flow(flow)
            return call
        if not self.waiting:
            self._nonempty_since = at
        # `_run_waiting` may have dropped the flow, because its calls were late.
        self._flows[key] = flow
        flow.waiting.append(call)
        flow.size += call.size
        self._size += call.size
        self.waiting += 1
        self._push(flow)
        self._run_waiting(at)
        return call

    def raise_cost(self, call: QueuedCall, cost: float) -> None:
        """Note that a running call costs more than was expected: its tenant owes it, and runs fewer beside it."""
        more = cost - call.cost
        if more > 0 and call.state is CallState.RUNNING:
            self._count(call, -1)
            call.cost = cost
            self._count(call, 1)
            call.flow.finish += more

    def finish(self, call: QueuedCall, at: float) -> None:
        """End a running call, or remove a waiting one whose caller is gone."""
        flow = call.flow
        if call.state is CallState.RUNNING:
            self._update_limit(at)
            call.state = CallState.ENDED
            self._count(call, -1)
        elif call.state is CallState.WAITING:
            self._drop(call, CallState.ENDED)
        else:
            return
        self._run_waiting(at)
        self._drop_idle_flow(flow)

    def time_out(self, call: QueuedCall, at: float) -> None:
        """Refuse a call that has waited until its `wait_until`."""
        if call.state is CallState.WAITING:
            self._update_limit(at)
            self._drop(call, CallState.LATE)
            self._run_waiting(at)
            self._drop_idle_flow(call.flow)

    def _max_wait(self, flow: Flow, at: float, remaining: float | None) -> float:
        burst = BURST * self._wait_seconds
        is_standing = flow.waiting and at - self._nonempty_since > burst
        seconds = self._wait_seconds if is_standing else burst
        if flow.is_costly or flow.cost:
            seconds = _COSTLY_PATIENCE * self._wait_seconds
        # Some time must remain for the work.
        return seconds if remaining is None else min(seconds, remaining / 2)

    def _evict_for(self, call: QueuedCall) -> bool:
        while self._size + call.size > self._max_waiting:
            flows = [flow for flow in self._flows.values() if flow.waiting and flow.rank >= call.flow.rank]
            longest = max(flows, key=lambda flow: flow.size, default=None)
            if longest is None:
                return False
            if longest.rank == call.flow.rank and longest.size <= call.flow.size + call.size:
                return False
            self._drop(longest.waiting[-1], CallState.FULL)
            self._drop_idle_flow(longest)
        return True

    def _update_limit(self, at: float) -> None:
        """Adapt the limit; calls that wait while fewer run wait for the share or the costs of their tenant."""
        self._limit.update(at, is_limiting=bool(self.waiting) and self.running >= self._limit.value)

    def _has_room(self, call: QueuedCall) -> bool:
        """Return whether a call may run beside those that run, as far as its tenant and its costs are concerned."""
        flow = call.flow
        if flow.running >= max(1, int(self._limit.value * _SHARE)):
            return False
        cost = self._costly_microseconds(call)
        if cost > _EXEMPT_COST and self._cost and self._cost + cost > _MAX_COST:
            return False
        # A call may have turned out costly after it had begun.
        return not flow.cost or flow.cost + cost <= _MAX_FLOW_COST

    def _count(self, call: QueuedCall, number: int) -> None:
        """Count a call as running; with -1, no longer."""
        flow, cost = call.flow, number * self._costly_microseconds(call)
        self.running += number
        flow.running += number
        flow.cost += cost
        self._cost += cost

    def _run(self, call: QueuedCall) -> None:
        flow = call.flow
        self._virtual = max(self._virtual, flow.start)
        flow.finish = flow.start + call.cost
        self._count(call, 1)
        call.state = CallState.RUNNING

    def _push(self, flow: Flow) -> None:
        if not flow.is_queued:
            flow.is_queued = True
            flow.start = max(self._virtual, flow.finish)
            heapq.heappush(self._heap, (flow.rank, flow.start, next(self._numbers), flow))
            if len(self._heap) > _SPARSE + 2 * len(self._flows):
                self._compact()

    def _compact(self) -> None:
        """Remove flows without waiting calls from the heap; `_run_waiting` would skip them one by one."""
        for entry in self._heap:
            entry[3].is_queued = bool(entry[3].waiting)
        self._heap = [entry for entry in self._heap if entry[3].is_queued]
        heapq.heapify(self._heap)

    def _run_waiting(self, at: float) -> None:
        """Run waiting calls while there is capacity."""
        deferred: list[tuple[int, float, int, Flow]] = []
        while self._heap and self.running < self._limit.value:
            entry = heapq.heappop(self._heap)
            flow = entry[3]
            if not flow.waiting:
                flow.is_queued = False
                continue
            call = flow.waiting[0]
            if call.expect is not None:
                call.cost = max(call.expect(), _MIN_COST)
            if not self._has_room(call):
                deferred.append(entry)
                continue
            flow.is_queued = False
            if call.wait_until < at:
                self._drop(call, CallState.LATE)
                self._drop_idle_flow(flow)
            else:
                self._unqueue(call)
                self._run(call)
                _notify(call)
            if flow.waiting:
                self._push(flow)
        for entry in deferred:
            heapq.heappush(self._heap, entry)
        while self._heap and not self._heap[0][3].waiting:
            heapq.heappop(self._heap)[3].is_queued = False

    def _drop(self, call: QueuedCall, state: CallState) -> None:
        call.state = state
        self._unqueue(call)
        _notify(call)

    def _unqueue(self, call: QueuedCall) -> None:
        flow = call.flow
        flow.waiting.remove(call)
        flow.size -= call.size
        self._size -= call.size
        self.waiting -= 1

    def _drop_idle_flow(self, flow: Flow) -> None:
        """Drop a flow without calls: its virtual time is worth one call at most."""
        if not flow.waiting and not flow.running:
            self._flows.pop(flow.key, None)

    def _costly_microseconds(self, call: QueuedCall) -> int:
        # Calls of operators and of the cluster share one flow each, and none of them waits for another.
        return round(call.cost * 1e6) if call.cost > self._costly_seconds and call.flow.rank != _PRIORITY_RANK else 0


def _notify(call: QueuedCall) -> None:
    if call.on_change is not None:
        call.on_change()
