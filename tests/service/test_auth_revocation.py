from __future__ import annotations

import asyncio
import secrets
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import asyncpg
import grpc
import pytest
from fix_cluster import SYSTEM_KEY, Cluster, Stubs, Tenant, refused
from grpc import aio

from skein.auth.v1 import accounts_pb2 as pb
from skein.auth.v1 import auth_pb2, auth_pb2_grpc
from skein.tenancy.v1 import tenancy_pb2
from skein_auth.audit.chain_store import AuditChain
from skein_auth.audit.recorder import AuditRecorder
from skein_auth.audit.store import AuditStore
from skein_auth.encryption import SecretCipher
from skein_auth.maintenance.store import MaintenanceStore
from skein_auth.settings import SystemKeys
from skein_auth.signing.keyring import Keyring
from skein_auth.signing.store import SigningKeyStore
from skein_kit.database.transactions import NO_TENANT, Database
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.ids import new_id, now


@pytest.fixture
async def database(cluster: Cluster) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A superuser's connection, to see and to age what no RPC shows or ages."""
    async with cluster.superuser() as connection:
        yield connection


@pytest.fixture
async def own(cluster: Cluster) -> AsyncIterator[Database]:
    """The database as auth itself sees it."""
    url = cluster.postgres.url(user="postgres", database="skein")
    async with Database.open(url, service="auth", size=2, timeout=30.0) as own:
        yield own


def chain_of(own: Database) -> AuditChain:
    """The audit chain, with the keys of the cluster."""
    signing_keys = SigningKeyStore(own)
    return AuditChain(own, Keyring(signing_keys, SecretCipher(SystemKeys.of(SYSTEM_KEY))), signing_keys)


def acting(cluster: Cluster, tenant: Tenant) -> Stubs:
    return cluster.with_key(cluster.operator_key, **{"skein-tenant-id": str(tenant.tenant_id)})


async def until_refused(cluster: Cluster, credential: str) -> None:
    async with asyncio.timeout(30):
        while True:
            await asyncio.sleep(0.05)
            try:
                await cluster.with_key(credential).auth.GetMe(auth_pb2.GetMeRequest())
            except aio.AioRpcError as error:
                assert error.code() is grpc.StatusCode.UNAUTHENTICATED  # noqa: PT017 - the loop ends with it.
                return


async def test_everything_that_a_tenant_gave_out_ends_soon(cluster: Cluster, tenant: Tenant) -> None:
    account = await tenant.auth.CreateServiceAccount(
        pb.CreateServiceAccountRequest(service_account=pb.ServiceAccount(display_name="bot"))
    )
    service_account_id = account.service_account.service_account_id
    bots = await tenant.auth.CreateApiKey(
        auth_pb2.CreateApiKeyRequest(display_name="x", service_account_id=service_account_id)
    )
    legacy = secrets.token_urlsafe(32)
    await acting(cluster, tenant).auth.SetLegacyToken(pb.SetLegacyTokenRequest(token=legacy))
    credentials = (tenant.api_key, bots.secret, legacy)
    for credential in credentials:
        await cluster.with_key(credential).auth.GetMe(auth_pb2.GetMeRequest())

    request = pb.RevokeCredentialsRequest(
        tenant_id=str(tenant.tenant_id), include_api_keys=True, request_id=uuid.uuid4().hex
    )
    first = await cluster.operator.auth.RevokeCredentials(request)
    again = await cluster.operator.auth.RevokeCredentials(request)

    # Two keys, a service account and the legacy token.
    assert first.revoked_count == 4
    assert again == first
    for credential in credentials:
        await until_refused(cluster, credential)
    response = await acting(cluster, tenant).auth.GetServiceAccount(
        pb.GetServiceAccountRequest(service_account_id=service_account_id)
    )
    assert response.service_account.disabled


async def test_without_keys_a_tenants_keys_go_on(cluster: Cluster, tenant: Tenant) -> None:
    ended = await cluster.operator.auth.RevokeCredentials(pb.RevokeCredentialsRequest(tenant_id=str(tenant.tenant_id)))

    assert ended.revoked_count == 0
    assert (await tenant.auth.GetMe(auth_pb2.GetMeRequest())).tenant_id == str(tenant.tenant_id)


