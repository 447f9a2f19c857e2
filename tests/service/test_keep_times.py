"""An import keeps the times of what it creates; a key that may not is refused, and an ordinary call ignores them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from fix_cluster import Cluster, Tenant, refused
from fix_world import system_identity
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

from skein.auth.v1 import accounts_pb2, auth_pb2
from skein.memory.v1 import blocks_pb2, curation_pb2, memory_pb2, scores_pb2
from skein.session.v1 import session_pb2, session_pb2_grpc, states_pb2
from skein.tenancy.v1 import subjects_pb2, tenancy_pb2


def stamp(text: str) -> Timestamp:
    time = Timestamp()
    time.FromJsonString(text)
    return time


MADE, CHANGED = stamp("2017-03-01T10:00:00Z"), stamp("2019-05-02T11:00:00.250Z")
TIMES: Any = {"create_time": MADE, "update_time": CHANGED}
EMPTY = Struct()


def creations(stubs: Any, **keep: Any) -> dict[str, Any]:
    """Return for each kind of row a call that creates one with its times, and what the answer says of it."""
    subject = subjects_pb2.Subject(subject_id="ann", **TIMES)
    agent = tenancy_pb2.Agent(agent_id="juno", display_name="Juno", **TIMES)
    tool = subjects_pb2.Tool(tool_id="lamp", name="lamp", **TIMES)
    block = blocks_pb2.Block(block_id="house", label="human", **TIMES)
    session = session_pb2.Session(session_id="s", **TIMES)
    state = states_pb2.AgentState(agent_id="juno", state_data=EMPTY, **TIMES)
    memory = memory_pb2.Memory(content="tea", external_id="m", **TIMES)
    others = [memory_pb2.Memory(content=f"tea {n}", external_id=f"m{n}", **TIMES) for n in range(2)]
    link = memory_pb2.Link(from_memory_id="m0", to_memory_id="m1", **TIMES)
    back = memory_pb2.Link(from_memory_id="m1", to_memory_id="m0", **TIMES)
    message = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="hello", **TIMES)
    item = states_pb2.PutSessionItemRequest(session_id="s", key="k", value=Value(null_value=0), **TIMES, **keep)  # type: ignore[arg-type]
    return {
        "subject": lambda: stubs.tenancy.CreateSubject(subjects_pb2.CreateSubjectRequest(subject=subject, **keep)),
        "agent": lambda: stubs.tenancy.CreateAgent(tenancy_pb2.CreateAgentRequest(agent=agent, **keep)),
        "tool": lambda: stubs.tenancy.CreateTool(subjects_pb2.CreateToolRequest(tool=tool, **keep)),
        "block": lambda: stubs.blocks.CreateBlock(blocks_pb2.CreateBlockRequest(block=block, **keep)),
        "session": lambda: stubs.sessions.CreateSession(session_pb2.CreateSessionRequest(session=session, **keep)),
        "messages": lambda: stubs.sessions.AppendMessages(
            session_pb2.AppendMessagesRequest(session_id="s", messages=[message], **keep)
        ),
        "item": lambda: stubs.sessions.PutSessionItem(item),
        "state": lambda: stubs.sessions.PutAgentState(states_pb2.PutAgentStateRequest(state=state, **keep)),
        "memory": lambda: stubs.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory, **keep)),
        "memories": lambda: stubs.memory.BatchCreateMemories(
            memory_pb2.BatchCreateMemoriesRequest(memories=others, **keep)
        ),
        "link": lambda: stubs.links.CreateLink(memory_pb2.CreateLinkRequest(link=link, **keep)),
        "links": lambda: stubs.links.BatchCreateLinks(memory_pb2.BatchCreateLinksRequest(links=[back], **keep)),
        "source_trust": lambda: stubs.curation.SetSourceTrust(
            curation_pb2.SetSourceTrustRequest(source="radio", **TIMES, **keep)
        ),
        "alias": lambda: stubs.curation.ResolveEntity(
            curation_pb2.ResolveEntityRequest(alias_memory_id="m0", canonical_memory_id="m1", **TIMES, **keep)
        ),
        "resolution": lambda: stubs.curation.ResolveConflict(
            curation_pb2.ResolveConflictRequest(
                a_memory_id="m0", b_memory_id="m1", status=curation_pb2.CONFLICT_STATUS_DISMISSED, **TIMES, **keep
            )
        ),
    }


def rows_of(kind: str, answer: Any) -> list[Any]:
    result = getattr(answer, kind)
    return list(result) if kind in {"messages", "memories", "links"} else [result]


async def writer_of(cluster: Cluster, tenant: Tenant) -> Any:
    """Return stubs of a key that may write everything but the tenant's own rules."""
    permissions = ["memory.read", "memory.write", "session.read", "session.write", "subject.read", "subject.write"]
    made = await tenant.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="w", permissions=permissions))
    return cluster.with_key(made.secret)


