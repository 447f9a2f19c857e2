"""Tokens that were made for one place, shown at another.

Attack: a token of one kind, resource, service or tenant is shown where another one is needed.
May be seen: UNAUTHENTICATED for what is no credential there, PERMISSION_DENIED for another service's identity.
May be spent: nothing is read, written or deleted.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import httpx
import pytest
from fix_accounts import Account, new_email
from fix_cluster import SYSTEM_KEY, Cluster, Stubs, Tenant, reason_in, refused
from fix_http import TLS
from fix_mcp import Mcp
from fix_oauth import App
from fix_world import identity, system_identity
from grpc import aio
from joserfc import jwt
from joserfc.jwk import OKPKey

from skein.auth.v1 import auth_pb2, auth_pb2_grpc, oauth_pb2
from skein.memory.v1 import memory_pb2
from skein.tenancy.v1 import members_pb2, tenancy_pb2_grpc
from skein_auth.encryption import SecretCipher
from skein_auth.settings import SystemKeys
from skein_auth.signing.keyring import Keyring
from skein_auth.signing.store import SigningKeyStore
from skein_kit.database.transactions import Database
from skein_kit.identity.identity_token import ALGORITHM, Caller, sign_identity_token
from skein_kit.identity.permissions import ACCESS_RULES, SYSTEM, SYSTEM_PERMISSIONS, TENANT_PERMISSIONS

INVALID = (grpc.StatusCode.UNAUTHENTICATED, "CREDENTIAL_INVALID")
DENIED = (grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING")
LIST = memory_pb2.ListMemoriesRequest()


@pytest.fixture
async def keyring(cluster: Cluster) -> AsyncIterator[Keyring]:
    """The keys that auth signs with: what a thief of its memory has."""
    url = cluster.postgres.url(user="postgres", database="skein")
    async with Database.open(url, service="auth", size=2, timeout=30.0) as database:
        yield Keyring(SigningKeyStore(database), SecretCipher(SystemKeys.of(SYSTEM_KEY)))


async def of_service(keyring: Keyring, service: str, tenant_id: uuid.UUID | None = None) -> str:
    """Return the identity of one of the cluster's own services, as it travels to others."""
    caller = Caller(principal=f"system:{service}", tenant_id=tenant_id, permissions=SYSTEM_PERMISSIONS)
    return (await keyring.sign_identity(caller, at=time.time()))[0]


async def refusal(channel: aio.Channel, path: str, token: str) -> tuple[grpc.StatusCode, str]:
    """Return how an empty request to a method is refused; OK when it is answered."""
    call: Callable[..., Any] = channel.unary_unary(path)
    try:
        await call(b"", metadata=(("authorization", f"Bearer {token}"),), timeout=30)
    except aio.AioRpcError as error:
        return error.code(), reason_in(error)
    return grpc.StatusCode.OK, ""


async def refusals(cluster: Cluster, token: str, paths: list[str]) -> dict[str, tuple[grpc.StatusCode, str]]:
    """Return how each method is refused at its service's own port."""
    results = {}
    for service in sorted({service_of(path) for path in paths}):
        async with cluster.direct(service) as channel:
            for path in paths:
                if service_of(path) == service:
                    results[path] = await refusal(channel, path, token)
    return results


def service_of(path: str) -> str:
    """Return "memory" of "/skein.memory.v1.MemoryService/GetMemory"."""
    return path.split(".")[1]


INTERNAL = {path: next(iter(rule.services)) for path, rule in ACCESS_RULES.items() if rule.permission == SYSTEM}


@pytest.mark.parametrize("service", ["auth", "gateway", "tenancy", "session", "memory", "recall", "worker", "pc2"])
async def test_a_stolen_service_identity_opens_no_other_services_calls(
    cluster: Cluster, keyring: Keyring, tenant: Tenant, service: str
) -> None:
    others = [path for path, owner in INTERNAL.items() if owner != service]

    for tenant_id in (None, tenant.tenant_id):
        actual_refusals = await refusals(cluster, await of_service(keyring, service, tenant_id), others)

        assert actual_refusals == dict.fromkeys(others, DENIED)


def test_every_internal_call_names_the_service_that_makes_it() -> None:
    assert set(INTERNAL.values()) == {"auth", "worker"}


