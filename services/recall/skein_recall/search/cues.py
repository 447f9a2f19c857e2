"""Cues in the text of a query besides its words: it asks for a time, or names dates. No I/O; the clock is passed in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC
from itertools import islice
from typing import TYPE_CHECKING, Final

from skein_kit.dates.date_words import LANGUAGES
from skein_kit.dates.dates import DateRange, date_order, find_dates

if TYPE_CHECKING:
    from datetime import date, datetime, tzinfo

# A text with more dates is no question.
_MAX_DATES: Final = 8
# Only the beginning of a long text is likely a question.
_READ_CHARACTERS: Final = 1000

_ASKS_FOR_TIME: Final = re.compile("|".join(language.asks_for_time for language in LANGUAGES), re.IGNORECASE)
_ASKS_FOR_FORMER: Final = re.compile("|".join(language.asks_for_former for language in LANGUAGES), re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryCues:
    """Cues in the text of a query."""

    # Items that mention a time are likelier.
    asks_for_time: bool = False
    # What has changed since is no better answer.
    asks_for_former: bool = False
    # Dates that the query names.
    dates: tuple[DateRange, ...] = ()
    # Where the days begin.
    zone: tzinfo = UTC

    @classmethod
    def of(cls, text: str, now: datetime, zone: tzinfo = UTC) -> QueryCues:
        """Read the text of a query that arrives `now`, by the days and the order of numbers in a time zone."""
        if not text:
            return cls()
        today = now.astimezone(zone).date()
        text = text[:_READ_CHARACTERS]
        return cls(
            asks_for_time=_ASKS_FOR_TIME.search(text) is not None,
            asks_for_former=_ASKS_FOR_FORMER.search(text) is not None,
            dates=tuple(islice(find_dates(text, today, date_order(zone)), _MAX_DATES)),
            zone=zone,
        )

    def days_to(self, day: date) -> int | None:
        """Return the days between a day and the nearest date of the query; None without dates."""
        return min((dates.days_to(day) for dates in self.dates), default=None)

    def nearness(self, day: date) -> float:
        """Return how near a day is to the dates of the query, 0 to 1; 0 without dates."""
        return max((dates.nearness(day) for dates in self.dates), default=0.0)