@pytest.mark.system
async def test_every_kind_of_row_keeps_when_it_was_made_and_changed(tenant: Tenant) -> None:
    for kind, create in creations(tenant, keep_times=True).items():
        for row in rows_of(kind, await create()):
            assert (row.create_time, row.update_time) == (MADE, CHANGED), kind


async def test_an_ordinary_call_ignores_when_a_row_was_changed_elsewhere(tenant: Tenant) -> None:
    before = datetime.now(UTC)

    for kind, create in creations(tenant).items():
        for row in rows_of(kind, await create()):
            # Sessions, messages and memories may say when they were made; nothing says that they changed since.
            made = row.create_time if row.create_time == MADE else None
            assert row.update_time == made or row.update_time.ToDatetime(tzinfo=UTC) >= before, kind
            assert made is None or kind in {"session", "messages", "memory", "memories"}, kind


async def test_a_key_without_the_right_cannot_keep_times(cluster: Cluster, tenant: Tenant) -> None:
    writer = await writer_of(cluster, tenant)
    for create in creations(tenant).values():
        await create()

    for kind, create in creations(writer, keep_times=True).items():
        with refused(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING"):
            await create()
            pytest.fail(kind)


async def test_sessions_are_listed_in_the_order_of_their_own_times(tenant: Tenant) -> None:
    for name, time in (("newer", CHANGED), ("older", MADE)):
        session = session_pb2.Session(session_id=name, create_time=MADE, update_time=time)
        await tenant.sessions.CreateSession(session_pb2.CreateSessionRequest(session=session, keep_times=True))
        message = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="x", create_time=MADE)
        await tenant.sessions.AppendMessages(
            session_pb2.AppendMessagesRequest(session_id=name, messages=[message], keep_times=True)
        )
        end = session_pb2.EndSessionRequest(session_id=name, end_time=time, keep_times=True)
        await tenant.sessions.EndSession(end)

    listed = (
        await tenant.sessions.ListSessions(session_pb2.ListSessionsRequest(states=["SESSION_STATE_ENDED"]))
    ).sessions

    assert [(one.session_id, one.update_time, one.end_time) for one in listed] == [
        ("newer", CHANGED, CHANGED),
        ("older", MADE, MADE),
    ]


async def test_a_session_that_an_import_opens_has_the_times_of_its_messages(tenant: Tenant) -> None:
    made = [stamp(f"2017-03-0{day}T10:00:00Z") for day in (3, 1, 2)]
    messages = [
        session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="x", create_time=time, update_time=time)
        for time in made
    ]
    await tenant.sessions.AppendMessages(
        session_pb2.AppendMessagesRequest(session_id="s", messages=messages, create_session=True, keep_times=True)
    )

    session = (await tenant.sessions.GetSession(session_pb2.GetSessionRequest(session_id="s"))).session

    assert (session.create_time, session.update_time) == (made[1], made[0])


async def test_a_session_that_an_ordinary_call_opens_is_of_now(tenant: Tenant) -> None:
    before = datetime.now(UTC)
    message = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="x", create_time=MADE)
    await tenant.sessions.AppendMessages(
        session_pb2.AppendMessagesRequest(session_id="s", messages=[message], create_session=True)
    )

    session = (await tenant.sessions.GetSession(session_pb2.GetSessionRequest(session_id="s"))).session

    assert session.create_time == session.update_time
    assert session.create_time.ToDatetime(tzinfo=UTC) >= before


async def test_a_session_keeps_when_it_was_archived(tenant: Tenant) -> None:
    session = session_pb2.Session(session_id="s", **TIMES)
    await tenant.sessions.CreateSession(session_pb2.CreateSessionRequest(session=session, keep_times=True))

    away = session_pb2.HideSessionRequest(session_id="s", hide_time=CHANGED, keep_times=True)
    archived = (await tenant.sessions.HideSession(away)).session

    assert (archived.hide_time, archived.update_time) == (CHANGED, CHANGED)


