"""Slots of one process that many owners share, none of whom can take what the others need. No I/O, no clock.

An owner may hold a part of what is free at that moment (dynamic thresholds: Choudhury and Hahne, 1998). However many
owners hold all that they may, some slots stay free, and an owner that holds none gets one of them.
"""

from __future__ import annotations

from collections import Counter

# An owner may hold as much as this part of the free slots.
_FREE_SHARE = 8


class FairSlots:
    """Counts who holds how many slots."""

    def __init__(self, total: int, *, per_owner: int) -> None:
        """Share `total` slots, at most `per_owner` of them to one owner."""
        self._total = total
        self._per_owner = per_owner
        self._held = Counter[str]()
        self._in_use = 0

    def room(self, owner: str) -> int:
        """Return how many more slots an owner may take now."""
        free = self._total - self._in_use
        limit = min(self._per_owner, -(-free // _FREE_SHARE))
        return max(0, min(limit - self._held[owner], free))

    def take(self, owner: str) -> None:
        """Take a slot, also where there is no room: the caller has looked."""
        self._held[owner] += 1
        self._in_use += 1

    def release(self, owner: str) -> None:
        """Give a slot back."""
        self._in_use -= 1
        self._held[owner] -= 1
        if not self._held[owner]:
            del self._held[owner]
