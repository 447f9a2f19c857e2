"""Moving in from a Letta server: its Postgres, with what agents remember and what is left behind."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
from fix_cluster import Cluster, Tenant
from fix_moving import a_database, fill, move_in, outcome, refusal_of, refusals, remaining_counts
from fix_stores import LETTA
from google.protobuf.json_format import MessageToDict

from skein.memory.v1 import blocks_pb2, memory_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import subjects_pb2, tenancy_pb2

T0 = datetime(2025, 5, 1, 8, 0, tzinfo=UTC)
ACME = {"organization_id": "acme", "created_at": T0, "updated_at": T0}


@pytest.fixture
async def source(cluster: Cluster) -> AsyncIterator[str]:
    """A server with one organization that lives."""
    async with a_database(cluster, LETTA) as (url, connection):

        async def rows(table: str, *values: dict[str, Any]) -> None:
            await fill(connection, table, *values)

        await rows("organizations", {"id": "acme", "name": "Acme"}, {"id": "x", "name": "Gone", "is_deleted": True})
        await rows("users", {**ACME, "id": "u1", "name": "default"})
        await rows(
            "identities", {**ACME, "id": "i1", "identifier_key": "anna", "name": "Anna", "identity_type": "user"}
        )
        await rows(
            "agents",
            {**ACME, "id": "a1", "name": "Juno", "system": "Be kind.", "message_ids": '["m1"]',
             "llm_config": '{"model": "small"}', "metadata_": '{"room": "hall"}', "timezone": "Europe/Vienna"},
            {**ACME, "id": "a2", "name": "Vesta"},
            {**ACME, "id": "a3", "name": "Old", "is_deleted": True},
        )  # fmt: skip
        await rows("agents_tags", {"agent_id": "a1", "tag": "home"})
        await rows("tools", {**ACME, "id": "t1", "name": "find", "tool_type": "custom", "tags": '["web"]'})
        await rows("tools_agents", {"agent_id": "a1", "tool_id": "t1"}, {"agent_id": "a3", "tool_id": "t1"})
        await rows(
            "block",
            {**ACME, "id": "k1", "label": "human", "value": "Lives in Graz", "limit": 5},
            {**ACME, "id": "k2", "label": "persona", "value": "Juno"},
        )
        await rows("blocks_agents", {"agent_id": "a1", "block_id": "k1", "block_label": "human"})
        await rows("identities_blocks", {"identity_id": "i1", "block_id": "k1"})
        said = json.dumps({"type": "user_message", "message": "Where are the keys?", "time": "now"})
        message = {**ACME, "agent_id": "a1"}
        await rows(
            "messages",
            {**message, "id": "m2", "role": "assistant", "sequence_id": 2,
             "content": '[{"type": "text", "text": "Here."}]', "tool_calls": '[{"name": "find"}]'},
            {**message, "id": "m1", "role": "user", "sequence_id": 1,
             "content": json.dumps([{"type": "text", "text": said}])},
            {**message, "id": "m3", "role": "user", "sequence_id": 3, "text": "Elsewhere", "conversation_id": "c1"},
            {**message, "id": "m4", "role": "user", "sequence_id": 4},
        )  # fmt: skip
        await rows(
            "archives_agents",
            *(
                {"agent_id": agent, "archive_id": archive}
                for agent, archive in (("a1", "v1"), ("a1", "v2"), ("a2", "v2"))
            ),
        )
        await rows(
            "archival_passages",
            {**ACME, "id": "p1", "text": "The spare key is under the mat", "archive_id": "v1", "tags": '["keys"]'},
            {**ACME, "id": "p2", "text": "The house has a red door", "archive_id": "v2"},
        )
        await rows("source_passages", {**ACME, "id": "s1", "text": "Chapter one", "file_name": "book.txt"})
        yield url


async def test_agents_of_a_letta_server_come_with_what_they_remember(
    cluster: Cluster, tenant: Tenant, source: str
) -> None:
    done = await move_in(cluster, tenant, "letta-pg", source)

    assert refusals(done.json) == {"messages m4": "has neither a text nor content, nor tool calls"}
    assert remaining_counts(done.json) == {"agents": 1, "tools_agents": 1, "users": 1}
    juno = (await tenant.tenancy.GetAgent(tenancy_pb2.GetAgentRequest(agent_id="a1"))).agent
    assert (juno.display_name, juno.system_prompt) == ("Juno", "Be kind.")
    assert MessageToDict(juno.metadata) == {
        "room": "hall",
        "letta": {"timezone": "Europe/Vienna", "message_ids": ["m1"], "tags": ["home"]},
    }
    tools = (await tenant.tenancy.ListTools(subjects_pb2.ListToolsRequest(agent_id="a1"))).tools
    assert [tool.name for tool in tools] == ["find"]
    (block,) = (await tenant.blocks.ListAgentBlocks(blocks_pb2.ListAgentBlocksRequest(agent_id="a1"))).blocks
    assert (block.block_id, block.value, block.subject_id) == ("k1", "Lives in Graz", "anna")
    p1, p2, s1 = [await tenant.get_memory(name) for name in ("p1", "p2", "s1")]
    assert (p1.agent_id, p1.scope, list(p1.tags)) == ("a1", memory_pb2.SCOPE_AGENT, ["keys"])
    assert (p2.agent_id, p2.scope) == ("", memory_pb2.SCOPE_GLOBAL)
    assert MessageToDict(p2.metadata)["letta"]["agent_ids"] == ["a1", "a2"]
    assert (s1.type, s1.title, s1.content) == ("document", "book.txt", "Chapter one")


async def test_messages_of_a_letta_server_are_sessions_of_agents_and_conversations(
    cluster: Cluster, tenant: Tenant, source: str
) -> None:
    await move_in(cluster, tenant, "letta-pg", source)
    again = await move_in(cluster, tenant, "letta-pg", source)

    own = (await tenant.sessions.ListMessages(session_pb2.ListMessagesRequest(session_id="letta:a1"))).messages
    other = (await tenant.sessions.ListMessages(session_pb2.ListMessagesRequest(session_id="letta:c1"))).messages
    assert [(one.external_id, one.content) for one in own] == [("m1", "Where are the keys?"), ("m2", "Here.")]
    assert MessageToDict(own[1])["toolCalls"] == [{"name": "find"}]
    assert [one.content for one in other] == ["Elsewhere"]
    assert {kind: outcome(again.json, kind)[1] for kind in ("message", "session", "memory", "block", "agent")} == {
        "message": 0, "session": 0, "memory": 0, "block": 0, "agent": 0,
    }  # fmt: skip


async def test_another_database_is_refused_in_one_sentence(cluster: Cluster) -> None:
    async with a_database(cluster, "CREATE TABLE organizations (id TEXT, name TEXT)") as (url, _):
        assert "it has no table agents" in await refusal_of("letta-pg", url)
