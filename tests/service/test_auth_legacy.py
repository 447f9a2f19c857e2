from __future__ import annotations

import asyncio
import secrets

import grpc
import httpx
import pytest
from fix_cluster import Cluster, Stubs, Tenant, refused
from fix_http import TLS
from grpc import aio

from skein.auth.v1 import accounts_pb2 as pb
from skein.auth.v1 import auth_pb2
from skein.memory.v1 import memory_pb2
from skein_kit.identity.permissions import ROLE_PERMISSIONS


def acting(cluster: Cluster, tenant: Tenant) -> Stubs:
    """Call as the operator in the tenant."""
    return cluster.with_key(cluster.operator_key, **{"skein-tenant-id": str(tenant.tenant_id)})


async def set_legacy_token(cluster: Cluster, tenant: Tenant) -> str:
    """Give the tenant a legacy token."""
    token = secrets.token_urlsafe(32)
    await acting(cluster, tenant).auth.SetLegacyToken(pb.SetLegacyTokenRequest(token=token))
    return token


async def until_refused(cluster: Cluster, token: str) -> None:
    async with asyncio.timeout(30):
        while True:
            await asyncio.sleep(0.05)
            try:
                await cluster.with_key(token).auth.GetMe(auth_pb2.GetMeRequest())
            except aio.AioRpcError as error:
                assert error.code() is grpc.StatusCode.UNAUTHENTICATED  # noqa: PT017 - the loop ends with it.
                return


async def test_a_bearer_of_the_legacy_token_acts_as_a_member_of_its_tenant(cluster: Cluster, tenant: Tenant) -> None:
    calls = cluster.with_key(await set_legacy_token(cluster, tenant))

    me = await calls.auth.GetMe(auth_pb2.GetMeRequest())
    await calls.memory.ListMemories(memory_pb2.ListMemoriesRequest())

    assert me == auth_pb2.GetMeResponse(
        principal="legacy:bearer", tenant_id=str(tenant.tenant_id), permissions=sorted(ROLE_PERMISSIONS["member"])
    )
    with refused(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING"):
        await calls.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="x"))


async def test_it_may_name_its_own_tenant_and_stores_there(cluster: Cluster, tenant: Tenant) -> None:
    token = await set_legacy_token(cluster, tenant)
    memory = memory_pb2.Memory(content="by the shared token")
    named = cluster.with_key(token, **{"skein-tenant-id": str(tenant.tenant_id)})

    stored = (await named.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))).memory
    async with httpx.AsyncClient(trust_env=False, verify=TLS, timeout=60) as client:
        answer = await client.post(
            f"http://{cluster.addresses['http']}/skein.memory.v1.MemoryService/GetMemory",
            json={"memoryId": stored.memory_id},
            headers={"authorization": f"Bearer {token}", "skein-tenant-id": str(tenant.tenant_id)},
        )

    assert stored.created_by == "legacy:bearer"
    assert answer.json()["memory"]["content"] == "by the shared token"
    own = await tenant.memory.GetMemory(memory_pb2.GetMemoryRequest(memory_id=stored.memory_id))
    assert own.memory.content == "by the shared token"


async def test_it_acts_in_no_other_tenant(cluster: Cluster, tenant: Tenant, other_tenant: Tenant) -> None:
    token = await set_legacy_token(cluster, tenant)

    with refused(grpc.StatusCode.UNAUTHENTICATED, "CREDENTIAL_INVALID"):
        await cluster.with_key(token, **{"skein-tenant-id": str(other_tenant.tenant_id)}).auth.GetMe(
            auth_pb2.GetMeRequest()
        )


@pytest.mark.system
async def test_a_new_one_takes_the_place_of_the_old(cluster: Cluster, tenant: Tenant) -> None:
    old = await set_legacy_token(cluster, tenant)
    await cluster.with_key(old).auth.GetMe(auth_pb2.GetMeRequest())

    new = await set_legacy_token(cluster, tenant)

    await until_refused(cluster, old)
    assert (await cluster.with_key(new).auth.GetMe(auth_pb2.GetMeRequest())).principal == "legacy:bearer"


async def test_an_empty_one_ends_it(cluster: Cluster, tenant: Tenant) -> None:
    token = await set_legacy_token(cluster, tenant)

    await acting(cluster, tenant).auth.SetLegacyToken(pb.SetLegacyTokenRequest())

    await until_refused(cluster, token)


async def test_one_token_is_not_two_tenants(cluster: Cluster, tenant: Tenant, other_tenant: Tenant) -> None:
    token = await set_legacy_token(cluster, tenant)

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await acting(cluster, other_tenant).auth.SetLegacyToken(pb.SetLegacyTokenRequest(token=token))


@pytest.mark.parametrize("token", ["too short", "skein_" + 40 * "x", "a.b." + 40 * "c"])
async def test_a_token_that_is_short_or_looks_like_ours_is_refused(
    cluster: Cluster, tenant: Tenant, token: str
) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await acting(cluster, tenant).auth.SetLegacyToken(pb.SetLegacyTokenRequest(token=token))


async def test_introspection_knows_the_own_tenants_token(
    cluster: Cluster, tenant: Tenant, other_tenant: Tenant
) -> None:
    request = auth_pb2.IntrospectRequest(credential=await set_legacy_token(cluster, tenant))

    assert (await tenant.auth.Introspect(request)).principal == "legacy:bearer"
    assert not (await other_tenant.auth.Introspect(request)).active


async def test_setting_it_is_an_event_without_the_token(cluster: Cluster, tenant: Tenant) -> None:
    token = await set_legacy_token(cluster, tenant)

    listed = (await tenant.auth.ListAuditEvents(pb.ListAuditEventsRequest(page_size=1))).audit_events

    assert listed[0].event == "legacy_token_set"
    assert listed[0].principal.startswith("operator:")
    assert token not in str(listed)


async def test_one_of_tokens_that_are_set_at_once_remains(cluster: Cluster, tenant: Tenant) -> None:
    tokens = [secrets.token_urlsafe(32) for _ in range(8)]
    operator = acting(cluster, tenant).auth

    await asyncio.gather(*(operator.SetLegacyToken(pb.SetLegacyTokenRequest(token=token)) for token in tokens))

    taken = []
    for token in tokens:
        try:
            await cluster.with_key(token).auth.GetMe(auth_pb2.GetMeRequest())
            taken.append(token)
        except aio.AioRpcError as error:
            assert error.code() is grpc.StatusCode.UNAUTHENTICATED  # noqa: PT017 - each but one ends so.
    assert len(taken) == 1
