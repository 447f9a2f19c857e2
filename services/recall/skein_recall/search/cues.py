"""Cues in the text of a query besides its words: it asks for a time, or names dates. No I/O; the clock is passed in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from itertools import islice
from typing import Final

from skein_kit.dates.date_words import LANGUAGES
from skein_kit.dates.dates import DateRange, date_order, find_dates
from skein_kit.filters import may_name_day

# A text with more dates is no question.
_MAX_DATES: Final = 8
# Only the beginning of a long text is likely a question.
_READ_CHARACTERS: Final = 1000
# Whether a text names dates does not depend on the day.
_ANY_TIME: Final = datetime(2026, 1, 1, tzinfo=UTC)

_ASKS_FOR_TIME: Final = re.compile("|".join(language.asks_for_time for language in LANGUAGES), re.IGNORECASE)
_ASKS_FOR_FORMER: Final = re.compile("|".join(language.asks_for_former for language in LANGUAGES), re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedDays:
    """Where a request may name days: they are those of the person whom it is about, else of the tenant."""

    # A condition.
    where: str
    person_id: str = ""
    # A question.
    text: str = ""

    @property
    def need_zone(self) -> bool:
        """Whether the zone must be looked up. A question about no person has the tenant's, which is at hand."""
        if may_name_day(self.where):
            return True
        return bool(self.person_id) and bool(QueryCues.of(self.text, _ANY_TIME).dates)


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
