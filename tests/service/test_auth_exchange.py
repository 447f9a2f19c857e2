from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import asyncpg
import grpc
import pytest
from fix_cluster import SYSTEM_KEY, Cluster, Stubs, Tenant, refused
from google.protobuf.timestamp_pb2 import Timestamp
from grpc import aio
from joserfc import jws

from skein.auth.v1 import auth_pb2 as pb
from skein.auth.v1 import auth_pb2_grpc as rpc
from skein.tenancy.v1 import tenancy_pb2, tenancy_pb2_grpc
from skein_auth.api_keys.model import ApiKeyToken
from skein_kit.database.transactions import NO_TENANT
from skein_kit.identity.identity_token import Caller, IdentityTokenVerifier
from skein_kit.identity.permissions import SYSTEM_PERMISSIONS

MISSING_ID = str(uuid.UUID(int=7))


@pytest.fixture
async def channel(cluster: Cluster) -> AsyncIterator[aio.Channel]:
    """A channel to auth itself: the gateway does not offer what is tested here."""
    async with cluster.direct("auth") as channel:
        yield channel


@pytest.fixture
def identity(channel: aio.Channel) -> rpc.AuthInternalServiceAsyncStub:
    return rpc.AuthInternalServiceStub(channel)


@pytest.fixture
async def database(cluster: Cluster) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A superuser's connection, to see and to age what no RPC shows or ages."""
    async with cluster.superuser() as connection:
        yield connection


def system(tenant_id: str = "", key: str = SYSTEM_KEY) -> pb.ExchangeRequest:
    return pb.ExchangeRequest(system=pb.SystemCredential(key=key, service="worker"), tenant_id=tenant_id)


async def verified(channel: aio.Channel, token: str) -> Caller:
    """Verify a token like every service does."""

    async def fetch() -> dict[str, str]:
        answer = await rpc.AuthServiceStub(channel).ListSigningKeys(pb.ListSigningKeysRequest())
        return {key.key_id: key.jwk for key in answer.signing_keys}

    return await IdentityTokenVerifier(fetch).verify(token)


async def test_a_tenants_key_becomes_a_signed_identity_of_a_minute(
    channel: aio.Channel, identity: rpc.AuthInternalServiceAsyncStub, tenant: Tenant
) -> None:
    made = await tenant.auth.CreateApiKey(
        pb.CreateApiKeyRequest(display_name="x", permissions=["memory.read"], agent_id="voice")
    )

    before = datetime.now(UTC).timestamp()
    answer = await identity.Exchange(pb.ExchangeRequest(bearer=made.secret))
    after = datetime.now(UTC).timestamp()

    assert await verified(channel, answer.token) == Caller(
        principal=f"api_key:{made.api_key.api_key_id}",
        tenant_id=tenant.tenant_id,
        permissions=frozenset({"memory.read"}),
        agent_id="voice",
    )
    assert before + 55 <= answer.expire_time.seconds <= after + 60


async def test_a_tenants_key_may_repeat_its_tenant_and_name_no_other(
    identity: rpc.AuthInternalServiceAsyncStub, tenant: Tenant, other_tenant: Tenant
) -> None:
    assert await identity.Exchange(pb.ExchangeRequest(bearer=tenant.api_key, tenant_id=str(tenant.tenant_id)))
    with refused(grpc.StatusCode.UNAUTHENTICATED, "CREDENTIAL_INVALID"):
        await identity.Exchange(pb.ExchangeRequest(bearer=tenant.api_key, tenant_id=str(other_tenant.tenant_id)))


@pytest.mark.parametrize(
    "credential",
    [
        "nonsense",
        "skein_",
        "eyJhbGciOiJub25lIn0.e30.",
        ApiKeyToken.new(NO_TENANT, uuid.uuid4()).encode(),
        ApiKeyToken.new(uuid.uuid4(), uuid.uuid4()).encode(),
    ],
    ids=["nonsense", "prefix", "token", "unknown operator", "unknown tenant"],
)
async def test_a_malformed_key_is_refused(identity: rpc.AuthInternalServiceAsyncStub, credential: str) -> None:
    with refused(grpc.StatusCode.UNAUTHENTICATED, "CREDENTIAL_INVALID"):
        await identity.Exchange(pb.ExchangeRequest(bearer=credential))


