"""Cues in the text of a query besides its words: it asks for a time, or names dates. No I/O; the clock is passed in."""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# A text with more dates is no question.
_MAX_DATES: Final = 8
# Only the beginning of a long text is likely a question.
_READ_CHARACTERS: Final = 1000

# --- English --------------------------------------------------------------------------------------------------------
# A query in another language has no cues.

_WEEKDAYS: Final = "monday|tuesday|wednesday|thursday|friday|saturday|sunday"
_ASKS_FOR_TIME: Final = re.compile(
    r"^\W*(?:since |until |and |so )?when\b|\bhow long\b|\b(?:what|which) (?:year|month|week|day|date|time)\b|"
    r"\bhow many (?:days|weeks|months|years)\b",
    re.IGNORECASE,
)
_ASKS_FOR_FORMER: Final = re.compile(
    r"\b(?:before|previous|previously|former|formerly|earlier|original|originally|initial|initially|used to|first|old|"
    r"history)\b",
    re.IGNORECASE,
)
_MONTHS: Final = {
    name.lower(): number
    for names in (calendar.month_name, calendar.month_abbr)
    for number, name in enumerate(names)
    if number
} | {"sept": 9}
_MONTH: Final = rf"(?P<month>{'|'.join(sorted(_MONTHS, key=len, reverse=True))})\b\.?"
_DAY: Final = r"\b(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR: Final = r"(?P<year>(?:19|20)\d\d)\b"
_COUNTS: Final = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
_UNIT_DAYS: Final = {"day": 1, "week": 7, "month": 30, "year": 365}


@dataclass(frozen=True, kw_only=True, slots=True)
class DateRange:
    """Days from the first to the last; of every year when `is_yearly`."""

    first: date
    last: date
    is_yearly: bool = False

    def days_to(self, day: date) -> int:
        """Return the days between a day and the range, 0 within it."""
        if not self.is_yearly:
            return _gap(self.first, self.last, day)
        years = range(max(day.year - 1, 1), min(day.year + 1, 9999) + 1)
        return min(_gap(_in_year(self.first, year), _in_year(self.last, year), day) for year in years)


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryCues:
    """Cues in the text of a query."""

    # Items that mention a time are likelier.
    asks_for_time: bool = False
    # What has changed since is no better answer.
    asks_for_former: bool = False
    # Dates that the query names.
    dates: tuple[DateRange, ...] = ()

    @classmethod
    def of(cls, text: str, now: datetime) -> QueryCues:
        """Read the text of a query that arrives `now`."""
        if not text:
            return cls()
        today = now.astimezone(UTC).date()
        text = text[:_READ_CHARACTERS]
        return cls(
            asks_for_time=_ASKS_FOR_TIME.search(text) is not None,
            asks_for_former=_ASKS_FOR_FORMER.search(text) is not None,
            dates=tuple(islice(_dates(text, today), _MAX_DATES)),
        )

    def days_to(self, day: date) -> int | None:
        """Return the days between a day and the nearest date of the query; None without dates."""
        return min((dates.days_to(day) for dates in self.dates), default=None)


def _gap(first: date, last: date, day: date) -> int:
    return max(0, (first - day).days, (day - last).days)


def _in_year(day: date, year: int) -> date:
    return day.replace(year=year, day=min(day.day, calendar.monthrange(year, day.month)[1]))


def _dates(text: str, today: date) -> Iterator[DateRange]:
    """Find dates, the most complete forms first. Each form removes its matches from the text."""
    for pattern, read in _FORMS:
        for match in pattern.finditer(text):
            # Some matches are no dates: the thirtieth of February, or a time before the year 1. A name may match only
            # because case is ignored (a long s, a dotless i).
            try:
                dates = read(match, today)
            except (LookupError, ValueError, OverflowError):
                continue
            yield dates
        text = pattern.sub(" ", text)