async def test_items_and_states_that_have_expired_are_taken_and_not_shown(tenant: Tenant) -> None:
    await tenant.sessions.CreateSession(session_pb2.CreateSessionRequest(session={"session_id": "s"}))
    item = states_pb2.PutSessionItemRequest(
        session_id="s", key="k", value=Value(bool_value=True), keep_times=True, **TIMES
    )
    item.expire_time.CopyFrom(CHANGED)
    state = states_pb2.AgentState(agent_id="a", state_data=EMPTY, expire_time=CHANGED, **TIMES)

    await tenant.sessions.PutSessionItem(item)
    await tenant.sessions.PutAgentState(states_pb2.PutAgentStateRequest(state=state, keep_times=True))

    assert not (await tenant.sessions.ListSessionItems(states_pb2.ListSessionItemsRequest(session_id="s"))).items
    assert not (await tenant.sessions.ListAgentStates(states_pb2.ListAgentStatesRequest())).states


async def test_an_account_that_moves_in_keeps_since_when_it_is_one(cluster: Cluster) -> None:
    request = accounts_pb2.CreateAccountRequest(email=f"{datetime.now(UTC).timestamp()}@example.com", **TIMES)

    account = (await cluster.operator.auth.CreateAccount(request)).account

    assert (account.create_time, account.update_time) == (MADE, CHANGED)


async def test_a_time_that_lies_ahead_is_the_time_of_the_call(tenant: Tenant) -> None:
    ahead = Timestamp()
    ahead.FromDatetime(datetime.now(UTC) + timedelta(days=400))
    subject = subjects_pb2.Subject(subject_id="ann", create_time=MADE, update_time=ahead)

    made = await tenant.tenancy.CreateSubject(subjects_pb2.CreateSubjectRequest(subject=subject, keep_times=True))

    assert made.subject.update_time.ToDatetime(tzinfo=UTC) <= datetime.now(UTC)


async def test_a_memory_that_was_not_used_elsewhere_either_decays_at_once(tenant: Tenant) -> None:
    memories = [
        memory_pb2.Memory(content=f"tea {name}", external_id=name, importance=0.8, **times)
        for name, times in (("imported", TIMES), ("new", {}))
    ]
    await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=memories, keep_times=True))

    decayed = await tenant.memory.DecayScores(scores_pb2.DecayScoresRequest())

    assert decayed.decayed_count == 1
    assert (await tenant.get_memory("imported")).importance < 0.8
    assert (await tenant.get_memory("new")).importance == pytest.approx(0.8)


async def test_a_session_that_nobody_used_elsewhere_is_idle_at_once_and_an_import_continues_it(
    cluster: Cluster, tenant: Tenant
) -> None:
    await tenant.set_policy(session_idle_minutes=60)
    for name, times in (("imported", TIMES), ("new", {})):
        session = session_pb2.Session(session_id=name, **times)
        await tenant.sessions.CreateSession(session_pb2.CreateSessionRequest(session=session, keep_times=True))
    message = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="hello", **TIMES)
    imported = session_pb2.AppendMessagesRequest(session_id="imported", messages=[message], keep_times=True)
    await tenant.sessions.AppendMessages(imported)
    identity = await system_identity(cluster, str(tenant.tenant_id))
    async with cluster.direct("session") as channel:
        await session_pb2_grpc.SessionInternalServiceStub(channel).EndIdleSessions(
            session_pb2.EndIdleSessionsRequest(), metadata=(("authorization", f"Bearer {identity}"),)
        )

    await tenant.sessions.AppendMessages(imported)

    states = {}
    for name in ("imported", "new"):
        read = await tenant.sessions.GetSession(session_pb2.GetSessionRequest(session_id=name))
        states[name] = (read.session.state, read.session.end_reason, read.session.message_count)
    assert states == {
        "imported": (session_pb2.SESSION_STATE_ENDED, "idle", 2),
        "new": (session_pb2.SESSION_STATE_ACTIVE, "", 0),
    }
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "SESSION_ENDED"):
        await tenant.sessions.AppendMessages(
            session_pb2.AppendMessagesRequest(session_id="imported", messages=[message])
        )
