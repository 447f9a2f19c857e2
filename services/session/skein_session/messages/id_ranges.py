"""Walking back through the months: the newest few first, so that most questions never plan the others. Pure."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from skein_kit.ids import EPOCH, first_id, time_of
from skein_session.sessions.model import MAX_AHEAD

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

NO_ID = UUID(int=0)
LAST_ID = UUID(int=(1 << 128) - 1)
_SPANS = (timedelta(days=31), timedelta(days=366))


def spans(lowest: UUID | None, below: UUID | None, at: datetime) -> Iterator[tuple[UUID, UUID]]:
    """Yield ranges of ids, lower end inclusive, upper exclusive, newest first, that cover all from `lowest` to `below`.

    None is no bound; no message lies further ahead of `at` than MAX_AHEAD.
    """
    bottom = NO_ID if lowest is None else lowest
    end = first_id(at + 2 * MAX_AHEAD)
    before = end if below is None else min(below, end)
    for span in _SPANS:
        since = max(time_of(before) - span, EPOCH)
        from_id = max(bottom, first_id(since))
        if from_id < before:
            yield from_id, before
        before = min(before, from_id)
    if bottom < before:
        yield bottom, before
