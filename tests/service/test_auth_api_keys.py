from __future__ import annotations

import asyncio
import base64
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import asyncpg
import grpc
import pytest
from fix_cluster import Cluster, Stubs, Tenant, refused
from google.protobuf.timestamp_pb2 import Timestamp
from grpc import aio

from skein.auth.v1 import accounts_pb2
from skein.auth.v1 import auth_pb2 as pb
from skein.auth.v1 import auth_pb2_grpc as rpc
from skein.gateway.v1 import gateway_pb2
from skein.tenancy.v1 import tenancy_pb2
from skein_auth.api_keys.model import ApiKeyToken
from skein_kit.database.connection_settings import connect_arguments
from skein_kit.database.transactions import NO_TENANT
from skein_kit.identity.permissions import AGENT_PERMISSIONS, OPERATOR_PERMISSIONS, TENANT_PERMISSIONS


def later(**delta: float) -> Timestamp:
    result = Timestamp()
    result.FromDatetime(datetime.now(UTC) + timedelta(**delta))
    return result


def key_for(*permissions: str, agent_id: str = "", request_id: str = "") -> pb.CreateApiKeyRequest:
    return pb.CreateApiKeyRequest(
        display_name="test key", permissions=permissions, agent_id=agent_id, request_id=request_id
    )


@pytest.fixture
async def database(cluster: Cluster) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A superuser's connection, to see and to age what no RPC shows or ages."""
    async with cluster.superuser() as connection:
        yield connection


# Who am I


async def test_a_tenants_key_says_whose_it_is(cluster: Cluster, tenant: Tenant) -> None:
    made = await tenant.auth.CreateApiKey(key_for("memory.read", "tenant.read", agent_id="voice"))

    me = await cluster.with_key(made.secret).auth.GetMe(pb.GetMeRequest())

    assert me == pb.GetMeResponse(
        principal=f"api_key:{made.api_key.api_key_id}",
        tenant_id=str(tenant.tenant_id),
        permissions=["memory.read", "tenant.read"],
        agent_id="voice",
    )


async def test_an_operators_key_belongs_to_no_tenant_until_it_names_one(cluster: Cluster, tenant: Tenant) -> None:
    acting = cluster.with_key(cluster.operator_key, **{"skein-tenant-id": str(tenant.tenant_id)})

    nowhere = await cluster.operator.auth.GetMe(pb.GetMeRequest())
    inside = await acting.auth.GetMe(pb.GetMeRequest())

    assert nowhere.principal.startswith("operator:")
    assert (nowhere.tenant_id, inside.tenant_id) == ("", str(tenant.tenant_id))
    assert set(nowhere.permissions) == OPERATOR_PERMISSIONS


# Making keys


async def test_a_new_key_works_at_once_and_carries_what_was_asked(cluster: Cluster, tenant: Tenant) -> None:
    expires = later(hours=1)
    request = key_for("keys.read", agent_id="voice")
    request.expire_time.CopyFrom(expires)

    made = await tenant.auth.CreateApiKey(request)
    listed = await cluster.with_key(made.secret).auth.ListApiKeys(pb.ListApiKeysRequest())

    assert made.secret.startswith("skein_")
    assert list(made.api_key.permissions) == ["keys.read"]
    assert (made.api_key.display_name, made.api_key.agent_id) == ("test key", "voice")
    assert abs(made.api_key.expire_time.ToNanoseconds() - expires.ToNanoseconds()) < 1000
    assert made.api_key.created_by.startswith("api_key:")
    assert not made.api_key.HasField("revoke_time")
    assert made.api_key == listed.api_keys[0]