async def test_a_revoked_key_is_refused(identity: rpc.AuthInternalServiceAsyncStub, tenant: Tenant) -> None:
    made = await tenant.auth.CreateApiKey(pb.CreateApiKeyRequest(display_name="x"))
    await tenant.auth.RevokeApiKey(pb.RevokeApiKeyRequest(api_key_id=made.api_key.api_key_id))

    with refused(grpc.StatusCode.UNAUTHENTICATED, "CREDENTIAL_INVALID"):
        await identity.Exchange(pb.ExchangeRequest(bearer=made.secret))


async def test_an_expired_key_is_refused_as_expired(
    identity: rpc.AuthInternalServiceAsyncStub, tenant: Tenant, database: asyncpg.Connection[asyncpg.Record]
) -> None:
    made = await tenant.auth.CreateApiKey(pb.CreateApiKeyRequest(display_name="x"))
    await database.execute(
        "UPDATE auth.api_keys SET expire_time = now() WHERE api_key_id = $1", uuid.UUID(made.api_key.api_key_id)
    )

    with refused(grpc.StatusCode.UNAUTHENTICATED, "CREDENTIAL_EXPIRED"):
        await identity.Exchange(pb.ExchangeRequest(bearer=made.secret))


async def test_no_token_outlives_its_key(identity: rpc.AuthInternalServiceAsyncStub, tenant: Tenant) -> None:
    expires = Timestamp()
    expires.FromDatetime(datetime.now(UTC) + timedelta(seconds=20))
    made = await tenant.auth.CreateApiKey(pb.CreateApiKeyRequest(display_name="x", expire_time=expires))

    answer = await identity.Exchange(pb.ExchangeRequest(bearer=made.secret))

    assert answer.expire_time.ToNanoseconds() <= expires.ToNanoseconds()


@pytest.mark.system
async def test_keys_of_a_deleted_tenant_are_refused(
    cluster: Cluster, identity: rpc.AuthInternalServiceAsyncStub
) -> None:
    tenant = await cluster.new_tenant()
    await identity.Exchange(pb.ExchangeRequest(bearer=tenant.api_key))
    await cluster.operator.tenancy.DeleteTenant(tenancy_pb2.DeleteTenantRequest(tenant_id=str(tenant.tenant_id)))

    async with asyncio.timeout(30):
        while True:
            await asyncio.sleep(0.05)
            try:
                await identity.Exchange(pb.ExchangeRequest(bearer=tenant.api_key))
            except aio.AioRpcError as error:
                assert error.code() is grpc.StatusCode.UNAUTHENTICATED  # noqa: PT017 - the loop ends with it.
                break
    with refused(grpc.StatusCode.NOT_FOUND, "TENANT_NOT_FOUND"):
        await identity.Exchange(pb.ExchangeRequest(bearer=cluster.operator_key, tenant_id=str(tenant.tenant_id)))


@pytest.mark.system
async def test_a_deleted_tenant_is_refused_at_the_gateway_soon(cluster: Cluster) -> None:
    tenant = await cluster.new_tenant()
    await tenant.auth.GetMe(pb.GetMeRequest())
    await cluster.operator.tenancy.DeleteTenant(tenancy_pb2.DeleteTenantRequest(tenant_id=str(tenant.tenant_id)))

    async with asyncio.timeout(30):
        while True:
            await asyncio.sleep(0.05)
            try:
                await tenant.auth.GetMe(pb.GetMeRequest())
            except aio.AioRpcError as error:
                assert error.code() is grpc.StatusCode.UNAUTHENTICATED  # noqa: PT017 - the loop ends with it.
                break


