"""What the Memory Orchestrator's tables mean here: times, defaults, checks and what outlives what."""

from __future__ import annotations

import grpc
import pytest
from fix_cluster import Cluster, Tenant, refused
from fix_seeds import KINDS, audit_faults, memories

from skein.auth.v1 import auth_pb2
from skein.memory.v1 import access_log_pb2, memory_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import subjects_pb2

NOT_FOUND = grpc.StatusCode.NOT_FOUND


async def test_every_row_tells_when_it_was_created_and_when_it_was_last_changed(
    cluster: Cluster, tenant: Tenant
) -> None:
    key = await tenant.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="second"))
    second = cluster.with_key(key.secret)
    kinds = ("session", "memory", "subject", "agent state", "link")

    assert await audit_faults(kinds, tenant, second) == []


async def test_a_new_session_has_no_end_no_summary_and_is_not_archived(tenant: Tenant) -> None:
    session = await KINDS["session"].create(tenant)

    assert (session.HasField("end_time"), session.summary, session.subject_id) == (False, "", "")
    assert (session.state, session.session_type) == (session_pb2.SESSION_STATE_ACTIVE, "conversation")


@pytest.mark.system
async def test_each_priority_from_1_to_10_finds_its_memories_and_5_is_the_default(
    tenant: Tenant,
) -> None:
    """A priority p is stored as (p - 1) / 9, and 5 as 0.5."""
    for priority in range(1, 11):
        importance = 0.5 if priority == 5 else (priority - 1) / 9
        await memories(tenant, f"priority {priority}", importance=importance)
    await memories(tenant, "said nothing")

    for priority in range(1, 11):
        request = memory_pb2.ListMemoriesRequest(filter=memory_pb2.MemoryFilter(where=f"priority = {priority}"))
        contents = [memory.content for memory in (await tenant.memory.ListMemories(request)).memories]
        assert contents == ["said nothing"] * (priority == 5) + [f"priority {priority}"]


async def test_a_memory_is_active_until_it_is_deleted(tenant: Tenant) -> None:
    (memory,) = await memories(tenant, "the kettle whistles")
    active = memory_pb2.ListMemoriesRequest(filter=memory_pb2.MemoryFilter(where="is_active = true"))
    before = (await tenant.memory.ListMemories(active)).memories

    await tenant.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id=memory.memory_id))

    assert [one.memory_id for one in before] == [memory.memory_id]
    assert not memory.HasField("delete_time")
    assert not (await tenant.memory.ListMemories(active)).memories


async def test_a_purged_memory_takes_its_tags_and_links_along(
    tenant: Tenant,
) -> None:
    """ON DELETE CASCADE of entries, tags and relationships. Here a memory outlives its session."""
    gone, kept = await memories(tenant, "gone", "kept", tags=["tea"], session_id="s")
    link = memory_pb2.Link(from_memory_id=gone.memory_id, to_memory_id=kept.memory_id, relation="follow_up")
    await tenant.links.CreateLink(memory_pb2.CreateLinkRequest(link=link))
    session = session_pb2.Session(session_id="s")
    await tenant.sessions.CreateSession(session_pb2.CreateSessionRequest(session=session))

    selection = memory_pb2.MemorySelection(memory_ids=[gone.memory_id])
    await tenant.memory.PurgeMemories(memory_pb2.PurgeMemoriesRequest(selection=selection))
    await tenant.sessions.DeleteSession(session_pb2.DeleteSessionRequest(session_id="s"))

    of_tag = memory_pb2.ListMemoriesRequest(filter=memory_pb2.MemoryFilter(tags_any=["tea"], session_id="s"))
    assert [one.content for one in (await tenant.memory.ListMemories(of_tag)).memories] == ["kept"]
    of_kept = memory_pb2.ListLinksRequest(memory_id=kept.memory_id)
    assert not (await tenant.links.ListLinks(of_kept)).links


async def test_the_access_log_outlives_what_it_names(tenant: Tenant) -> None:
    """ON DELETE SET NULL of the access log; here the id stays in the record, so that it says what was there."""
    policy = subjects_pb2.Policy(audit_strict=True)
    await tenant.tenancy.UpdatePolicy(
        subjects_pb2.UpdatePolicyRequest(policy=policy, update_mask={"paths": ["audit_strict"]})
    )
    (memory,) = await memories(tenant, "the kettle whistles")
    await tenant.memory.GetMemory(memory_pb2.GetMemoryRequest(memory_id=memory.memory_id))
    selection = memory_pb2.MemorySelection(memory_ids=[memory.memory_id])
    await tenant.memory.PurgeMemories(memory_pb2.PurgeMemoriesRequest(selection=selection))
    with refused(NOT_FOUND, "MEMORY_NOT_FOUND"):
        await tenant.memory.GetMemory(memory_pb2.GetMemoryRequest(memory_id=memory.memory_id))

    request = access_log_pb2.ListAccessLogRequest(
        memory_id=memory.memory_id, operation=access_log_pb2.ACCESS_OPERATION_READ
    )
    refusal, read = (await tenant.history.ListAccessLog(request)).access_events

    assert (read.memory_id, read.success, read.error_reason) == (memory.memory_id, True, "")
    assert (refusal.success, refusal.error_reason) == (False, "MEMORY_NOT_FOUND")
    assert all(
        entry.HasField("create_time") and entry.access_event_id and entry.client_address for entry in (read, refusal)
    )