@pytest.mark.parametrize("door", ["key", "service account"])
async def test_a_key_made_for_an_agent_remembers_and_recalls_and_no_more(
    cluster: Cluster, tenant: Tenant, door: str
) -> None:
    request = pb.CreateApiKeyRequest(display_name="k", agent_id="kitchen")
    if door == "service account":
        account = accounts_pb2.ServiceAccount(display_name="k", agent_id="kitchen")
        made = await tenant.auth.CreateServiceAccount(accounts_pb2.CreateServiceAccountRequest(service_account=account))
        service_account_id = made.service_account.service_account_id
        request = pb.CreateApiKeyRequest(display_name="k", service_account_id=service_account_id)
    key = await tenant.auth.CreateApiKey(request)
    agent = cluster.with_key(key.secret)

    await agent.gateway.Remember(gateway_pb2.RememberRequest(memories=[{"content": "tea"}]))
    await agent.gateway.Recall(gateway_pb2.RecallRequest(query="tea"))

    assert set(key.api_key.permissions) == AGENT_PERMISSIONS
    with refused(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING"):
        await agent.auth.CreateApiKey(pb.CreateApiKeyRequest(display_name="more"))


async def test_a_key_of_the_operator_for_a_tenant_is_the_tenants(tenant: Tenant) -> None:
    me = await tenant.auth.GetMe(pb.GetMeRequest())

    assert set(me.permissions) == TENANT_PERMISSIONS
    assert me.principal.startswith("api_key:")


@pytest.mark.parametrize("permission", ["operator", "system", "everything"])
async def test_a_permission_that_no_tenants_key_can_carry_is_refused(tenant: Tenant, permission: str) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await tenant.auth.CreateApiKey(key_for(permission))


async def test_a_key_that_has_ended_already_is_refused(tenant: Tenant) -> None:
    request = key_for()
    request.expire_time.CopyFrom(later(seconds=-1))

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await tenant.auth.CreateApiKey(request)


@pytest.mark.system
async def test_a_repeated_request_is_answered_although_its_key_has_expired(tenant: Tenant) -> None:
    request = key_for(request_id="r")
    # Later than a machine stands still: a key that has ended already is refused.
    request.expire_time.CopyFrom(later(seconds=4))
    first = await tenant.auth.CreateApiKey(request)
    first.secret = ""

    while later().ToNanoseconds() <= request.expire_time.ToNanoseconds():
        assert await tenant.auth.CreateApiKey(request) == first
    again = await tenant.auth.CreateApiKey(request)

    assert again == first


@pytest.mark.parametrize("lifetime", [None, 2.0, 0.5], ids=["no end", "a later end", "an earlier end"])
async def test_no_key_outlives_its_creator(cluster: Cluster, tenant: Tenant, lifetime: float | None) -> None:
    request = key_for("keys.write")
    request.expire_time.CopyFrom(later(hours=1))
    creator = await tenant.auth.CreateApiKey(request)
    request = key_for()
    if lifetime is not None:
        request.expire_time.CopyFrom(later(hours=lifetime))

    child = await cluster.with_key(creator.secret).auth.CreateApiKey(request)

    ends = creator.api_key.expire_time if lifetime is None or lifetime > 1 else request.expire_time
    assert abs(child.api_key.expire_time.ToNanoseconds() - ends.ToNanoseconds()) < 1000


async def test_no_key_outlives_the_operator_s_that_made_it(
    cluster: Cluster, tenant: Tenant, database: asyncpg.Connection[asyncpg.Record]
) -> None:
    key, ends = ApiKeyToken.new(NO_TENANT, uuid.uuid4()), datetime.now(UTC) + timedelta(hours=1)
    await database.execute(
        "INSERT INTO auth.operator_keys VALUES ($1, 'x', $2, now(), $3)", key.key_id, key.secret_hash(), ends
    )
    acting = cluster.with_key(key.encode(), **{"skein-tenant-id": str(tenant.tenant_id)})

    made = await acting.auth.CreateApiKey(key_for())

    assert made.api_key.expire_time.ToDatetime(UTC) == ends


async def test_a_key_needs_a_name(tenant: Tenant) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await tenant.auth.CreateApiKey(pb.CreateApiKeyRequest())


async def test_an_operator_who_names_no_tenant_makes_no_key(cluster: Cluster) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "TENANT_MISSING"):
        await cluster.operator.auth.CreateApiKey(key_for())


async def test_the_database_never_holds_a_secret(tenant: Tenant, database: asyncpg.Connection[asyncpg.Record]) -> None:
    made = await tenant.auth.CreateApiKey(key_for(request_id="r"))
    encoded = made.secret.removeprefix("skein_")
    secret = base64.b32decode(encoded.upper())[32:64]

    rows = await database.fetch("SELECT k::text AS kept FROM auth.api_keys k WHERE tenant_id = $1", tenant.tenant_id)
    answers = await database.fetch("SELECT response FROM auth.requests WHERE tenant_id = $1", tenant.tenant_id)

    assert rows
    assert answers
    assert not any(secret.hex() in row["kept"] or encoded in row["kept"] for row in rows)
    assert not any(secret in row["response"] or encoded.encode() in row["response"] for row in answers)


# Listing and revoking


async def test_keys_are_paged_newest_first_with_revoked_ones(tenant: Tenant) -> None:
    made = [(await tenant.auth.CreateApiKey(key_for())).api_key.api_key_id for _ in range(4)]
    await tenant.auth.RevokeApiKey(pb.RevokeApiKeyRequest(api_key_id=made[1]))

    seen: list[pb.ApiKey] = []
    request = pb.ListApiKeysRequest(page_size=2)
    while True:
        page = await tenant.auth.ListApiKeys(request)
        seen += page.api_keys
        if not page.next_page_token:
            break
        request.page_token = page.next_page_token

    assert [key.api_key_id for key in seen[:4]] == sorted(made, reverse=True)
    assert len(seen) == 5
    assert [key.api_key_id for key in seen if key.HasField("revoke_time")] == [made[1]]