async def test_the_operator_acts_in_a_tenant_that_exists(
    cluster: Cluster, channel: aio.Channel, identity: rpc.AuthInternalServiceAsyncStub, tenant: Tenant
) -> None:
    answer = await identity.Exchange(pb.ExchangeRequest(bearer=cluster.operator_key, tenant_id=str(tenant.tenant_id)))

    caller = await verified(channel, answer.token)
    assert caller.principal.startswith("operator:")
    assert caller.tenant_id == tenant.tenant_id
    with refused(grpc.StatusCode.NOT_FOUND, "TENANT_NOT_FOUND"):
        await identity.Exchange(pb.ExchangeRequest(bearer=cluster.operator_key, tenant_id=MISSING_ID))


async def test_a_revoked_operator_key_is_refused(
    identity: rpc.AuthInternalServiceAsyncStub, database: asyncpg.Connection[asyncpg.Record]
) -> None:
    key = ApiKeyToken.new(NO_TENANT, uuid.uuid4())
    insert = "INSERT INTO auth.operator_keys VALUES ($1, 'x', $2, now(), $3, $4)"
    ended = datetime(2020, 1, 1, tzinfo=UTC)
    await database.execute(insert, key.key_id, key.secret_hash(), None, ended)
    old = ApiKeyToken.new(NO_TENANT, uuid.uuid4())
    await database.execute(insert, old.key_id, old.secret_hash(), ended, None)

    with refused(grpc.StatusCode.UNAUTHENTICATED, "CREDENTIAL_INVALID"):
        await identity.Exchange(pb.ExchangeRequest(bearer=key.encode()))
    with refused(grpc.StatusCode.UNAUTHENTICATED, "CREDENTIAL_EXPIRED"):
        await identity.Exchange(pb.ExchangeRequest(bearer=old.encode()))


async def test_the_clusters_own_services_act_in_one_tenant_or_none(
    channel: aio.Channel, identity: rpc.AuthInternalServiceAsyncStub, tenant: Tenant
) -> None:
    nowhere = await identity.Exchange(system())
    inside = await identity.Exchange(system(str(tenant.tenant_id)))

    expected = Caller(principal="system:worker", tenant_id=None, permissions=SYSTEM_PERMISSIONS)
    assert await verified(channel, nowhere.token) == expected
    assert (await verified(channel, inside.token)).tenant_id == tenant.tenant_id
    with refused(grpc.StatusCode.NOT_FOUND, "TENANT_NOT_FOUND"):
        await identity.Exchange(system(MISSING_ID))


async def test_a_wrong_system_key_is_refused(identity: rpc.AuthInternalServiceAsyncStub) -> None:
    with refused(grpc.StatusCode.UNAUTHENTICATED, "CREDENTIAL_INVALID"):
        await identity.Exchange(system(key="x" * 32))
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await identity.Exchange(system(key="short"))


async def test_an_exchange_of_nothing_is_refused(identity: rpc.AuthInternalServiceAsyncStub) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await identity.Exchange(pb.ExchangeRequest())


async def test_the_gateway_offers_no_exchange(cluster: Cluster, tenant: Tenant) -> None:
    with refused(grpc.StatusCode.UNIMPLEMENTED, "METHOD_NOT_FOUND"):
        await rpc.AuthInternalServiceStub(cluster.channel).Exchange(pb.ExchangeRequest(bearer=tenant.api_key))


