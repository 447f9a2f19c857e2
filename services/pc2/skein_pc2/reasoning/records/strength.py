"""Strength of §2's memories: idle time lowers it, use and reinforcement raise it. Pure; the clock is passed in."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

NEW_STRENGTH = 1.0
MAX_STRENGTH = 5.0
# Below, a memory counts as forgotten. It is still stored, and reinforcement raises its strength again.
FORGOTTEN_STRENGTH = 0.1
DECAY_PERIOD = timedelta(hours=24)
_DECAY_FACTOR = 0.9
_REINFORCEMENT_FACTOR = 1.2


@dataclass(frozen=True, kw_only=True, slots=True)
class Strength:
    """A memory's strength at its last use, and the time of that use."""

    value: float = NEW_STRENGTH
    last_accessed: datetime
    reinforcements: int = 0
    # Idle periods that have lowered the value.
    decays: int = 0

    def idle_periods(self, at: datetime) -> int:
        """Return the number of whole periods since the last use."""
        return max(0, (at - self.last_accessed) // DECAY_PERIOD)

    def value_at(self, at: datetime) -> float:
        """Return the strength at a time, lowered by the idle periods until then."""
        return float(self.value * _DECAY_FACTOR ** self.idle_periods(at))

    def is_forgotten(self, at: datetime) -> bool:
        """Say whether the strength at a time is below FORGOTTEN_STRENGTH."""
        return self.value_at(at) < FORGOTTEN_STRENGTH

    def after_use(self, at: datetime) -> Strength:
        """Return the strength after a use at `at`."""
        return Strength(
            value=self.value_at(at),
            last_accessed=max(at, self.last_accessed),
            reinforcements=self.reinforcements,
            decays=self.decays + self.idle_periods(at),
        )

    def after_reinforcement(self, at: datetime) -> Strength:
        """Return the strength after a reinforcement at `at`."""
        after_use = self.after_use(at)
        return Strength(
            value=min(MAX_STRENGTH, after_use.value * _REINFORCEMENT_FACTOR),
            last_accessed=after_use.last_accessed,
            reinforcements=self.reinforcements + 1,
            decays=after_use.decays,
        )

    def merge(self, other: Strength) -> Strength | None:
        """Merge another system's strength; None when this one is newer."""
        if self.last_accessed > other.last_accessed:
            return None
        return Strength(
            value=min(MAX_STRENGTH, max(self.value, other.value)),
            last_accessed=other.last_accessed,
            reinforcements=max(self.reinforcements, other.reinforcements),
            decays=max(self.decays, other.decays),
        )
