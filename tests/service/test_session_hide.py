"""Sessions are hidden, brought back, or end when they are idle."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from fix_cluster import Tenant, refused
from fix_database import TestDatabase
from fix_session_server import SessionServer, run_session_server
from google.protobuf.field_mask_pb2 import FieldMask

from skein.session.v1 import session_pb2 as pb
from skein.session.v1 import session_pb2_grpc as rpc

ENDED = (grpc.StatusCode.FAILED_PRECONDITION, "SESSION_ENDED")
HIDDEN = (grpc.StatusCode.FAILED_PRECONDITION, "SESSION_HIDDEN")


async def opened(tenant: Tenant | Deployment, session_id: str = "s", **fields: object) -> pb.Session:
    session = pb.Session(session_id=session_id, **fields)  # type: ignore[arg-type]  # Any fields.
    return (await tenant.sessions.CreateSession(pb.CreateSessionRequest(session=session))).session


async def get(tenant: Tenant | Deployment, session_id: str = "s") -> pb.Session:
    return (await tenant.sessions.GetSession(pb.GetSessionRequest(session_id=session_id))).session


async def say(tenant: Tenant | Deployment, session_id: str = "s", content: str = "the lighthouse") -> None:
    message = pb.Message(role=pb.MESSAGE_ROLE_USER, content=content)
    await tenant.sessions.AppendMessages(pb.AppendMessagesRequest(session_id=session_id, messages=[message]))


async def hide(tenant: Tenant | Deployment, session_id: str = "s", request_id: str = "") -> pb.Session:
    request = pb.HideSessionRequest(session_id=session_id, request_id=request_id)
    return (await tenant.sessions.HideSession(request)).session


async def unhide(tenant: Tenant | Deployment, session_id: str = "s", request_id: str = "") -> pb.Session:
    request = pb.UnhideSessionRequest(session_id=session_id, request_id=request_id)
    return (await tenant.sessions.UnhideSession(request)).session


async def listed(tenant: Tenant | Deployment, *states: pb.SessionState) -> list[str]:
    response = await tenant.sessions.ListSessions(pb.ListSessionsRequest(states=states))
    return [session.session_id for session in response.sessions]


async def test_a_hidden_session_is_read_and_searched_and_left_out_of_lists(tenant: Tenant) -> None:
    await opened(tenant, "other")
    await opened(tenant)
    await say(tenant)

    hidden = await hide(tenant)

    assert hidden.state == pb.SESSION_STATE_HIDDEN
    assert hidden.HasField("hide_time")
    assert await get(tenant) == hidden
    assert await listed(tenant) == ["other"]
    assert await listed(tenant, pb.SESSION_STATE_HIDDEN) == ["s"]
    assert await listed(tenant, pb.SESSION_STATE_HIDDEN, pb.SESSION_STATE_ACTIVE) == ["s", "other"]
    hits = (await tenant.sessions.SearchMessages(pb.SearchMessagesRequest(query="lighthouse"))).hits
    assert [hit.message.session_id for hit in hits] == ["s"]
    assert len((await tenant.sessions.ListMessages(pb.ListMessagesRequest(session_id="s"))).messages) == 1


async def test_a_hidden_session_takes_no_message_no_state_and_no_end(tenant: Tenant) -> None:
    await opened(tenant)
    hidden = await hide(tenant)

    with refused(*HIDDEN):
        await say(tenant)
    with refused(*HIDDEN):
        await tenant.sessions.EndSession(pb.EndSessionRequest(session_id="s"))
    with refused(*HIDDEN):
        await tenant.sessions.UpdateSession(
            pb.UpdateSessionRequest(
                session=pb.Session(session_id="s", state=pb.SESSION_STATE_ACTIVE),
                update_mask=FieldMask(paths=["state"]),
            )
        )

    assert await get(tenant) == hidden


@pytest.mark.parametrize("state", [pb.SESSION_STATE_ACTIVE, pb.SESSION_STATE_PAUSED, pb.SESSION_STATE_COMPLETED])
async def test_a_session_comes_back_in_the_state_that_it_had(tenant: Tenant, state: pb.SessionState) -> None:
    await opened(tenant, state=state)
    await hide(tenant)

    back = await unhide(tenant)

    assert back.state == state
    assert not back.HasField("hide_time")
    await say(tenant)


async def test_an_ended_session_comes_back_ended(tenant: Tenant) -> None:
    await opened(tenant)
    await tenant.sessions.EndSession(pb.EndSessionRequest(session_id="s", reason="goodbye", summary="tea"))
    await hide(tenant)

    back = await unhide(tenant)

    assert (back.state, back.end_reason, back.summary) == (pb.SESSION_STATE_ENDED, "goodbye", "tea")
    assert back.HasField("end_time")
    with refused(*ENDED):
        await say(tenant)


async def test_hiding_and_bringing_back_twice_change_nothing_more(tenant: Tenant) -> None:
    fresh = await opened(tenant)
    assert await unhide(tenant) == fresh

    first = await hide(tenant)
    assert await hide(tenant) == first

    second = await unhide(tenant)
    assert await unhide(tenant) == second
    assert second.revision == fresh.revision + 2


async def test_an_unknown_session_cannot_be_hidden(tenant: Tenant, other_tenant: Tenant) -> None:
    await opened(other_tenant)

    for verb in (hide, unhide):
        with refused(grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND"):
            await verb(tenant)
    assert (await get(other_tenant)).state == pb.SESSION_STATE_ACTIVE


async def test_a_hidden_session_can_be_deleted(tenant: Tenant) -> None:
    await opened(tenant)
    await hide(tenant)

    await tenant.sessions.DeleteSession(pb.DeleteSessionRequest(session_id="s"))

    with refused(grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND"):
        await unhide(tenant)


# Idle sessions.


@dataclass(frozen=True)
class Deployment:
    """A session service without a worker, which would end idle sessions whenever it liked."""

    server: SessionServer
    sessions: rpc.SessionServiceAsyncStub
    internal: rpc.SessionInternalServiceAsyncStub

    async def minutes(self, count: int) -> None:
        """Set after how many minutes an idle session ends."""
        async with self.server.database.superuser() as connection:
            await connection.execute(
                "INSERT INTO tenancy.policies (tenant_id, session_idle_minutes, update_time) VALUES ($1, $2, now())",
                self.server.tenant_id,
                count,
            )

    async def quiet_for(self, session_id: str, count: int) -> None:
        """Pretend that a session has been idle for some minutes."""
        async with self.server.database.superuser() as connection:
            await connection.execute(
                "UPDATE session.sessions SET active_time = now() - make_interval(mins => $2) WHERE session_id = $1",
                session_id,
                count,
            )


@pytest.fixture
async def deployment(database: TestDatabase, tmp_path: Path) -> AsyncIterator[Deployment]:
    async with (
        run_session_server(database, {"SKEIN_DATA_DIR": str(tmp_path)}) as session_server,
        session_server.channel() as channel,
        session_server.channel(system=True) as system,
    ):
        yield Deployment(session_server, rpc.SessionServiceStub(channel), rpc.SessionInternalServiceStub(system))


@pytest.mark.system
async def test_idle_sessions_end(deployment: Deployment) -> None:
    await deployment.minutes(30)
    states = {
        "quiet": pb.SESSION_STATE_ACTIVE,
        "busy": pb.SESSION_STATE_ACTIVE,
        "paused": pb.SESSION_STATE_PAUSED,
        "completed": pb.SESSION_STATE_COMPLETED,
    }
    for name, state in states.items():
        await opened(deployment, name, state=state)
        await deployment.quiet_for(name, 29 if name == "busy" else 31)

    first = await deployment.internal.EndIdleSessions(pb.EndIdleSessionsRequest())
    again = await deployment.internal.EndIdleSessions(pb.EndIdleSessionsRequest())

    assert (first.ended_count, first.more, again.ended_count) == (1, False, 0)
    ended = await get(deployment, "quiet")
    assert (ended.state, ended.end_reason) == (pb.SESSION_STATE_ENDED, "idle")
    assert ended.HasField("end_time")
    for name in ("busy", "paused", "completed"):
        assert (await get(deployment, name)).state == states[name]


@pytest.mark.system
async def test_without_a_policy_no_session_is_idle(deployment: Deployment) -> None:
    await opened(deployment)
    await deployment.quiet_for("s", 1_000_000)

    assert (await deployment.internal.EndIdleSessions(pb.EndIdleSessionsRequest())).ended_count == 0

    await say(deployment)


@pytest.mark.system
async def test_idle_sessions_end_some_at_a_time(deployment: Deployment) -> None:
    await deployment.minutes(30)
    for name, count in {"a": 50, "b": 60, "c": 40}.items():
        await opened(deployment, name)
        await deployment.quiet_for(name, count)

    first = await deployment.internal.EndIdleSessions(pb.EndIdleSessionsRequest(limit=2))
    assert await listed(deployment, pb.SESSION_STATE_ACTIVE) == ["c"]
    last = await deployment.internal.EndIdleSessions(pb.EndIdleSessionsRequest(limit=2))

    assert (first.ended_count, first.more, last.ended_count, last.more) == (2, True, 1, False)


@pytest.mark.system
async def test_a_message_comes_too_late_whether_or_not_the_worker_has_been_there(deployment: Deployment) -> None:
    await deployment.minutes(30)
    await opened(deployment)
    await deployment.quiet_for("s", 31)

    with refused(*ENDED) as caught:
        await say(deployment)

    assert "was idle" in (caught.value.details() or "")
    ended = await get(deployment)
    assert (ended.state, ended.end_reason, ended.message_count) == (pb.SESSION_STATE_ENDED, "idle", 0)
    with refused(*ENDED):
        await say(deployment)


@pytest.mark.system
async def test_speaking_resuming_and_bringing_back_begin_the_idle_time_anew(deployment: Deployment) -> None:
    await deployment.minutes(30)
    for name in ("spoken", "resumed", "back", "renamed"):
        await opened(deployment, name, state=pb.SESSION_STATE_PAUSED if name == "resumed" else pb.SESSION_STATE_ACTIVE)
        await deployment.quiet_for(name, 31 if name in {"resumed", "back"} else 29)
    await say(deployment, "spoken")
    await deployment.sessions.UpdateSession(
        pb.UpdateSessionRequest(
            session=pb.Session(session_id="resumed", state=pb.SESSION_STATE_ACTIVE),
            update_mask=FieldMask(paths=["state"]),
        )
    )
    await hide(deployment, "back")
    await unhide(deployment, "back")
    await deployment.quiet_for("renamed", 31)
    await deployment.sessions.UpdateSession(
        pb.UpdateSessionRequest(
            session=pb.Session(session_id="renamed", title="A title is no word"), update_mask=FieldMask(paths=["title"])
        )
    )

    assert (await deployment.internal.EndIdleSessions(pb.EndIdleSessionsRequest())).ended_count == 1

    assert sorted(await listed(deployment, pb.SESSION_STATE_ACTIVE)) == ["back", "resumed", "spoken"]
