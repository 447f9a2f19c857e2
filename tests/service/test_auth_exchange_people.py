from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import grpc
import pytest
from fix_cluster import SYSTEM_KEY, Cluster, Stubs, Tenant, refused
from grpc import aio

from skein.auth.v1 import accounts_pb2, auth_pb2, auth_pb2_grpc
from skein.memory.v1 import memory_pb2
from skein.tenancy.v1 import tenancy_pb2
from skein_auth.audit.recorder import AuditRecorder
from skein_auth.audit.store import AuditStore
from skein_auth.auth_sessions.auth_sessions import AuthSessions, lifetimes_from, refresh_token_derivation_from
from skein_auth.auth_sessions.model import AuthSession, SessionTokens
from skein_auth.auth_sessions.store import AuthSessionStore, create_auth_session
from skein_auth.encryption import SecretCipher
from skein_auth.settings import AuthSettings, SystemKeys
from skein_auth.signing.access_tokens import AccessTokens, TokenSubject
from skein_auth.signing.keyring import Keyring
from skein_auth.signing.store import SigningKeyStore
from skein_kit.database.transactions import Database
from skein_kit.identity.permissions import ACCOUNT, ROLE_PERMISSIONS
from skein_kit.ids import new_id, now


@dataclass(frozen=True)
class People:
    """People and their sign-ins, made beside the RPCs so that each can be aged and bent."""

    cluster: Cluster
    superuser: asyncpg.Connection[asyncpg.Record]
    database: Database
    tokens: AccessTokens
    auth_sessions: AuthSessions

    async def new(self, *, verified: bool = True) -> uuid.UUID:
        account_id = new_id(now())
        await self.superuser.execute(
            "INSERT INTO auth.accounts (account_id, email, email_verify_time, display_name, status, create_time,"
            " update_time) VALUES ($1, $2, $3, 'x', 'active', now(), now())",
            account_id,
            f"{account_id.hex}@example.com",
            datetime.now(UTC) if verified else None,
        )
        return account_id

    async def join(self, account_id: uuid.UUID, tenant: Tenant, role: str) -> None:
        await self.superuser.execute(
            "INSERT INTO tenancy.memberships (tenant_id, account_id, role, create_time, update_time, created_by)"
            " VALUES ($1, $2, $3, now(), now(), 'test') ON CONFLICT (tenant_id, account_id) DO UPDATE SET role = $3",
            tenant.tenant_id,
            account_id,
            role,
        )

    async def signed_in(self, account_id: uuid.UUID) -> SessionTokens:
        return await self.auth_sessions.begin(account_id, at=now())

    async def application(
        self, account_id: uuid.UUID, tenant: Tenant, *scopes: str, client_id: str = "", resource: str = ""
    ) -> str:
        """Let an application into a tenant; return its access token."""
        at, client_id = now(), client_id or uuid.uuid4().hex
        await self.superuser.execute(
            "INSERT INTO auth.clients (client_id, source, client_name, redirect_uris, grant_types, response_types,"
            " token_endpoint_auth_method, scope, create_time, update_time)"
            " VALUES ($1, 'registered', 'x', '{}', '{}', '{}', 'none', '', now(), now())",
            client_id,
        )
        resources = (resource or self.tokens.issuer(),)
        sign_in = AuthSession(
            tenant_id=tenant.tenant_id,
            auth_session_id=new_id(at),
            account_id=account_id,
            client_id=client_id,
            scopes=frozenset(scopes),
            resources=resources,
            auth_time=at,
            create_time=at,
            expire_time=at + timedelta(hours=1),
        )
        async with self.database.transaction(tenant.tenant_id) as tx:
            await create_auth_session(tx, sign_in)
        return await self.token(
            TokenSubject(
                subject=account_id,
                client_id=client_id,
                tenant_id=tenant.tenant_id,
                auth_session_id=sign_in.auth_session_id,
            ),
            *scopes,
            resource=resource,
        )

    async def token(self, bearer: TokenSubject, *scopes: str, resource: str = "", seconds: float = 600) -> str:
        """Sign an access token as auth would."""
        at = now()
        text, _ = await self.tokens.sign(
            bearer,
            scopes=scopes,
            resources=(resource or self.tokens.issuer(),),
            at=at,
            until=at + timedelta(seconds=seconds),
        )
        return text


