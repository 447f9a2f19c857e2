"""Calls that arrive when they arrive, whether or not earlier ones are answered: open-loop load, from its own process.

As real callers do, these do not wait for one another: what a slow answer keeps waiting is counted (latencies begin when
a call was due, not when it could be sent). Reads a Plan from one file and writes what came of each call to another.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import json
import random
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import uvloop
from bench.figures import percentile
from bench.wireline import Wire, headers_of, message_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

# Reasons that are told apart, as the bytes of an answer hold them.
REASONS = ("OVERLOADED", "RATE_LIMITED", "DEADLINE_EXCEEDED", "DATABASE_BUSY")
# When the sender is this late, it looks at what has come.
_LATE = 1e-3
# After a call's deadline its answer is waited for so long.
_LATE_SECONDS = 2.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Flow:
    """Calls of one method and one caller."""

    name: str
    # "/skein.memory.v1.MemoryService/GetMemory"
    path: str
    # Calls a second, on average; when each comes is chance (a Poisson process).
    rate: float
    # Serialised, as hexadecimal digits; sent in turn.
    requests: Sequence[str]
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What is sent for how long."""

    address: str
    seconds: float
    # What each call is given.
    deadline: float
    flows: Sequence[Flow]
    connections: int = 8
    seed: int = 1
    # So many calls are kept going instead, each when another is answered; the flows' rates are their shares then.
    in_flight: int = 0


@dataclass(kw_only=True, slots=True)
class Outcome:
    """What came of one flow's calls."""

    name: str
    seconds: float
    # Of those that were answered well, from when they were due.
    latencies: list[float] = field(default_factory=list)
    # Of those that were refused with a reason that is told apart.
    refused: dict[str, list[float]] = field(default_factory=dict)
    # By grpc's number; -1: cut off or never answered.
    others: dict[str, int] = field(default_factory=dict)
    offered: int = 0

    def count(self, code: int, told: bytes, seconds: float) -> None:
        """Count one answer."""
        if code == 0:
            self.latencies.append(seconds)
            return
        for reason in REASONS:
            if reason.encode() in told:
                self.refused.setdefault(reason, []).append(seconds)
                return
        self.others[str(code)] = self.others.get(str(code), 0) + 1

    def within(self, seconds: float) -> float:
        """Return how many calls a second were answered well in that time."""
        return sum(latency <= seconds for latency in self.latencies) / self.seconds

    def milliseconds(self, share: float) -> float:
        """Return a percentile of those that were answered well."""
        return percentile(self.latencies, share) * 1e3

    @property
    def shed(self) -> float:
        """Return the share of calls that were refused for lack of room."""
        return len(self.refused.get("OVERLOADED", ())) / self.offered if self.offered else 0.0

    @property
    def lost(self) -> float:
        """Return the share of calls that were neither answered well nor refused with a reason."""
        return sum(self.others.values()) / self.offered if self.offered else 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """What a run came to."""

    outcomes: Mapping[str, Outcome]
    # How late the sender was, at worst, and its processor time.
    lag_seconds: float
    cpu_seconds: float


async def sent(plan: Plan) -> Told:
    """Run a plan in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="skein-bench-") as folder:
        given, told = Path(folder, "plan.json"), Path(folder, "told.json")
        given.write_text(json.dumps(asdict(plan)), "utf-8")
        process = await asyncio.create_subprocess_exec(sys.executable, __file__, str(given), str(told))
        try:
            await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            message = f"the load client ended with {process.returncode}"
            raise RuntimeError(message)
        found = json.loads(told.read_text("utf-8"))
    outcomes = {made["name"]: Outcome(**made) for made in found["outcomes"]}
    return Told(outcomes=outcomes, lag_seconds=found["lag_seconds"], cpu_seconds=found["cpu_seconds"])


def _arrivals(flows: Sequence[Flow], seconds: float, seed: int) -> Iterator[tuple[float, int]]:
    """Yield when each call is due, and of which flow, in order."""

    def of(number: int, flow: Flow) -> Iterator[tuple[float, int]]:
        chance, at = random.Random(seed * 1000 + number), 0.0
        while flow.rate > 0 and (at := at + chance.expovariate(flow.rate)) < seconds:
            yield at, number

    return heapq.merge(*(of(number, flow) for number, flow in enumerate(flows)))


class _Sender:
    """Sends the calls of a plan and counts what comes of them."""

    def __init__(self, plan: Plan, wires: Sequence[Wire]) -> None:
        self._plan = plan
        self._wires = itertools.cycle(wires)
        self._headers = [
            headers_of(flow.path, plan.address, flow.metadata, seconds=plan.deadline) for flow in plan.flows
        ]
        self._messages = [
            itertools.cycle([message_of(bytes.fromhex(text)) for text in flow.requests]) for flow in plan.flows
        ]
        self._started = time.perf_counter()
        self._left = 0
        self.outcomes = [Outcome(name=flow.name, seconds=plan.seconds) for flow in plan.flows]
        self.lag = 0.0

    async def send(self) -> None:
        """Send everything and wait for the answers, for as long as they are worth waiting for."""
        await (self._kept_going() if self._plan.in_flight else self._as_they_come())
        ends = time.perf_counter() + self._plan.deadline + _LATE_SECONDS
        while self._left and time.perf_counter() < ends:
            await asyncio.sleep(0.02)

    async def _as_they_come(self) -> None:
        for due, number in _arrivals(self._plan.flows, self._plan.seconds, self._plan.seed):
            while (early := due - self._at()) > 0:
                await asyncio.sleep(early)
            self.lag = max(self.lag, -early)
            self._call(due, number)
            if early < -_LATE:
                # Answers are read as well when everything is late.
                await asyncio.sleep(0)

    async def _kept_going(self) -> None:
        """Make a new call for each one that is answered, until the time is over."""
        chance, loop = random.Random(self._plan.seed), asyncio.get_running_loop()
        numbers, shares = range(len(self._plan.flows)), [flow.rate for flow in self._plan.flows]

        def another() -> None:
            at = self._at()
            if at < self._plan.seconds:
                self._call(at, chance.choices(numbers, shares)[0], lambda: loop.call_soon(another))

        for _ in range(self._plan.in_flight):
            another()
        await asyncio.sleep(self._plan.seconds - self._at())

    def _at(self) -> float:
        return time.perf_counter() - self._started

    def _call(self, due: float, number: int, then: Callable[[], object] | None = None) -> None:
        outcome = self.outcomes[number]
        outcome.offered += 1
        self._left += 1

        def answered(code: int, told: bytes) -> None:
            self._left -= 1
            outcome.count(code, told, self._at() - due)
            if then is not None:
                then()

        next(self._wires).call(self._headers[number], next(self._messages[number]), answered)


async def _send(plan: Plan) -> dict[str, Any]:
    wires = [await Wire.open(plan.address) for _ in range(plan.connections)]
    sender = _Sender(plan, wires)
    await sender.send()
    for wire in wires:
        # What is not answered by now never will be.
        wire.close()
    await asyncio.sleep(0)
    return {
        "outcomes": [asdict(outcome) for outcome in sender.outcomes],
        "lag_seconds": sender.lag,
        "cpu_seconds": time.process_time(),
    }


def _plan(given: dict[str, Any]) -> Plan:
    return Plan(**{**given, "flows": [Flow(**flow) for flow in given["flows"]]})


if __name__ == "__main__":
    came_of_it = uvloop.run(_send(_plan(json.loads(Path(sys.argv[1]).read_text("utf-8")))))
    Path(sys.argv[2]).write_text(json.dumps(came_of_it), "utf-8")
