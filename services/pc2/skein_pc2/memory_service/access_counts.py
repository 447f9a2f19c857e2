"""How often memories were read, as port 7140 counts: the service counts seconds behind, its clients count at once."""

from __future__ import annotations

from collections import OrderedDict

_MOST_MEMORIES = 10_000


class AccessCounts:
    """The counts that were answered last, so that the next answer is one higher although the service is behind."""

    def __init__(self, most: int = _MOST_MEMORIES) -> None:
        self._most = most
        self._counts: OrderedDict[str, int] = OrderedDict()

    def count(self, memory_id: str, stored_count: int) -> int:
        """Count one more use; return how many there are, by the stored count and by the answers before."""
        count = max(stored_count, self._counts.pop(memory_id, 0)) + 1
        self._counts[memory_id] = count
        if len(self._counts) > self._most:
            self._counts.popitem(last=False)
        return count
