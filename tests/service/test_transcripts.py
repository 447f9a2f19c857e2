"""The newest of a transcript: of an agent over all sessions, and of a session within a budget of tokens."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import grpc
import pytest
from fix_cluster import Tenant, refused

from skein.session.v1 import session_pb2 as pb
from skein_kit.text.token_estimate import estimate_tokens

# Of "message number 1".
TOKENS = 4 + estimate_tokens("message number 1")


async def append(tenant: Tenant, *contents: str, session_id: str = "s", **fields: Any) -> list[pb.Message]:
    messages = [pb.Message(role=pb.MESSAGE_ROLE_USER, content=content, **fields) for content in contents]
    request = pb.AppendMessagesRequest(session_id=session_id, messages=messages, create_session=True)
    return list((await tenant.sessions.AppendMessages(request)).messages)


async def of(tenant: Tenant, size: int = 2, **fields: Any) -> list[str]:
    """Page through an agent's messages."""
    results: list[str] = []
    token = ""
    while True:
        page = await tenant.sessions.ListAgentMessages(
            pb.ListAgentMessagesRequest(page_size=size, page_token=token, **fields)
        )
        results += [message.content for message in page.messages]
        token = page.next_page_token
        if not token:
            return results


@pytest.mark.system
async def test_an_agent_s_newest_messages_come_from_all_its_sessions(tenant: Tenant, other_tenant: Tenant) -> None:
    for number in range(1, 6):
        await append(tenant, f"butler {number}", session_id=f"s{number % 3}", agent_id="butler")
        await append(tenant, f"cook {number}", session_id=f"s{number % 3}", agent_id="cook")
    await append(other_tenant, "theirs", agent_id="butler")

    assert await of(tenant, agent_id="butler") == [f"butler {number}" for number in (5, 4, 3, 2, 1)]
    newest = await tenant.sessions.ListAgentMessages(pb.ListAgentMessagesRequest(agent_id="cook", page_size=2))
    assert [message.content for message in newest.messages] == ["cook 5", "cook 4"]
    assert await of(tenant, agent_id="nobody") == []


async def test_messages_of_a_person_and_of_a_person_with_an_agent(tenant: Tenant) -> None:
    await append(tenant, "ada to butler", agent_id="butler", subject_id="ada")
    await append(tenant, "ada to cook", agent_id="cook", subject_id="ada", session_id="two")
    await append(tenant, "bob to butler", agent_id="butler", subject_id="bob")

    assert await of(tenant, subject_id="ada") == ["ada to cook", "ada to butler"]
    assert await of(tenant, subject_id="ada", agent_id="butler") == ["ada to butler"]
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await of(tenant)


async def test_an_agent_s_messages_without_a_subject_are_not_listed_for_one(tenant: Tenant) -> None:
    await append(tenant, "butler to all", agent_id="butler")
    await append(tenant, "butler to ada", agent_id="butler", subject_id="ada")

    assert await of(tenant, agent_id="butler", subject_id="ada") == ["butler to ada"]


async def test_messages_of_many_years_come_in_one_line(tenant: Tenant) -> None:
    years = (1999, 2014, 2016, 2020, 2024)
    for year in years:
        message = pb.Message(role=pb.MESSAGE_ROLE_USER, content=str(year), agent_id="butler")
        message.create_time.FromDatetime(datetime(year, 6, 1, tzinfo=UTC))
        await tenant.sessions.AppendMessages(
            pb.AppendMessagesRequest(session_id="s", messages=[message], create_session=True)
        )
    await append(tenant, "today", agent_id="butler")

    assert await of(tenant, agent_id="butler") == ["today", *(str(year) for year in reversed(years))]
    since, until = datetime(2014, 6, 1, tzinfo=UTC), datetime(2024, 6, 1, tzinfo=UTC)
    assert await of(tenant, agent_id="butler", start_time=since, end_time=until) == ["2020", "2016", "2014"]


async def test_messages_written_between_two_pages_move_nothing(tenant: Tenant) -> None:
    await append(tenant, "one", "two", "three", agent_id="butler")
    first = await tenant.sessions.ListAgentMessages(pb.ListAgentMessagesRequest(agent_id="butler", page_size=2))

    await append(tenant, "four", agent_id="butler")
    second = await tenant.sessions.ListAgentMessages(
        pb.ListAgentMessagesRequest(agent_id="butler", page_size=2, page_token=first.next_page_token)
    )

    assert [message.content for message in second.messages] == ["one"]
    assert not second.next_page_token


