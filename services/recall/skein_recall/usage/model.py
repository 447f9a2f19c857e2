"""Durations of searches, sorted into a few ranges, and their counts. Pure."""

from __future__ import annotations

from dataclasses import dataclass

# The ends of the ranges, in milliseconds; LONGER is the range of all longer ones.
LIMITS = (5, 10, 20, 50, 100, 200, 500, 1000, 5000)
LONGER = 0


@dataclass(slots=True)
class Counts:
    """Searches of one day whose durations are in one range."""

    searches: int = 0
    # Those of them without a hit.
    unanswered: int = 0

    def add(self, other: Counts) -> None:
        """Add the counts of another."""
        self.searches += other.searches
        self.unanswered += other.unanswered


def range_of(milliseconds: float) -> int:
    """Return the end of the range of a duration; LONGER beyond the last one."""
    return next((limit for limit in LIMITS if milliseconds <= limit), LONGER)
