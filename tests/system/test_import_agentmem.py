"""Moving in from AgentMem: organizations with their users, agents, tools, blocks, messages and memories."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import grpc
import pytest
from fix_cluster import Cluster, Tenant, refused
from fix_moving import a_database, changed, fill, move_all_in, move_in, refusal_of, refusals, remaining_counts
from fix_stores import AGENTMEM
from google.protobuf.json_format import MessageToDict

from skein.memory.v1 import blocks_pb2, memory_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import subjects_pb2, tenancy_pb2

T0 = datetime(2024, 5, 4, 9, 0, tzinfo=UTC)


@pytest.fixture
async def source(cluster: Cluster) -> AsyncIterator[tuple[str, asyncpg.Connection[asyncpg.Record]]]:
    """An AgentMem with two organizations that live, and one that was deleted."""
    async with a_database(cluster, AGENTMEM) as (url, connection):
        await fill(
            connection,
            "organizations",
            {"id": "acme", "name": "Acme Corp"},
            {"id": "bolt", "name": "Bolt"},
            {"id": "gone", "name": "Gone", "is_deleted": True},
        )
        bolt = {"organization_id": "bolt"}
        acme = {"organization_id": "acme", "created_at": T0, "updated_at": T0}
        await fill(
            connection,
            "users",
            {**acme, "id": "john", "name": "John Doe", "timezone": "Europe/Berlin", "created_by_id": "root"},
            {**acme, "id": "jane", "name": "Jane", "status": "suspended", "timezone": "Mars/Olympus"},
            {**acme, "id": "ghost", "name": "Ghost", "is_deleted": True},
            {"id": "bo", "name": "Bo", "organization_id": "bolt"},
        )
        await fill(
            connection,
            "agents",
            {**acme, "id": "a1", "name": "Assistant", "agent_type": "chat", "system": "Be kind.", "topic": "tea",
             "message_ids": '["x1"]', "metadata_": '{"team": "blue"}', "llm_config": '{"model": "small"}',
             "tool_rules": '[{"tool": "search", "first": true}]', "mcp_tools": '["files", 7]'},
            {**acme, "id": "a2"},
            {"id": "b1", "organization_id": "bolt", "name": "Bolt's"},
        )  # fmt: skip
        await fill(
            connection,
            "tools",
            {**acme, "id": "t1", "name": "search", "json_schema": '{"type": "object"}', "tags": '["web", "web"]'},
            {**acme, "id": "t2", "name": "search", "created_at": T0 + timedelta(days=1)},
            {**acme, "id": "t3", "name": "old", "is_deleted": True},
        )
        await fill(
            connection,
            "tools_agents",
            *({"tool_id": tool, "agent_id": "a1"} for tool in ("t1", "t2", "t3")),
        )
        block = {**acme, "user_id": "john"}
        await fill(
            connection,
            "blocks",
            {**block, "id": "k1", "label": "human", "value": "A software engineer", "limit": 2000},
            {**block, "id": "k2", "label": "persona", "value": "x" * 50, "limit": 10},
            {**block, "id": "k3", "label": "system", "value": "y", "limit": 10_000_000},
        )
        await fill(connection, "blocks_agents", {"block_id": "k1", "block_label": "human", "agent_id": "a1"})
        talk = {**acme, "user_id": "john", "agent_id": "a1"}
        await fill(
            connection,
            "messages",
            {**talk, "id": "x2", "role": "assistant", "text": "Hello John", "created_at": T0 + timedelta(seconds=1),
             "model": "small", "tool_calls": '{"name": "search"}', "otid": "o1"},
            {**talk, "id": "x1", "role": "user", "text": "Hello!", "content": '[{"type": "text", "text": "Hello!"}]'},
            {**talk, "id": "x3", "role": "function", "tool_returns": '[{"ok": true}]',
             "created_at": T0 + timedelta(seconds=2)},
            {**talk, "id": "x4", "role": "user", "created_at": T0 + timedelta(seconds=3)},
            {**talk, "id": "x5", "role": "narrator", "text": "Meanwhile"},
            {**talk, "id": "x6", "role": "user", "text": "Never said", "is_deleted": True},
            {"id": "y1", **bolt, "user_id": "bo", "agent_id": "b1", "role": "user", "text": "Bolt only"},
        )  # fmt: skip
        memory = {**talk, "memory_type": "Semantic", "scope": "user", "level": "strategic"}
        await fill(
            connection,
            "memories",
            {**memory, "id": "m1", "content": "John likes tea", "importance": 0.8, "access_count": 4, "score": 0.5,
             "metadata": '{"from": "chat"}', "last_accessed": T0, "hash": "abc"},
            {**memory, "id": "m2", "content": "Everybody", "scope": "somewhere", "level": "deep", "importance": 7.5},
            {**memory, "id": "m3", "content": "   "},
            {**memory, "id": "m4", "content": "Forgotten", "is_deleted": True},
            {**memory, "id": "m5", "content": "For all of Acme", "scope": "organization"},
            {**memory, "id": "m6", "content": "Only now", "scope": "session", "user_id": "jane"},
            {**memory, **bolt, "id": "n1", "user_id": "bo", "agent_id": "b1", "content": "Bolt's own"},
        )  # fmt: skip
        yield url, connection


async def test_memories_and_messages_of_an_organization_keep_their_ids_times_and_owners(
    cluster: Cluster, tenant: Tenant, source: tuple[str, Any]
) -> None:
    done = await move_in(cluster, tenant, "agentmem-pg", source[0], "--realm", "acme")

    assert done.code == 1, done.err
    m1, m2, m5 = [await tenant.get_memory(name) for name in ("m1", "m2", "m5")]
    assert (m1.content, m1.type, m1.agent_id, m1.subject_id) == ("John likes tea", "semantic", "a1", "john")
    assert (m1.scope, m1.level) == (memory_pb2.SCOPE_USER, memory_pb2.LEVEL_STRATEGIC)
    assert m1.importance == pytest.approx(0.8)
    assert m1.create_time.ToDatetime(tzinfo=UTC) == T0
    assert MessageToDict(m1.metadata) == {
        "from": "chat",
        "agentmem": {"hash": "abc", "score": 0.5, "access_count": 4.0, "last_accessed": "2024-05-04T09:00:00Z"},
    }
    assert (m2.scope, m2.level, m2.importance) == (memory_pb2.SCOPE_AGENT, memory_pb2.LEVEL_OPERATIONAL, 1.0)
    assert MessageToDict(m2.metadata)["agentmem"] == {"scope": "somewhere", "level": "deep"}
    assert m5.scope == memory_pb2.SCOPE_GLOBAL
    m6 = await tenant.get_memory("m6")
    assert (m6.scope, m6.session_id) == (memory_pb2.SCOPE_SESSION, "a1:jane")
    await tenant.sessions.GetSession(session_pb2.GetSessionRequest(session_id="a1:jane"))
    response = await tenant.sessions.ListMessages(session_pb2.ListMessagesRequest(session_id="a1:john"))
    assert [(message.external_id, message.sequence, message.content) for message in response.messages] == [
        ("x1", 1, "Hello!"),
        ("x2", 2, "Hello John"),
        ("x3", 3, ""),
    ]
    x1, x2, x3 = response.messages
    assert x1.create_time.ToDatetime(tzinfo=UTC) == T0
    assert (x2.model, x2.offline_thread_id, MessageToDict(x2)["toolCalls"]) == ("small", "o1", [{"name": "search"}])
    assert (x3.role, MessageToDict(x3)["toolReturns"]) == (session_pb2.MESSAGE_ROLE_TOOL, [{"ok": True}])
    session = (await tenant.sessions.GetSession(session_pb2.GetSessionRequest(session_id="a1:john"))).session
    assert (session.agent_id, session.subject_id, session.create_time.ToDatetime(tzinfo=UTC)) == ("a1", "john", T0)


async def test_people_agents_tools_and_blocks_come_with_what_they_are_made_of(
    cluster: Cluster, tenant: Tenant, source: tuple[str, Any]
) -> None:
    await move_in(cluster, tenant, "agentmem-pg", source[0], "--realm", "acme")

    john = (await tenant.tenancy.GetSubject(subjects_pb2.GetSubjectRequest(subject_id="john"))).subject
    jane = (await tenant.tenancy.GetSubject(subjects_pb2.GetSubjectRequest(subject_id="jane"))).subject
    assert (john.display_name, john.timezone) == ("John Doe", "Europe/Berlin")
    assert MessageToDict(john.profile)["agentmem"]["created_by_id"] == "root"
    assert (jane.status, jane.timezone) == (subjects_pb2.SUBJECT_STATUS_INACTIVE, "")
    assert MessageToDict(jane.profile)["agentmem"]["timezone"] == "Mars/Olympus"
    agent = (await tenant.tenancy.GetAgent(tenancy_pb2.GetAgentRequest(agent_id="a1"))).agent
    assert (agent.system_prompt, agent.topic, list(agent.mcp_servers)) == ("Be kind.", "tea", ["files"])
    assert MessageToDict(agent.tool_rules) == {"rules": [{"tool": "search", "first": True}]}
    assert MessageToDict(agent.metadata)["team"] == "blue"
    assert MessageToDict(agent.metadata)["agentmem"]["message_ids"] == ["x1"]
    tools = (await tenant.tenancy.ListTools(subjects_pb2.ListToolsRequest(agent_id="a1"))).tools
    assert {tool.tool_id: tool.name[:7] for tool in tools} == {"t1": "search", "t2": "search-"}
    blocks = (await tenant.blocks.ListAgentBlocks(blocks_pb2.ListAgentBlocksRequest(agent_id="a1"))).blocks
    assert [(block.label, block.value, block.subject_id) for block in blocks] == [
        ("human", "A software engineer", "john")
    ]
    k2 = (await tenant.blocks.GetBlock(blocks_pb2.GetBlockRequest(block_id="k2"))).block
    assert (k2.limit, k2.value) == (50, "x" * 50)


async def test_the_report_counts_everything_and_a_repeat_writes_nothing(
    cluster: Cluster, tenant: Tenant, source: tuple[str, Any]
) -> None:
    dry = await move_in(cluster, tenant, "agentmem-pg", source[0], "--realm", "acme", "--dry-run")
    first = await move_in(cluster, tenant, "agentmem-pg", source[0], "--realm", "acme")
    again = await move_in(cluster, tenant, "agentmem-pg", source[0], "--realm", "acme")
    same = await move_in(cluster, tenant, "agentmem-pg", source[0], "--realm", "acme", "--compare")

    report = first.json
    written = {kind: count for kind, count in report["written"].items() if count}
    assert written == {
        "subject": 2,
        "agent": 2,
        "tool": 2,
        "tool_attachment": 2,
        "block": 3,
        "block_attachment": 1,
        "session": 2,
        "message": 3,
        "memory": 4,
    }
    assert remaining_counts(report) == {"users": 1, "tools": 1, "tools_agents": 1, "messages": 1, "memories": 1}
    assert set(refusals(report)) == {"messages x4", "messages x5", "memories m3"}
    assert changed(report, "messages", "role") == {"converted to its usual name": 1}
    assert (dry.json["read"], dry.json["left"], dry.json["coerced"]) == (
        report["read"],
        report["left"],
        report["coerced"],
    )
    assert not any(dry.json["written"].values())
    assert not any(again.json["written"].values())
    assert sum(again.json["skipped"].values()) == sum(written.values())
    assert (same.code, same.json["missing"], same.json["different"]) == (0, {}, []), same.out


async def test_all_organizations_become_tenants_that_see_nothing_of_each_other(
    cluster: Cluster, source: tuple[str, asyncpg.Connection[asyncpg.Record]]
) -> None:
    mark = uuid.uuid4().hex[:8]
    await source[1].execute("UPDATE organizations SET name = name || $1", f" {mark}")

    done = await move_all_in(cluster, "agentmem-pg", source[0])
    again = await move_all_in(cluster, "agentmem-pg", source[0])

    tenants = done.json["tenants"]
    assert set(tenants) == {"acme", "bolt"}
    assert again.json["tenants"] == tenants
    assert not any(again.json["written"].values())
    bolt = cluster.with_key(cluster.operator_key, **{"skein-tenant-id": tenants["bolt"]})
    listed = await bolt.memory.ListMemories(memory_pb2.ListMemoriesRequest())
    assert [memory.external_id for memory in listed.memories] == ["n1"]
    with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND"):
        await bolt.memory.GetMemory(memory_pb2.GetMemoryRequest(memory_id="m1"))
    sessions = await bolt.sessions.ListSessions(session_pb2.ListSessionsRequest())
    assert [session.session_id for session in sessions.sessions] == ["b1:bo"]
    assert remaining_counts(done.json)["organizations"] == 1
    metadata = (await bolt.tenancy.GetTenant(tenancy_pb2.GetTenantRequest(tenant_id=tenants["bolt"]))).tenant.metadata
    assert set(MessageToDict(metadata)["agentmem-pg"]) == {"created_at", "updated_at"}


async def test_a_comparison_finds_a_memory_that_was_changed_there(
    cluster: Cluster, tenant: Tenant, source: tuple[str, asyncpg.Connection[asyncpg.Record]]
) -> None:
    await move_in(cluster, tenant, "agentmem-pg", source[0], "--realm", "bolt")
    await source[1].execute("UPDATE memories SET content = 'Said otherwise' WHERE id = 'n1'")

    after = await move_in(cluster, tenant, "agentmem-pg", source[0], "--realm", "bolt", "--compare")

    assert after.code == 1
    assert [(entry["fields"], entry["samples"]) for entry in after.json["different"]] == [(["content"], ["n1"])]


async def test_several_organizations_never_come_into_one_tenant_unless_one_is_named(
    cluster: Cluster, tenant: Tenant, source: tuple[str, Any]
) -> None:
    unsaid = await move_in(cluster, tenant, "agentmem-pg", source[0])
    unknown = await move_in(cluster, tenant, "agentmem-pg", source[0], "--realm", "gone")

    assert (unsaid.code, unknown.code) == (1, 1)
    assert "acme (Acme Corp), bolt (Bolt)" in unsaid.err
    listed = await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest())
    assert not listed.memories


async def test_a_database_of_another_system_is_refused_in_one_sentence(cluster: Cluster) -> None:
    async with a_database(cluster, "CREATE TABLE organizations (id TEXT, name TEXT)") as (url, _):
        assert "it has no table users" in await refusal_of("agentmem-pg", url)