@pytest.fixture
async def people(cluster: Cluster) -> AsyncIterator[People]:
    url = cluster.postgres.url(user="postgres", database="skein")
    superuser = await asyncpg.connect(url)
    settings, system_keys = AuthSettings(), SystemKeys.of(SYSTEM_KEY)
    async with Database.open(url, service="auth", size=2, timeout=30.0) as database:
        tokens = AccessTokens(
            Keyring(SigningKeyStore(database), SecretCipher(system_keys)), lambda: f"http://{cluster.addresses['http']}"
        )
        auth_sessions = AuthSessions(
            AuthSessionStore(database),
            tokens,
            AuditRecorder(AuditStore(database)),
            lifetimes_from(settings),
            refresh_token_derivation_from(system_keys),
        )
        yield People(cluster, superuser, database, tokens, auth_sessions)
    await superuser.close()


def calls(cluster: Cluster, token: str, tenant: Tenant | None = None) -> Stubs:
    return cluster.with_key(token, **({} if tenant is None else {"skein-tenant-id": str(tenant.tenant_id)}))


async def me(cluster: Cluster, token: str, tenant: Tenant | None = None) -> auth_pb2.GetMeResponse:
    return await calls(cluster, token, tenant).auth.GetMe(auth_pb2.GetMeRequest())


async def until(call: Callable[[], Any], code: grpc.StatusCode) -> None:
    """Return once the call is refused."""
    async with asyncio.timeout(30):
        while True:
            await asyncio.sleep(0.05)
            try:
                await call()
            except aio.AioRpcError as error:
                assert error.code() is code  # noqa: PT017 - the loop ends with it.
                return


# A person's own sign-in


async def test_a_person_belongs_to_no_tenant_until_they_choose_one(
    cluster: Cluster, people: People, tenant: Tenant
) -> None:
    account_id = await people.new()
    await people.join(account_id, tenant, "viewer")
    token = (await people.signed_in(account_id)).access_token

    nowhere, inside = await me(cluster, token), await me(cluster, token, tenant)

    assert nowhere.principal == inside.principal == f"account:{account_id}"
    assert (nowhere.tenant_id, nowhere.role, set(nowhere.permissions)) == ("", "", {ACCOUNT, "tenant.read"})
    assert (inside.tenant_id, inside.role) == (str(tenant.tenant_id), "viewer")
    assert set(inside.permissions) == {ACCOUNT, *ROLE_PERMISSIONS["viewer"]}


@pytest.mark.parametrize("role", list(ROLE_PERMISSIONS))
async def test_a_person_s_permissions_follow_from_their_role(
    cluster: Cluster, people: People, tenant: Tenant, role: str
) -> None:
    account_id = await people.new()
    await people.join(account_id, tenant, role)

    identity = await me(cluster, (await people.signed_in(account_id)).access_token, tenant)

    assert set(identity.permissions) == {ACCOUNT, *ROLE_PERMISSIONS[role]}
    assert identity.role == role


async def test_a_tenant_that_one_is_no_member_of_does_not_exist(
    cluster: Cluster, people: People, tenant: Tenant
) -> None:
    token = (await people.signed_in(await people.new())).access_token

    with refused(grpc.StatusCode.NOT_FOUND, "TENANT_NOT_FOUND"):
        await me(cluster, token, tenant)


async def test_a_new_member_is_recognized_at_once(cluster: Cluster, people: People, tenant: Tenant) -> None:
    account_id = await people.new()
    token = (await people.signed_in(account_id)).access_token
    with refused(grpc.StatusCode.NOT_FOUND, "TENANT_NOT_FOUND"):
        await me(cluster, token, tenant)

    await people.join(account_id, tenant, "member")

    assert (await me(cluster, token, tenant)).role == "member"


