"""What is deleted, ended, restored or revoked twice under one request_id happens once and is answered the same."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from fix_cluster import Cluster, Tenant, refused
from google.protobuf.message import Message

from skein.auth.v1 import auth_pb2
from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import tenancy_pb2
from skein_kit.database.transactions import NO_TENANT

MISSING_ID = str(uuid.UUID(int=7))


@dataclass(frozen=True, kw_only=True)
class Case:
    """One change of a tenant's data."""

    # Makes two things that can be changed so, and returns what they are called.
    make: Callable[[Tenant], Awaitable[tuple[str, str]]]
    # The request, but for its request_id, that changes the thing called so.
    request: Callable[[str], Any]
    call: Callable[[Tenant], Callable[[Any], Awaitable[Message]]]
    # Takes the thing away altogether, so that a second change would be refused or answered otherwise; None where the
    # change does.
    undo: Callable[[Tenant, str], Awaitable[object]] | None = None
    # The reason why a thing that is not there is not changed.
    missing: str
    # A name of nothing.
    nothing: str = MISSING_ID


async def sessions(tenant: Tenant) -> tuple[str, str]:
    for name in ("a", "b"):
        session = session_pb2.Session(session_id=name)
        await tenant.sessions.CreateSession(session_pb2.CreateSessionRequest(session=session))
        message = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="hello", external_id=f"{name} hello")
        await tenant.sessions.AppendMessages(session_pb2.AppendMessagesRequest(session_id=name, messages=[message]))
    return "a", "b"


async def messages(tenant: Tenant) -> tuple[str, str]:
    await sessions(tenant)
    return "a hello", "b hello"


async def agents(tenant: Tenant) -> tuple[str, str]:
    for name in ("a", "b"):
        agent = tenancy_pb2.Agent(agent_id=name)
        await tenant.tenancy.CreateAgent(tenancy_pb2.CreateAgentRequest(agent=agent))
    return "a", "b"


async def memories(tenant: Tenant) -> tuple[str, str]:
    for name in ("a", "b"):
        memory = memory_pb2.Memory(content="x", external_id=name)
        await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))
    return "a", "b"


async def deleted_memories(tenant: Tenant) -> tuple[str, str]:
    names = await memories(tenant)
    for name in names:
        await tenant.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id=name))
    return names


async def links(tenant: Tenant) -> tuple[str, str]:
    await memories(tenant)
    made = []
    for ends in (("a", "b"), ("b", "a")):
        link = memory_pb2.Link(from_memory_id=ends[0], to_memory_id=ends[1])
        made.append((await tenant.links.CreateLink(memory_pb2.CreateLinkRequest(link=link))).link.link_id)
    return made[0], made[1]


async def api_keys(tenant: Tenant) -> tuple[str, str]:
    request = auth_pb2.CreateApiKeyRequest(display_name="x")
    one, two = [(await tenant.auth.CreateApiKey(request)).api_key.api_key_id for _ in range(2)]
    return one, two


