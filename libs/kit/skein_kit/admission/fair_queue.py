"""Whose call is next when there are more than can be worked on: fair among tenants, short, and bounded. Pure.

Order: start-time fair queueing over so many calls at once, SFQ(D) (Goyal, Vin and Cheng, SIGCOMM 1996; Jin, Chase and
Kaur, SIGMETRICS 2004). Each tenant is a flow with a virtual time that grows by what its calls cost; the flow that had
least is next. A flow that was quiet begins at the present virtual time: it is first in line, and saves nothing up.

Time: a call may wait for a moment, but much shorter once there has always been somebody waiting for as long, as in
"Fail at Scale" (Maurer, ACM Queue 13/8, 2015), after CoDel: a burst is worked off, a standing line only makes all late.
A call that is the only one of its tenant's to wait has the longer time: it is not what the line is made of.

Room: what waits is bounded in calls and in bytes. When all room is taken, the newest call of the flow with the longest
line gives way (longest queue drop), so that nobody is kept out by another's line.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skein_kit.admission.adaptive_limit import AdaptiveLimit

# A line is standing when it was not empty for so many times what calls wait in it; until then they wait up to that.
BURST = 3
# Bytes of a request that take as much room as one call.
_BYTES_A_CALL = 64 * 1024
# No call takes more room: larger messages are refused later for what they are.
_MOST_ROOM = 65
# Of the limit: what one tenant's calls may take while they last. The rest is for the others, even if this one's calls
# all hang.
_SHARE = 0.75
# Calls of whoever runs the cluster come first.
_FIRST, _OTHERS = 0, 1
_LEAST_COST = 1e-3
# So many flows without waiting calls may be in the line.
_SPARSE = 64


class CallState(Enum):
    """What is with a call."""

    WAITING = auto()
    # It is being worked on.
    RUNNING = auto()
    # It was refused: because there was no room, or because it waited as long as it may.
    FULL = auto()
    LATE = auto()
    # It is done, or whoever made it went away.
    OVER = auto()


@dataclass(eq=False, slots=True)
class QueuedCall:
    """One call that came in."""

    flow: Flow
    cost: float
    room: int
    arrived: float
    # When it is refused if it still waits.
    until: float
    state: CallState = CallState.WAITING
    # Called when a waiting call's state changes.
    told: Callable[[], None] | None = None


@dataclass(eq=False, slots=True)
class Flow:
    """The calls of one tenant."""

    key: Hashable
    rank: int
    waiting: deque[QueuedCall] = field(default_factory=deque)
    # Virtual times: when its next call begins, and when what it was given ends.
    start: float = 0.0
    finish: float = 0.0
    running: int = 0
    # Of those that wait.
    room: int = 0
    is_listed: bool = False


class FairQueue:
    """The calls that are worked on and those that wait. Every method that takes a time takes the present."""

    def __init__(self, limit: AdaptiveLimit, *, most_waiting: int, wait_seconds: float) -> None:
        """Let `limit` calls run; of others so many wait, in a standing line for `wait_seconds` at most."""
        self._limit = limit
        self._most_waiting = most_waiting
        self._wait_seconds = wait_seconds
        self._flows: dict[Hashable, Flow] = {}
        # Flows with calls that wait, by rank and virtual time.
        self._line: list[tuple[int, float, int, Flow]] = []
        self._numbers = itertools.count()
        self._virtual = 0.0
        self._room = 0
        # Since when there was always somebody waiting.
        self._standing_since = 0.0
        self.running = 0
        self.waiting = 0

    @property
    def flows(self) -> int:
        """Return how many tenants there is anything kept of."""
        return len(self._flows)

    def arrive(
        self,
        key: Hashable,
        *,
        at: float,
        cost: float = 1.0,
        size: int = 0,
        left: float | None = None,
        first: bool = False,
    ) -> QueuedCall:
        """Let a call run, wait, or be refused, as its state says.

        `cost` is what it takes, in any unit; `size` its bytes; `left` the seconds that its caller waits at most.
        """
        flow = self._flows.get(key)
        if flow is None:
            flow = self._flows[key] = Flow(key, _FIRST if first else _OTHERS)
        turn = QueuedCall(flow, max(cost, _LEAST_COST), min(_MOST_ROOM, 1 + size // _BYTES_A_CALL), at, at)
        # While there is room, those in the line are tenants that have all they may have.
        if self.running < self._limit.value and not flow.waiting and self._may_run(flow):
            flow.start = max(self._virtual, flow.finish)
            self._run(turn)
            return turn
        self._limit.look(at, is_short=True)
        self._next(at)
        turn.until = at + self._patience(flow, at, left)
        if not self._makes_room(turn):
            turn.state = CallState.FULL
            self._forget(flow)
            return turn
        if not self.waiting:
            self._standing_since = at
        # It may have been forgotten: the calls that it had were late.
        self._flows[key] = flow
        flow.waiting.append(turn)
        flow.room += turn.room
        self._room += turn.room
        self.waiting += 1
        self._list(flow)
        self._next(at)
        return turn

    def leave(self, turn: QueuedCall, at: float) -> None:
        """End a call that ran, or take one that waits out of the line: its caller is gone."""
        flow = turn.flow
        if turn.state is CallState.RUNNING:
            turn.state = CallState.OVER
            self.running -= 1
            flow.running -= 1
        elif turn.state is CallState.WAITING:
            self._drop(turn, CallState.OVER)
        else:
            return
        self._limit.look(at, is_short=bool(self.waiting))
        self._next(at)
        self._forget(flow)

    def late(self, turn: QueuedCall, at: float) -> None:
        """Refuse a call that waited long enough."""
        if turn.state is CallState.WAITING:
            self._drop(turn, CallState.LATE)
            self._limit.look(at, is_short=True)
            self._next(at)
            self._forget(turn.flow)

    def _patience(self, flow: Flow, at: float, left: float | None) -> float:
        burst = BURST * self._wait_seconds
        is_standing = flow.waiting and at - self._standing_since > burst
        seconds = self._wait_seconds if is_standing else burst
        # Some time must be left to work.
        return seconds if left is None else min(seconds, left / 2)

    def _makes_room(self, turn: QueuedCall) -> bool:
        while self._room + turn.room > self._most_waiting:
            lines = [flow for flow in self._flows.values() if flow.waiting and flow.rank >= turn.flow.rank]
            longest = max(lines, key=lambda flow: flow.room, default=None)
            if longest is None:
                return False
            if longest.rank == turn.flow.rank and longest.room <= turn.flow.room + turn.room:
                return False
            self._drop(longest.waiting[-1], CallState.FULL)
            self._forget(longest)
        return True

    def _may_run(self, flow: Flow) -> bool:
        return flow.running < max(1, int(self._limit.value * _SHARE))

    def _run(self, turn: QueuedCall) -> None:
        flow = turn.flow
        self._virtual = max(self._virtual, flow.start)
        flow.finish = flow.start + turn.cost
        flow.running += 1
        self.running += 1
        turn.state = CallState.RUNNING

    def _list(self, flow: Flow) -> None:
        if not flow.is_listed:
            flow.is_listed = True
            flow.start = max(self._virtual, flow.finish)
            heapq.heappush(self._line, (flow.rank, flow.start, next(self._numbers), flow))
            if len(self._line) > _SPARSE + 2 * len(self._flows):
                self._compact()

    def _compact(self) -> None:
        """Strike out flows of which no call waits any more; otherwise they are passed over when their turn comes."""
        for entry in self._line:
            entry[3].is_listed = bool(entry[3].waiting)
        self._line = [entry for entry in self._line if entry[3].is_listed]
        heapq.heapify(self._line)

    def _next(self, at: float) -> None:
        """Let calls run while there is room for them."""
        passed: list[tuple[int, float, int, Flow]] = []
        while self._line and self.running < self._limit.value:
            entry = heapq.heappop(self._line)
            flow = entry[3]
            if not flow.waiting:
                flow.is_listed = False
                continue
            if not self._may_run(flow):
                passed.append(entry)
                continue
            flow.is_listed = False
            turn = flow.waiting[0]
            if turn.until < at:
                self._drop(turn, CallState.LATE)
                self._forget(flow)
            else:
                self._unqueue(turn)
                self._run(turn)
                _tell(turn)
            if flow.waiting:
                self._list(flow)
        for entry in passed:
            heapq.heappush(self._line, entry)
        while self._line and not self._line[0][3].waiting:
            heapq.heappop(self._line)[3].is_listed = False

    def _drop(self, turn: QueuedCall, state: CallState) -> None:
        turn.state = state
        self._unqueue(turn)
        _tell(turn)

    def _unqueue(self, turn: QueuedCall) -> None:
        flow = turn.flow
        flow.waiting.remove(turn)
        flow.room -= turn.room
        self._room -= turn.room
        self.waiting -= 1

    def _forget(self, flow: Flow) -> None:
        """Keep nothing of a flow without calls: it would gain a turn at most."""
        if not flow.waiting and not flow.running:
            self._flows.pop(flow.key, None)


def _tell(turn: QueuedCall) -> None:
    if turn.told is not None:
        turn.told()