@pytest.mark.system
async def test_a_lost_role_is_lost_soon(cluster: Cluster, people: People, tenant: Tenant) -> None:
    account_id = await people.new()
    await people.join(account_id, tenant, "admin")
    token = (await people.signed_in(account_id)).access_token
    await me(cluster, token, tenant)

    await people.join(account_id, tenant, "viewer")
    async with asyncio.timeout(30):
        while (await me(cluster, token, tenant)).role != "viewer":
            await asyncio.sleep(0.05)
    await people.superuser.execute("DELETE FROM tenancy.memberships WHERE account_id = $1", account_id)
    await until(lambda: me(cluster, token, tenant), grpc.StatusCode.NOT_FOUND)


@pytest.mark.system
async def test_a_person_in_a_deleted_tenant_is_refused_soon(cluster: Cluster, people: People) -> None:
    tenant, account_id = await cluster.new_tenant(), await people.new()
    await people.join(account_id, tenant, "owner")
    token = (await people.signed_in(account_id)).access_token
    await me(cluster, token, tenant)

    await cluster.operator.tenancy.DeleteTenant(tenancy_pb2.DeleteTenantRequest(tenant_id=str(tenant.tenant_id)))

    await until(lambda: me(cluster, token, tenant), grpc.StatusCode.NOT_FOUND)


@pytest.mark.system
@pytest.mark.parametrize("what", ["sign-in", "account", "everything"])
async def test_an_ended_sign_in_is_refused_soon(cluster: Cluster, people: People, what: str) -> None:
    account_id = await people.new()
    tokens = await people.signed_in(account_id)
    await me(cluster, tokens.access_token)

    if what == "sign-in":
        await people.auth_sessions.revoke_one(account_id, tokens.auth_session_id, "test")
    elif what == "account":
        await people.superuser.execute(
            "UPDATE auth.accounts SET status = 'deactivated' WHERE account_id = $1", account_id
        )
    else:
        request = accounts_pb2.RevokeCredentialsRequest(account_id=str(account_id))
        assert (await cluster.operator.auth.RevokeCredentials(request)).revoked_count == 1

    await until(lambda: me(cluster, tokens.access_token), grpc.StatusCode.UNAUTHENTICATED)


async def test_a_person_reads_the_audit_events_of_their_own_account_only(cluster: Cluster, people: People) -> None:
    account_id, other = await people.new(), await people.new()
    audit = AuditRecorder(AuditStore(people.database))
    for whose in (account_id, other):
        await audit.record("sign_in", account_id=whose, target=f"account:{whose}")
    mine = calls(cluster, (await people.signed_in(account_id)).access_token)

    response = await mine.auth.ListMyAuditEvents(accounts_pb2.ListMyAuditEventsRequest())

    assert [event.target for event in response.audit_events] == [f"account:{account_id}"]


async def test_a_key_that_a_person_made_lives_on_without_them(cluster: Cluster, people: People, tenant: Tenant) -> None:
    account_id = await people.new()
    await people.join(account_id, tenant, "admin")
    admin = calls(cluster, (await people.signed_in(account_id)).access_token, tenant)

    made = await admin.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="x"))
    await people.superuser.execute("DELETE FROM tenancy.memberships WHERE account_id = $1", account_id)

    assert set(made.api_key.permissions) == ROLE_PERMISSIONS["admin"]
    assert made.api_key.created_by == f"account:{account_id}"
    assert (await me(cluster, made.secret)).tenant_id == str(tenant.tenant_id)


# Applications


async def test_an_application_does_what_it_was_granted_as_far_as_the_person_may(
    cluster: Cluster, people: People, tenant: Tenant
) -> None:
    account_id = await people.new()
    await people.join(account_id, tenant, "viewer")
    token = await people.application(
        account_id, tenant, "openid", "memory.read", "memory.write", ACCOUNT, client_id=f"app-{account_id}"
    )

    identity = await me(cluster, token)

    assert identity == auth_pb2.GetMeResponse(
        principal=f"account:{account_id}",
        tenant_id=str(tenant.tenant_id),
        permissions=["memory.read"],
        client_id=f"app-{account_id}",
        role="viewer",
    )
    with refused(grpc.StatusCode.PERMISSION_DENIED, "ACCOUNT_REQUIRED"):
        await calls(cluster, token).auth.ListMyAuditEvents(accounts_pb2.ListMyAuditEventsRequest())


