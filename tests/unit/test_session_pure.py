"""States of sessions, windows of tokens, summaries, literals: the rules without a database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from fix_catalogue import over
from google.protobuf import json_format
from google.protobuf.struct_pb2 import ListValue
from hypothesis import given
from hypothesis import strategies as st

from skein_kit.errors import FailedPrecondition, FieldInvalid
from skein_kit.filters.json_properties import MAX_PROPERTIES, extract_properties
from skein_kit.ids import min_id_at
from skein_kit.json_values import exact
from skein_kit.settings import SettingInvalid
from skein_kit.text.summary import SpeakerTurn, summarize
from skein_kit.text.token_estimate import estimate_tokens
from skein_session.errors import SessionEnded, SessionHidden
from skein_session.messages.model import LAST_ID, NO_ID, id_ranges
from skein_session.search.model import like_pattern, required_words
from skein_session.sessions.model import SessionState, idle_cutoff
from skein_session.summaries.chat_model import ChatModel
from skein_session.transcripts.store import TOKENS_OF_A_MESSAGE, RecentWindow, tokens_of

NOW = datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC)
OPEN = ("active", "paused", "completed")
TURNS = st.lists(
    st.builds(SpeakerTurn, st.sampled_from(["user", "assistant", "Ada"]), st.text(max_size=300), st.booleans()),
    max_size=12,
)

TIMES = st.integers(0, 2_000_000_000).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))


def message(content: str, **columns: object) -> dict[str, object]:
    empty = dict.fromkeys(("name", "parts", "tool_calls", "tool_returns"))
    return {**empty, "content": content, **columns}


@over("state", [*OPEN, "ended"])
def test_a_hidden_session_gets_its_state_back(state: str) -> None:
    hidden = SessionState(state).hide()

    assert hidden == SessionState("hidden", state)
    assert hidden.hide() == hidden
    assert hidden.unhide() == SessionState(state)
    assert SessionState(state).unhide() == SessionState(state)


@over("state", OPEN)
def test_an_open_session_takes_messages_and_an_end(state: str) -> None:
    SessionState(state).require_open()

    assert SessionState(state).end() == SessionState("ended")


@over(
    ("closed", "refusal"),
    [(SessionState("ended"), SessionEnded), (SessionState("hidden", "active"), SessionHidden)],
)
def test_a_closed_session_takes_no_message(closed: SessionState, refusal: type[FailedPrecondition]) -> None:
    with pytest.raises(refusal):
        closed.require_open()


def test_an_ended_session_ends_again_unchanged_and_a_hidden_one_does_not_end() -> None:
    assert SessionState("ended").end() == SessionState("ended")
    with pytest.raises(SessionHidden):
        SessionState("hidden", "active").end()


def test_a_session_is_idle_after_the_policy_s_minutes_or_never() -> None:
    assert idle_cutoff(NOW, 30) == NOW - timedelta(minutes=30)
    assert idle_cutoff(NOW, 0) is None


def test_tokens_of_a_message_are_those_of_its_text_and_four() -> None:
    assert tokens_of(message("")) == TOKENS_OF_A_MESSAGE == 4
    assert tokens_of(message("Anna drinks tea.", name="Ada")) == 4 + 6


def test_tool_calls_take_tokens_as_json() -> None:
    assert tokens_of(message("", tool_calls='["lights.on"]', parts="[]")) == 4 + estimate_tokens('["lights.on"]')


@given(
    st.lists(st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | st.text(), min_size=1)
)
def test_parts_take_tokens_as_protobuf_writes_them(values: list[float | str]) -> None:
    parts = ListValue()
    parts.extend(values)

    expected = 4 + estimate_tokens(json_format.MessageToJson(parts, indent=None, ensure_ascii=False))
    assert tokens_of(message("", parts=exact.serialize(values))) == expected


@given(
    lengths=st.lists(st.integers(0, 400), max_size=30),
    budget=st.integers(1, 600),
    summary=st.text(max_size=800),
)
def test_a_window_is_the_newest_that_fit_and_never_passes_its_budget(
    lengths: list[int], budget: int, summary: str
) -> None:
    newest_first = [message("x" * length, sequence=len(lengths) - place) for place, length in enumerate(lengths)]
    window = RecentWindow(budget, len(newest_first), summary)

    for each in newest_first:
        if not window.add(each):
            break
    window.trim(limit=len(newest_first))
    told = window.summary

    rows = window.rows
    tokens = sum(map(tokens_of, rows)) + estimate_tokens(told)
    assert window.token_count == tokens <= budget
    assert rows == newest_first[: len(rows)]
    assert told in {"", summary}
    if len(rows) == len(newest_first):
        assert told == ""
    elif not told:
        # Nothing more would have fit.
        assert tokens + tokens_of(newest_first[len(rows)]) > budget


def test_a_summary_longer_than_half_of_the_budget_is_left_out() -> None:
    window = RecentWindow(20, 2, "x" * 100)

    window.add(message("abcd"))

    window.trim(limit=1)
    assert window.summary == ""
    assert len(window.rows) == 1


TRIP = [
    SpeakerTurn(
        "user", "I want to plan a trip to Lisbon in May. My budget is 1,200 euros. Can you help?", is_user=True
    ),
    SpeakerTurn("assistant", "Of course! Lisbon in May is warm. Flights to Lisbon cost about 180 euros."),
    SpeakerTurn("user", "Yes please. The hotel should have a breakfast. My wife is vegetarian.", is_user=True),
    SpeakerTurn("assistant", "I booked the hotel Tejo with breakfast for 700 euros. The trip costs 880 euros in all."),
]


def test_a_summary_says_what_the_conversation_is_about_in_its_order() -> None:
    summary = summarize(TRIP, max_characters=250)

    assert summary.startswith("user: I want to plan a trip to Lisbon in May.")
    assert "I booked the hotel Tejo" in summary
    assert "Of course" not in summary
    assert "Yes please" not in summary


def test_a_repeated_turn_is_summarized_once() -> None:
    summary = summarize([SpeakerTurn("user", "The kettle is red.", is_user=True)] * 5, max_characters=1000)

    assert summary == "user: The kettle is red."


@over(
    "turns", [[], [SpeakerTurn("user", "")], [SpeakerTurn("user", "ok. the. and of")], [SpeakerTurn("user", "🙂 !?")]]
)
def test_a_conversation_that_says_nothing_has_no_summary(turns: list[SpeakerTurn]) -> None:
    assert summarize(turns) == ""


@given(turns=TURNS, most=st.integers(0, 400))
def test_a_summary_is_short_the_same_each_time_and_made_of_what_was_said(turns: list[SpeakerTurn], most: int) -> None:
    summary = summarize(turns, max_characters=most)

    assert len(summary) <= most
    assert summary == summarize(turns, max_characters=most)
    transcript = " ".join(f"{turn.speaker}: {' '.join(turn.text.split())}" for turn in turns)
    for word in summary.split():
        assert word in transcript


@given(turns=TURNS)
def test_more_room_never_makes_a_summary_of_nothing(turns: list[SpeakerTurn]) -> None:
    lengths = [len(summarize(turns, max_characters=most)) for most in (50, 5000)]

    assert bool(lengths[0]) <= bool(lengths[1])


@over(
    ("literal", "words"),
    [
        ("kettle", ""),
        ("red kettle", ""),
        ("the red kettle boils", "red kettle"),
        (" red kettle ", "red kettle"),
        ("a foo-bar b2b ünder kettle c", "kettle"),
        ("<b> red kettle boils", "red kettle"),
        ("", ""),
        ("100% sure_thing of this", "of"),
        (f"the {'x' * 201} kettle boils", "kettle"),
    ],
)
def test_only_whole_words_inside_a_literal_are_certain(literal: str, words: str) -> None:
    assert required_words(literal) == words


def test_a_pattern_takes_every_sign_as_it_is() -> None:
    assert like_pattern("50%_\\") == "%50\\%\\_\\\\%"


@given(start=st.none() | TIMES, end=st.none() | TIMES)
def test_spans_cover_a_range_without_gap_or_overlap(start: datetime | None, end: datetime | None) -> None:
    lowest, below = (None if time is None else min_id_at(time) for time in (start, end))

    results = list(id_ranges(lowest, below, NOW))

    for newer, older in pairwise(results):
        assert older[1] == newer[0]
    if results:
        assert results[-1][0] == (lowest or NO_ID)
        assert results[0][1] == min(below or LAST_ID, min_id_at(NOW + timedelta(minutes=10)))
    assert all(from_id < before_id for from_id, before_id in results)


def test_metadata_holds_so_many_values_and_no_more() -> None:
    values = ",".join(map(str, range(MAX_PROPERTIES)))

    assert len(extract_properties({"metadata": f'{{"a":[{values}]}}'}, owner="session")) == MAX_PROPERTIES
    with pytest.raises(FieldInvalid) as caught:
        extract_properties({"metadata": f'{{"a":[{values},-1]}}'}, owner="session")
    assert caught.value.violations[0][0] == "session.metadata"


@over("url", ["ftp://a", "nonsense", "http://", "https://user:pass@host/v1", "http://h/v1?key=1"])
def test_a_model_needs_a_url_that_is_one(url: str) -> None:
    with pytest.raises(SettingInvalid):
        ChatModel(url=url, model="m", key="", seconds=1)
