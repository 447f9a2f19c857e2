"""Voice assistants that share a key: the agent that a message names waits and is rated like any other source."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from fix_cluster import Cluster, Tenant
from fix_pc2 import SESSION, Assistant, assistant_of
from google.protobuf.field_mask_pb2 import FieldMask

from skein.auth.v1 import auth_pb2
from skein.memory.v1 import approvals_pb2, curation_pb2, memory_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import subjects_pb2

OF_FACT = {"content": "tea", "memory_type": "fact"}
# Messages of each dialect that name an agent, in one way or another.
NAMING: list[tuple[int, dict[str, Any]]] = [
    (5570, {"action": "create", "payload": {"content": {"text": "tea"}, "memory_type": "fact", "agent_id": "Küche"}}),
    (5570, {"action": "save", "data": {"text": "tea", "source_agent": "Küche"}}),
    (5596, {"action": "add_memory", "content": "tea", "source_agent": "Küche"}),
    (5596, {"action": "add_memory", "user_id": "anna", "memory": "tea", "agent_id": "Küche"}),
    (5596, {"command": "STORE_MEMORY", "data": {"content": "tea", "created_by": "Küche"}}),
    (7140, {"action": "add_memory", **OF_FACT, "created_by": "Küche"}),
    (7140, {"action": "batch_add_memories", "memories": [{**OF_FACT, "source_agent": "Küche"}]}),
    (5596, {"command": "SYNC_MEMORIES", "memories": [{"id": "mem_1", "content": "tea", "source_agent": "Küche"}]}),
]


@pytest.fixture
async def agents_wait(tenant: Tenant) -> None:
    """Let the memories of agents wait, before a service reads the policy."""
    policy = subjects_pb2.Policy(approval="agents")
    request = subjects_pb2.UpdatePolicyRequest(policy=policy, update_mask=FieldMask(paths=["approval"]))
    await tenant.tenancy.UpdatePolicy(request)


@pytest.fixture
async def assistant(cluster: Cluster, tenant: Tenant) -> AsyncIterator[Assistant]:
    """Run a pc2 whose key acts for no agent of its own."""
    key = await tenant.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="k"))
    async with assistant_of({"SKEIN_PC2_API_KEY": key.secret}, patient=True, gateway=cluster.endpoint) as result:
        yield result


async def waiting(tenant: Tenant) -> list[str]:
    response = await tenant.curation.ListPendingMemories(approvals_pb2.ListPendingMemoriesRequest())
    return [write.memory.content for write in response.pending_memories]


async def stored(tenant: Tenant) -> list[memory_pb2.Memory]:
    return list((await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest())).memories)


async def send(assistant: Assistant, port: int, message: dict[str, Any]) -> Any:
    return await assistant.send(port, json.dumps({"session_id": SESSION, **message}).encode())


@pytest.mark.usefixtures("agents_wait")
async def test_what_an_agent_sends_waits_whatever_letters_its_name_has(assistant: Assistant, tenant: Tenant) -> None:
    replies = [await send(assistant, port, message) for port, message in NAMING]
    unnamed = await assistant.request("create", payload={"content": {"text": "of no agent"}})

    assert all("waits for approval" in json.dumps(reply) for reply in replies), replies
    assert await waiting(tenant) == ["tea"] * len(NAMING)
    assert unnamed["status"] == "success"
    assert [memory.content for memory in await stored(tenant)] == ["of no agent"]


@pytest.mark.usefixtures("agents_wait")
async def test_memories_that_are_created_together_wait_by_their_own_agents(
    assistant: Assistant, tenant: Tenant
) -> None:
    contents: list[dict[str, str]] = [{"text": f"of no agent {n}"} for n in range(12)]
    contents += [{"text": f"of the kitchen {n}", "source_agent": "kitchen"} for n in range(12)]
    contents[::2], contents[1::2] = contents[:12], contents[12:]

    replies = await asyncio.gather(*(assistant.request("create", payload={"content": each}) for each in contents))

    assert [reply["status"] for reply in replies] == ["success", "error"] * 12
    assert sorted(await waiting(tenant)) == sorted(f"of the kitchen {n}" for n in range(12))


@pytest.mark.system
async def test_the_agent_that_a_message_names_is_rated(assistant: Assistant, tenant: Tenant) -> None:
    await tenant.curation.SetSourceTrust(curation_pb2.SetSourceTrustRequest(source="KÜCHE", trust=0.1))

    replies = [await send(assistant, port, message) for port, message in NAMING]
    await assistant.request("create", payload={"content": {"text": "of no agent"}})

    assert [reply["status"].lower() for reply in replies if reply["status"].lower() == "error"] == [], replies
    memories = await stored(tenant)
    lineage = curation_pb2.GetLineageRequest(memory_ids=[memory.memory_id for memory in memories])
    nodes = (await tenant.curation.GetLineage(lineage)).nodes[: len(memories)]
    assert sorted(round(node.trust, 3) for node in nodes) == [0.1] * len(NAMING) + [0.5]
    # The key is the verified author of all of them.
    assert {memory.created_by.partition(":")[0] for memory in memories} == {"api_key"}


async def test_a_message_names_who_said_it(assistant: Assistant, tenant: Tenant) -> None:
    of_anna = {"action": "add_interaction", "type": "user", "session_id": SESSION, "content": "tea", "user_id": "anna"}
    of_agent = {"action": "add_interaction", "role": "assistant", "content": "yes", "agent_id": "Küche"}
    too_long = {**of_agent, "content": "long", "agent_id": " \x00" + "k" * 300}

    replies = [await send(assistant, 5596, of_anna), await send(assistant, 5574, of_agent)]
    replies.append(await send(assistant, 5574, too_long))

    listed = await tenant.sessions.ListMessages(session_pb2.ListMessagesRequest(session_id=SESSION))
    said = {message.content: message.sender_id for message in listed.messages}
    assert said == {"tea": "anna", "yes": "Küche", "long": "k" * 255}, replies