async def test_another_tenants_keys_go_on(cluster: Cluster, tenant: Tenant, other_tenant: Tenant) -> None:
    await cluster.operator.auth.RevokeCredentials(
        pb.RevokeCredentialsRequest(tenant_id=str(tenant.tenant_id), include_api_keys=True)
    )

    await until_refused(cluster, tenant.api_key)
    assert (await other_tenant.auth.GetMe(auth_pb2.GetMeRequest())).tenant_id == str(other_tenant.tenant_id)


async def test_revoking_an_unknown_client_ends_nothing(cluster: Cluster) -> None:
    ended = await cluster.operator.auth.RevokeCredentials(pb.RevokeCredentialsRequest(client_id=uuid.uuid4().hex))

    assert ended.revoked_count == 0


async def test_it_is_an_event(cluster: Cluster, tenant: Tenant) -> None:
    await cluster.operator.auth.RevokeCredentials(pb.RevokeCredentialsRequest(tenant_id=str(tenant.tenant_id)))

    listed = (await tenant.auth.ListAuditEvents(pb.ListAuditEventsRequest(page_size=1))).audit_events

    assert (listed[0].event, listed[0].target) == ("credentials_revoked", f"tenant:{tenant.tenant_id}")


# What is past its time


async def as_system(tenant: Tenant | None, channel: aio.Channel) -> auth_pb2_grpc.AuthInternalServiceAsyncStub:
    request = auth_pb2.ExchangeRequest(
        system=auth_pb2.SystemCredential(key=SYSTEM_KEY, service="worker"),
        tenant_id="" if tenant is None else str(tenant.tenant_id),
    )
    token = (await auth_pb2_grpc.AuthInternalServiceStub(channel).Exchange(request)).token
    return auth_pb2_grpc.AuthInternalServiceStub(Stubs.of(channel, token).channel)


async def test_old_events_are_deleted_and_newer_ones_kept(
    cluster: Cluster, tenant: Tenant, database: asyncpg.Connection[asyncpg.Record]
) -> None:
    at = datetime.now(UTC)
    for days in (399, 402):
        await database.execute(
            "INSERT INTO auth.audit_events (tenant_id, audit_event_id, event, outcome, target, create_time)"
            " VALUES ($1, $2, 'sign_in', 'success', $3, $4)",
            tenant.tenant_id,
            new_id(at - timedelta(days=days)),
            str(days),
            at - timedelta(days=days),
        )

    async with cluster.direct("auth") as channel:
        worker = await as_system(tenant, channel)
        while (await worker.ChainAuditEvents(auth_pb2.ChainAuditEventsRequest())).more:
            pass
        await worker.DeleteExpired(auth_pb2.DeleteExpiredRequest())

    rows = await database.fetch(
        "SELECT target FROM auth.audit_events WHERE tenant_id = $1 AND event = 'sign_in'", tenant.tenant_id
    )
    assert [row["target"] for row in rows] == ["399"]


async def test_sign_ins_that_are_over_are_deleted(
    cluster: Cluster, database: asyncpg.Connection[asyncpg.Record]
) -> None:
    account_id = new_id(now())
    await database.execute(
        "INSERT INTO auth.accounts (account_id, display_name, status, create_time, update_time)"
        " VALUES ($1, 'x', 'active', now(), now())",
        account_id,
    )
    ages = {"live": ("1 day", None), "expired": ("-1 second", None), "revoked": ("1 day", "1 day"),
            "long revoked": ("1 day", "31 days")}  # fmt: skip
    for name, (ends, revoked) in ages.items():
        await database.execute(
            "INSERT INTO auth.auth_sessions (tenant_id, auth_session_id, account_id, scopes, resources, nonce,"
            " auth_time, create_time, use_time, expire_time, revoke_time) VALUES"
            " ($1, $2, $3, '{account}', '{}', $4, now(), now(),"
            " now(), now() + $5::text::interval, now() - $6::text::interval)",
            NO_TENANT,
            uuid.uuid4(),
            account_id,
            name,
            ends,
            revoked,
        )

    async with cluster.direct("auth") as channel:
        await (await as_system(None, channel)).DeleteExpired(auth_pb2.DeleteExpiredRequest())

    rows = await database.fetch("SELECT nonce FROM auth.auth_sessions WHERE account_id = $1", account_id)
    assert {row["nonce"] for row in rows} == {"live", "revoked"}


