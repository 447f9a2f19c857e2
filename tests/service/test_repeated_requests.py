"""What is deleted, ended, restored or revoked twice under one request_id happens once and is answered the same."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from fix_catalogue import over
from fix_cluster import Cluster, Tenant, refused
from fix_matrix import GUARDED, METHODS, Channels, call, credential_for, outcome
from fix_recipes import RECIPES, request_for
from fix_world import World

from skein.auth.v1 import auth_pb2
from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2
from skein.tenancy.v1 import tenancy_pb2
from skein_kit.database.transactions import NO_TENANT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from google.protobuf.message import Message

# RPCs that may be repeated under a request_id; the request of each is that of the matrix.
REPEATABLE = [path for path in GUARDED if "request_id" in METHODS[path].input_type.fields_by_name]
SHOWN_ONCE = {"secret", "token"}


@pytest.fixture
async def channels(cluster: Cluster) -> AsyncIterator[Channels]:
    made = Channels(cluster)
    yield made
    for channel in made.opened.values():
        await channel.close()


def _differing(message: Any) -> bool:
    """Change one text, id or number of a request; False where it has none but its request_id."""
    for field, value in message.ListFields():
        if field.name in {"request_id", "update_mask"}:
            continue
        if field.message_type is not None:
            inner = value if not isinstance(value, Sequence) else value[0]
            if not isinstance(inner, Mapping) and _differing(inner):
                return True
        elif isinstance(value, str):
            setattr(message, field.name, str(uuid.uuid4()))
            return True
        elif isinstance(value, int | float) and not isinstance(value, bool) and field.enum_type is None:
            setattr(message, field.name, value + 1)
            return True
    return False


def _without_secrets(message: Any) -> Message:
    """Return an answer without what is shown to the first request alone."""
    result: Message = type(message)()
    result.CopyFrom(message)
    for name in SHOWN_ONCE & set(result.DESCRIPTOR.fields_by_name):
        result.ClearField(name)
    return result


@pytest.mark.timeout(300)
@over("path", REPEATABLE, at_once=4)
async def test_a_request_that_is_repeated_has_one_effect_and_the_first_answer(
    cluster: Cluster, channels: Channels, path: str
) -> None:
    world = await World.new(cluster)
    request: Any = await request_for(path, world)
    request.request_id = f"r {uuid.uuid4()}"
    credential, metadata = await credential_for(path, world)
    code, reason, first = await outcome(call(channels.of(path), path, request, credential, **metadata))
    assert reason == RECIPES[path].own, (code, reason)
    if reason:
        return

    again_code, again_reason, again = await outcome(call(channels.of(path), path, request, credential, **metadata))

    assert again_code is grpc.StatusCode.OK, again_reason
    assert _without_secrets(again) == _without_secrets(first)
    if _differing(request):
        code, reason, _ = await outcome(call(channels.of(path), path, request, credential, **metadata))
        assert (code, reason) == (grpc.StatusCode.INVALID_ARGUMENT, "REQUEST_ID_REUSED")


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