async def test_an_application_acts_in_its_tenant_alone(
    cluster: Cluster, people: People, tenant: Tenant, other_tenant: Tenant
) -> None:
    account_id = await people.new()
    for each in (tenant, other_tenant):
        await people.join(account_id, each, "owner")
    token = await people.application(account_id, tenant, "memory.read")

    await calls(cluster, token, tenant).memory.ListMemories(memory_pb2.ListMemoriesRequest())

    with refused(grpc.StatusCode.UNAUTHENTICATED, "CREDENTIAL_INVALID"):
        await me(cluster, token, other_tenant)


@pytest.mark.system
async def test_an_application_of_a_former_member_is_refused_soon(
    cluster: Cluster, people: People, tenant: Tenant
) -> None:
    account_id = await people.new()
    await people.join(account_id, tenant, "member")
    token = await people.application(account_id, tenant, "memory.read")
    await me(cluster, token)

    await people.superuser.execute("DELETE FROM tenancy.memberships WHERE account_id = $1", account_id)

    await until(lambda: me(cluster, token), grpc.StatusCode.UNAUTHENTICATED)


@pytest.mark.system
@pytest.mark.parametrize("what", ["client_id", "tenant_id"])
async def test_permissions_that_the_operator_takes_from_applications_end_soon(
    cluster: Cluster, people: People, tenant: Tenant, what: str
) -> None:
    account_id = await people.new()
    await people.join(account_id, tenant, "member")
    client_id = f"app-{account_id}"
    token = await people.application(account_id, tenant, "memory.read", client_id=client_id)
    await me(cluster, token)

    values = {"client_id": client_id, "tenant_id": str(tenant.tenant_id)}
    request = accounts_pb2.RevokeCredentialsRequest(**{what: values[what]})  # type: ignore[arg-type]  # One of two.
    ended = await cluster.operator.auth.RevokeCredentials(request)

    assert ended.revoked_count == 1
    await until(lambda: me(cluster, token), grpc.StatusCode.UNAUTHENTICATED)


async def test_a_key_that_an_application_made_ends_with_what_it_was_granted(
    cluster: Cluster, people: People, tenant: Tenant
) -> None:
    account_id = await people.new()
    await people.join(account_id, tenant, "admin")
    token = await people.application(account_id, tenant, "keys.write", "memory.read")

    made = await calls(cluster, token).auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="x"))

    assert list(made.api_key.permissions) == ["keys.write", "memory.read"]
    remaining = made.api_key.expire_time.ToDatetime(UTC) - datetime.now(UTC)
    assert timedelta(minutes=55) < remaining <= timedelta(hours=1)


async def test_a_token_for_another_resource_is_refused(cluster: Cluster, people: People, tenant: Tenant) -> None:
    account_id = await people.new()
    await people.join(account_id, tenant, "member")
    mcp = people.tokens.issuer() + "/mcp"
    token = await people.application(account_id, tenant, "memory.read", resource=mcp)

    with refused(grpc.StatusCode.UNAUTHENTICATED, "CREDENTIAL_INVALID"):
        await me(cluster, token)
    async with cluster.direct("auth") as channel:
        identity = auth_pb2_grpc.AuthInternalServiceStub(channel)
        assert (await identity.Exchange(auth_pb2.ExchangeRequest(bearer=token, audience=mcp))).token
        with refused(grpc.StatusCode.UNAUTHENTICATED, "CREDENTIAL_INVALID"):
            await identity.Exchange(auth_pb2.ExchangeRequest(bearer=token, audience="https://elsewhere.example"))


async def test_introspection_knows_access_tokens_of_the_own_tenant_alone(
    people: People, tenant: Tenant, other_tenant: Tenant
) -> None:
    account_id = await people.new()
    await people.join(account_id, tenant, "member")
    request = auth_pb2.IntrospectRequest(credential=await people.application(account_id, tenant, "memory.read"))
    own = auth_pb2.IntrospectRequest(credential=(await people.signed_in(account_id)).access_token)

    response = await tenant.auth.Introspect(request)

    assert (response.active, response.principal, list(response.permissions)) == (
        True,
        f"account:{account_id}",
        ["memory.read"],
    )
    assert await other_tenant.auth.Introspect(request) == auth_pb2.IntrospectResponse(active=False)
    assert await tenant.auth.Introspect(own) == auth_pb2.IntrospectResponse(active=False)