def _parse_named_date(match: re.Match[str], _today: date) -> DateRange:
    """Read "5 May 2023", "May 2023", "5 May" or "May"."""
    parts = match.groupdict()
    month = parts["month"]
    number = int(month) if month.isdigit() else _MONTHS[month.lower()]
    # A leap year has every day that any year has.
    year = int(parts.get("year") or 2000)
    day = parts.get("day")
    first = date(year, number, int(day or 1))
    last = first if day else date(year, number, calendar.monthrange(year, number)[1])
    return DateRange(first=first, last=last, is_yearly=not parts.get("year"))


def _parse_year(match: re.Match[str], _today: date) -> DateRange:
    year = int(match["year"])
    return DateRange(first=date(year, 1, 1), last=date(year, 12, 31))


def _parse_near_day(match: re.Match[str], today: date) -> DateRange:
    day = today - timedelta(days=match[0].lower() == "yesterday")
    return DateRange(first=day, last=day)


def _parse_ago(match: re.Match[str], today: date) -> DateRange:
    """Read "three weeks ago": that day, give or take half a unit."""
    count = match["count"].lower()
    days = _UNIT_DAYS[match["unit"].lower()]
    middle = today - timedelta(days=days * (_COUNTS.get(count) or int(count)))
    return DateRange(first=middle - timedelta(days=days // 2), last=middle + timedelta(days=days // 2))


def _parse_calendar_unit(match: re.Match[str], today: date) -> DateRange:
    """Read "last week", "this month" and the like."""
    is_last = match["which"].lower() == "last"
    unit = match["unit"].lower()
    if unit == "year":
        year = today.year - is_last
        return DateRange(first=date(year, 1, 1), last=date(year, 12, 31))
    if unit == "month":
        day = today.replace(day=1) - timedelta(days=is_last)
        return DateRange(first=day.replace(day=1), last=day.replace(day=calendar.monthrange(day.year, day.month)[1]))
    monday = today - timedelta(days=today.weekday() + 7 * is_last)
    return DateRange(first=monday + timedelta(days=5 if unit == "weekend" else 0), last=monday + timedelta(days=6))


def _parse_weekday(match: re.Match[str], today: date) -> DateRange:
    """Read "on Monday": the latest before today."""
    back = (today.weekday() - _WEEKDAYS.split("|").index(match["weekday"].lower()) - 1) % 7 + 1
    day = today - timedelta(days=back)
    return DateRange(first=day, last=day)


_FORMS: Final[list[tuple[re.Pattern[str], Callable[[re.Match[str], date], DateRange]]]] = [
    (re.compile(form, re.IGNORECASE), read)
    for form, read in [
        (rf"\b{_YEAR}-(?P<month>\d\d)-(?P<day>\d\d)\b", _parse_named_date),
        (rf"{_DAY}\s+(?:of\s+)?{_MONTH},?\s+{_YEAR}", _parse_named_date),
        (rf"\b{_MONTH}\s+{_DAY}\b,?\s+{_YEAR}", _parse_named_date),
        (rf"\b{_MONTH},?\s+(?:of\s+)?{_YEAR}", _parse_named_date),
        (rf"{_DAY}\s+(?:of\s+)?{_MONTH}", _parse_named_date),
        (rf"\b{_MONTH}\s+{_DAY}\b", _parse_named_date),
        # A month without a day or year needs a preposition: "May" and "March" are words too.
        (rf"\b(?:in|on|during|since|of|by|until|early|late)\s+{_MONTH}", _parse_named_date),
        (rf"\b{_YEAR}", _parse_year),
        (r"\b(?:yesterday|today)\b", _parse_near_day),
        (rf"\b(?P<count>\d{{1,3}}|{'|'.join(_COUNTS)})\s+(?P<unit>day|week|month|year)s?\s+ago\b", _parse_ago),
        (r"\b(?P<which>last|this)\s+(?P<unit>week|weekend|month|year)\b", _parse_calendar_unit),
        (rf"\b(?:on|last)\s+(?P<weekday>{_WEEKDAYS})\b", _parse_weekday),
    ]
]
