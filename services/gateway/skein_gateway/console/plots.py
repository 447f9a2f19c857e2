"""Geometry of the usage page's plots. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from skein.recall.v1 import recall_pb2
from skein.tenancy.v1 import limits_pb2

_HOUR, _DAY, _WEEK = 3600, 86_400, 604_800
# Weeks begin on Monday; the epoch was a Thursday.
_MONDAY = 4 * _DAY
# Shares of a limit, in percent, from which a bar warns.
_WARN, _ALARM = 75.0, 90.0
# Height of a chart; its width is the number of its columns times _STEP.
HEIGHT = 100.0
_STEP, _GAP = 10.0, 2.0
# The smallest column that is visible.
_MIN_HEIGHT = 1.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """Usage of one limit."""

    kind: str
    used: int
    # None: no limit.
    limit: int | None
    # Percent of the limit, at most 100; 0 without a limit.
    percent: float
    # "", "near" or "full".
    state: str

    @classmethod
    def of(cls, usage: limits_pb2.Usage) -> Share:
        """Return the share of a usage."""
        limit = usage.limit if usage.HasField("limit") else None
        percent = 0.0 if limit is None else 100.0 if usage.used >= limit else 100.0 * usage.used / limit
        state = "full" if percent >= _ALARM else "near" if percent >= _WARN else ""
        kind = usage.kind.replace("_", " ")
        return cls(kind=kind, used=usage.used, limit=limit, percent=percent, state=state)


def shares(usage: Iterable[limits_pb2.Usage]) -> list[Share]:
    """Return all shares: those nearest to their limits first, those without a limit last."""
    return sorted(map(Share.of, usage), key=lambda one: (one.limit is None, -one.percent))


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """One column of a chart."""

    label: str
    count: int
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """Counts of consecutive periods as columns, oldest first."""

    columns: Sequence[Column]
    width: float
    highest: int
    total: int

    @classmethod
    def of(cls, counts: Mapping[int, int], *, start: int, seconds: int, count: int) -> Chart:
        """Return the columns of `count` periods of `seconds` from `start` on; `counts` is by the start of a period."""
        starts = [start + number * seconds for number in range(count)]
        highest = max((counts.get(at, 0) for at in starts), default=0)
        columns = []
        for number, at in enumerate(starts):
            height = max(_MIN_HEIGHT, HEIGHT * counts[at] / highest) if counts.get(at) else 0.0
            columns.append(
                Column(
                    label=_label(at, seconds),
                    count=counts.get(at, 0),
                    x=number * _STEP + _GAP / 2,
                    y=HEIGHT - height,
                    width=_STEP - _GAP,
                    height=height,
                )
            )
        total = sum(column.count for column in columns)
        return cls(columns=columns, width=count * _STEP, highest=highest, total=total)


@dataclass(frozen=True, kw_only=True, slots=True)
class Recalls:
    """Recalls of some days, and how long their searches took."""

    total: int
    unanswered: int
    # Half, and 95 of 100, took so many milliseconds at most; None: longer than is measured.
    median: int | None
    slow: int | None

    @classmethod
    def of(cls, days: Iterable[recall_pb2.SearchDay]) -> Recalls:
        """Return the sums of days."""
        total = unanswered = 0
        counts: Counter[int] = Counter()
        for day in days:
            total, unanswered = total + day.search_count, unanswered + day.unanswered_count
            for one in day.durations:
                counts[one.max_milliseconds] += one.search_count
        return cls(total=total, unanswered=unanswered, median=_within(counts, 0.5), slow=_within(counts, 0.95))


def _within(counts: Mapping[int, int], share: float) -> int | None:
    """Return the number of milliseconds within which a share of the searches ended; None beyond the last one."""
    needed, seen = share * sum(counts.values()), 0
    for milliseconds in sorted(limit for limit in counts if limit):
        seen += counts[milliseconds]
        if seen >= needed:
            return milliseconds
    return None


def start_of_unit(at: int, seconds: int) -> int:
    """Return the start of the hour, day or week (UTC) of a time."""
    offset = _MONDAY if seconds == _WEEK else 0
    return (at - offset) // seconds * seconds + offset


def _label(at: int, seconds: int) -> str:
    moment = datetime.fromtimestamp(at, UTC)
    if seconds == _HOUR:
        return f"{moment:%d %b %H:%M}"
    return f"week of {moment:%d %b %Y}" if seconds == _WEEK else f"{moment:%d %b %Y}"