async def test_a_service_still_reaches_what_is_its_own(cluster: Cluster, keyring: Keyring, tenant: Tenant) -> None:
    token = await of_service(keyring, "auth")

    async with cluster.direct("tenancy") as channel:
        response = await tenancy_pb2_grpc.TenancyInternalServiceStub(channel).GetMembership(
            members_pb2.GetMembershipRequest(tenant_id=str(tenant.tenant_id)),
            metadata=(("authorization", f"Bearer {token}"),),
        )

    assert response.state == members_pb2.TENANT_STATE_ACTIVE


@pytest.mark.system
async def test_the_workers_identity_opens_no_call_of_a_tenant(cluster: Cluster, tenant: Tenant) -> None:
    token = await system_identity(cluster, str(tenant.tenant_id))
    paths = [
        path
        for path, rule in ACCESS_RULES.items()
        if rule.permission in TENANT_PERMISSIONS - SYSTEM_PERMISSIONS and service_of(path) in cluster.addresses
        and service_of(path) != "gateway"
    ]  # fmt: skip

    assert await refusals(cluster, token, paths) == dict.fromkeys(paths, DENIED)


@pytest.mark.parametrize("service", ["auth", "tenancy", "memory", "gateway", "", "worker:x"])
async def test_the_system_key_does_not_stand_for_an_unknown_service(direct: aio.Channel, service: str) -> None:
    request = auth_pb2.ExchangeRequest(system=auth_pb2.SystemCredential(key=SYSTEM_KEY, service=service))

    with pytest.raises(aio.AioRpcError) as caught:
        await auth_pb2_grpc.AuthInternalServiceStub(direct).Exchange(request)

    assert (caught.value.code(), reason_in(caught.value)) in {
        INVALID,
        (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"),
    }


async def test_an_identity_token_is_no_credential_at_any_public_port(
    cluster: Cluster, keyring: Keyring, tenant: Tenant
) -> None:
    """Identity tokens travel between services; public ports want the credentials that are exchanged for them."""
    stolen = [
        await identity(cluster, tenant.api_key),
        await system_identity(cluster),
        await of_service(keyring, "auth"),
    ]

    for token in stolen:
        with refused(*INVALID):
            await cluster.with_key(token).memory.ListMemories(LIST)
        async with httpx.AsyncClient(trust_env=False, verify=TLS, timeout=30) as client:
            url = f"http://{cluster.addresses['http']}/skein.memory.v1.MemoryService/ListMemories"
            answer = await client.post(url, json={}, headers={"authorization": f"Bearer {token}"})
            assert answer.status_code == 401
        async with Mcp.of(cluster.addresses["http"], token) as mcp:
            assert (await mcp.send("tools/list")).status_code == 401
        async with cluster.direct("auth") as channel:
            for audience in ("", "skein-internal"):
                with refused(*INVALID):
                    await auth_pb2_grpc.AuthInternalServiceStub(channel).Exchange(
                        auth_pb2.ExchangeRequest(bearer=token, audience=audience)
                    )


async def test_an_identity_acts_in_its_own_tenant_whatever_its_bearer_names(
    cluster: Cluster, tenant: Tenant, other_tenant: Tenant
) -> None:
    await other_tenant.memory.CreateMemory(
        memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="of the other"))
    )
    token = await identity(cluster, tenant.api_key)

    async with cluster.direct("memory") as channel:
        acting = Stubs.of(channel, token, **{"skein-tenant-id": str(other_tenant.tenant_id)})
        response = await acting.memory.ListMemories(LIST)

    assert not response.memories


@pytest.mark.system
async def test_public_credentials_open_no_service_behind_the_gateway(
    cluster: Cluster, tenant: Tenant, account: Account
) -> None:
    for credential in (tenant.api_key, cluster.operator_key, account.access_token, SYSTEM_KEY):
        for service in ("auth", "tenancy", "session", "memory", "recall"):
            async with cluster.direct(service) as channel:
                path = next(
                    path for path, rule in ACCESS_RULES.items() if service_of(path) == service and not rule.is_public
                )
                assert await refusal(channel, path, credential) == INVALID


