"""Slots of one process that many owners share, with a limit for each owner. No I/O, no clock.

An owner may have an eighth of the slots that are free at that moment (dynamic thresholds: Choudhury and Hahne, 1998).
The limit is at least one and at most `per_owner`. While a slot is free, an owner without one gets it.
"""

from __future__ import annotations

from collections import Counter

# The divisor of the free slots that gives the limit of an owner.
_FREE_SHARE = 8


class FairSlots:
    """Counts the slots of each owner.

    The bound depends on the number of owners. 256 slots serve about 250 owners. When that many compete, an owner above
    its limit gets no slot back until each owner has one. Before that, the first owners have more. 46 owners with up to
    eight slots leave none free (73 with up to four), and the next owner waits for a release. With more than 256 owners
    some always wait. So the holder of a slot needs a deadline.
    """

    def __init__(self, total: int, *, per_owner: int) -> None:
        """Share `total` slots, at most `per_owner` of them to one owner."""
        self._total = total
        self._per_owner = per_owner
        self._slots_by_owner = Counter[str]()
        self._in_use = 0

    def free_for(self, owner: str) -> int:
        """Return how many more slots an owner may take now."""
        free = self._total - self._in_use
        limit = min(self._per_owner, -(-free // _FREE_SHARE))
        return max(0, min(limit - self._slots_by_owner[owner], free))

    def take(self, owner: str) -> None:
        """Take a slot without a check: call `free_for` before."""
        self._slots_by_owner[owner] += 1
        self._in_use += 1

    def release(self, owner: str) -> None:
        """Release a slot."""
        self._in_use -= 1
        self._slots_by_owner[owner] -= 1
        if not self._slots_by_owner[owner]:
            del self._slots_by_owner[owner]
