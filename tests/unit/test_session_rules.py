from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from fix_catalogue import over

from skein.session.v1 import session_pb2 as pb
from skein_kit import message_rows
from skein_kit.errors import (
    FieldInvalid,
    PageTokenInvalid,
)
from skein_kit.ids import id_time, parse_id
from skein_session.messages import rpc as messages_convert
from skein_session.messages.model import MessageBatch, default_title
from skein_session.page_tokens import sequence_from_page_token
from skein_session.sessions import convert
from skein_session.sessions.listing import ListCursor

NOW = datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC)
SPACE = UUID(int=7)
LIMIT = 100


def user(content: str, **fields: object) -> pb.Message:
    return pb.Message(role=pb.MESSAGE_ROLE_USER, content=content, **fields)  # type: ignore[arg-type]  # Any fields.


def batch_of(*messages: pb.Message, agent_id: str = "") -> MessageBatch:
    request = pb.AppendMessagesRequest(session_id="s", messages=messages)
    return messages_convert.read_batch(request, at=NOW, principal="api_key:1", max_content=LIMIT, agent_id=agent_id)


def at(time: datetime, content: str = "x") -> pb.Message:
    message = user(content)
    message.create_time.FromDatetime(time)
    return message


def test_messages_of_one_moment_have_ids_in_the_order_given() -> None:
    batch = batch_of(*(user(f"message {number}") for number in range(50)))

    ids = [row["message_id"] for row in batch.rows]
    assert ids == sorted(ids)


def test_an_id_carries_the_time_of_its_message() -> None:
    old = datetime(1999, 12, 31, 23, 59, 59, 250_000, tzinfo=UTC)

    (row,) = batch_of(at(old)).rows

    assert id_time(row["message_id"]) == old


def test_a_batch_names_the_months_that_it_falls_in() -> None:
    batch = batch_of(at(datetime(2016, 2, 29, tzinfo=UTC)), at(datetime(2016, 2, 1, tzinfo=UTC)), user("now"))

    assert batch.months == {datetime(2016, 2, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC)}


def test_messages_without_text_have_no_document() -> None:
    silent = pb.Message(role=pb.MESSAGE_ROLE_ASSISTANT, content=" ")
    silent.tool_calls.append("lights.on")

    batch = batch_of(user("switch on the light"), silent)

    assert [document.text for document in batch.documents] == ["switch on the light"]


def test_a_message_s_own_agent_leads_then_the_session_s_then_the_caller_s() -> None:
    batch = batch_of(user("a"), user("b", agent_id="butler"), agent_id="cook")

    batch.inherit(None, "ada")
    without = [(row["agent_id"], row["subject_id"]) for row in batch.rows]
    batch.inherit("maid", "bob")

    assert without == [("cook", "ada"), ("butler", "ada")]
    assert [(row["agent_id"], row["subject_id"]) for row in batch.rows] == [("maid", "bob"), ("butler", "bob")]
    assert [(one.agent_id, one.subject_id) for one in batch.documents] == [("maid", "bob"), ("butler", "bob")]


def test_fields_that_the_service_fills_in_are_not_taken_from_the_caller() -> None:
    forged = user("x", message_id="m", session_id="elsewhere", sequence=99, created_by="root")

    batch = batch_of(forged)
    batch.assign_sequences(7)

    message = message_rows.message(batch.rows[0])
    assert (message.session_id, message.sequence, message.created_by) == ("s", 7, "api_key:1")
    assert message.message_id != "m"


def test_numbers_end_with_the_sessions_last() -> None:
    batch = batch_of(user("a"), user("b"), user("c"))

    batch.assign_sequences(10)

    assert [row["sequence"] for row in batch.rows] == [8, 9, 10]


def test_a_clock_that_is_a_little_ahead_is_taken() -> None:
    assert batch_of(at(NOW + timedelta(minutes=5))).rows


def test_a_title_has_a_hundred_characters_at_most() -> None:
    row = {"role": "user", "pending_approval": False}

    assert default_title({**row, "content": "  "}) is None
    assert default_title({**row, "content": " Remind me " + "again " * 50}) == ("Remind me " + "again " * 15)


def test_a_message_that_waits_gives_no_title() -> None:
    assert default_title({"role": "user", "pending_approval": True, "content": "Remind me"}) is None


def test_a_session_has_defaults() -> None:
    draft = convert.draft(pb.Session(), at=NOW)

    assert (draft.state, draft.session_type, draft.create_time) == ("active", "conversation", NOW)
    assert parse_id(draft.session_id) is not None


def test_a_session_from_the_future_is_refused() -> None:
    session = pb.Session()
    session.create_time.FromDatetime(NOW + timedelta(hours=1))

    with pytest.raises(FieldInvalid):
        convert.draft(session, at=NOW)


def test_a_state_in_the_mask_must_be_given() -> None:
    request = pb.UpdateSessionRequest(session=pb.Session(session_id="s"))
    request.update_mask.paths.append("state")

    with pytest.raises(FieldInvalid):
        convert.change(request)


def test_a_walk_survives_its_token() -> None:
    cursor = ListCursor().advance(
        NOW, "s1", SPACE, newest_update_time=NOW + timedelta(seconds=1), at=NOW + timedelta(microseconds=1)
    )

    assert ListCursor.of(cursor.to_page_token()) == cursor
    assert ListCursor.of(cursor.second_pass().to_page_token()) == cursor.second_pass()
    second = cursor.second_pass().advance(None, "s2", SPACE, newest_update_time=None, at=NOW)
    assert ListCursor.of(second.to_page_token()) == second
    assert (second.after_id, second.after_space_id) == ("s2", SPACE)


@over(
    "place",
    [
        [],
        ["1"],
        ["first", "yesterday", "s", str(SPACE), "", ""],
        ["first", "2026-01-01", "s", "kitchen", "2026-01-01", "2026-01-01"],
        ["again", "", "s", str(SPACE), "now", ""],
        ["first", "0001-01-01T00:00:00+23:59", "s", str(SPACE), "2026-01-01", "2026-01-01"],
        ["third", "2026-01-01", "s", str(SPACE), "2026-01-01", "2026-01-01"],
    ],
)
def test_a_token_of_another_form_is_no_walk(place: list[str]) -> None:
    with pytest.raises(PageTokenInvalid):
        ListCursor.of(place)


@over("place", [[], ["1", "2"], ["one"], ["-1"], [str(2**63)]])
def test_a_token_of_another_form_is_no_sequence(place: list[str]) -> None:
    with pytest.raises(PageTokenInvalid):
        sequence_from_page_token(place)
