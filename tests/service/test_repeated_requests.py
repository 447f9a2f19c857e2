"""A request that is repeated under its request_id has one effect and is answered as the first one was.

test_isolation.py repeats the request of every RPC; here is what a repetition must not do, and what is the operator's.
"""

from __future__ import annotations

import uuid

import grpc
from fix_cluster import Cluster, Tenant, refused

from skein.auth.v1 import auth_pb2
from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2
from skein.tenancy.v1 import tenancy_pb2
from skein_kit.database.transactions import NO_TENANT


async def test_a_refused_request_leaves_its_id_free(tenant: Tenant) -> None:
    request = memory_pb2.DeleteMemoryRequest(memory_id="a", request_id="r")
    with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND"):
        await tenant.memory.DeleteMemory(request)
    await memories(tenant)

    assert await tenant.memory.DeleteMemory(request) is not None


async def test_a_request_id_of_one_tenant_does_not_count_for_another(tenant: Tenant, other_tenant: Tenant) -> None:
    for owner in (tenant, other_tenant):
        await memories(owner)

        assert await owner.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id="a", request_id="r"))


async def memories(tenant: Tenant) -> None:
    memory = memory_pb2.Memory(content="x", external_id="a")
    await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))


async def test_a_repeated_restore_does_not_restore_again(tenant: Tenant) -> None:
    await memories(tenant)
    await tenant.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id="a"))
    request = memory_pb2.UndeleteMemoryRequest(memory_id="a", request_id="r")
    first = await tenant.memory.UndeleteMemory(request)
    await tenant.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id="a"))

    again = await tenant.memory.UndeleteMemory(request)

    assert again == first
    with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND"):
        await tenant.memory.GetMemory(memory_pb2.GetMemoryRequest(memory_id="a"))


async def test_a_repeated_delete_does_not_delete_again(tenant: Tenant) -> None:
    await tenant.tenancy.CreateAgent(tenancy_pb2.CreateAgentRequest(agent=tenancy_pb2.Agent(agent_id="a")))
    request = tenancy_pb2.DeleteAgentRequest(agent_id="a", request_id="r")
    await tenant.tenancy.DeleteAgent(request)
    back = await tenant.tenancy.UndeleteAgent(tenancy_pb2.UndeleteAgentRequest(agent_id="a"))

    await tenant.tenancy.DeleteAgent(request)

    response = await tenant.tenancy.GetAgent(tenancy_pb2.GetAgentRequest(agent_id="a"))
    assert response.agent == back.agent


# The operator's


async def test_the_operator_deletes_tenants_and_organizations_once_for_each_request(cluster: Cluster) -> None:
    tenancy = cluster.operator.tenancy
    organizations = []
    for _ in range(2):
        organization = tenancy_pb2.Organization(display_name="Brief")
        made = await tenancy.CreateOrganization(tenancy_pb2.CreateOrganizationRequest(organization=organization))
        organizations.append(made.organization.organization_id)
    tenants = []
    for _ in range(2):
        tenant = tenancy_pb2.Tenant(display_name="Brief", organization_id=organizations[0])
        tenants.append((await tenancy.CreateTenant(tenancy_pb2.CreateTenantRequest(tenant=tenant))).tenant.tenant_id)
    name = f"r {uuid.uuid4()}"

    deletes = [tenancy_pb2.DeleteTenantRequest(tenant_id=each, request_id=name) for each in tenants]
    assert await tenancy.DeleteTenant(deletes[0]) == await tenancy.DeleteTenant(deletes[0])
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "REQUEST_ID_REUSED"):
        await tenancy.DeleteTenant(deletes[1])
    # The other tenant is there, so the organization is not deleted yet, and the id stays free.
    ends = [tenancy_pb2.DeleteOrganizationRequest(organization_id=each, request_id=name) for each in organizations]
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "ORGANIZATION_NOT_EMPTY"):
        await tenancy.DeleteOrganization(ends[0])
    await tenancy.DeleteTenant(tenancy_pb2.DeleteTenantRequest(tenant_id=tenants[1]))
    assert await tenancy.DeleteOrganization(ends[0]) == await tenancy.DeleteOrganization(ends[0])
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "REQUEST_ID_REUSED"):
        await tenancy.DeleteOrganization(ends[1])


async def test_a_repeated_rotation_makes_one_key_whatever_tenant_is_named(cluster: Cluster, tenant: Tenant) -> None:
    request = auth_pb2.RotateSigningKeyRequest(request_id=f"r {uuid.uuid4()}")
    acting = cluster.with_key(cluster.operator_key, **{"skein-tenant-id": str(tenant.tenant_id)})

    first = await cluster.operator.auth.RotateSigningKey(request)
    again = await acting.auth.RotateSigningKey(request)

    listed = await cluster.anonymous.auth.ListSigningKeys(auth_pb2.ListSigningKeysRequest())
    assert again == first
    assert listed.signing_keys[0].key_id == first.signing_key.key_id


async def test_answers_of_the_operator_are_let_go_of_after_a_day(cluster: Cluster) -> None:
    def register() -> recall_pb2.RegisterEmbeddingModelRequest:
        name = uuid.uuid4().hex
        model = recall_pb2.EmbeddingModel(model=name, provider="caller", dimensions=8)
        return recall_pb2.RegisterEmbeddingModelRequest(embedding_model=model, request_id=name)

    first, second = register(), register()
    await cluster.operator.recall.RegisterEmbeddingModel(first)
    async with cluster.superuser() as connection:
        await connection.execute(
            "UPDATE recall.requests SET create_time = now() - interval '25 hours' WHERE request_id = $1",
            first.request_id,
        )
        await cluster.operator.recall.RegisterEmbeddingModel(second)
        rows = await connection.fetch(
            "SELECT tenant_id, request_id FROM recall.requests WHERE request_id = ANY ($1)",
            [first.request_id, second.request_id],
        )

    assert [(row["tenant_id"], row["request_id"]) for row in rows] == [(NO_TENANT, second.request_id)]
