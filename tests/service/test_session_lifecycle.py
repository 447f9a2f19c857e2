"""Sessions: open, read, list, update, end, delete."""

from __future__ import annotations

from datetime import UTC, datetime

import grpc
import pytest
from fix_cluster import Tenant, refused
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.struct_pb2 import Struct

from skein.session.v1 import session_pb2 as pb

NOT_FOUND = (grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND")
INVALID_FIELD = (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD")


async def opened(tenant: Tenant, **fields: object) -> pb.Session:
    session = pb.Session(**fields)  # type: ignore[arg-type]  # Any fields.
    return (await tenant.sessions.CreateSession(pb.CreateSessionRequest(session=session))).session


async def updated(tenant: Tenant, session: pb.Session, *paths: str) -> pb.Session:
    request = pb.UpdateSessionRequest(session=session, update_mask=FieldMask(paths=paths))
    return (await tenant.sessions.UpdateSession(request)).session


async def say(tenant: Tenant, session_id: str, content: str = "hello") -> None:
    message = pb.Message(role=pb.MESSAGE_ROLE_USER, content=content)
    await tenant.sessions.AppendMessages(
        pb.AppendMessagesRequest(session_id=session_id, messages=[message], create_session=True)
    )


async def walked(tenant: Tenant, **filters: object) -> list[str]:
    """Page through all sessions, two at a time."""
    results: list[str] = []
    token = ""
    while True:
        request = pb.ListSessionsRequest(page_size=2, page_token=token, **filters)  # type: ignore[arg-type]
        page = await tenant.sessions.ListSessions(request)
        results += [session.session_id for session in page.sessions]
        token = page.next_page_token
        if not token:
            return results


async def test_a_session_is_read_as_it_was_opened(tenant: Tenant) -> None:
    metadata = Struct()
    metadata.update({"room": "kitchen", "floor": 2, "tags": ["a", None, True]})

    session = await opened(
        tenant,
        session_id="s-1",
        title="Breakfast",
        state=pb.SESSION_STATE_PAUSED,
        session_type="task",
        subject_id="ada",
        agent_id="butler",
        metadata=metadata,
        summary="Eggs.",
    )

    assert await tenant.get_session("s-1") == session
    assert (session.title, session.state, session.session_type) == ("Breakfast", pb.SESSION_STATE_PAUSED, "task")
    assert (session.subject_id, session.agent_id, session.summary) == ("ada", "butler", "Eggs.")
    assert (session.message_count, session.last_sequence, session.revision) == (0, 0, 1)
    assert session.metadata == metadata
    assert session.created_by
    assert session.create_time == session.update_time
    assert not session.HasField("end_time")


async def test_the_service_makes_an_id_when_none_is_given(tenant: Tenant) -> None:
    response = await tenant.sessions.CreateSession(pb.CreateSessionRequest())

    assert len(response.session.session_id) == 36
    assert response.session.session_type == "conversation"
    assert response.session.state == pb.SESSION_STATE_ACTIVE


async def test_an_import_keeps_its_old_time(tenant: Tenant) -> None:
    old = pb.Session(session_id="old")
    old.create_time.FromDatetime(datetime(1999, 5, 1, 12, tzinfo=UTC))

    session = (await tenant.sessions.CreateSession(pb.CreateSessionRequest(session=old))).session

    assert session.create_time == old.create_time
    assert session.update_time == old.create_time


async def test_an_id_is_taken_once(tenant: Tenant, other_tenant: Tenant) -> None:
    await opened(tenant, session_id="mine")

    with refused(grpc.StatusCode.ALREADY_EXISTS, "SESSION_EXISTS"):
        await opened(tenant, session_id="mine")
    assert (await opened(other_tenant, session_id="mine")).session_id == "mine"


@pytest.mark.parametrize(
    "session",
    [
        pb.Session(session_id="x" * 256),
        pb.Session(state=pb.SESSION_STATE_ENDED),
        pb.Session(state=99),  # type: ignore[arg-type]  # What a newer client might send.
    ],
)
async def test_a_session_that_breaks_a_rule_is_refused(tenant: Tenant, session: pb.Session) -> None:
    with refused(*INVALID_FIELD):
        await tenant.sessions.CreateSession(pb.CreateSessionRequest(session=session))

    assert await walked(tenant) == []


async def test_a_nul_is_refused(tenant: Tenant) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "TEXT_NOT_STORABLE"):
        await opened(tenant, title="a\0b")


async def test_an_update_without_a_mask_replaces_everything(tenant: Tenant) -> None:
    await opened(tenant, session_id="s", title="old", subject_id="ada", agent_id="butler", session_type="task")

    after = await updated(tenant, pb.Session(session_id="s", summary="short"))

    assert (after.title, after.subject_id, after.agent_id, after.summary) == ("", "", "", "short")
    assert (after.session_type, after.state) == ("conversation", pb.SESSION_STATE_ACTIVE)


async def test_an_update_of_a_field_of_the_services_own_is_refused(tenant: Tenant) -> None:
    await opened(tenant, session_id="s")

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "UPDATE_MASK_INVALID"):
        await updated(tenant, pb.Session(session_id="s"), "message_count")