# Tokens


async def test_a_token_without_an_auth_session_of_its_own_is_refused(
    cluster: Cluster, people: People, tenant: Tenant
) -> None:
    account_id, other = await people.new(), await people.new()
    tokens = await people.signed_in(account_id)
    auth_session_id = tokens.auth_session_id

    for bearer in (
        TokenSubject(subject=other, auth_session_id=auth_session_id),
        TokenSubject(subject=account_id, auth_session_id=uuid.uuid4()),
        TokenSubject(subject=account_id),
        TokenSubject(subject=account_id, client_id="app", auth_session_id=auth_session_id),
        TokenSubject(subject=account_id, tenant_id=tenant.tenant_id, auth_session_id=auth_session_id),
    ):
        with refused(grpc.StatusCode.UNAUTHENTICATED, "CREDENTIAL_INVALID"):
            await me(cluster, await people.token(bearer, ACCOUNT))


async def test_an_expired_token_is_refused_as_expired(cluster: Cluster, people: People) -> None:
    account_id = await people.new()
    auth_session_id = (await people.signed_in(account_id)).auth_session_id
    token = await people.token(TokenSubject(subject=account_id, auth_session_id=auth_session_id), ACCOUNT, seconds=-60)

    with refused(grpc.StatusCode.UNAUTHENTICATED, "CREDENTIAL_EXPIRED"):
        await me(cluster, token)


@pytest.mark.system
async def test_a_token_that_a_stolen_key_signed_is_refused_soon(cluster: Cluster, people: People) -> None:
    token = (await people.signed_in(await people.new())).access_token
    await me(cluster, token)

    await cluster.operator.auth.RotateSigningKey(
        auth_pb2.RotateSigningKeyRequest(purpose=auth_pb2.SIGNING_KEY_PURPOSE_ACCESS, emergency=True)
    )

    await until(lambda: me(cluster, token), grpc.StatusCode.UNAUTHENTICATED)


# Service accounts


@pytest.mark.system
async def test_a_service_accounts_token_does_what_its_key_may_do(
    cluster: Cluster, people: People, tenant: Tenant
) -> None:
    made = await tenant.auth.CreateServiceAccount(
        accounts_pb2.CreateServiceAccountRequest(
            service_account=accounts_pb2.ServiceAccount(display_name="bot", permissions=["memory.read"])
        )
    )
    account_id = made.service_account.service_account_id
    key = await tenant.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="x", service_account_id=account_id))
    bearer = TokenSubject(
        subject=uuid.UUID(account_id),
        client_id=account_id,
        tenant_id=tenant.tenant_id,
        api_key_id=uuid.UUID(key.api_key.api_key_id),
    )
    token = await people.token(bearer, "memory.read", "memory.write")

    identity = await me(cluster, token)
    await tenant.auth.RevokeApiKey(auth_pb2.RevokeApiKeyRequest(api_key_id=key.api_key.api_key_id))

    assert (identity.principal, list(identity.permissions)) == (f"service_account:{account_id}", ["memory.read"])
    await until(lambda: me(cluster, token), grpc.StatusCode.UNAUTHENTICATED)


# The system


async def test_the_system_acts_in_a_deleted_tenant_and_in_none_that_never_was(cluster: Cluster) -> None:
    tenant = await cluster.new_tenant()
    await cluster.operator.tenancy.DeleteTenant(tenancy_pb2.DeleteTenantRequest(tenant_id=str(tenant.tenant_id)))

    async with cluster.direct("auth") as channel:
        identity = auth_pb2_grpc.AuthInternalServiceStub(channel)
        system = auth_pb2.SystemCredential(key=SYSTEM_KEY, service="worker")

        assert (await identity.Exchange(auth_pb2.ExchangeRequest(system=system, tenant_id=str(tenant.tenant_id)))).token
        with refused(grpc.StatusCode.NOT_FOUND, "TENANT_NOT_FOUND"):
            await identity.Exchange(auth_pb2.ExchangeRequest(system=system, tenant_id=str(uuid.UUID(int=7))))
