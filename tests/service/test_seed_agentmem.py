"""What AgentMem's tables mean here: audit columns, defaults and soft deletion of every kind of row."""

from __future__ import annotations

from typing import Any

import grpc
from fix_cluster import Cluster, Stubs, Tenant, refused
from fix_seeds import KINDS, audit_faults, memories

from skein.auth.v1 import auth_pb2
from skein.memory.v1 import blocks_pb2, memory_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import tenancy_pb2

NOT_FOUND = grpc.StatusCode.NOT_FOUND


async def second_caller(cluster: Cluster, tenant: Tenant) -> Stubs:
    """Return calls with another key of the tenant."""
    key = await tenant.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="second"))
    return cluster.with_key(key.secret)


async def test_every_row_tells_when_and_by_whom_it_was_created_and_last_changed(
    cluster: Cluster, tenant: Tenant
) -> None:
    second = await second_caller(cluster, tenant)
    kinds = ("subject", "agent", "message", "block", "tool", "memory")

    assert await audit_faults(kinds, tenant, second) == []
    assert await audit_faults(["organization"], cluster.operator, cluster.operator) == []


async def test_a_row_is_there_until_it_is_deleted_and_neither_read_nor_listed_afterwards(
    cluster: Cluster, tenant: Tenant
) -> None:
    memory, block, message = [await KINDS[kind].create(tenant) for kind in ("memory", "block", "message")]
    organization = await KINDS["organization"].create(cluster.operator)
    listed = await _listed(cluster, tenant)
    reads: dict[str, tuple[Any, Any, str]] = {
        "memory": (tenant.memory.GetMemory, memory_pb2.GetMemoryRequest(memory_id=memory.memory_id), "MEMORY"),
        "block": (tenant.blocks.GetBlock, blocks_pb2.GetBlockRequest(block_id=block.block_id), "BLOCK"),
        "message": (
            tenant.sessions.GetMessage, session_pb2.GetMessageRequest(message_id=message.message_id), "MESSAGE",
        ),
        "organization": (
            cluster.operator.tenancy.GetOrganization,
            tenancy_pb2.GetOrganizationRequest(organization_id=organization.organization_id),
            "ORGANIZATION",
        ),
    }  # fmt: skip
    for call, request, _name in reads.values():
        await call(request)

    await tenant.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id=memory.memory_id))
    await tenant.blocks.DeleteBlock(blocks_pb2.DeleteBlockRequest(block_id=block.block_id))
    await tenant.sessions.DeleteMessage(session_pb2.DeleteMessageRequest(message_id=message.message_id))
    await cluster.operator.tenancy.DeleteOrganization(
        tenancy_pb2.DeleteOrganizationRequest(organization_id=organization.organization_id)
    )

    for call, request, name in reads.values():
        with refused(NOT_FOUND, f"{name}_NOT_FOUND"):
            await call(request)
    gone = {memory.memory_id, block.block_id, message.message_id, organization.organization_id}
    assert gone <= listed
    assert not gone & await _listed(cluster, tenant)


async def _listed(cluster: Cluster, tenant: Tenant) -> set[str]:
    """Return the ids of all rows that lists show."""
    memory_ids = {
        one.memory_id for one in (await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest())).memories
    }
    memory_ids |= {one.block_id for one in (await tenant.blocks.ListBlocks(blocks_pb2.ListBlocksRequest())).blocks}
    messages = await tenant.sessions.ListMessages(session_pb2.ListMessagesRequest(session_id="s"))
    memory_ids |= {one.message_id for one in messages.messages}
    organizations = await cluster.operator.tenancy.ListOrganizations(tenancy_pb2.ListOrganizationsRequest())
    return memory_ids | {one.organization_id for one in organizations.organizations}


async def test_a_new_memory_has_no_metadata_no_reads_no_deletion_and_a_hash_of_64_digits(tenant: Tenant) -> None:
    (memory,) = await memories(tenant, "the kettle whistles", type="episodic")

    assert (dict(memory.metadata), memory.access_count) == ({}, 0)
    assert not memory.HasField("last_access_time")
    assert not memory.HasField("delete_time")
    assert (len(memory.content_hash), set(memory.content_hash) <= set("0123456789abcdef")) == (64, True)
    assert (memory.type, memory.scope, memory.level, memory.importance) == (
        "episodic", memory_pb2.SCOPE_GLOBAL, memory_pb2.LEVEL_OPERATIONAL, 0.5,
    )  # fmt: skip


async def test_a_new_block_is_no_template_and_has_no_subject(tenant: Tenant) -> None:
    block = await KINDS["block"].create(tenant)

    assert (block.is_template, block.template_name, block.subject_id, block.description) == (False, "", "", "")
    assert (block.limit, dict(block.metadata), block.HasField("delete_time")) == (2000, {}, False)


async def test_agents_of_one_organization_stay_apart_by_tenant(tenant: Tenant, other_tenant: Tenant) -> None:
    """AgentMem's organization is what separates its rows; here the tenant does, within an organization."""
    await KINDS["agent"].create(tenant)
    mine, theirs = [
        (await calls.tenancy.GetTenant(tenancy_pb2.GetTenantRequest())).tenant for calls in (tenant, other_tenant)
    ]

    listed = await other_tenant.tenancy.ListAgents(tenancy_pb2.ListAgentsRequest())

    assert mine.organization_id == theirs.organization_id != ""
    assert list(listed.agents) == []
