"""Makes calls and measures them: so many in flight, for so long, whichever limit comes first."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from bench.figures import Figures


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """When a go is done, whichever comes first."""

    calls: int
    seconds: float


async def measured(
    call: Callable[[int], Awaitable[object]],
    numbers: itertools.count[int],
    *,
    in_flight: int,
    limits: Limits,
    server_cpu: Callable[[], float],
    serves_itself: bool = False,
) -> Figures:
    """Make the call of each number until a limit is reached; the first error ends it.

    `serves_itself`: the work is done in this process, so its processor time is the serving side's.
    """
    cpu, own_cpu, started = server_cpu(), time.process_time(), time.perf_counter()
    latencies, ends = await _calls(call, numbers, in_flight, limits.calls, limits.seconds)
    seconds = time.perf_counter() - started
    own = time.process_time() - own_cpu
    return Figures(
        in_flight=in_flight,
        seconds=seconds,
        latencies=tuple(latencies),
        server_cpu=server_cpu() - cpu + (own if serves_itself else 0.0),
        client_cpu=0.0 if serves_itself else own,
        by_second=whole_seconds([end - started for end in ends], seconds),
    )


def whole_seconds(ends: Sequence[float], seconds: float) -> tuple[int, ...]:
    """Return how many of some ends, in seconds from a beginning, lie in each of the whole seconds after it."""
    counts = Counter(map(int, ends))
    return tuple(counts[second] for second in range(int(seconds)))


async def _calls(
    call: Callable[[int], Awaitable[object]], numbers: itertools.count[int], in_flight: int, most: int, seconds: float
) -> tuple[list[float], list[float]]:
    """Return how long each call took, and when it ended."""
    latencies: list[float] = []
    all_ends: list[float] = []
    remaining = itertools.count(most, -1)
    ends = time.perf_counter() + seconds

    async def caller() -> None:
        while next(remaining) > 0 and time.perf_counter() < ends:
            number = next(numbers)
            started = time.perf_counter()
            await call(number)
            all_ends.append(time.perf_counter())
            latencies.append(all_ends[-1] - started)

    async with asyncio.TaskGroup() as group:
        for _ in range(in_flight):
            group.create_task(caller())
    return latencies, all_ends
