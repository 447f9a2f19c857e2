"""How firmly §2's memories are held: what idleness takes, what use gives. Pure; the clock is passed in."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

NEW = 1.0
MOST = 5.0
# Below, a memory counts as forgotten: it is kept, and comes back when it is reinforced often enough.
FORGOTTEN = 0.1
PERIOD = timedelta(hours=24)
_KEPT_OF_A_PERIOD = 0.9
_GAIN = 1.2


@dataclass(frozen=True, kw_only=True, slots=True)
class Strength:
    """What a memory's strength was when it was used last, and when that was."""

    value: float = NEW
    last_accessed: datetime
    reinforcements: int = 0
    # Whole periods of idleness that its value has been lowered for.
    decays: int = 0

    def idle_periods(self, at: datetime) -> int:
        """Return how many whole periods nobody has used it."""
        return max(0, (at - self.last_accessed) // PERIOD)

    def current(self, at: datetime) -> float:
        """Return what is left of it."""
        return float(self.value * _KEPT_OF_A_PERIOD ** self.idle_periods(at))

    def is_forgotten(self, at: datetime) -> bool:
        """Say whether too little is left."""
        return self.current(at) < FORGOTTEN

    def used(self, at: datetime) -> Strength:
        """Return it as of now, idle no more."""
        return Strength(
            value=self.current(at),
            last_accessed=max(at, self.last_accessed),
            reinforcements=self.reinforcements,
            decays=self.decays + self.idle_periods(at),
        )

    def reinforced(self, at: datetime) -> Strength:
        """Return what it is after it proved useful once more."""
        used = self.used(at)
        return Strength(
            value=min(MOST, used.value * _GAIN),
            last_accessed=used.last_accessed,
            reinforcements=self.reinforcements + 1,
            decays=used.decays,
        )

    def synchronized(self, other: Strength) -> Strength | None:
        """Return what another system's word makes of it; None when its own is newer."""
        if self.last_accessed > other.last_accessed:
            return None
        return Strength(
            value=min(MOST, max(self.value, other.value)),
            last_accessed=other.last_accessed,
            reinforcements=max(self.reinforcements, other.reinforcements),
            decays=max(self.decays, other.decays),
        )
