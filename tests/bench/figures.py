"""What was measured, and how it is compared. Pure: no clock, no socket, no printing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """One cell of a table: many calls of one kind with a number of them in flight."""

    in_flight: int
    # From the first call's start to the last one's end.
    seconds: float
    # Of each call, in seconds, in no order.
    latencies: tuple[float, ...]
    # Processor time of everything that served the calls, Postgres included, and of the process that made them.
    server_cpu: float
    client_cpu: float
    # How many calls ended in each whole second: how steady the machine was.
    by_second: tuple[int, ...] = ()

    @classmethod
    def of_rounds(cls, rounds: Sequence[Figures]) -> Figures:
        """Put together what was measured in several goes."""
        return cls(
            in_flight=rounds[0].in_flight,
            seconds=sum(one.seconds for one in rounds),
            latencies=tuple(latency for one in rounds for latency in one.latencies),
            server_cpu=sum(one.server_cpu for one in rounds),
            client_cpu=sum(one.client_cpu for one in rounds),
            by_second=tuple(calls for one in rounds for calls in one.by_second),
        )

    @property
    def calls(self) -> int:
        """Return how many calls were made."""
        return len(self.latencies)

    @property
    def per_second(self) -> float:
        """Return calls per second."""
        return self.calls / self.seconds if self.seconds else 0.0

    @property
    def p50(self) -> float:
        """Return the median in milliseconds."""
        return percentile(self.latencies, 0.5) * 1e3

    @property
    def p95(self) -> float:
        """Return the latency that 19 of 20 calls stay within, in milliseconds."""
        return percentile(self.latencies, 0.95) * 1e3

    @property
    def server_cpu_per_thousand(self) -> float:
        """Return processor seconds of the serving side per 1,000 calls."""
        return 1e3 * self.server_cpu / self.calls if self.calls else 0.0

    @property
    def client_cpu_per_thousand(self) -> float:
        """Return processor seconds of the calling side per 1,000 calls."""
        return 1e3 * self.client_cpu / self.calls if self.calls else 0.0

    def as_json(self) -> dict[str, Any]:
        """Return the figures for a program."""
        return {
            "in_flight": self.in_flight,
            "calls": self.calls,
            "seconds": round(self.seconds, 3),
            "per_second": round(self.per_second, 1),
            "p50_ms": round(self.p50, 3),
            "p95_ms": round(self.p95, 3),
            "server_cpu_seconds_per_1000": round(self.server_cpu_per_thousand, 3),
            "client_cpu_seconds_per_1000": round(self.client_cpu_per_thousand, 3),
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """Figures, and what they are figures of."""

    operation: str
    # "SQL directly", "service" or "gateway", with what tells variants apart.
    way: str
    # "one process" for all services, or "one each".
    form: str
    figures: Figures

    def as_json(self) -> dict[str, Any]:
        """Return the cell for a program."""
        return {"operation": self.operation, "way": self.way, "form": self.form, **self.figures.as_json()}


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that `share` of all values do not exceed; 0 of none."""
    if not values:
        return 0.0
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def ratio(value: float, base: float) -> float | None:
    """Return how many times the base a value is; None without a base."""
    return value / base if base else None


def growth(times: Sequence[float], values: Sequence[float]) -> float:
    """Return how much values grew from first to last, by the median of the slopes between them all.

    A few that stand out, a collection of garbage or a pause, do not count.
    """
    pairs = [
        (later - earlier) / (end - start)
        for index, (start, earlier) in enumerate(zip(times, values, strict=True))
        for end, later in zip(times[index + 1 :], values[index + 1 :], strict=True)
        if end > start
    ]
    return percentile(pairs, 0.5) * (times[-1] - times[0]) if pairs else 0.0
