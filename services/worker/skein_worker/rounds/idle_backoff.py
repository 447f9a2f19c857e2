"""Rests: tenants that had nothing to do lately need not be asked in every round. No I/O; the clock is passed in."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class IdleBackoff:
    """When each tenant is to be asked again, in one worker.

    One that had something to do is asked in the next round; one that had not, after a rest that doubles each time up to
    `longest` seconds. A worker that knows nothing of a tenant asks it at once.
    """

    # Between two rounds.
    seconds: float
    longest: float
    _due: dict[str, float] = field(default_factory=dict)
    _pauses: dict[str, float] = field(default_factory=dict)

    def is_over(self, tenant_id: str, at: float) -> bool:
        """Say whether to ask a tenant at a time of the event loop's clock."""
        return self._due.get(tenant_id, 0.0) <= at

    def visited(self, tenant_id: str, at: float, *, active: bool) -> None:
        """Note what a visit found."""
        if active:
            self._due.pop(tenant_id, None)
            self._pauses.pop(tenant_id, None)
            return
        pause = min(self.longest, 2 * self._pauses.get(tenant_id, self.seconds / 2))
        self._pauses[tenant_id] = pause
        # What is due a moment after a round began is not put off by a whole round.
        self._due[tenant_id] = at + pause - self.seconds / 2

    def keep(self, tenant_ids: set[str]) -> None:
        """Forget all other tenants: they are gone."""
        for gone in self._pauses.keys() - tenant_ids:
            del self._pauses[gone], self._due[gone]
