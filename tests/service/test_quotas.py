"""Quotas: what tenants and organizations may have, how it is counted, and that no crowd gets past a limit."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator

import grpc
import pytest
from fix_cluster import Cluster, Stubs, Tenant, refused
from google.protobuf.field_mask_pb2 import FieldMask
from grpc import aio

from skein.auth.v1 import auth_pb2, auth_pb2_grpc
from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import limits_pb2, subjects_pb2, tenancy_pb2, tenancy_pb2_grpc
from skein_kit.database.transactions import Database
from skein_kit.errors import QuotaExceeded
from skein_kit.quotas.store import QuotaCounter

Quota = limits_pb2.Quota


def operator_in(cluster: Cluster, tenant: Tenant) -> Stubs:
    return cluster.with_key(cluster.operator_key, **{"skein-tenant-id": str(tenant.tenant_id)})


async def limit(cluster: Cluster, tenant: Tenant, **limits: int) -> limits_pb2.Quota:
    quota = Quota(**limits)  # type: ignore[arg-type]  # Every limit is a number.
    request = limits_pb2.UpdateQuotaRequest(quota=quota, update_mask=FieldMask(paths=list(limits)))
    response = await operator_in(cluster, tenant).tenancy.UpdateQuota(request)
    return response.quota


async def usage(tenant: Stubs, organization_id: str = "") -> dict[str, int]:
    response = await tenant.tenancy.GetUsage(limits_pb2.GetUsageRequest(organization_id=organization_id))
    return {one.kind: one.used for one in response.usage}


@pytest.fixture
async def pool(cluster: Cluster) -> AsyncIterator[Database]:
    url = cluster.postgres.url(user="postgres", database="skein")
    async with Database.open(url, service="memory", size=8, timeout=30.0) as opened:
        yield opened


async def charge(pool: Database, quotas: QuotaCounter, tenant_id: uuid.UUID, amount: int) -> bool:
    try:
        async with pool.transaction(tenant_id) as tx:
            await quotas.charge(tx, tenant_id, {"memories": amount})
    except QuotaExceeded:
        return False
    return True


async def test_usage_follows_what_comes_and_goes(tenant: Tenant) -> None:
    created = await tenant.memory.BatchCreateMemories(
        memory_pb2.BatchCreateMemoriesRequest(memories=[memory_pb2.Memory(content=f"fact {n}") for n in range(5)])
    )
    ids_ = [memory.memory_id for memory in created.memories]
    link = memory_pb2.Link(from_memory_id=ids_[0], to_memory_id=ids_[1], relation="related_to")
    made = await tenant.links.CreateLink(memory_pb2.CreateLinkRequest(link=link))
    await tenant.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id=ids_[2]))
    await tenant.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id=ids_[3]))
    await tenant.memory.UndeleteMemory(memory_pb2.UndeleteMemoryRequest(memory_id=ids_[3]))
    messages = [session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=f"word {n}") for n in range(3)]
    for session_id in ("kept", "gone"):
        await tenant.sessions.AppendMessages(
            session_pb2.AppendMessagesRequest(session_id=session_id, messages=messages, create_session=True)
        )
    await tenant.sessions.DeleteSession(session_pb2.DeleteSessionRequest(session_id="gone"))
    listed = await tenant.sessions.ListMessages(session_pb2.ListMessagesRequest(session_id="kept"))
    await tenant.sessions.DeleteMessage(session_pb2.DeleteMessageRequest(message_id=listed.messages[0].message_id))
    await tenant.tenancy.CreateAgent(tenancy_pb2.CreateAgentRequest(agent=tenancy_pb2.Agent(display_name="a")))
    await tenant.tenancy.CreateSubject(
        subjects_pb2.CreateSubjectRequest(subject=subjects_pb2.Subject(display_name="s"))
    )

    assert await usage(tenant) == {
        "members": 0, "agents": 1, "subjects": 1, "tools": 0, "api_keys": 1, "sessions": 1, "messages": 2,
        "memories": 4, "links": 1, "blocks": 0, "snapshots": 0, "agent_states": 0, "session_items": 0, "webhooks": 0,
            "pages": 0,
    }  # fmt: skip
    await tenant.links.DeleteLink(memory_pb2.DeleteLinkRequest(link_id=made.link.link_id))
    assert (await usage(tenant))["links"] == 0


async def test_a_repeated_request_counts_once(tenant: Tenant) -> None:
    request = memory_pb2.CreateMemoryRequest(request_id="r", memory=memory_pb2.Memory(content="once"))

    for _ in range(3):
        await tenant.memory.CreateMemory(request)

    assert (await usage(tenant))["memories"] == 1


async def test_keys_count_until_they_are_over(tenant: Tenant) -> None:
    created = await tenant.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="second"))
    assert (await usage(tenant))["api_keys"] == 2

    for _ in range(2):
        await tenant.auth.RevokeApiKey(auth_pb2.RevokeApiKeyRequest(api_key_id=created.api_key.api_key_id))

    assert (await usage(tenant))["api_keys"] == 1


async def test_a_limit_refuses_what_is_more_and_names_itself(cluster: Cluster, tenant: Tenant) -> None:
    await limit(cluster, tenant, agents=1)
    await tenant.tenancy.CreateAgent(tenancy_pb2.CreateAgentRequest(agent=tenancy_pb2.Agent(agent_id="one")))

    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED"):
        await tenant.tenancy.CreateAgent(tenancy_pb2.CreateAgentRequest(agent=tenancy_pb2.Agent(agent_id="two")))

    await tenant.tenancy.DeleteAgent(tenancy_pb2.DeleteAgentRequest(agent_id="one"))
    await tenant.tenancy.CreateAgent(tenancy_pb2.CreateAgentRequest(agent=tenancy_pb2.Agent(agent_id="two")))
    assert (await usage(tenant))["agents"] == 1


async def test_no_crowd_gets_past_a_limit(cluster: Cluster, tenant: Tenant, pool: Database) -> None:
    """Two replicas, eight transactions at a time, each adding three."""
    await limit(cluster, tenant, memories=50)
    replicas = [QuotaCounter("memory") for _ in range(2)]

    result = await asyncio.gather(*(charge(pool, replicas[n % 2], tenant.tenant_id, 3) for n in range(60)))

    assert sum(result) == 16
    assert (await usage(tenant))["memories"] == 48


async def test_a_crowd_without_a_limit_is_counted_to_the_last(tenant: Tenant, pool: Database) -> None:
    quotas = QuotaCounter("memory")

    result = await asyncio.gather(*(charge(pool, quotas, tenant.tenant_id, 1) for _ in range(100)))

    assert all(result)
    assert (await usage(tenant))["memories"] == 100


async def test_what_was_counted_before_the_limit_counts(cluster: Cluster, tenant: Tenant, pool: Database) -> None:
    quotas = QuotaCounter("memory", clock=iter([0.0, *[10.0] * 9]).__next__)
    assert await charge(pool, quotas, tenant.tenant_id, 7)

    await limit(cluster, tenant, memories=8)

    assert await charge(pool, quotas, tenant.tenant_id, 1)
    assert not await charge(pool, quotas, tenant.tenant_id, 1)
    assert await charge(pool, quotas, tenant.tenant_id, -2)
    assert await charge(pool, quotas, tenant.tenant_id, 2)


async def test_nothing_is_counted_of_work_that_is_rolled_back(tenant: Tenant, pool: Database) -> None:
    async def fail() -> None:
        async with pool.transaction(tenant.tenant_id) as tx:
            await QuotaCounter("memory").charge(tx, tenant.tenant_id, {"memories": 5})
            raise LookupError

    with pytest.raises(LookupError):
        await fail()

    assert (await usage(tenant))["memories"] == 0


async def test_quotas_are_set_by_field_and_taken_away_again(cluster: Cluster, tenant: Tenant) -> None:
    first = await limit(cluster, tenant, memories=10, sessions=5)
    operator = operator_in(cluster, tenant)

    second = await operator.tenancy.UpdateQuota(
        limits_pb2.UpdateQuotaRequest(
            quota=Quota(memories=20, revision=first.revision), update_mask=FieldMask(paths=["memories", "sessions"])
        )
    )

    assert second.quota.memories == 20
    assert not second.quota.HasField("sessions")
    assert second.quota.revision == first.revision + 1
    read = await tenant.tenancy.GetQuota(limits_pb2.GetQuotaRequest())
    assert read.quota == second.quota
    with refused(grpc.StatusCode.ABORTED, "REVISION_STALE"):
        await operator.tenancy.UpdateQuota(
            limits_pb2.UpdateQuotaRequest(quota=Quota(memories=1, revision=first.revision))
        )


async def test_a_tenant_does_not_set_its_own_quota_and_sees_no_organization(cluster: Cluster, tenant: Tenant) -> None:
    read = await cluster.operator.tenancy.GetTenant(tenancy_pb2.GetTenantRequest(tenant_id=str(tenant.tenant_id)))
    organization_id = read.tenant.organization_id

    with refused(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING"):
        await tenant.tenancy.UpdateQuota(limits_pb2.UpdateQuotaRequest(quota=Quota(memories=1)))
    with refused(grpc.StatusCode.NOT_FOUND, "ORGANIZATION_NOT_FOUND"):
        await tenant.tenancy.GetQuota(limits_pb2.GetQuotaRequest(organization_id=organization_id))
    with refused(grpc.StatusCode.NOT_FOUND, "ORGANIZATION_NOT_FOUND"):
        await tenant.tenancy.GetUsage(limits_pb2.GetUsageRequest(organization_id=organization_id))
    with refused(grpc.StatusCode.NOT_FOUND, "ORGANIZATION_NOT_FOUND"):
        await cluster.operator.tenancy.GetQuota(limits_pb2.GetQuotaRequest(organization_id=str(uuid.uuid4())))
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "TENANT_MISSING"):
        await cluster.operator.tenancy.GetUsage(limits_pb2.GetUsageRequest())


async def collect(cluster: Cluster, *tenant_ids: str) -> None:
    """Do what the worker does every five minutes."""
    async with cluster.direct("auth") as auth, cluster.direct("tenancy") as tenancy:
        for tenant_id in tenant_ids:
            credential = auth_pb2.SystemCredential(key=cluster.environment["SKEIN_SYSTEM_KEY"], service="worker")
            exchanged = await auth_pb2_grpc.AuthInternalServiceStub(auth).Exchange(
                auth_pb2.ExchangeRequest(system=credential, tenant_id=tenant_id)
            )
            await tenancy_pb2_grpc.TenancyInternalServiceStub(tenancy).CollectUsage(
                limits_pb2.CollectUsageRequest(), metadata=aio.Metadata(("authorization", f"Bearer {exchanged.token}"))
            )


async def test_an_organizations_limit_binds_its_tenants_together(cluster: Cluster) -> None:
    operator = cluster.operator.tenancy
    slug = f"o-{uuid.uuid4().hex[:12]}"
    organization = await operator.CreateOrganization(
        tenancy_pb2.CreateOrganizationRequest(organization=tenancy_pb2.Organization(display_name=slug, slug=slug))
    )
    organization_id = organization.organization.organization_id

    async def new_tenant() -> Stubs:
        tenant = tenancy_pb2.Tenant(display_name="t", organization_id=organization_id)
        made = await operator.CreateTenant(tenancy_pb2.CreateTenantRequest(tenant=tenant))
        tenant_ids.append(made.tenant.tenant_id)
        return cluster.with_key(cluster.operator_key, **{"skein-tenant-id": made.tenant.tenant_id})

    async def add_agents(tenant: Stubs, count: int) -> None:
        for _ in range(count):
            await tenant.tenancy.CreateAgent(tenancy_pb2.CreateAgentRequest(agent=tenancy_pb2.Agent(display_name="a")))

    tenant_ids: list[str] = []
    one = await new_tenant()
    await add_agents(one, 2)
    await collect(cluster, *tenant_ids)
    request = limits_pb2.UpdateQuotaRequest(organization_id=organization_id, quota=Quota(agents=3, tenants=2))
    await operator.UpdateQuota(request)

    other = await new_tenant()
    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED"):
        await new_tenant()
    await add_agents(other, 1)
    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED"):
        await add_agents(other, 1)
    await collect(cluster, *tenant_ids)

    assert {kind: used for kind, used in (await usage(cluster.operator, organization_id)).items() if used} == {
        "tenants": 2,
        "agents": 3,
    }
