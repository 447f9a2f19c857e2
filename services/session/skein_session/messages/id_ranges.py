"""Ranges of message ids, newest first, so that most reads plan only the partitions of the newest months. Pure."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from skein_kit.ids import EPOCH, id_time, min_id_at
from skein_session.sessions.model import MAX_CLOCK_SKEW

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

NO_ID = UUID(int=0)
LAST_ID = UUID(int=(1 << 128) - 1)
_SPANS = (timedelta(days=31), timedelta(days=366))


def id_ranges(lowest: UUID | None, below: UUID | None, at: datetime) -> Iterator[tuple[UUID, UUID]]:
    """Yield ranges (inclusive, exclusive) of ids from `below` down to `lowest`; None is no bound.

    No message lies further ahead of `at` than MAX_CLOCK_SKEW.
    """
    bottom = NO_ID if lowest is None else lowest
    end = min_id_at(at + 2 * MAX_CLOCK_SKEW)
    before = end if below is None else min(below, end)
    for span in _SPANS:
        since = max(id_time(before) - span, EPOCH)
        from_id = max(bottom, min_id_at(since))
        if from_id < before:
            yield from_id, before
        before = min(before, from_id)
    if bottom < before:
        yield bottom, before
