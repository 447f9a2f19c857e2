"""A bounded set of names that drops the one unused for longest."""

from __future__ import annotations

_MAX_NAMES = 10_000


class RecentNames:
    """The names that were used last. Looking a name up counts as a use."""

    def __init__(self, max_names: int = _MAX_NAMES) -> None:
        self._max_names = max_names
        self._names: dict[str, None] = {}

    def __contains__(self, name: str) -> bool:
        if name not in self._names:
            return False
        self.add(name)
        return True

    def add(self, name: str) -> None:
        """Add a name, or mark it as used now."""
        self._names.pop(name, None)
        self._names[name] = None
        if len(self._names) > self._max_names:
            del self._names[next(iter(self._names))]