@pytest.mark.system
async def test_no_identity_that_differs_from_what_auth_signs_is_taken(
    cluster: Cluster, keyring: Keyring, tenant: Tenant
) -> None:
    ours, theirs = await keyring.active_key(), OKPKey.generate_key("Ed25519")
    access = await keyring.active_key("access")
    caller = Caller(principal="api_key:x", tenant_id=tenant.tenant_id, permissions=frozenset({"memory.read"}))
    genuine, _ = sign_identity_token(caller, key=ours, at=time.time())
    claims = jwt.decode(genuine, ours, algorithms=[ALGORITHM]).claims
    header = {"alg": ALGORITHM, "kid": ours.kid, "typ": "skein-identity+jwt"}

    def signed(key: Any = ours, algorithm: str = ALGORITHM, *, head: dict[str, Any] = header, **changed: Any) -> str:
        return jwt.encode({**head, "alg": algorithm}, {**claims, **changed}, key, algorithms=[algorithm])

    forged = {
        "another key": signed(theirs),
        "the key of access tokens": signed(access, "RS256", head={**header, "kid": access.kid}),
        "the type of access tokens": signed(head={**header, "typ": "at+jwt"}),
        "another audience": signed(aud="skein"),
        "several audiences": signed(aud=["skein-internal", "x"]),
        "another issuer": signed(iss="https://skein.example"),
        "no end": signed(exp=None),
        "an end that is a text": signed(exp="9999999999"),
        "an end long ago": signed(exp=1),
        "no tenant id": signed(tid="everybody"),
        "no permissions": signed(perms=None),
        "without a signature": genuine.rpartition(".")[0] + ".",
        "of another text": genuine.rpartition(".")[0] + "." + signed(sub="operator:x").rpartition(".")[2],
    }
    async with cluster.direct("memory") as channel:
        path = "/skein.memory.v1.MemoryService/ListMemories"
        assert await refusal(channel, path, genuine) == (grpc.StatusCode.OK, "")
        results = {name: (await refusal(channel, path, token))[0] for name, token in forged.items()}

    assert results == dict.fromkeys(forged, grpc.StatusCode.UNAUTHENTICATED)


# The latter of a text that is longer than any of ours.
NO_GRANT = {"OAUTH_INVALID_GRANT", "INVALID_FIELD"}


async def no_grant(redeeming: Awaitable[oauth_pb2.ExchangeTokenResponse]) -> str:
    """Return the reason that a grant is refused for."""
    with pytest.raises(aio.AioRpcError) as caught:
        await redeeming
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    return reason_in(caught.value)


async def test_no_token_is_taken_for_one_of_another_kind(
    cluster: Cluster, tenant: Tenant, app: App, account: Account
) -> None:
    resources = (await app.oauth.GetServerMetadata(oauth_pb2.GetServerMetadataRequest())).resources
    for_api = await app.tokens(account, tenant, "openid memory.read", nonce="n")
    for_mcp = await app.tokens(account, tenant, "memory.read", resources=[resources[1]])
    code = await app.code(account, tenant)
    invitation = members_pb2.CreateInvitationRequest(email=new_email(), role=members_pb2.ROLE_VIEWER)
    owner = cluster.with_key(cluster.operator_key, **{"skein-tenant-id": str(tenant.tenant_id)})
    invited = await owner.tenancy.CreateInvitation(invitation)
    kinds = {
        "own refresh token": account.refresh_token,
        "application's refresh token": for_api.refresh_token,
        "ID token": for_api.id_token,
        "code": code,
        "client secret": app.secret,
        "registration token": app.registration,
        "invitation": invited.token,
        "access token for MCP": for_mcp.access_token,
    }

    for token in kinds.values():
        assert token
        with refused(*INVALID):
            await cluster.with_key(token).auth.GetMe(auth_pb2.GetMeRequest())
    # The other way round, each where the others are wanted.
    async with Mcp.of(cluster.addresses["http"], for_api.id_token) as mcp:
        assert (await mcp.send("tools/list")).status_code == 401
    async with Mcp.of(cluster.addresses["http"], for_mcp.access_token) as mcp:
        assert (await mcp.send("tools/list")).status_code == 200
    for token in {**kinds, "access token": for_api.access_token, "API key": tenant.api_key}.values():
        if token not in {for_api.refresh_token, for_mcp.refresh_token}:
            assert await no_grant(app.refresh(token)) in NO_GRANT
        if token != code:
            assert await no_grant(app.redeem(token)) in NO_GRANT
    for token in (for_api.id_token, await identity(cluster, tenant.api_key), tenant.api_key):
        with refused(grpc.StatusCode.UNAUTHENTICATED, "OAUTH_INVALID_TOKEN"):
            await app.oauth.GetUserInfo(oauth_pb2.GetUserInfoRequest(access_token=token))
