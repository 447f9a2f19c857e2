"""Sessions that are archived, brought back, or end because nobody speaks in them."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, cast

import asyncpg
import grpc
import pytest
from fix_cluster import Authorized, Cluster, Tenant, refused
from fix_world import system_identity
from google.protobuf.field_mask_pb2 import FieldMask

from skein.session.v1 import session_pb2 as pb
from skein.session.v1 import session_pb2_grpc as rpc
from skein.tenancy.v1 import subjects_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from grpc import aio

ENDED = (grpc.StatusCode.FAILED_PRECONDITION, "SESSION_ENDED")
ARCHIVED = (grpc.StatusCode.FAILED_PRECONDITION, "SESSION_ARCHIVED")


async def opened(tenant: Tenant, session_id: str = "s", **fields: object) -> pb.Session:
    session = pb.Session(session_id=session_id, **fields)  # type: ignore[arg-type]  # Any fields.
    return (await tenant.sessions.CreateSession(pb.CreateSessionRequest(session=session))).session


async def get(tenant: Tenant, session_id: str = "s") -> pb.Session:
    return (await tenant.sessions.GetSession(pb.GetSessionRequest(session_id=session_id))).session


async def say(tenant: Tenant, session_id: str = "s", content: str = "the lighthouse") -> None:
    message = pb.Message(role=pb.MESSAGE_ROLE_USER, content=content)
    await tenant.sessions.AppendMessages(pb.AppendMessagesRequest(session_id=session_id, messages=[message]))


async def archive(tenant: Tenant, session_id: str = "s", request_id: str = "") -> pb.Session:
    request = pb.ArchiveSessionRequest(session_id=session_id, request_id=request_id)
    return (await tenant.sessions.ArchiveSession(request)).session


async def unarchive(tenant: Tenant, session_id: str = "s", request_id: str = "") -> pb.Session:
    request = pb.UnarchiveSessionRequest(session_id=session_id, request_id=request_id)
    return (await tenant.sessions.UnarchiveSession(request)).session


async def listed(tenant: Tenant, *states: pb.SessionState) -> list[str]:
    response = await tenant.sessions.ListSessions(pb.ListSessionsRequest(states=states))
    return [session.session_id for session in response.sessions]


async def test_an_archived_session_is_read_and_searched_and_left_out_of_lists(tenant: Tenant) -> None:
    await opened(tenant, "other")
    await opened(tenant)
    await say(tenant)

    archived = await archive(tenant)

    assert archived.state == pb.SESSION_STATE_ARCHIVED
    assert archived.HasField("archive_time")
    assert await get(tenant) == archived
    assert await listed(tenant) == ["other"]
    assert await listed(tenant, pb.SESSION_STATE_ARCHIVED) == ["s"]
    assert await listed(tenant, pb.SESSION_STATE_ARCHIVED, pb.SESSION_STATE_ACTIVE) == ["s", "other"]
    hits = (await tenant.sessions.SearchMessages(pb.SearchMessagesRequest(query="lighthouse"))).hits
    assert [hit.message.session_id for hit in hits] == ["s"]
    assert len((await tenant.sessions.ListMessages(pb.ListMessagesRequest(session_id="s"))).messages) == 1


async def test_an_archived_session_takes_no_message_no_state_and_no_end(tenant: Tenant) -> None:
    await opened(tenant)
    archived = await archive(tenant)

    with refused(*ARCHIVED):
        await say(tenant)
    with refused(*ARCHIVED):
        await tenant.sessions.EndSession(pb.EndSessionRequest(session_id="s"))
    with refused(*ARCHIVED):
        await tenant.sessions.UpdateSession(
            pb.UpdateSessionRequest(
                session=pb.Session(session_id="s", state=pb.SESSION_STATE_ACTIVE),
                update_mask=FieldMask(paths=["state"]),
            )
        )

    assert await get(tenant) == archived


@pytest.mark.parametrize("state", [pb.SESSION_STATE_ACTIVE, pb.SESSION_STATE_PAUSED, pb.SESSION_STATE_COMPLETED])
async def test_a_session_comes_back_in_the_state_that_it_had(tenant: Tenant, state: pb.SessionState) -> None:
    await opened(tenant, state=state)
    await archive(tenant)

    back = await unarchive(tenant)

    assert back.state == state
    assert not back.HasField("archive_time")
    await say(tenant)


async def test_an_ended_session_comes_back_ended(tenant: Tenant) -> None:
    await opened(tenant)
    await tenant.sessions.EndSession(pb.EndSessionRequest(session_id="s", reason="goodbye", summary="tea"))
    await archive(tenant)

    back = await unarchive(tenant)

    assert (back.state, back.end_reason, back.summary) == (pb.SESSION_STATE_ENDED, "goodbye", "tea")
    assert back.HasField("end_time")
    with refused(*ENDED):
        await say(tenant)


async def test_archiving_and_bringing_back_twice_change_nothing_more(tenant: Tenant) -> None:
    fresh = await opened(tenant)
    assert await unarchive(tenant) == fresh

    first = await archive(tenant)
    assert await archive(tenant) == first

    second = await unarchive(tenant)
    assert await unarchive(tenant) == second
    assert second.revision == fresh.revision + 2


async def test_a_repeated_request_gets_its_first_answer(tenant: Tenant) -> None:
    await opened(tenant)

    first = await archive(tenant, request_id="a")
    back = await unarchive(tenant, request_id="u")

    assert await archive(tenant, request_id="a") == first
    assert await unarchive(tenant, request_id="u") == back
    assert (await get(tenant)).state == pb.SESSION_STATE_ACTIVE


async def test_an_unknown_session_cannot_be_archived(tenant: Tenant, other_tenant: Tenant) -> None:
    await opened(other_tenant)

    for verb in (archive, unarchive):
        with refused(grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND"):
            await verb(tenant)
    assert (await get(other_tenant)).state == pb.SESSION_STATE_ACTIVE


async def test_an_archived_session_can_be_deleted(tenant: Tenant) -> None:
    await opened(tenant)
    await archive(tenant)

    await tenant.sessions.DeleteSession(pb.DeleteSessionRequest(session_id="s"))

    with refused(grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND"):
        await unarchive(tenant)


# Idle sessions.


async def minutes(tenant: Tenant, count: int) -> None:
    await tenant.tenancy.UpdatePolicy(
        subjects_pb2.UpdatePolicyRequest(
            policy=subjects_pb2.Policy(session_idle_minutes=count),
            update_mask=FieldMask(paths=["session_idle_minutes"]),
        )
    )


async def quiet_for(cluster: Cluster, tenant: Tenant, session_id: str, count: int) -> None:
    """Pretend that nobody has spoken in a session for some minutes."""
    connection = await asyncpg.connect(cluster.postgres.url(user="postgres", database="skein"))
    try:
        await connection.execute(
            "UPDATE session.sessions SET active_time = now() - make_interval(mins => $3) "
            "WHERE tenant_id = $1 AND session_id = $2",
            tenant.tenant_id,
            session_id,
            count,
        )
    finally:
        await connection.close()


@asynccontextmanager
async def upkeep(cluster: Cluster, tenant: Tenant) -> AsyncIterator[rpc.UpkeepServiceAsyncStub]:
    token = await system_identity(cluster, str(tenant.tenant_id))
    async with cluster.direct("session") as channel:
        yield rpc.UpkeepServiceStub(cast("aio.Channel", Authorized(channel, token)))


async def test_sessions_that_nobody_speaks_in_end(cluster: Cluster, tenant: Tenant) -> None:
    await minutes(tenant, 30)
    states = {
        "quiet": pb.SESSION_STATE_ACTIVE,
        "busy": pb.SESSION_STATE_ACTIVE,
        "paused": pb.SESSION_STATE_PAUSED,
        "completed": pb.SESSION_STATE_COMPLETED,
    }
    for name, state in states.items():
        await opened(tenant, name, state=state)
        await quiet_for(cluster, tenant, name, 29 if name == "busy" else 31)

    async with upkeep(cluster, tenant) as stub:
        first = await stub.EndIdleSessions(pb.EndIdleSessionsRequest())
        again = await stub.EndIdleSessions(pb.EndIdleSessionsRequest())

    assert (first.ended_count, first.more, again.ended_count) == (1, False, 0)
    ended = await get(tenant, "quiet")
    assert (ended.state, ended.end_reason) == (pb.SESSION_STATE_ENDED, "idle")
    assert ended.HasField("end_time")
    for name in ("busy", "paused", "completed"):
        assert (await get(tenant, name)).state == states[name]


async def test_without_a_policy_no_session_is_idle(cluster: Cluster, tenant: Tenant) -> None:
    await opened(tenant)
    await quiet_for(cluster, tenant, "s", 1_000_000)

    async with upkeep(cluster, tenant) as stub:
        assert (await stub.EndIdleSessions(pb.EndIdleSessionsRequest())).ended_count == 0

    await say(tenant)


async def test_idle_sessions_end_some_at_a_time(cluster: Cluster, tenant: Tenant, other_tenant: Tenant) -> None:
    for each in (tenant, other_tenant):
        await minutes(each, 30)
        for name in ("a", "b", "c"):
            await opened(each, name)
            await quiet_for(cluster, each, name, {"a": 50, "b": 60, "c": 40}[name])

    async with upkeep(cluster, tenant) as stub:
        first = await stub.EndIdleSessions(pb.EndIdleSessionsRequest(limit=2))
        assert await listed(tenant, pb.SESSION_STATE_ACTIVE) == ["c"]
        last = await stub.EndIdleSessions(pb.EndIdleSessionsRequest(limit=2))

    assert (first.ended_count, first.more, last.ended_count, last.more) == (2, True, 1, False)
    assert len(await listed(other_tenant, pb.SESSION_STATE_ACTIVE)) == 3


async def test_a_message_comes_too_late_whether_or_not_the_worker_has_been_there(
    cluster: Cluster, tenant: Tenant
) -> None:
    await minutes(tenant, 30)
    await opened(tenant)
    await quiet_for(cluster, tenant, "s", 31)

    with refused(*ENDED) as caught:
        await say(tenant)

    assert "Nobody spoke" in (caught.value.details() or "")
    ended = await get(tenant)
    assert (ended.state, ended.end_reason, ended.message_count) == (pb.SESSION_STATE_ENDED, "idle", 0)
    with refused(*ENDED):
        await say(tenant)


async def test_speaking_resuming_and_bringing_back_begin_the_idle_time_anew(cluster: Cluster, tenant: Tenant) -> None:
    await minutes(tenant, 30)
    for name in ("spoken", "resumed", "back", "renamed"):
        await opened(tenant, name, state=pb.SESSION_STATE_PAUSED if name == "resumed" else pb.SESSION_STATE_ACTIVE)
        await quiet_for(cluster, tenant, name, 31 if name in {"resumed", "back"} else 29)
    await say(tenant, "spoken")
    await tenant.sessions.UpdateSession(
        pb.UpdateSessionRequest(
            session=pb.Session(session_id="resumed", state=pb.SESSION_STATE_ACTIVE),
            update_mask=FieldMask(paths=["state"]),
        )
    )
    await archive(tenant, "back")
    await unarchive(tenant, "back")
    await quiet_for(cluster, tenant, "renamed", 31)
    await tenant.sessions.UpdateSession(
        pb.UpdateSessionRequest(
            session=pb.Session(session_id="renamed", title="A title is no word"), update_mask=FieldMask(paths=["title"])
        )
    )

    async with upkeep(cluster, tenant) as stub:
        assert (await stub.EndIdleSessions(pb.EndIdleSessionsRequest())).ended_count == 1

    assert sorted(await listed(tenant, pb.SESSION_STATE_ACTIVE)) == ["back", "resumed", "spoken"]
