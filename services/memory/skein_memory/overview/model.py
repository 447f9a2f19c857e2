"""Rules of overviews: urgency of a review, spans of time, counts of tags. No I/O, no clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import combinations

from skein_memory.memories.model import Scores

STALE_DAYS = 90.0


def urgency(scores: Scores, *, stale_days: float, links: int) -> float:
    """Return how urgently a memory needs a review, 0 to 1."""
    return (
        0.35 * scores.importance
        + 0.25 * (1 - scores.confidence)
        + 0.25 * min(stale_days / STALE_DAYS, 1)
        + 0.15 / (1 + links)
    )


def truncate_time(moment: datetime, unit: str) -> datetime:
    """Return when the "hour", "day", "week" or "month" of a time (UTC) began; weeks begin on Monday."""
    hour = moment.replace(minute=0, second=0, microsecond=0)
    if unit == "hour":
        return hour
    day = hour.replace(hour=0)
    if unit == "month":
        return day.replace(day=1)
    return day - timedelta(days=day.weekday()) if unit == "week" else day


def end_of_unit(start: datetime, unit: str) -> datetime:
    """Return when the hour, day, week or month that begins at a time ends."""
    if unit == "month":
        # Every month has ended 31 days after it began.
        return truncate_time(start + timedelta(days=31), "month")
    return start + _UNIT_LENGTHS[unit]


_UNIT_LENGTHS: Mapping[str, timedelta] = {
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(days=7),
}


def tag_counts(
    tag_lists: Iterable[Sequence[str]], top: int
) -> tuple[list[tuple[str, int]], list[tuple[str, str, int]]]:
    """Return the most frequent tags and pairs of tags of memories, each with how many memories have it."""
    tags: Counter[str] = Counter()
    pairs: Counter[tuple[str, str]] = Counter()
    for memory_tags in tag_lists:
        # The pairs of a hundred tags are five thousand: of so many only the first make pairs.
        sorted_tags = sorted(set(memory_tags))
        tags.update(sorted_tags)
        pairs.update(combinations(sorted_tags[:_PAIRED_TAGS], 2))
    top_tags = sorted(tags.items(), key=lambda item: (-item[1], item[0]))[:top]
    top_pairs = sorted(pairs.items(), key=lambda item: (-item[1], item[0]))[:top]
    return top_tags, [(first, second, count) for (first, second), count in top_pairs]


_PAIRED_TAGS = 12
