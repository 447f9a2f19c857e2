"""Attack: strangers register OAuth clients without end, as large as they can, from one network and from many.
May be seen: the client that each of them registered.
May be spent: 8 KiB a client, bounded numbers of clients per source and in all, for a bounded time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import grpc
import pytest
from fix_accounts import Account
from fix_attacks import attack_size
from fix_auth import PASSWORD, AuthServer, run_auth_server
from fix_cluster import Cluster, Stubs, Tenant, refused
from fix_database import TestDatabase
from fix_oauth import App
from fix_world import system_identity
from grpc import aio

from skein.auth.v1 import auth_pb2, auth_pb2_grpc, oauth_pb2, oauth_pb2_grpc
from skein_auth.attempts import limiter
from skein_auth.oauth_clients import registry

EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED
OF_SOURCE, IN_ALL = 3, 5
REDIRECT = "https://app.example/back"


@pytest.fixture
async def auth(database: TestDatabase, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AuthServer]:
    """An auth service with room for few clients, in which only that room is short."""
    monkeypatch.setattr(limiter, "REGISTRATIONS", 1_000_000)
    monkeypatch.setattr(registry, "MAX_UNUSED_PER_ADDRESS", OF_SOURCE)
    monkeypatch.setattr(registry, "MAX_UNUSED", IN_ALL)
    async with run_auth_server(database) as auth_server:
        yield auth_server


async def register(auth: AuthServer, address: str, **fields: object) -> str:
    """Register a client as the gateway does for a caller at an address; return its id, empty when there is no room."""
    client = oauth_pb2.Client(**{"client_name": "An app", "redirect_uris": [REDIRECT], **fields})  # type: ignore[arg-type]
    try:
        answer = await oauth_pb2_grpc.OAuthServiceStub(auth.channel).RegisterClient(
            oauth_pb2.RegisterClientRequest(client=client), metadata=(("skein-client-address", address),)
        )
    except aio.AioRpcError as error:
        assert error.code() is EXHAUSTED  # noqa: PT017 - an answer that is allowed.
        return ""
    return answer.client.client_id


async def kept(auth: AuthServer) -> set[str]:
    return {row["client_id"] for row in await auth.rows("SELECT client_id FROM auth.clients")}


async def age(auth: AuthServer, hours: int) -> None:
    await auth.rows("UPDATE auth.clients SET create_time = create_time - make_interval(hours => $1)", hours)


@pytest.mark.system
async def test_a_burst_from_one_network_keeps_no_more_than_its_share(auth: AuthServer) -> None:
    burst = [f"2001:db8:0:7:{place:x}::1" for place in range(attack_size(20, 500))]

    answers = await asyncio.gather(*(register(auth, address) for address in burst))

    assert len(await kept(auth)) == OF_SOURCE
    assert {one for one in answers if one} == await kept(auth)


@pytest.mark.system
async def test_a_stranger_s_share_leaves_room_for_others_until_all_is_full(auth: AuthServer) -> None:
    for _ in range(OF_SOURCE + 1):
        await register(auth, "192.0.2.1")
    others = [await register(auth, f"198.51.100.{place}") for place in range(attack_size(5, 200))]

    assert [bool(other) for other in others[:3]] == [True, True, False]
    assert len(await kept(auth)) == IN_ALL


@pytest.mark.system
async def test_the_oldest_idle_client_of_a_network_makes_room_and_a_used_one_never(auth: AuthServer) -> None:
    app = await App.registered(auth.channel)
    person = await auth.sign_up()
    signed_in = await auth.sign_in(person.email)
    account = Account(
        email=person.email,
        password=PASSWORD,
        account_id=str(person.account_id),
        access_token=signed_in.tokens.access_token,
        refresh_token=signed_in.tokens.refresh_token,
        stubs=cast("Stubs", None),
    )
    await app.tokens(account, None, "openid")
    waiting = await App.registered(auth.channel, token_endpoint_auth_method="none", redirect_uris=["http://localhost/"])
    await waiting.oauth.StartDeviceAuthorization(oauth_pb2.StartDeviceAuthorizationRequest(client=waiting.proof))
    await age(auth, 50)
    first = [await register(auth, "192.0.2.1") for _ in range(OF_SOURCE)]
    await age(auth, 2)

    newest = [await register(auth, "192.0.2.1") for _ in range(OF_SOURCE + 1)]

    assert all(first)
    assert [bool(one) for one in newest] == [True] * OF_SOURCE + [False]
    assert await kept(auth) == {app.client.client_id, waiting.client.client_id, *newest[:OF_SOURCE]}


@pytest.mark.parametrize(
    "fields",
    [
        {"contacts": ["c" * 1000] * 9},
        {"redirect_uris": [f"https://app.example/{place}/{'x' * 1000}" for place in range(9)]},
        {"redirect_uris": ["https://app.example/" + "x" * 2000] * 4, "logo_uri": "https://app.example/" + "x" * 500},
    ],
    ids=["contacts", "redirects", "together"],
)
async def test_a_client_s_registration_is_small(app: App, fields: dict[str, object]) -> None:
    client = oauth_pb2.Client(**{"redirect_uris": [REDIRECT], **fields})  # type: ignore[arg-type]
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "OAUTH_INVALID_CLIENT_METADATA"):
        await app.oauth.RegisterClient(oauth_pb2.RegisterClientRequest(client=client))

    client.client_id = app.client.client_id
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "OAUTH_INVALID_CLIENT_METADATA"):
        await app.oauth.UpdateClient(
            oauth_pb2.UpdateClientRequest(client=client, registration_access_token=app.registration)
        )


async def test_an_unused_client_is_removed_and_one_in_use_stays(
    cluster: Cluster, tenant: Tenant, direct: aio.Channel, account: Account
) -> None:
    idle, used, lapsed = [await App.registered(direct) for _ in range(3)]
    tokens = await used.tokens(account, tenant)
    await lapsed.tokens(account, tenant)
    imported = (
        await cluster.operator.auth.ImportClient(
            oauth_pb2.ImportClientRequest(
                client=oauth_pb2.Client(
                    client_id=f"mcp_{tenant.tenant_id}", redirect_uris=[REDIRECT], token_endpoint_auth_method="none"
                )
            )
        )
    ).client.client_id
    ours = [idle.client.client_id, used.client.client_id, lapsed.client.client_id, imported]
    token = await system_identity(cluster, "")
    async with cluster.superuser() as connection:
        await connection.execute(
            "UPDATE auth.clients SET create_time = create_time - interval '31 days' WHERE client_id = ANY ($1)", ours
        )
        # As if the last grant had ended a month ago; its rows are removed then.
        await connection.execute(
            "UPDATE auth.clients SET grant_expire_time = now() - interval '31 days' WHERE client_id = $1",
            lapsed.client.client_id,
        )

        await auth_pb2_grpc.AuthInternalServiceStub(direct).DeleteExpired(
            auth_pb2.DeleteExpiredRequest(), metadata=(("authorization", f"Bearer {token}"),)
        )

        rows = await connection.fetch("SELECT client_id FROM auth.clients WHERE client_id = ANY ($1)", ours)
    assert {row["client_id"] for row in rows} == {used.client.client_id, imported}
    assert (await used.refresh(tokens.refresh_token)).access_token
