from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from fix_catalogue import over
from hypothesis import given
from hypothesis import strategies as st

from skein_kit.dates.dates import DateRange
from skein_kit.policies.store import Policy
from skein_recall.search.cues import QueryCues

# A Wednesday.
NOW = datetime(2024, 5, 15, 10, tzinfo=UTC)
DAYS = st.dates(min_value=date(1950, 1, 1), max_value=date(2050, 12, 31))


def days(text: str, now: datetime = NOW) -> list[tuple[str, str]]:
    return [(str(span.first), str(span.last)) for span in QueryCues.of(text, now).dates]


@over(
    "text",
    [
        "When did Ann move?",
        "  when was that",
        "And when is the concert?",
        "Since when do they live there?",
        "How long have they been married?",
        "In which year did he graduate?",
        "What time does it open?",
        "How many weeks passed?",
        "Wann ist Anna umgezogen?",
        "Seit wann wohnen sie dort?",
        "In welchem Jahr war das?",
        "¿Cuándo se mudó Ana?",
        "¿En qué año fue?",
        "Quand a-t-elle déménagé ?",
        "安娜什么时候搬家的?",
    ],
)
def test_a_question_for_a_time_is_known(text: str) -> None:
    assert QueryCues.of(text, NOW).asks_for_time


@over(
    "text",
    ["What did Ann do when she moved?", "Where is the kettle?", "How many cats are there?", "Whenever", ""],
)
def test_other_questions_want_no_time(text: str) -> None:
    assert not QueryCues.of(text, NOW).asks_for_time


@over(
    ("text", "first", "last"),
    [
        ("on 7 May 2023", "2023-05-07", "2023-05-07"),
        ("on the 7th of May, 2023?", "2023-05-07", "2023-05-07"),
        ("on May 7th, 2023", "2023-05-07", "2023-05-07"),
        ("on Sept. 3, 2023", "2023-09-03", "2023-09-03"),
        ("on 2023-05-07", "2023-05-07", "2023-05-07"),
        ("in February 2024", "2024-02-01", "2024-02-29"),
        ("in 1999?", "1999-01-01", "1999-12-31"),
        ("yesterday", "2024-05-14", "2024-05-14"),
        ("Today", "2024-05-15", "2024-05-15"),
        ("three weeks ago", "2024-04-21", "2024-04-27"),
        ("a day ago", "2024-05-14", "2024-05-14"),
        ("last week", "2024-05-06", "2024-05-12"),
        ("this week", "2024-05-13", "2024-05-19"),
        ("last weekend", "2024-05-11", "2024-05-12"),
        ("last month", "2024-04-01", "2024-04-30"),
        ("this month", "2024-05-01", "2024-05-31"),
        ("last year", "2023-01-01", "2023-12-31"),
        ("on Monday", "2024-05-13", "2024-05-13"),
        ("last Wednesday", "2024-05-08", "2024-05-08"),
        ("the day before yesterday", "2024-05-13", "2024-05-13"),
        ("in the last two weeks", "2024-05-01", "2024-05-15"),
        ("since March", "2024-03-01", "2024-05-15"),
        ("since 2019", "2019-01-01", "2024-05-15"),
        ("since Monday", "2024-05-13", "2024-05-15"),
        ("on 08.11.2026", "2026-11-08", "2026-11-08"),
        ("on 25/12/2023", "2023-12-25", "2023-12-25"),
        ("on 2023/12/25", "2023-12-25", "2023-12-25"),
    ],
)
def test_a_date_is_read(text: str, first: str, last: str) -> None:
    assert days(f"What did Ann do {text}") == [(first, last)]
    assert not QueryCues.of(text, NOW).dates[0].is_yearly


@over("text", ["on 7 May", "on May 7", "in May", "by the 7th of May"])
def test_a_date_without_its_year_is_of_every_year(text: str) -> None:
    (span,) = QueryCues.of(f"What happened {text}?", NOW).dates

    assert span.is_yearly
    assert [span.days_to(date(year, 5, 7)) for year in (1999, 2023, 2031)] == [0, 0, 0]


def test_several_dates_are_all_read_and_each_only_once() -> None:
    assert days("Between 3 June 2023 and July 2023, or in 2020?") == [
        ("2023-06-03", "2023-06-03"),
        ("2023-07-01", "2023-07-31"),
        ("2020-01-01", "2020-12-31"),
    ]


def test_only_some_of_very_many_dates_are_read() -> None:
    assert len(QueryCues.of("in 2023, " * 5000, NOW).dates) == 8


@over(
    "text",
    [
        "What may Ann do?",
        "Did they march on?",
        "on 31 February 2023",
        "999 years ago, and 999 years ago",
        "What is 12345?",
        "on 5/6",
        "version 3.12.1 of 192.168.17.10",
        "call 555-0134-22",
        "dos días con mayo",
        "",
    ],
)
def test_an_invalid_date_is_none(text: str) -> None:
    now = NOW.replace(year=900) if "999" in text else NOW

    assert QueryCues.of(text, now).dates == ()


