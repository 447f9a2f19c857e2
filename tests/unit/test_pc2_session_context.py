"""Session contexts within a budget of tokens, and ids of sessions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from fix_catalogue import over
from hypothesis import given
from hypothesis import strategies as st

from skein.session.v1 import session_pb2 as pb
from skein_pc2.protocol.errors import RequestError
from skein_pc2.reasoning.actions.interactions import session_of
from skein_pc2.reasoning.actions.session_context import TYPE, context_of

AT = datetime(2026, 1, 2, 23, 4, 5, tzinfo=UTC)
TYPES = ("user_query", "system_response", "error", "code", "decision")


def message(content: str, kind: str = "user_query") -> pb.Message:
    result = pb.Message(role=pb.MESSAGE_ROLE_USER, content=content)
    result.metadata[TYPE] = kind
    return result


def count_characters(document: dict[str, Any]) -> int:
    """Count the characters of all texts of a document."""
    errors = [error["message"] for error in document["errors_encountered"]]
    decisions = [decision["decision"] for decision in document["key_decisions"]]
    return sum(map(len, [document["conversation_summary"], document["code_context"], *errors, *decisions]))


@pytest.mark.system
@given(
    st.lists(st.tuples(st.text(min_size=1, max_size=60), st.sampled_from(TYPES)), max_size=30),
    st.integers(min_value=0, max_value=200),
    st.text(max_size=100),
)
def test_a_context_never_exceeds_its_budget(
    turns: list[tuple[str, str]], max_tokens: int, earlier_summary: str
) -> None:
    newest_first = [message(content, kind) for content, kind in turns]

    context = context_of(newest_first, max_tokens=max_tokens, earlier_summary=earlier_summary)

    assert len(context.summary) <= 4 * max_tokens
    assert count_characters(context.document(None)) <= 4 * max_tokens


@given(st.lists(st.tuples(st.text(min_size=1, max_size=60), st.sampled_from(TYPES)), max_size=30))
def test_messages_that_fit_are_whole_and_in_order(turns: list[tuple[str, str]]) -> None:
    newest_first = [message(content, kind) for content, kind in turns]

    context = context_of(newest_first, max_tokens=10_000, earlier_summary="not told")

    assert [line.content for line in context.lines] == [content for content, _ in reversed(turns)]
    assert context.earlier_summary == ""


def test_a_newest_message_beyond_the_budget_is_truncated() -> None:
    context = context_of([message("z" * 100), message("older")], max_tokens=10)

    assert context.summary == "User: " + "z" * 33 + "…"


def test_an_old_decision_is_part_of_a_full_context() -> None:
    chatter = [message("blah " * 10) for _ in range(100)]

    context = context_of([*chatter, message("use Postgres", "decision")], max_tokens=100)

    (decision,) = context.document(None)["key_decisions"]
    assert decision["decision"] == "use Postgres"
    assert context.summary.startswith("Decision: use Postgres\nUser: blah")


def test_many_errors_do_not_displace_the_conversation() -> None:
    errors = [message("failed " * 5, "error") for _ in range(100)]

    context = context_of([message("What now?"), *errors], max_tokens=100)

    assert "User: What now?" in context.summary
    assert 0 < len(context.document(None)["errors_encountered"]) < 100


def test_interaction_types_ignore_case() -> None:
    (decision,) = context_of([message("d", "DECISION")], max_tokens=10).document(None)["key_decisions"]

    assert decision["decision"] == "d"


def test_a_message_without_content_is_not_in_the_context() -> None:
    assert context_of([pb.Message(role=pb.MESSAGE_ROLE_TOOL)], max_tokens=10).summary == ""


@over(
    ("message_fields", "session_id"),
    [
        ({"session_id": "s"}, "s"),
        ({"session_id": "s", "user_id": "ana", "project": "boat"}, "s"),
        ({"user_id": "ana", "project": "boat"}, "ana_boat"),
        ({"user_id": "ana"}, "ana_2026-01-02"),
        ({"user_id": "ana", "project": ""}, "ana_2026-01-02"),
        ({"session_id": None, "user_id": "ana", "project": None}, "ana_2026-01-02"),
    ],
)
def test_a_session_id_comes_from_the_message_or_from_user_and_project_or_day(
    message_fields: dict[str, object], session_id: str
) -> None:
    assert session_of(message_fields, AT) == session_id


def test_the_day_of_a_session_id_is_in_utc() -> None:
    there = AT.astimezone(timezone(timedelta(hours=9)))

    assert there.day == 3
    assert session_of({"user_id": "ana"}, there) == "ana_2026-01-02"


@over("message_fields", [{}, {"project": "boat"}, {"user_id": " "}, {"user_id": 5}, {"session_id": ["s"]}])
def test_a_message_without_a_session_or_user_is_rejected(message_fields: dict[str, object]) -> None:
    with pytest.raises(RequestError):
        session_of(message_fields, AT)
