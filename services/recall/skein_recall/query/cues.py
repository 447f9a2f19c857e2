"""What a question asks for besides its words: a time, or something of a certain date. Pure; the clock is passed in."""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Nobody asks for more dates at once; a text that holds more is no question.
_MOST_SPANS: Final = 8
# What stands further behind in a long text is not what it asks for.
_READ: Final = 1000

# --- English --------------------------------------------------------------------------------------------------------
# Where none of it occurs, as in other languages, a question just has no cues.

_WEEKDAYS: Final = "monday|tuesday|wednesday|thursday|friday|saturday|sunday"
_WANTS_TIME: Final = re.compile(
    r"^\W*(?:since |until |and |so )?when\b|\bhow long\b|\b(?:what|which) (?:year|month|week|day|date|time)\b|"
    r"\bhow many (?:days|weeks|months|years)\b",
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
    """Days, from the first to the last; of every year when `yearly`."""

    first: date
    last: date
    yearly: bool = False

    def days_from(self, day: date) -> int:
        """Return how many days lie between a day and the span, 0 within it."""
        if not self.yearly:
            return _gap(self.first, self.last, day)
        years = range(max(day.year - 1, 1), min(day.year + 1, 9999) + 1)
        return min(_gap(_in_year(self.first, year), _in_year(self.last, year), day) for year in years)


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryCues:
    """What a question asks for besides its words."""

    # The answer is a time, so entries that tell one are likelier.
    wants_time: bool = False
    # Dates that the question names.
    spans: tuple[DateRange, ...] = ()

    @classmethod
    def of(cls, text: str, now: datetime) -> QueryCues:
        """Read a question that is asked `now`."""
        if not text:
            return cls()
        today = now.astimezone(UTC).date()
        text = text[:_READ]
        return cls(
            wants_time=_WANTS_TIME.search(text) is not None,
            spans=tuple(islice(_spans(text, today), _MOST_SPANS)),
        )

    def days_from(self, day: date) -> int | None:
        """Return how many days lie between a day and the nearest date named; None when none is."""
        return min((span.days_from(day) for span in self.spans), default=None)


def _gap(first: date, last: date, day: date) -> int:
    return max(0, (first - day).days, (day - last).days)


def _in_year(day: date, year: int) -> date:
    return day.replace(year=year, day=min(day.day, calendar.monthrange(year, day.month)[1]))


def _spans(text: str, today: date) -> Iterator[DateRange]:
    """Find dates, the fullest forms first; what one form has read is not read again by another."""
    for pattern, read in _FORMS:
        for match in pattern.finditer(text):
            # A thirtieth of February, or a time before the year 1, is no date; neither is a name with letters that are
            # the same only where case is ignored: a long s, a dotless i.
            try:
                span = read(match, today)
            except (LookupError, ValueError, OverflowError):
                continue
            yield span
        text = pattern.sub(" ", text)


def _named(match: re.Match[str], _today: date) -> DateRange:
    """Read "5 May 2023", "May 2023", "5 May" or "May"."""
    parts = match.groupdict()
    month = parts["month"]
    number = int(month) if month.isdigit() else _MONTHS[month.lower()]
    # A leap year holds every day that any year has.
    year = int(parts.get("year") or 2000)
    day = parts.get("day")
    first = date(year, number, int(day or 1))
    last = first if day else date(year, number, calendar.monthrange(year, number)[1])
    return DateRange(first=first, last=last, yearly=not parts.get("year"))


def _year(match: re.Match[str], _today: date) -> DateRange:
    year = int(match["year"])
    return DateRange(first=date(year, 1, 1), last=date(year, 12, 31))


def _near_day(match: re.Match[str], today: date) -> DateRange:
    day = today - timedelta(days=match[0].lower() == "yesterday")
    return DateRange(first=day, last=day)


def _ago(match: re.Match[str], today: date) -> DateRange:
    """Read "three weeks ago": that day, give or take half a unit."""
    count = match["count"].lower()
    days = _UNIT_DAYS[match["unit"].lower()]
    middle = today - timedelta(days=days * (_COUNTS.get(count) or int(count)))
    return DateRange(first=middle - timedelta(days=days // 2), last=middle + timedelta(days=days // 2))


def _calendar_unit(match: re.Match[str], today: date) -> DateRange:
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


def _weekday(match: re.Match[str], today: date) -> DateRange:
    """Read "on Monday": the latest before today."""
    back = (today.weekday() - _WEEKDAYS.split("|").index(match["weekday"].lower()) - 1) % 7 + 1
    day = today - timedelta(days=back)
    return DateRange(first=day, last=day)


_FORMS: Final[list[tuple[re.Pattern[str], Callable[[re.Match[str], date], DateRange]]]] = [
    (re.compile(form, re.IGNORECASE), read)
    for form, read in [
        (rf"\b{_YEAR}-(?P<month>\d\d)-(?P<day>\d\d)\b", _named),
        (rf"{_DAY}\s+(?:of\s+)?{_MONTH},?\s+{_YEAR}", _named),
        (rf"\b{_MONTH}\s+{_DAY}\b,?\s+{_YEAR}", _named),
        (rf"\b{_MONTH},?\s+(?:of\s+)?{_YEAR}", _named),
        (rf"{_DAY}\s+(?:of\s+)?{_MONTH}", _named),
        (rf"\b{_MONTH}\s+{_DAY}\b", _named),
        # A month alone needs a preposition: "May" and "March" are words too.
        (rf"\b(?:in|on|during|since|of|by|until|early|late)\s+{_MONTH}", _named),
        (rf"\b{_YEAR}", _year),
        (r"\b(?:yesterday|today)\b", _near_day),
        (rf"\b(?P<count>\d{{1,3}}|{'|'.join(_COUNTS)})\s+(?P<unit>day|week|month|year)s?\s+ago\b", _ago),
        (r"\b(?P<which>last|this)\s+(?P<unit>week|weekend|month|year)\b", _calendar_unit),
        (rf"\b(?:on|last)\s+(?P<weekday>{_WEEKDAYS})\b", _weekday),
    ]
]