@over(
    ("text", "first", "last"),
    [
        ("Was geschah vor drei Wochen?", "2024-04-21", "2024-04-27"),
        ("Was geschah vorgestern?", "2024-05-13", "2024-05-13"),
        ("Was war letzten Dienstag?", "2024-05-14", "2024-05-14"),
        ("Was war am 5. Mai 2023?", "2023-05-05", "2023-05-05"),
        ("Was war letzte Woche?", "2024-05-06", "2024-05-12"),
        ("Was gilt seit März?", "2024-03-01", "2024-05-15"),
        ("Was gilt seit zwei Wochen?", "2024-05-01", "2024-05-15"),
        ("¿Qué pasó hace tres semanas?", "2024-04-21", "2024-04-27"),
        ("¿Qué pasó el martes pasado?", "2024-05-14", "2024-05-14"),
        ("¿Qué pasó la semana pasada?", "2024-05-06", "2024-05-12"),
        ("¿Qué pasó el 5 de mayo de 2023?", "2023-05-05", "2023-05-05"),
        ("¿Qué hizo ayer?", "2024-05-14", "2024-05-14"),
        ("Que s'est-il passé il y a trois semaines ?", "2024-04-21", "2024-04-27"),
        ("Que s'est-il passé le 5 mai 2023 ?", "2023-05-05", "2023-05-05"),
        ("三个星期前发生了什么?", "2024-04-21", "2024-04-27"),
        ("上周二发生了什么?", "2024-05-07", "2024-05-07"),
        ("昨天吃了什么?", "2024-05-14", "2024-05-14"),
        ("上个月呢?", "2024-04-01", "2024-04-30"),
        ("2023年5月5日在哪里?", "2023-05-05", "2023-05-05"),
        ("从2019年开始", "2019-01-01", "2024-05-15"),
    ],
)
def test_a_date_is_read_in_other_languages(text: str, first: str, last: str) -> None:
    assert days(text) == [(first, last)]


@over(
    ("zone", "dates"),
    [
        ("America/Chicago", ["2023-08-11"]),
        ("Europe/Berlin", ["2023-11-08"]),
        # UTC says nothing of the order.
        ("UTC", ["2023-11-08", "2023-08-11"]),
    ],
)
def test_numbers_have_the_order_of_the_time_zone(zone: str, dates: list[str]) -> None:
    cues = QueryCues.of("What happened on 08/11/2023?", NOW, Policy(time_zone=zone).zone)

    assert [str(span.first) for span in cues.dates] == dates


def test_days_are_those_of_the_time_zone() -> None:
    evening = datetime(2024, 5, 15, 22, tzinfo=timezone(timedelta(hours=-7)))

    assert days("What did Ann do today?", evening) == [("2024-05-16", "2024-05-16")]
    cues = QueryCues.of("What did Ann do today?", evening, ZoneInfo("America/Los_Angeles"))
    assert [str(span.first) for span in cues.dates] == ["2024-05-15"]


def test_yesterday_is_one_day_and_a_date_is_told_of_for_a_week() -> None:
    yesterday, named = (QueryCues.of(text, NOW) for text in ("What was yesterday?", "What was on 14 May 2024?"))

    assert yesterday.nearness(date(2024, 5, 14)) == named.nearness(date(2024, 5, 14)) == 1
    assert yesterday.nearness(date(2024, 5, 15)) == 0.5
    assert named.nearness(date(2024, 5, 15)) > 0.8


def test_without_dates_nothing_is_near_or_far() -> None:
    assert QueryCues.of("Where is the kettle?", NOW).days_to(date(2023, 5, 7)) is None


def test_the_nearest_of_several_dates_counts() -> None:
    cues = QueryCues.of("on 1 May 2023 or on 20 May 2023", NOW)

    assert [cues.days_to(date(2023, 5, day)) for day in (1, 3, 18, 25)] == [0, 2, 2, 5]


@given(first=DAYS, more=st.integers(min_value=0, max_value=400), day=DAYS, yearly=st.booleans())
def test_within_a_span_nothing_is_far_and_a_recurring_one_is_never_farther(
    *, first: date, more: int, day: date, yearly: bool
) -> None:
    # A span that recurs is within one year.
    last = min(first + timedelta(days=more), date(first.year, 12, 31)) if yearly else first + timedelta(days=more)
    span = DateRange(first=first, last=last, is_yearly=yearly)
    once = DateRange(first=first, last=last)

    assert 0 <= span.days_to(day) <= once.days_to(day)
    assert span.days_to(first) == span.days_to(last) == 0
    if yearly:
        assert span.days_to(day) <= 366


@given(st.text(max_size=200), st.datetimes(timezones=st.just(UTC)))
def test_any_text_can_be_read_at_any_time(text: str, now: datetime) -> None:
    assert QueryCues.of(text, now) == QueryCues.of(text, now)


@given(
    st.lists(
        st.sampled_from(
            ["last", "May", "31", "2023", "9999", "ago", "years", "in", "week", "0", "00", "of", "on", "-"]
        ),
        max_size=12,
    ).map(" ".join),
    st.datetimes(timezones=st.just(UTC)),
)
def test_any_words_of_time_can_be_read_at_any_time(text: str, now: datetime) -> None:
    assert all(span.first <= span.last for span in QueryCues.of(text, now).dates)


@over("text", ["in Augu\u017ft", "5 apr\u0131l 2023", "f\u0131ve days ago", "3 day\u017f ago", "on \u017funday"])
def test_letters_that_only_look_like_a_name_s_break_nothing(text: str) -> None:
    assert not QueryCues.of(text, NOW).asks_for_time


def test_the_beginning_of_a_very_long_text_counts() -> None:
    assert days("in 1999 " + "word " * 1900 + "in 2001") == [("1999-01-01", "1999-12-31")]
