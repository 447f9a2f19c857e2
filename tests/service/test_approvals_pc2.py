"""Voice assistants whose memories wait for approval: every port says so, and none reports a memory as saved."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from fix_cluster import Cluster, Tenant
from fix_pc2 import Assistant, assistant_of
from google.protobuf.field_mask_pb2 import FieldMask

from skein.auth.v1 import auth_pb2
from skein.memory.v1 import approvals_pb2, memory_pb2
from skein.tenancy.v1 import subjects_pb2


@pytest.fixture
async def untrusted(cluster: Cluster, tenant: Tenant) -> AsyncIterator[Assistant]:
    """Run a pc2 that acts as an agent of a tenant whose agents need approval."""
    request = subjects_pb2.UpdatePolicyRequest(
        policy=subjects_pb2.Policy(approval="agents"), update_mask=FieldMask(paths=["approval"])
    )
    await tenant.tenancy.UpdatePolicy(request)
    key = await tenant.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="k", agent_id="kitchen"))
    environment = {"SKEIN_PC2_API_KEY": key.secret}
    async with assistant_of(environment, patient=True, gateway=cluster.endpoint) as result:
        yield result


async def pending_ids(tenant: Tenant) -> list[str]:
    response = await tenant.curation.ListPendingMemories(approvals_pb2.ListPendingMemoriesRequest())
    return [write.pending_id for write in response.pending_memories]


async def create_known(tenant: Tenant) -> str:
    """Store a memory with the id that an assistant knows it by."""
    memory = memory_pb2.Memory(content="tea at four", external_id="mem-1", type="conversation")
    return (await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))).memory.memory_id


def assert_waits(reply: Any, pending_id: str) -> None:
    """Assert that the orchestrator's reply says what waits."""
    assert reply["status"] == "error", reply
    assert reply["error"]["code"] == "permission_denied"
    assert reply["error"]["details"] == {"reason": "WAITS_FOR_APPROVAL", "pending_id": pending_id}
    assert pending_id in reply["error"]["message"]


async def test_the_orchestrator_is_told_that_its_memory_waits(untrusted: Assistant, tenant: Tenant) -> None:
    created = await untrusted.request("create", payload={"content": {"text": "tea"}})

    (pending_id,) = await pending_ids(tenant)
    assert_waits(created, pending_id)


@pytest.mark.parametrize("action", ["update", "upsert"])
async def test_the_orchestrator_is_told_that_its_change_waits(
    untrusted: Assistant, tenant: Tenant, action: str
) -> None:
    await create_known(tenant)
    payload = {"memory_id": "mem-1", "memory_type": "conversation", "content": {"text": "tea at five"}}

    changed = await untrusted.request(action, payload=payload)

    (pending_id,) = await pending_ids(tenant)
    assert_waits(changed, pending_id)
    stored = (await tenant.memory.GetMemory(memory_pb2.GetMemoryRequest(memory_id="mem-1"))).memory
    assert stored.content == "tea at four"


@pytest.mark.system
async def test_memories_that_are_created_together_wait_once_each(untrusted: Assistant, tenant: Tenant) -> None:
    requests = [untrusted.request("create", payload={"content": {"text": f"tea {n}"}}) for n in range(12)]

    replies = await asyncio.gather(*requests)

    waiting = await pending_ids(tenant)
    assert sorted(reply["error"]["details"]["pending_id"] for reply in replies) == sorted(waiting)


@pytest.mark.parametrize(
    ("port", "message"),
    [
        (5596, {"action": "add_memory", "content": "tea"}),
        (5596, {"action": "add_memory", "user_id": "anna", "memory": "tea"}),
        (5596, {"command": "STORE_MEMORY", "data": {"content": "tea"}}),
        (7140, {"action": "add_memory", "content": "tea", "memory_type": "fact"}),
    ],
)
async def test_every_other_dialect_says_so_in_its_text(
    untrusted: Assistant, tenant: Tenant, port: int, message: dict[str, Any]
) -> None:
    reply = await untrusted.send(port, json.dumps(message).encode())

    (pending_id,) = await pending_ids(tenant)
    assert reply["status"].lower() == "error"
    assert f"waits for approval as {pending_id}" in reply["message"]