# Deleted tenants


@pytest.mark.system
async def test_a_purge_removes_what_auth_keeps_of_a_tenant_a_bounded_part_at_a_time(
    cluster: Cluster, tenant: Tenant, other_tenant: Tenant, own: Database, database: asyncpg.Connection[asyncpg.Record]
) -> None:
    for owner in (tenant, other_tenant):
        account = await owner.auth.CreateServiceAccount(
            pb.CreateServiceAccountRequest(service_account=pb.ServiceAccount(display_name="bot"), request_id="r")
        )
        await owner.auth.CreateApiKey(
            auth_pb2.CreateApiKeyRequest(
                display_name="x", service_account_id=account.service_account.service_account_id
            )
        )
        token = pb.SetLegacyTokenRequest(token=secrets.token_urlsafe(32))
        await acting(cluster, owner).auth.SetLegacyToken(token)
    maintenance = MaintenanceStore(
        own,
        AuditRecorder(AuditStore(own)),
        chain_of(own),
        IdempotencyStore(own, "auth"),
        audit_days=400,
    )

    # The database purges the events of no open tenant.
    await database.execute("UPDATE tenancy.tenants SET is_active = false WHERE tenant_id = $1", tenant.tenant_id)

    counts: dict[str, int] = {}
    more, calls = True, 0
    while more:
        part, more = await maintenance.purge(tenant.tenant_id, 2)
        assert sum(part.values()) <= 2 + 8
        calls += 1
        for table, count in part.items():
            counts[table] = counts.get(table, 0) + count

    assert calls > 2
    assert counts["auth.api_keys"] == 2
    assert counts["auth.service_accounts"] == counts["auth.legacy_tokens"] == counts["auth.requests"] == 1
    for table in ("api_keys", "service_accounts", "audit_events", "usage", "requests"):
        query = f"SELECT count(*) FROM auth.{table} WHERE tenant_id = $1"  # noqa: S608 - names of ours.
        assert await database.fetchval(query, tenant.tenant_id) == 0, table
        assert await database.fetchval(query, other_tenant.tenant_id) > 0, table


async def test_an_open_tenant_is_not_purged(cluster: Cluster, tenant: Tenant) -> None:
    async with cluster.direct("auth") as channel:
        stub = await as_system(tenant, channel)

        with refused(grpc.StatusCode.FAILED_PRECONDITION, "TENANT_NOT_DELETED"):
            await stub.PurgeTenant(auth_pb2.PurgeTenantRequest())


async def test_the_system_purges_a_deleted_tenant_and_does_nothing_else_in_it(cluster: Cluster) -> None:
    tenant = await cluster.new_tenant()
    await cluster.operator.tenancy.DeleteTenant(tenancy_pb2.DeleteTenantRequest(tenant_id=str(tenant.tenant_id)))
    await until_refused(cluster, tenant.api_key)

    async with cluster.direct("auth") as channel:
        stub = await as_system(tenant, channel)
        with refused(grpc.StatusCode.NOT_FOUND, "TENANT_NOT_FOUND"):
            await stub.DeleteExpired(auth_pb2.DeleteExpiredRequest())
        purged = await stub.PurgeTenant(auth_pb2.PurgeTenantRequest())
        again = await stub.PurgeTenant(auth_pb2.PurgeTenantRequest())

    assert purged.deleted_counts["auth.api_keys"] == 1
    assert not purged.more
    assert again == auth_pb2.PurgeTenantResponse()
