"""The access log: who read, wrote and searched what, soon after it happens, and before it where a tenant wants that."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from fix_access_log import logged_accesses
from fix_cluster import Cluster, Tenant, refused
from fix_memory import MemoryServer
from google.protobuf import json_format

from skein.auth.v1 import auth_pb2
from skein.memory.v1 import access_log_pb2 as pb
from skein.memory.v1 import history_pb2, memory_pb2, memory_pb2_grpc
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2
from skein_kit.access_log.writer import DROPPED

SECRET = "the dentist is on Tuesday"


async def remember(tenant: Tenant, **values: Any) -> str:
    memory = memory_pb2.Memory(**({"content": SECRET} | values))
    return (await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))).memory.memory_id


@pytest.mark.system
async def test_reads_writes_and_searches_of_a_memory_are_recorded_without_its_words(tenant: Tenant) -> None:
    memory_id = await remember(tenant, session_id="s1", title=SECRET)
    await tenant.get_memory(memory_id)
    await tenant.recall.Recall(recall_pb2.RecallRequest(query=SECRET))
    await tenant.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id=memory_id))

    entries = await logged_accesses(tenant, lambda found: len(found) >= 4, memory_id=memory_id)

    assert [(entry.method, entry.operation) for entry in entries] == [
        ("DeleteMemory", pb.ACCESS_OPERATION_DELETE),
        ("Recall", pb.ACCESS_OPERATION_SEARCH),
        ("GetMemory", pb.ACCESS_OPERATION_READ),
        ("CreateMemory", pb.ACCESS_OPERATION_CREATE),
    ]
    assert all(entry.success and entry.principal and entry.client_address for entry in entries)
    assert {entry.session_id for entry in entries} == {""}
    assert SECRET not in str(entries)


@pytest.mark.system
async def test_the_log_names_the_verified_agent_and_apart_from_it_what_the_caller_claims(
    cluster: Cluster, tenant: Tenant
) -> None:
    memory_id = await remember(tenant, agent_id="cook", session_id="kitchen", subject_id="ada")
    key = await tenant.auth.CreateApiKey(
        auth_pb2.CreateApiKeyRequest(
            display_name="bound", permissions=["memory.read", "memory.write", "recall.read"], agent_id="butler"
        )
    )
    bound = cluster.with_key(key.secret)
    claiming = cluster.with_key(key.secret, **{"skein-agent-id": "maid", "skein-session-id": "pantry"})
    for caller in (bound, claiming):
        await caller.memory.GetMemory(memory_pb2.GetMemoryRequest(memory_id=memory_id))
        await caller.recall.Recall(recall_pb2.RecallRequest(query=SECRET))

    entries = await logged_accesses(tenant, lambda found: len(found) >= 5, memory_id=memory_id)

    logged = {(entry.method, entry.agent_id, entry.claimed_agent_id, entry.claimed_session_id) for entry in entries}
    assert logged == {
        ("CreateMemory", "", "", ""),
        ("GetMemory", "butler", "", ""),
        ("GetMemory", "butler", "maid", "pantry"),
        ("Recall", "butler", "", ""),
        ("Recall", "butler", "maid", "pantry"),
    }
    assert {entry.session_id for entry in entries} == {""}


@pytest.mark.system
async def test_the_log_is_filtered_by_agent_and_by_each_claim(cluster: Cluster, tenant: Tenant) -> None:
    memory_id = await remember(tenant, agent_id="cook", session_id="kitchen")
    for claims in ({"skein-agent-id": "maid"}, {"skein-session-id": "pantry"}):
        claiming = cluster.with_key(tenant.api_key, **claims)
        await claiming.memory.GetMemory(memory_pb2.GetMemoryRequest(memory_id=memory_id))
    await logged_accesses(tenant, lambda found: len(found) >= 3)

    def methods(entries: Sequence[pb.AccessEvent]) -> list[str]:
        return [entry.method for entry in entries]

    of_maid = await tenant.history.ListAccessLog(pb.ListAccessLogRequest(claimed_agent_id="maid"))
    of_pantry = await tenant.history.ListAccessLog(pb.ListAccessLogRequest(claimed_session_id="pantry"))
    of_cook = await tenant.history.ListAccessLog(pb.ListAccessLogRequest(agent_id="cook"))
    of_kitchen = await tenant.history.ListAccessLog(pb.ListAccessLogRequest(session_id="kitchen"))

    assert methods(of_maid.access_events) == methods(of_pantry.access_events) == ["GetMemory"]
    assert methods(of_cook.access_events) == methods(of_kitchen.access_events) == []


@pytest.mark.system
async def test_a_claim_that_is_too_long_is_not_recorded_and_costs_no_record(cluster: Cluster, tenant: Tenant) -> None:
    memory_id = await remember(tenant)
    claiming = cluster.with_key(tenant.api_key, **{"skein-agent-id": "x" * 256, "skein-session-id": "pantry"})
    await claiming.memory.GetMemory(memory_pb2.GetMemoryRequest(memory_id=memory_id))

    entries = await logged_accesses(tenant, lambda found: len(found) >= 2, memory_id=memory_id)

    assert (entries[0].claimed_agent_id, entries[0].claimed_session_id) == ("", "pantry")


@pytest.mark.system
async def test_a_memory_purged_before_its_use_is_counted_costs_no_record_and_no_other_count(
    tenant: Tenant,
) -> None:
    gone, stays = await remember(tenant), await remember(tenant)
    for memory_id in (gone, stays):
        await tenant.get_memory(memory_id)
    selection = memory_pb2.MemorySelection(memory_ids=[gone])
    await tenant.memory.PurgeMemories(memory_pb2.PurgeMemoriesRequest(selection=selection))

    await logged_accesses(tenant, lambda found: "GetMemory" in {entry.method for entry in found}, memory_id=gone)
    while not (await tenant.get_memory(stays)).access_count:
        await asyncio.sleep(0.05)


@pytest.mark.system
async def test_a_refused_access_is_recorded_with_its_reason(tenant: Tenant) -> None:
    with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND"):
        await tenant.get_memory(str(uuid.uuid4()))

    (entry,) = await logged_accesses(tenant, lambda found: len(found) == 1, failed_only=True)

    assert (entry.method, entry.success, entry.error_reason) == ("GetMemory", False, "MEMORY_NOT_FOUND")


@pytest.mark.system
async def test_a_name_that_cannot_be_stored_costs_no_record(tenant: Tenant) -> None:
    memory_id = await remember(tenant)
    with contextlib.suppress(grpc.aio.AioRpcError):
        await tenant.memory.GetMemory(memory_pb2.GetMemoryRequest(memory_id="no\x00such"))
    with contextlib.suppress(grpc.aio.AioRpcError):
        await tenant.memory.ListMemories(
            memory_pb2.ListMemoriesRequest(filter=memory_pb2.MemoryFilter(agent_id="a\x00", session_id="s\x00"))
        )
    await tenant.get_memory(memory_id)

    entries = await logged_accesses(tenant, lambda found: len(found) >= 2)

    assert entries[0].method == "GetMemory"
    assert {"CreateMemory", "GetMemory"} <= {entry.method for entry in entries}


@pytest.mark.system
async def test_another_tenant_s_attempt_is_in_its_own_log_alone(tenant: Tenant, other_tenant: Tenant) -> None:
    memory_id = await remember(tenant)
    with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND"):
        await other_tenant.get_memory(memory_id)

    theirs = await logged_accesses(other_tenant, lambda found: len(found) == 1, failed_only=True)
    ours = await logged_accesses(tenant, lambda found: len(found) >= 1, memory_id=memory_id)

    assert [entry.memory_id for entry in theirs] == [memory_id]
    assert [entry.method for entry in ours] == ["CreateMemory"]


@pytest.mark.system
async def test_conversations_are_recorded_by_their_session(tenant: Tenant) -> None:
    message = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=SECRET)
    await tenant.sessions.AppendMessages(
        session_pb2.AppendMessagesRequest(session_id="s2", messages=[message], create_session=True)
    )
    await tenant.sessions.ListMessages(session_pb2.ListMessagesRequest(session_id="s2"))

    entries = await logged_accesses(tenant, lambda found: len(found) >= 2, session_id="s2")

    assert {entry.method for entry in entries} == {"AppendMessages", "ListMessages"}
    assert SECRET not in str(entries)


@pytest.mark.system
async def test_the_log_is_paged_and_filtered(tenant: Tenant) -> None:
    ids = [await remember(tenant) for _ in range(3)]
    await tenant.get_memory(ids[0])
    await logged_accesses(tenant, lambda memory_ids: len(memory_ids) >= 4)

    request = pb.ListAccessLogRequest(page_size=2, operation=pb.ACCESS_OPERATION_CREATE)
    first = await tenant.history.ListAccessLog(request)
    request.page_token = first.next_page_token
    second = await tenant.history.ListAccessLog(request)

    memory_ids = [entry.memory_id for answer in (first, second) for entry in answer.access_events]
    assert (sorted(memory_ids), second.next_page_token) == (sorted(ids), "")
    request.operation = pb.ACCESS_OPERATION_READ
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "PAGE_TOKEN_INVALID"):
        await tenant.history.ListAccessLog(request)


@pytest.mark.system
async def test_reading_and_recalling_count_as_use_and_listing_does_not(tenant: Tenant) -> None:
    memory_id = await remember(tenant)
    await tenant.get_memory(memory_id)
    await tenant.recall.Recall(recall_pb2.RecallRequest(query=SECRET))
    await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest())

    while (await tenant.get_memory(memory_id)).access_count < 2:
        await asyncio.sleep(0.05)

    memory = await tenant.get_memory(memory_id)
    assert memory.HasField("last_access_time")
    assert memory.revision == 1


async def test_a_strict_tenant_s_access_is_there_when_its_answer_is(tenant: Tenant) -> None:
    await tenant.set_policy(audit_strict=True)

    memory_id = await remember(tenant)
    await tenant.get_memory(memory_id)
    with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND"):
        await tenant.get_memory(str(uuid.uuid4()))
    entries = (await tenant.history.ListAccessLog(pb.ListAccessLogRequest())).access_events

    assert [(entry.method, entry.success) for entry in entries] == [
        ("GetMemory", False),
        ("GetMemory", True),
        ("CreateMemory", True),
        ("CreateMemory", True),
    ]
    assert entries[0].error_reason == "MEMORY_NOT_FOUND"


@pytest.mark.system
async def test_a_tenant_may_keep_the_words_of_its_searches(tenant: Tenant) -> None:
    await tenant.set_policy(audit_query_text=True)

    await tenant.recall.Recall(recall_pb2.RecallRequest(query=SECRET))
    (entry,) = await logged_accesses(tenant, lambda found: len(found) == 1, operation=pb.ACCESS_OPERATION_SEARCH)

    assert json_format.MessageToDict(entry.request_data)["query"] == SECRET


@pytest.mark.system
async def test_a_strict_tenant_gets_a_refusal_rather_than_an_access_without_a_record(
    memory_server: MemoryServer,
) -> None:
    async with memory_server.database.superuser() as connection:
        await connection.execute(
            "INSERT INTO tenancy.policies (tenant_id, audit_strict, update_time) VALUES ($1, true, now())",
            memory_server.tenant_id,
        )
        await connection.execute("REVOKE INSERT ON memory.access_log FROM skein_memory")
        async with memory_server.serving(), memory_server.channel() as channel:
            stub = memory_pb2_grpc.MemoryServiceStub(channel)
            memory = memory_pb2.Memory(content=SECRET)
            with refused(grpc.StatusCode.UNAVAILABLE, "ACCESS_LOG_UNAVAILABLE"):
                await stub.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))
            await connection.execute("GRANT INSERT ON memory.access_log TO skein_memory")
            listed = await stub.ListMemories(memory_pb2.ListMemoriesRequest())

    assert listed.memories == []


async def test_others_are_served_when_the_record_fails_and_the_loss_is_counted(memory_server: MemoryServer) -> None:
    before = DROPPED.labels("memory")._value.get()
    async with memory_server.database.superuser() as connection:
        await connection.execute("REVOKE INSERT ON memory.access_log FROM skein_memory")
        async with memory_server.serving(), memory_server.channel() as channel:
            stub = memory_pb2_grpc.MemoryServiceStub(channel)
            memory = memory_pb2.Memory(content=SECRET)
            await stub.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))

    assert DROPPED.labels("memory")._value.get() == before + 1


@pytest.mark.system
async def test_months_of_the_log_that_are_too_old_are_removed(memory_server: MemoryServer) -> None:
    async with memory_server.database.superuser() as connection:
        for month in ("2020-01-01", "2020-02-01"):
            await connection.execute("SELECT skein.make_month('memory.access_log', $1::text::timestamptz)", month)
        await connection.execute(
            "INSERT INTO memory.access_log"
            " (tenant_id, access_event_id, operation, method, principal, item_count, request_id, create_time)"
            " SELECT $1, skein.first_id('2020-01-05'), 'read', 'GetMemory', 'p', 0, 'r', now()",
            memory_server.tenant_id,
        )
        async with memory_server.serving(), memory_server.channel(system=True, tenant=False) as channel:
            stub = memory_pb2_grpc.MemoryInternalServiceStub(channel)
            await stub.EnsurePartitions(memory_pb2.EnsurePartitionsRequest())
        rows = await connection.fetch(
            "SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = 'memory.access_log'::regclass"
        )

    names = {row["name"] for row in rows}
    assert not any("y2020" in name for name in names)
    assert len(names) >= 4


async def test_following_a_session_and_watching_the_log_are_recorded_as_reads(tenant: Tenant) -> None:
    await tenant.set_policy(audit_strict=True)
    opened = session_pb2.Session(session_id="s1")
    await tenant.sessions.CreateSession(session_pb2.CreateSessionRequest(session=opened))

    async with _first(tenant.sessions.StreamMessages(session_pb2.StreamMessagesRequest(session_id="s1"))):
        of_session = (await tenant.history.ListAccessLog(pb.ListAccessLogRequest(session_id="s1"))).access_events
    with refused(grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND"):
        async with _first(tenant.sessions.StreamMessages(session_pb2.StreamMessagesRequest(session_id="s2"))):
            pass
    async with _first(tenant.history.StreamChanges(history_pb2.StreamChangesRequest())):
        newest = (await tenant.history.ListAccessLog(pb.ListAccessLogRequest(page_size=2))).access_events

    assert [(entry.method, entry.operation, entry.success) for entry in [of_session[0], *newest]] == [
        ("StreamMessages", pb.ACCESS_OPERATION_READ, True),
        ("StreamChanges", pb.ACCESS_OPERATION_READ, True),
        ("StreamMessages", pb.ACCESS_OPERATION_READ, False),
    ]


@pytest.mark.system
async def test_a_stream_is_recorded_soon_where_it_need_not_be_at_once(tenant: Tenant) -> None:
    async with _first(tenant.history.StreamChanges(history_pb2.StreamChangesRequest())):
        (entry,) = await logged_accesses(tenant, lambda found: len(found) == 1)

    assert (entry.method, entry.success) == ("StreamChanges", True)


@asynccontextmanager
async def _first(stream: Any) -> AsyncIterator[None]:
    """Read the first answer of a stream, and listen while the block runs."""
    try:
        await anext(aiter(stream))
        yield
    finally:
        stream.cancel()


@pytest.mark.system
async def test_a_purge_and_a_deletion_by_a_filter_name_their_memories(tenant: Tenant) -> None:
    purged = {await remember(tenant, agent_id="purge") for _ in range(3)}
    deleted = {await remember(tenant, agent_id="delete") for _ in range(2)}
    purge, delete = (
        memory_pb2.MemorySelection(filter=memory_pb2.MemoryFilter(agent_id=tag)) for tag in ("purge", "delete")
    )

    await tenant.memory.PurgeMemories(memory_pb2.PurgeMemoriesRequest(selection=purge))
    await tenant.memory.DeleteMemories(memory_pb2.DeleteMemoriesRequest(selection=delete))

    entries = await logged_accesses(tenant, lambda found: len(found) >= 5, operation=pb.ACCESS_OPERATION_DELETE)
    assert {(entry.method, entry.memory_id, entry.item_count) for entry in entries} == {
        *(("PurgeMemories", memory_id, 3) for memory_id in purged),
        *(("DeleteMemories", memory_id, 2) for memory_id in deleted),
    }