CASES = {
    "EndSession": Case(
        make=sessions,
        request=lambda name: session_pb2.EndSessionRequest(session_id=name),
        call=lambda tenant: tenant.sessions.EndSession,
        undo=lambda tenant, name: tenant.sessions.DeleteSession(session_pb2.DeleteSessionRequest(session_id=name)),
        missing="SESSION_NOT_FOUND",
    ),
    "DeleteSession": Case(
        make=sessions,
        request=lambda name: session_pb2.DeleteSessionRequest(session_id=name),
        call=lambda tenant: tenant.sessions.DeleteSession,
        missing="SESSION_NOT_FOUND",
    ),
    "DeleteMessage": Case(
        make=messages,
        request=lambda name: session_pb2.DeleteMessageRequest(message_id=name),
        call=lambda tenant: tenant.sessions.DeleteMessage,
        missing="MESSAGE_NOT_FOUND",
    ),
    "DeleteAgent": Case(
        make=agents,
        request=lambda name: tenancy_pb2.DeleteAgentRequest(agent_id=name),
        call=lambda tenant: tenant.tenancy.DeleteAgent,
        missing="AGENT_NOT_FOUND",
    ),
    "UndeleteAgent": Case(
        make=agents,
        request=lambda name: tenancy_pb2.UndeleteAgentRequest(agent_id=name),
        call=lambda tenant: tenant.tenancy.UndeleteAgent,
        undo=lambda tenant, name: tenant.tenancy.DeleteAgent(tenancy_pb2.DeleteAgentRequest(agent_id=name)),
        missing="AGENT_NOT_FOUND",
    ),
    "PurgeAgent": Case(
        make=agents,
        request=lambda name: tenancy_pb2.PurgeAgentRequest(agent_id=name),
        call=lambda tenant: tenant.tenancy.PurgeAgent,
        missing="AGENT_NOT_FOUND",
    ),
    "DeleteMemory": Case(
        make=memories,
        request=lambda name: memory_pb2.DeleteMemoryRequest(memory_id=name),
        call=lambda tenant: tenant.memory.DeleteMemory,
        missing="MEMORY_NOT_FOUND",
    ),
    "UndeleteMemory": Case(
        make=deleted_memories,
        request=lambda name: memory_pb2.UndeleteMemoryRequest(memory_id=name),
        call=lambda tenant: tenant.memory.UndeleteMemory,
        undo=lambda tenant, name: tenant.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id=name)),
        missing="MEMORY_NOT_FOUND",
    ),
    "DeleteLink": Case(
        make=links,
        request=lambda name: memory_pb2.DeleteLinkRequest(link_id=name),
        call=lambda tenant: tenant.links.DeleteLink,
        missing="LINK_NOT_FOUND",
    ),
    "RevokeApiKey": Case(
        make=api_keys,
        request=lambda name: auth_pb2.RevokeApiKeyRequest(api_key_id=name),
        call=lambda tenant: tenant.auth.RevokeApiKey,
        missing="API_KEY_NOT_FOUND",
    ),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


def once(request: Any) -> Any:
    request.request_id = "r"
    return request


async def test_a_repeated_request_gets_the_first_answer(tenant: Tenant, case: Case) -> None:
    one, _ = await case.make(tenant)
    call = case.call(tenant)

    first = await call(once(case.request(one)))
    if case.undo is not None:
        await case.undo(tenant, one)
    again = await call(once(case.request(one)))

    assert again == first


async def test_a_request_id_of_another_request_changes_nothing(tenant: Tenant, case: Case) -> None:
    one, other = await case.make(tenant)
    call = case.call(tenant)
    await call(once(case.request(one)))

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "REQUEST_ID_REUSED"):
        await call(once(case.request(other)))

    assert await call(case.request(other)) is not None


async def test_a_refused_request_leaves_its_id_free(tenant: Tenant, case: Case) -> None:
    call = case.call(tenant)
    with refused(grpc.StatusCode.NOT_FOUND, case.missing):
        await call(once(case.request(case.nothing)))
    one, _ = await case.make(tenant)

    assert await call(once(case.request(one))) is not None


async def test_a_request_id_of_one_tenant_does_not_count_for_another(
    tenant: Tenant, other_tenant: Tenant, case: Case
) -> None:
    for owner in (tenant, other_tenant):
        one, _ = await case.make(owner)

        assert await case.call(owner)(once(case.request(one))) is not None


async def test_a_repeated_restore_does_not_restore_again(tenant: Tenant) -> None:
    await deleted_memories(tenant)
    request = memory_pb2.UndeleteMemoryRequest(memory_id="a", request_id="r")
    first = await tenant.memory.UndeleteMemory(request)
    await tenant.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id="a"))

    again = await tenant.memory.UndeleteMemory(request)

    assert again == first
    with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND"):
        await tenant.memory.GetMemory(memory_pb2.GetMemoryRequest(memory_id="a"))


async def test_a_repeated_delete_does_not_delete_again(tenant: Tenant) -> None:
    await agents(tenant)
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