async def test_deleted_messages_are_not_an_agent_s(tenant: Tenant) -> None:
    stored = await append(tenant, "one", "two", "three", "four", agent_id="butler")
    for place in (1, 3):
        await tenant.sessions.DeleteMessage(pb.DeleteMessageRequest(message_id=stored[place].message_id))

    assert await of(tenant, agent_id="butler", size=1) == ["three", "one"]


async def test_a_token_belongs_to_its_agent_and_tenant(tenant: Tenant, other_tenant: Tenant) -> None:
    await append(tenant, "one", "two", agent_id="butler")
    page = await tenant.sessions.ListAgentMessages(pb.ListAgentMessagesRequest(agent_id="butler", page_size=1))

    for caller, agent_id, token in (
        (tenant, "cook", page.next_page_token),
        (other_tenant, "butler", page.next_page_token),
        (tenant, "butler", "garbage"),
    ):
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "PAGE_TOKEN_INVALID"):
            await caller.sessions.ListAgentMessages(
                pb.ListAgentMessagesRequest(agent_id=agent_id, page_size=1, page_token=token)
            )


async def window(tenant: Tenant, budget: int = 0, session_id: str = "s") -> pb.GetRecentWindowResponse:
    request = pb.GetRecentWindowRequest(session_id=session_id, token_budget=budget)
    return await tenant.sessions.GetRecentWindow(request)


async def test_a_window_holds_the_newest_that_fit_in_their_order(tenant: Tenant) -> None:
    stored = await append(tenant, *(f"message number {number}" for number in range(10)))
    each = TOKENS

    whole = await window(tenant, 10 * each)
    cut = await window(tenant, 4 * each - 1)

    assert (list(whole.messages), whole.truncated, whole.token_count) == (stored, False, 10 * each)
    assert (list(cut.messages), cut.truncated, cut.token_count) == (stored[-3:], True, 3 * each)


async def test_the_summary_stands_for_what_is_left_out(tenant: Tenant) -> None:
    stored = await append(tenant, *(f"message number {number}" for number in range(10)))
    summary = "Ten were counted."
    await tenant.sessions.UpdateSession(
        pb.UpdateSessionRequest(session=pb.Session(session_id="s", summary=summary), update_mask={"paths": ["summary"]})
    )
    each, token_count = TOKENS, estimate_tokens(summary)

    whole = await window(tenant, 10 * each)
    cut = await window(tenant, 4 * each)
    tight = await window(tenant, 2 * token_count - 1)

    assert whole.summary == ""
    assert (cut.summary, list(cut.messages)) == (summary, stored[-3:])
    assert cut.token_count == 3 * each + token_count <= 4 * each
    # It may take half of the budget at most.
    assert (tight.summary, tight.truncated) == ("", True)


async def test_a_window_steps_over_what_was_deleted(tenant: Tenant) -> None:
    stored = await append(tenant, "one", "two", "three")
    await tenant.sessions.DeleteMessage(pb.DeleteMessageRequest(message_id=stored[1].message_id))

    result = await window(tenant)

    assert ([message.content for message in result.messages], result.truncated) == (["one", "three"], False)


async def test_a_window_too_small_for_the_newest_message_is_empty(tenant: Tenant) -> None:
    await append(tenant, "x" * 400)

    result = await window(tenant, 50)

    assert (len(result.messages), result.truncated, result.token_count) == (0, True, 0)


async def test_a_window_of_nothing_is_nothing(tenant: Tenant, other_tenant: Tenant) -> None:
    await tenant.sessions.CreateSession(pb.CreateSessionRequest(session=pb.Session(session_id="s")))
    await append(other_tenant, "theirs", session_id="theirs")

    assert await window(tenant) == pb.GetRecentWindowResponse()
    for session_id in ("theirs", "unknown"):
        with refused(grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND"):
            await window(tenant, session_id=session_id)


@pytest.mark.parametrize("budget", [-1, 1_000_001])
async def test_a_budget_has_bounds(tenant: Tenant, budget: int) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await window(tenant, budget)


@pytest.mark.system
async def test_a_window_of_the_longest_messages_fits_an_answer(tenant: Tenant) -> None:
    for _ in range(4):
        await append(tenant, *["ж" * 100_000] * 6)

    result = await window(tenant, 1_000_000)

    assert result.truncated
    assert 10 <= len(result.messages) < 24
