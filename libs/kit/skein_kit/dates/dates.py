"""Dates that a text names, in several languages. Pure: today is passed in.

Own rules instead of a library: dateparser 1.5 takes 0.2 s to import and 2 to 5 ms to search a question, as much as all
of a recall, where these rules take 0.02 to 0.1 ms. It also reads "do" and "may" as dates, 08.11.2026 as the eleventh of
August, and of a month or a week only one day.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, timedelta, tzinfo
from functools import cache
from itertools import chain
from typing import Final, Literal
from zoneinfo import ZoneInfo

from skein_kit.dates.date_words import FORM_KINDS, LANGUAGES, DateLanguage

# Which of two numbers comes first in 08/11/2026; None reads both.
DateOrder = Literal["day", "month"] | None
# Days from a date after which an item counts half: people tell of a date some days later, and of yesterday on that day.
_HALF_LIFE_DAYS: Final = 7
_NEAR_HALF_LIFE_DAYS: Final = 1
_DAYS_OF_WEEK, _DAYS_OF_MONTH, _DAYS_OF_YEAR = 7, 30, 365
_CENTURY: Final = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class DateRange:
    """Days from the first to the last; of every year when `is_yearly`."""

    first: date
    last: date
    is_yearly: bool = False
    half_life_days: int = _HALF_LIFE_DAYS

    def days_to(self, day: date) -> int:
        """Return the days between a day and the range, 0 within it."""
        if not self.is_yearly:
            return _gap(self.first, self.last, day)
        years = range(max(day.year - 1, 1), min(day.year + 1, 9999) + 1)
        return min(_gap(_in_year(self.first, year), _in_year(self.last, year), day) for year in years)

    def nearness(self, day: date) -> float:
        """Return 1 for a day of the range, and less for others."""
        return 1 / (1 + self.days_to(day) / self.half_life_days)

    def until(self, today: date) -> DateRange:
        """Return the days since this range began."""
        first = self.first
        if self.is_yearly:
            first = _in_year(first, today.year)
            first = first if first <= today else _in_year(first, today.year - 1)
        return replace(self, first=first, last=max(first, today), is_yearly=False)


def date_order(zone: tzinfo) -> DateOrder:
    """Return the order of numbers in a date where a time zone is used; None where UTC says nothing of it."""
    if zone is UTC:
        return None
    return "month" if isinstance(zone, ZoneInfo) and _MONTH_FIRST.fullmatch(zone.key) else "day"


@dataclass(frozen=True, slots=True)
class DateMention:
    """A date and the characters that name it."""

    start: int
    end: int
    dates: DateRange


def find_dates(text: str, today: date, order: DateOrder = None) -> Iterator[DateRange]:
    """Find dates, the most complete forms first."""
    return (mention.dates for mention in find_date_mentions(text, today, order))


def find_date_mentions(text: str, today: date, order: DateOrder = None) -> Iterator[DateMention]:
    """Find dates and their places, the most complete forms first. Each form blanks out its matches in the text."""
    languages = _languages_of(text)
    for form in _FORMS:
        if form.language is not None and form.language not in languages:
            continue
        matches = list(form.pattern.finditer(text))
        for match in matches:
            # Some matches are no dates: the thirtieth of February, or a time before the year 1. A name may match only
            # because case is ignored (a long s, a dotless i).
            try:
                ranges = list(form.read(form, match, today, order))
            except (LookupError, ValueError, OverflowError):
                continue
            for dates in ranges:
                is_since = form.is_since(text, match)
                yield DateMention(match.start(), match.end(), dates.until(today) if is_since else dates)
        if matches:
            text = form.pattern.sub(lambda match: " " * len(match[0]), text)


def _languages_of(text: str) -> set[int]:
    """Return the places of the languages that have a word of the text: of most texts none."""
    words = _WORD.findall(text.casefold())
    languages = set(chain.from_iterable(_LANGUAGES_BY_WORD[word] for word in words if word in _LANGUAGES_BY_WORD))
    if _CJK.search(text):
        languages.add(_CHINESE)
    return languages


# --- Readers of forms -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Form:
    pattern: re.Pattern[str]
    read: Callable[[_Form, re.Match[str], date, DateOrder], Iterator[DateRange]]
    # The place of its language; None for numbers, which have none.
    language: int | None

    @property
    def words(self) -> DateLanguage:
        return LANGUAGES[self.language or 0]

    def is_since(self, text: str, match: re.Match[str]) -> bool:
        """Return whether the date is the beginning of a time until today."""
        start = max(0, match.start() - _MAX_SINCE_CHARACTERS)
        return _SINCE_BEFORE.search(text[start : match.start()]) is not None or _SINCE.match(match[0]) is not None


def _read_date(form: _Form, match: re.Match[str], _today: date, _order: DateOrder) -> Iterator[DateRange]:
    """Read "5 May 2023", "May 2023", "5 May" or "May"."""
    parts = match.groupdict()
    number = parts.get("number")
    yield _named_date(
        parts.get("year"), int(number) if number else form.words.months[parts["month"].lower()], parts.get("day")
    )


def _named_date(year_text: str | None, month: int, day_text: str | None) -> DateRange:
    # A leap year has every day that any year has.
    year = int(year_text or 2000)
    if year < _CENTURY:
        year += 2000
    first = date(year, month, int(day_text or 1))
    last = first if day_text else date(year, month, calendar.monthrange(year, month)[1])
    return DateRange(first=first, last=last, is_yearly=not year_text)


def _read_numbers(_form: _Form, match: re.Match[str], _today: date, order: DateOrder) -> Iterator[DateRange]:
    """Read "08/11/2026" by the order; both ways where the order is unknown."""
    one, other, year = match["one"], match["other"], match["year"]
    pairs = {"day": [(one, other)], "month": [(other, one)], None: [(one, other), (other, one)]}[order]
    for day, month in dict.fromkeys(pairs):
        try:
            yield _named_date(year, int(month), day)
        except ValueError:
            # 25/12/2026 is a day first everywhere.
            if order is not None:
                yield _named_date(year, int(day), month)


def _read_year(_form: _Form, match: re.Match[str], _today: date, _order: DateOrder) -> Iterator[DateRange]:
    year = int(match["year"])
    yield DateRange(first=date(year, 1, 1), last=date(year, 12, 31))


def _read_near_day(form: _Form, match: re.Match[str], today: date, _order: DateOrder) -> Iterator[DateRange]:
    """Read "yesterday"."""
    parts = match.groupdict()
    days = 2 if parts.get("before") else form.words.near_days[parts["near_day"].lower()]
    yield _near(today - timedelta(days=days))


def _read_ago(form: _Form, match: re.Match[str], today: date, _order: DateOrder) -> Iterator[DateRange]:
    """Read "three weeks ago": that day, give or take half a unit."""
    days = form.words.units[match["unit"].lower()]
    middle = today - timedelta(days=days * _count(form, match))
    yield DateRange(first=middle - timedelta(days=days // 2), last=middle + timedelta(days=days // 2))


def _read_span(form: _Form, match: re.Match[str], today: date, _order: DateOrder) -> Iterator[DateRange]:
    """Read "the last three weeks"."""
    days = form.words.units[match["unit"].lower()] * _count(form, match)
    yield DateRange(first=today - timedelta(days=days), last=today)


def _count(form: _Form, match: re.Match[str]) -> int:
    count = match["count"].lower()
    return form.words.counts.get(count) or int(count)


def _read_unit(form: _Form, match: re.Match[str], today: date, _order: DateOrder) -> Iterator[DateRange]:
    """Read "last week", "this month" and the like."""
    parts = match.groupdict()
    is_last = bool(parts.get("last"))
    unit = parts["unit"].lower()
    days = form.words.units[unit]
    if days == 1:
        yield _near(today - timedelta(days=is_last))
    elif days == _DAYS_OF_YEAR:
        year = today.year - is_last
        yield DateRange(first=date(year, 1, 1), last=date(year, 12, 31))
    elif days == _DAYS_OF_MONTH:
        day = today.replace(day=1) - timedelta(days=is_last)
        yield DateRange(first=day.replace(day=1), last=day.replace(day=calendar.monthrange(day.year, day.month)[1]))
    else:
        monday = today - timedelta(days=today.weekday() + 7 * is_last)
        yield DateRange(first=monday + timedelta(days=5 if unit in _WEEKENDS else 0), last=monday + timedelta(days=6))


def _read_weekday(form: _Form, match: re.Match[str], today: date, _order: DateOrder) -> Iterator[DateRange]:
    """Read "on Monday": the latest before today; a language may say which week."""
    parts = match.groupdict()
    weekday = form.words.weekdays[parts["weekday"].lower()]
    if parts.get("last_week"):
        yield _near(today + timedelta(days=weekday - today.weekday() - _DAYS_OF_WEEK))
    else:
        yield _near(today - timedelta(days=(today.weekday() - weekday - 1) % _DAYS_OF_WEEK + 1))


def _near(day: date) -> DateRange:
    return DateRange(first=day, last=day, half_life_days=_NEAR_HALF_LIFE_DAYS)


def _gap(first: date, last: date, day: date) -> int:
    return max(0, (first - day).days, (day - last).days)


def _in_year(day: date, year: int) -> date:
    return day.replace(year=year, day=min(day.day, calendar.monthrange(year, day.month)[1]))


# --- Forms ----------------------------------------------------------------------------------------------------------

_WORD: Final = re.compile(r"[^\W\d_]+")
_CJK: Final = re.compile("[年月周週星期礼拜天日昨曜]")
_CHINESE: Final = len(LANGUAGES) - 1
_MAX_SINCE_CHARACTERS: Final = 24
_SINCE: Final = re.compile("|".join(language.since for language in LANGUAGES), re.IGNORECASE)
_SINCE_BEFORE: Final = re.compile(rf"(?:{_SINCE.pattern})\s*$", re.IGNORECASE)
_WEEKENDS: Final = frozenset({"weekend", "wochenende", "finde", "week-end"})
# The zones of the United States and of the Philippines.
_MONTH_FIRST: Final = re.compile(
    r"US/.*|America/(?:New_York|Detroit|Chicago|Menominee|Denver|Boise|Phoenix|Los_Angeles|Anchorage|Juneau|Sitka|"
    r"Metlakatla|Yakutat|Nome|Adak|Indiana/.*|Kentucky/.*|North_Dakota/.*)|Pacific/Honolulu|Asia/Manila"
)
_READERS: Final = {
    "date": _read_date, "month": _read_date, "year": _read_year, "span": _read_span, "ago": _read_ago,
    "near_day": _read_near_day, "unit": _read_unit, "weekday": _read_weekday,
}  # fmt: skip
_YEAR: Final = r"(?P<year>(?:19|20)\d\d)"
_NUMBERS: Final = (
    (_read_date, rf"\b{_YEAR}[-/](?P<number>\d\d?)[-/](?P<day>\d\d?)\b"),
    (_read_date, r"(?<![\d.])(?P<day>\d\d?)\.\s?(?P<number>\d\d?)\.\s?(?P<year>(?:19|20)\d\d|\d\d)(?![\d.]?\d)"),
    (_read_date, r"(?<![\d.])(?P<day>\d\d?)\.(?P<number>\d\d?)\.(?!\d)"),
    (_read_numbers, r"(?<![\d/-])(?P<one>\d\d?)/(?P<other>\d\d?)/(?P<year>(?:19|20)\d\d|\d\d)(?![\d/-])"),
    (_read_numbers, r"(?<![\d/-])(?P<one>\d\d?)-(?P<other>\d\d?)-(?P<year>(?:19|20)\d\d)(?![\d/-])"),
)


def _compile(language: DateLanguage, place: int, kind: str, form: str) -> _Form:
    def words(name: str, values: Mapping[str, int]) -> str:
        return rf"(?P<{name}>{'|'.join(map(re.escape, sorted(values, key=len, reverse=True)))})"

    places = {
        "{day}": r"(?P<day>\d{1,2})",
        "{year}": _YEAR,
        "{month}": words("month", language.months),
        "{weekday}": words("weekday", language.weekdays),
        "{unit}": words("unit", language.units),
        "{near_day}": words("near_day", language.near_days),
        "{count}": words("count", language.counts)[:-1] + r"|\d{1,3})",
    }
    for name, pattern in places.items():
        form = form.replace(name, pattern)
    return _Form(re.compile(form, re.IGNORECASE), _READERS[kind], place)


@cache
def _all_forms() -> list[_Form]:
    forms = [_Form(re.compile(pattern), read, None) for read, pattern in _NUMBERS]
    for kind in FORM_KINDS:
        if kind == "year":
            forms.append(_Form(re.compile(rf"\b{_YEAR}\b"), _read_year, None))
        forms += [
            _compile(language, place, kind, form)
            for place, language in enumerate(LANGUAGES)
            for form_kind, form in language.forms
            if form_kind == kind
        ]
    return forms


_FORMS: Final = _all_forms()
_LANGUAGES_BY_WORD: Final[dict[str, set[int]]] = {}
for _place, _language in enumerate(LANGUAGES):
    for _words in (_language.months, _language.weekdays, _language.units, _language.near_days):
        for _name in _words:
            for _part in _WORD.findall(_name):
                _LANGUAGES_BY_WORD.setdefault(_part, set()).add(_place)