async def test_revoking_again_changes_nothing(tenant: Tenant) -> None:
    made = await tenant.auth.CreateApiKey(key_for())
    request = pb.RevokeApiKeyRequest(api_key_id=made.api_key.api_key_id)

    first = await tenant.auth.RevokeApiKey(request)
    again = await tenant.auth.RevokeApiKey(request)

    assert again == first
    assert first.api_key.HasField("revoke_time")


async def test_an_unknown_key_is_not_revoked(tenant: Tenant) -> None:
    with refused(grpc.StatusCode.NOT_FOUND, "API_KEY_NOT_FOUND"):
        await tenant.auth.RevokeApiKey(pb.RevokeApiKeyRequest(api_key_id=str(uuid.UUID(int=7))))


@pytest.mark.system
async def test_a_revoked_key_is_refused_soon_everywhere(cluster: Cluster, tenant: Tenant) -> None:
    made = await tenant.auth.CreateApiKey(key_for())
    revoked = cluster.with_key(made.secret)
    await revoked.auth.GetMe(pb.GetMeRequest())

    await tenant.auth.RevokeApiKey(pb.RevokeApiKeyRequest(api_key_id=made.api_key.api_key_id))

    async with asyncio.timeout(30):
        while True:
            await asyncio.sleep(0.05)
            try:
                await revoked.auth.GetMe(pb.GetMeRequest())
            except aio.AioRpcError as error:
                assert error.code() is grpc.StatusCode.UNAUTHENTICATED  # noqa: PT017 - the loop ends with it.
                break


# Introspection


async def test_introspection_says_what_a_key_of_the_own_tenant_allows(tenant: Tenant) -> None:
    request = key_for("memory.read")
    request.expire_time.CopyFrom(later(hours=1))
    made = await tenant.auth.CreateApiKey(request)

    response = await tenant.auth.Introspect(pb.IntrospectRequest(credential=made.secret))

    assert response == pb.IntrospectResponse(
        active=True,
        principal=f"api_key:{made.api_key.api_key_id}",
        tenant_id=str(tenant.tenant_id),
        permissions=["memory.read"],
        expire_time=made.api_key.expire_time,
    )


async def test_introspection_of_anybody_elses_credential_says_nothing(
    cluster: Cluster, tenant: Tenant, other_tenant: Tenant
) -> None:
    for credential in (other_tenant.api_key, cluster.operator_key, "skein_nonsense", "x"):
        response = await tenant.auth.Introspect(pb.IntrospectRequest(credential=credential))

        assert response == pb.IntrospectResponse(active=False)


async def test_introspection_of_a_key_that_has_ended_says_nothing(
    tenant: Tenant, database: asyncpg.Connection[asyncpg.Record]
) -> None:
    revoked, expired = [await tenant.auth.CreateApiKey(key_for()) for _ in range(2)]
    await tenant.auth.RevokeApiKey(pb.RevokeApiKeyRequest(api_key_id=revoked.api_key.api_key_id))
    await database.execute(
        "UPDATE auth.api_keys SET expire_time = now() WHERE api_key_id = $1", uuid.UUID(expired.api_key.api_key_id)
    )

    for made in (revoked, expired):
        response = await tenant.auth.Introspect(pb.IntrospectRequest(credential=made.secret))

        assert response == pb.IntrospectResponse(active=False)


@pytest.mark.system
async def test_introspection_of_a_deleted_tenant_s_key_says_nothing(cluster: Cluster) -> None:
    tenant = await cluster.new_tenant()
    async with cluster.direct("auth") as channel:
        # A token outlives its tenant for a moment.
        token = (await rpc.AuthInternalServiceStub(channel).Exchange(pb.ExchangeRequest(bearer=tenant.api_key))).token
        inside = Stubs.of(channel, token)
        request = pb.IntrospectRequest(credential=tenant.api_key)
        assert (await inside.auth.Introspect(request)).active

        await cluster.operator.tenancy.DeleteTenant(tenancy_pb2.DeleteTenantRequest(tenant_id=str(tenant.tenant_id)))

        async with asyncio.timeout(30):
            while (response := await inside.auth.Introspect(request)).active:
                await asyncio.sleep(0.05)
    assert response == pb.IntrospectResponse(active=False)


# Row-level security


@pytest.mark.parametrize("table", ["api_keys", "requests"])
async def test_sql_without_a_tenant_sees_no_rows(cluster: Cluster, tenant: Tenant, table: str) -> None:
    await tenant.auth.CreateApiKey(key_for(request_id="r"))
    url = cluster.postgres.url(user="postgres", database="skein")
    connection = await asyncpg.connect(**connect_arguments(url, "skein_auth"))
    try:
        count = await connection.fetchval(f"SELECT count(*) FROM auth.{table}")  # noqa: S608 - names of ours.
    finally:
        await connection.close()

    assert count == 0