@pytest.mark.parametrize("state", [pb.SESSION_STATE_ENDED, pb.SESSION_STATE_HIDDEN, pb.SESSION_STATE_UNSPECIFIED])
async def test_a_state_that_cannot_be_chosen_is_refused(tenant: Tenant, state: pb.SessionState) -> None:
    await opened(tenant, session_id="s")

    with refused(*INVALID_FIELD):
        await updated(tenant, pb.Session(session_id="s", state=state), "state")


async def test_an_update_must_name_its_session(tenant: Tenant) -> None:
    with refused(*INVALID_FIELD):
        await updated(tenant, pb.Session(title="t"), "title")


async def test_ending_twice_changes_nothing_more(tenant: Tenant) -> None:
    await opened(tenant, session_id="s", summary="so far")

    first = await tenant.sessions.EndSession(pb.EndSessionRequest(session_id="s", reason="goodbye"))
    again = await tenant.sessions.EndSession(pb.EndSessionRequest(session_id="s", reason="again", summary="other"))

    assert again == first
    assert first.session.state == pb.SESSION_STATE_ENDED
    assert first.session.end_reason == "goodbye"
    assert first.session.summary == "so far"
    assert first.session.end_time == first.session.update_time


async def test_a_summary_given_at_the_end_replaces_the_older(tenant: Tenant) -> None:
    await opened(tenant, session_id="s", summary="so far")

    ended = await tenant.sessions.EndSession(pb.EndSessionRequest(session_id="s", summary="all of it"))

    assert ended.session.summary == "all of it"


async def test_an_ended_session_stays_ended(tenant: Tenant) -> None:
    await opened(tenant, session_id="s")
    await tenant.sessions.EndSession(pb.EndSessionRequest(session_id="s"))

    with refused(grpc.StatusCode.FAILED_PRECONDITION, "SESSION_ENDED"):
        await updated(tenant, pb.Session(session_id="s", state=pb.SESSION_STATE_ACTIVE), "state")
    renamed = await updated(tenant, pb.Session(session_id="s", title="afterwards"), "title")

    assert (renamed.title, renamed.state) == ("afterwards", pb.SESSION_STATE_ENDED)


async def test_a_deleted_session_is_gone_and_its_id_stays_taken(tenant: Tenant) -> None:
    await opened(tenant, session_id="s")
    await say(tenant, "s")

    await tenant.sessions.DeleteSession(pb.DeleteSessionRequest(session_id="s"))

    with refused(*NOT_FOUND):
        await tenant.get_session("s")
    with refused(*NOT_FOUND):
        await tenant.sessions.DeleteSession(pb.DeleteSessionRequest(session_id="s"))
    with refused(*NOT_FOUND):
        await tenant.sessions.EndSession(pb.EndSessionRequest(session_id="s"))
    with refused(*NOT_FOUND):
        await updated(tenant, pb.Session(session_id="s", title="t"), "title")
    with refused(*NOT_FOUND):
        await say(tenant, "s")
    with refused(*NOT_FOUND):
        await tenant.sessions.ListMessages(pb.ListMessagesRequest(session_id="s"))
    with refused(grpc.StatusCode.ALREADY_EXISTS, "SESSION_EXISTS"):
        await opened(tenant, session_id="s")
    assert await walked(tenant) == []


async def test_sessions_come_newest_update_first(tenant: Tenant) -> None:
    for name in ("a", "b", "c", "d", "e"):
        await opened(tenant, session_id=name)
    await say(tenant, "b")
    await updated(tenant, pb.Session(session_id="a", title="t"), "title")

    assert await walked(tenant) == ["a", "b", "e", "d", "c"]


async def test_a_session_updated_between_two_pages_is_not_missed(tenant: Tenant) -> None:
    for name in ("a", "b", "c", "d", "e"):
        await opened(tenant, session_id=name)
    first = await tenant.sessions.ListSessions(pb.ListSessionsRequest(page_size=2))

    # It is in the last page, and leaves it for the front.
    await say(tenant, "a")
    seen = [session.session_id for session in first.sessions]
    token = first.next_page_token
    while token:
        page = await tenant.sessions.ListSessions(pb.ListSessionsRequest(page_size=2, page_token=token))
        seen += [session.session_id for session in page.sessions]
        token = page.next_page_token

    assert seen == ["e", "d", "c", "b", "a"]


async def test_sessions_are_filtered(tenant: Tenant) -> None:
    await opened(tenant, session_id="a", subject_id="ada", agent_id="butler")
    await opened(tenant, session_id="b", subject_id="ada", agent_id="cook")
    await opened(tenant, session_id="c", subject_id="bob", agent_id="butler", state=pb.SESSION_STATE_PAUSED)
    await opened(tenant, session_id="d")
    await tenant.sessions.EndSession(pb.EndSessionRequest(session_id="b"))

    assert await walked(tenant, subject_id="ada") == ["b", "a"]
    assert await walked(tenant, agent_id="butler") == ["c", "a"]
    assert await walked(tenant, subject_id="ada", agent_id="butler") == ["a"]
    assert await walked(tenant, state=pb.SESSION_STATE_ACTIVE) == ["d", "a"]
    assert await walked(tenant, state=pb.SESSION_STATE_ENDED) == ["b"]
    assert await walked(tenant, state=pb.SESSION_STATE_HIDDEN) == []
