"""Days and hours that people announce: "tomorrow at 7:45", "on Friday", "am 24. März", "星期五下午三点". Pure.

A day that can be read in two ways is none: "next Friday", said on a Wednesday, is this week's or the next one's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, time, timedelta
from typing import Final

from skein_kit.dates.date_words import CHINESE, ENGLISH, GERMAN, SPANISH, DateLanguage
from skein_kit.dates.dates import DateOrder, find_date_mentions
from skein_worker.extraction.number_words import read_number

_DAYS_OF_WEEK: Final = 7
_NOON: Final = 12


@dataclass(frozen=True, slots=True)
class DayMention:
    """A day and the characters that name it; `is_yearly` where no year is said, `is_year` where no day is."""

    start: int
    end: int
    day: date
    is_yearly: bool = False
    is_year: bool = False


@dataclass(frozen=True, slots=True)
class ClockMention:
    """A time of day and the characters that name it."""

    start: int
    end: int
    time: time


def find_days(text: str, today: date, order: DateOrder = None) -> Iterator[DayMention]:
    """Find the days that a text names, those ahead of today first."""
    for find in (_find_near_days, _find_weekdays, _find_chinese_days):
        mentions = list(find(text, today))
        yield from mentions
        for mention in mentions:
            text = text[: mention.start] + " " * (mention.end - mention.start) + text[mention.end :]
    yield from _find_dates(text, today, order)


def _find_near_days(text: str, today: date) -> Iterator[DayMention]:
    for pattern, days in _NEAR_DAYS:
        for match in pattern.finditer(text):
            yield DayMention(match.start(), match.end(), today + timedelta(days=days))
        text = _blank(pattern, text)


def _find_weekdays(text: str, today: date) -> Iterator[DayMention]:
    for pattern, language in _WEEKDAYS:
        for match in pattern.finditer(text):
            day = _weekday_ahead(language.weekdays[match["weekday"].casefold()], today, match["next"])
            if day is not None:
                yield DayMention(match.start(), match.end(), day)


def _find_chinese_days(text: str, today: date) -> Iterator[DayMention]:
    for match in _CHINESE_DAY.finditer(text):
        found = _day_of_year(today, read_number(match["month"]) or 0, read_number(match["day"]) or 0)
        if found is not None:
            yield DayMention(match.start(), match.end(), found, is_yearly=True)


def _find_dates(text: str, today: date, order: DateOrder) -> Iterator[DayMention]:
    for mention in find_date_mentions(text, today, order):
        dates = mention.dates
        if dates.first == dates.last:
            ahead = _day_of_year(today, dates.first.month, dates.first.day) if dates.is_yearly else dates.first
            if ahead is not None:
                yield DayMention(mention.start, mention.end, ahead, is_yearly=dates.is_yearly)
        elif (dates.first.month, dates.first.day, dates.last) == (1, 1, date(dates.first.year, 12, 31)):
            yield DayMention(mention.start, mention.end, dates.first, is_year=True)


def find_clock_times(text: str) -> Iterator[ClockMention]:
    """Find times of day."""
    for pattern in _CLOCKS:
        for match in pattern.finditer(text):
            clock = _read_clock(match.groupdict())
            if clock is not None:
                yield ClockMention(match.start(), match.end(), clock)
        text = _blank(pattern, text)


def find_event_times(text: str, today: date, order: DateOrder = None) -> set[str]:
    """Return every day, and every day with a time of day, that a text names; as a Fact has them."""
    days = {str(mention.day) for mention in find_days(text, today, order) if not mention.is_year}
    clocks = {f"{mention.time:%H:%M}" for mention in find_clock_times(text)}
    return days | {f"{day}T{clock}" for day in days for clock in clocks}


def find_event_time(text: str, today: date, order: DateOrder = None) -> str | None:
    """Return the day, or the day with its time of day, that a text names; None where it names none, or several."""
    mentions = list(find_days(text, today, order))
    days = {mention.day for mention in mentions}
    clocks = {mention.time for mention in find_clock_times(text)}
    # A year beside a day could be the day's.
    if len(days) != 1 or len(clocks) > 1 or any(mention.is_year for mention in mentions):
        return None
    (day,) = days
    return f"{day}T{clocks.pop():%H:%M}" if clocks else str(day)


def find_begin(text: str, today: date, order: DateOrder = None) -> date | None:
    """Return the day since which something is true, as a text says it ("since 2019"); None where it does not."""
    since = SINCE.search(text)
    mentions = find_date_mentions(since[0], today, order) if since else ()
    return next((mention.dates.first for mention in mentions), None)


def _weekday_ahead(weekday: int, today: date, following: str | None) -> date | None:
    gap = (weekday - today.weekday()) % _DAYS_OF_WEEK
    if gap == 0:
        return None
    nearest = today + timedelta(days=gap)
    in_following_week = today + timedelta(days=_DAYS_OF_WEEK - today.weekday() + weekday)
    if following is None:
        return nearest
    if following.startswith("下"):
        return in_following_week
    return nearest if nearest == in_following_week else None


def _day_of_year(today: date, month: int, day: int) -> date | None:
    """Return the next such day, today included."""
    for year in (today.year, today.year + 1):
        try:
            found = date(year, month, day)
        except ValueError:
            continue
        if found >= today:
            return found
    return None


def _read_clock(parts: dict[str, str | None]) -> time | None:
    if parts.get("noon"):
        return time(_NOON)
    hour = read_number(parts["hour"] or "")
    if hour is None:
        return None
    minute_text = parts.get("minute")
    minute = 30 if parts.get("half") else (read_number(minute_text) if minute_text else 0)
    half = (parts.get("part") or "").casefold().replace(".", "")
    if half in _AFTERNOON and hour < _NOON:
        hour += _NOON
    elif half in _MORNING and hour == _NOON:
        hour = 0
    try:
        return time(hour, minute or 0)
    except ValueError:
        return None


def _blank(pattern: re.Pattern[str], text: str) -> str:
    return pattern.sub(lambda match: " " * len(match[0]), text)


# --- Words and forms ------------------------------------------------------------------------------------------------

SINCE: Final = re.compile(r" *(?:\b(?:since|seit|desde)|从|自) ?[^,.;，。；]{2,30}", re.IGNORECASE)
_AFTERNOON: Final = frozenset(
    {"pm", "下午", "晚上", "傍晚", "中午", "de la tarde", "de la noche", "abends", "nachmittags"}
)
_MORNING: Final = frozenset({"am", "上午", "早上", "凌晨", "de la mañana", "morgens"})
_NEAR_DAYS: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), days)
    for pattern, days in (
        (r"\bthe day after tomorrow\b|\bübermorgen\b|\bpasado mañana\b|后天|後天", 2),
        # "mañana" is the morning too, and "Morgen" is one.
        (r"\btomorrow\b|(?<!de la )(?<!por la )(?<!esta )\bmañana\b|明天|明日", 1),
        (r"(?<!guten )(?<!am )(?<!jeden )\bmorgen\b", 1),
        (r"\btoday\b|\bheute\b|\bhoy\b|今天|今日", 0),
    )
)


def _weekday_pattern(language: DateLanguage, before: str, following: str) -> tuple[re.Pattern[str], DateLanguage]:
    names = "|".join(sorted(language.weekdays, key=len, reverse=True))
    form = rf"{before}(?P<next>{following})?(?P<weekday>{names})(?![^\W\d_]){_NOT_THE_LAST}"
    return re.compile(form, re.IGNORECASE), language


_NOT_THE_LAST: Final = r"(?!\s+pasado)"
_WEEKDAYS: Final = (
    _weekday_pattern(ENGLISH, r"\b(?:on |this |coming )?", "next "),
    _weekday_pattern(GERMAN, r"\b(?:am |diesen |kommenden )?", r"nächste[nrs]? "),
    _weekday_pattern(SPANISH, r"\b(?:el |este )?", r"próximo "),
    (
        re.compile(
            rf"(?<!上)(?<!上个)(?:这|本)?(?P<next>下个?)?(?:周|星期|礼拜)(?P<weekday>{'|'.join('一二三四五六日天')})"
        ),
        CHINESE,
    ),
)
_CHINESE_DAY: Final = re.compile("(?P<month>[一二三四五六七八九十]{1,2})月(?P<day>[一二三四五六七八九十]{1,3})[日号]")
_CLOCKS: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        (
            r"(?P<part>上午|早上|凌晨|下午|晚上|傍晚|中午)?\s*(?P<hour>\d{1,2}|[一二两三四五六七八九十]{1,3})[点點]"
            r"(?:(?P<half>半)|(?P<minute>\d{1,2}|[一二三四五六七八九十]{1,3})分?)?"
        ),
        r"\b(?:at )?(?P<hour>\d{1,2})(?:[:.](?P<minute>\d{2}))? ?(?P<part>[ap]\.?m\b\.?)",
        r"\bum (?P<hour>\d{1,2})(?:[:.](?P<minute>\d{2}))?(?: uhr)?\b|\b(?P<noon>at noon|mediodía|mittags)\b",
        r"\b(?P<hour>\d{1,2})(?:[:.](?P<minute>\d{2}))? uhr\b",
        r"\ba las? (?P<hour>\d{1,2})(?::(?P<minute>\d{2}))?(?: ?h\b)?(?: (?P<part>de la (?:mañana|tarde|noche)))?",
        r"(?<![\d.:])(?:\bat )?(?P<hour>\d{1,2}):(?P<minute>\d{2})(?![\d:])(?: ?h\b)?",
        r"\bat (?P<hour>\d{1,2})(?: o'clock)?\b(?![.:]?\d)",
    )
)