async def test_the_system_lists_every_tenant_and_changes_none(
    cluster: Cluster, identity: rpc.AuthInternalServiceAsyncStub, tenant: Tenant, other_tenant: Tenant
) -> None:
    token = (await identity.Exchange(system())).token
    inside = (await identity.Exchange(system(str(tenant.tenant_id)))).token
    rename = tenancy_pb2.UpdateTenantRequest(
        tenant=tenancy_pb2.Tenant(tenant_id=str(other_tenant.tenant_id), display_name="x", slug="x")
    )

    async with cluster.direct("tenancy") as channel:
        stub = tenancy_pb2_grpc.TenancyServiceStub(Stubs.of(channel, token).channel)
        listed = await stub.ListTenants(tenancy_pb2.ListTenantsRequest(page_size=1000))
        acting = tenancy_pb2_grpc.TenancyServiceStub(Stubs.of(channel, inside).channel)
        with refused(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING"):
            await acting.UpdateTenant(rename)
        with refused(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING"):
            await acting.DeleteTenant(tenancy_pb2.DeleteTenantRequest(tenant_id=str(tenant.tenant_id)))

    assert {str(tenant.tenant_id), str(other_tenant.tenant_id)} <= {found.tenant_id for found in listed.tenants}


async def test_expired_rows_are_deleted_for_one_tenant(
    channel: aio.Channel,
    identity: rpc.AuthInternalServiceAsyncStub,
    tenant: Tenant,
    other_tenant: Tenant,
    database: asyncpg.Connection[asyncpg.Record],
) -> None:
    for owner in (tenant, other_tenant):
        for request_id in ("old", "new"):
            await owner.auth.CreateApiKey(pb.CreateApiKeyRequest(display_name="x", request_id=request_id))
    await database.execute(
        "UPDATE auth.requests SET create_time = now() - interval '25 hours' WHERE request_id = 'old'"
    )
    token = (await identity.Exchange(system(str(tenant.tenant_id)))).token
    stub = rpc.AuthInternalServiceStub(Stubs.of(channel, token).channel)

    first = await stub.DeleteExpired(pb.DeleteExpiredRequest())
    async with asyncio.timeout(30):
        # What others left may be past its time only now.
        while (await stub.DeleteExpired(pb.DeleteExpiredRequest())).deleted_count:
            pass

    rows = await database.fetch(
        "SELECT tenant_id, request_id FROM auth.requests WHERE tenant_id = ANY ($1)",
        [tenant.tenant_id, other_tenant.tenant_id],
    )
    assert first.deleted_count >= 1
    assert {(row["tenant_id"], row["request_id"]) for row in rows} == {
        (tenant.tenant_id, "new"),
        (other_tenant.tenant_id, "old"),
        (other_tenant.tenant_id, "new"),
    }


@pytest.mark.system
async def test_the_operator_s_answers_that_are_past_their_time_are_deleted_as_well(
    cluster: Cluster,
    channel: aio.Channel,
    identity: rpc.AuthInternalServiceAsyncStub,
    database: asyncpg.Connection[asyncpg.Record],
) -> None:
    old, new = uuid.uuid4().hex, uuid.uuid4().hex
    for request_id in (old, new):
        await cluster.operator.auth.RotateSigningKey(pb.RotateSigningKeyRequest(request_id=request_id))
    await database.execute(
        "UPDATE auth.requests SET create_time = now() - interval '25 hours' WHERE request_id = $1", old
    )
    # The operator acts for no tenant.
    token = (await identity.Exchange(system())).token

    await rpc.AuthInternalServiceStub(Stubs.of(channel, token).channel).DeleteExpired(pb.DeleteExpiredRequest())

    rows = await database.fetch("SELECT request_id FROM auth.requests WHERE request_id = ANY ($1)", [old, new])
    assert [row["request_id"] for row in rows] == [new]


async def test_an_api_key_is_no_identity_inside_the_cluster(channel: aio.Channel, tenant: Tenant) -> None:
    stub = rpc.AuthServiceStub(Stubs.of(channel, tenant.api_key).channel)

    with refused(grpc.StatusCode.UNAUTHENTICATED, "CREDENTIAL_INVALID"):
        await stub.GetMe(pb.GetMeRequest())


async def test_a_changed_token_is_refused(
    channel: aio.Channel, identity: rpc.AuthInternalServiceAsyncStub, tenant: Tenant, other_tenant: Tenant
) -> None:
    token = (await identity.Exchange(pb.ExchangeRequest(bearer=tenant.api_key))).token
    theirs = (await identity.Exchange(pb.ExchangeRequest(bearer=other_tenant.api_key))).token
    header, _, signature = token.split(".")
    mixed = ".".join((header, theirs.split(".")[1], signature))

    stub = rpc.AuthServiceStub(Stubs.of(channel, mixed).channel)
    with refused(grpc.StatusCode.UNAUTHENTICATED, "CREDENTIAL_INVALID"):
        await stub.GetMe(pb.GetMeRequest())
    assert jws.extract_compact(token.encode()).headers()["alg"] == "Ed25519"
