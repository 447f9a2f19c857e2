from __future__ import annotations

import asyncio

import grpc
from fix_accounts import Account
from fix_cluster import Cluster, Tenant, refused
from fix_oauth import DEVICE, App
from grpc import aio

from skein.auth.v1 import oauth_pb2

INVALID = grpc.StatusCode.INVALID_ARGUMENT
DENIED = grpc.StatusCode.PERMISSION_DENIED
NOT_FOUND = grpc.StatusCode.NOT_FOUND
UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED
EARLY = grpc.StatusCode.FAILED_PRECONDITION


async def test_a_device_is_let_in_once_a_person_agreed(
    cluster: Cluster, app: App, account: Account, tenant: Tenant
) -> None:
    started = await start_device(app)
    asks = await app.person(account)

    with refused(EARLY, "OAUTH_AUTHORIZATION_PENDING"):
        await poll(app, started)
    shown = await asks.GetDeviceAuthorization(
        oauth_pb2.GetDeviceAuthorizationRequest(user_code=started.user_code.lower().replace("-", " "))
    )
    await asks.ApproveDevice(
        oauth_pb2.ApproveDeviceRequest(user_code=started.user_code, approved=True, tenant_id=str(tenant.tenant_id))
    )
    with refused(NOT_FOUND, "DEVICE_CODE_NOT_FOUND"):
        await asks.ApproveDevice(oauth_pb2.ApproveDeviceRequest(user_code=started.user_code, approved=False))
    with refused(EARLY, "OAUTH_SLOW_DOWN"):
        await poll(app, started)
    await waited(cluster)
    tokens = await poll(app, started)

    assert (shown.client_name, list(shown.scopes)) == ("An app", ["memory.read"])
    assert tokens.scope == "memory.read"
    assert (await app.refresh(tokens.refresh_token)).access_token


async def test_a_device_that_asks_once_more_gets_the_same_tokens_again(
    app: App, account: Account, tenant: Tenant
) -> None:
    started = await approved(app, account, tenant)

    tokens = await poll(app, started)
    again = await poll(app, started)

    assert again.refresh_token == tokens.refresh_token
    assert (await app.introspect(again.access_token)).active
    assert (await app.introspect(tokens.access_token)).active
    assert (await app.refresh(tokens.refresh_token)).access_token


async def test_a_device_that_asks_twice_at_once_is_let_in_once(app: App, account: Account, tenant: Tenant) -> None:
    started = await approved(app, account, tenant)

    answers = await asyncio.gather(*(poll(app, started) for _ in range(4)))

    assert len({tokens.refresh_token for tokens in answers}) == 1
    assert (await app.refresh(answers[0].refresh_token)).access_token


async def test_a_device_that_asks_once_more_after_its_refresh_keeps_its_grant(
    app: App, account: Account, tenant: Tenant
) -> None:
    started = await approved(app, account, tenant)
    renewed = await app.refresh((await poll(app, started)).refresh_token)

    with refused(INVALID, "OAUTH_INVALID_GRANT"):
        await poll(app, started)

    assert (await app.refresh(renewed.refresh_token)).access_token


async def test_a_device_of_a_client_without_refresh_tokens_may_ask_once_more(
    direct: aio.Channel, account: Account, tenant: Tenant
) -> None:
    app = await App.registered(direct, grant_types=[DEVICE], redirect_uris=[], response_types=[])
    started = await approved(app, account, tenant)

    tokens = await poll(app, started)
    again = await poll(app, started)

    assert (tokens.refresh_token, again.refresh_token) == ("", "")
    assert (await app.introspect(again.access_token)).active
    assert (await app.introspect(tokens.access_token)).active


async def test_a_device_code_works_once(cluster: Cluster, app: App, account: Account, tenant: Tenant) -> None:
    started = await approved(app, account, tenant)
    tokens = await poll(app, started)

    await waited(cluster)
    with refused(INVALID, "OAUTH_INVALID_GRANT"):
        await poll(app, started)

    with refused(INVALID, "OAUTH_INVALID_GRANT"):
        await app.refresh(tokens.refresh_token)


async def test_a_device_learns_of_a_no(app: App, account: Account) -> None:
    started = await start_device(app)

    await (await app.person(account)).ApproveDevice(
        oauth_pb2.ApproveDeviceRequest(user_code=started.user_code, approved=False)
    )

    with refused(EARLY, "OAUTH_ACCESS_DENIED"):
        await poll(app, started)


async def test_a_device_s_codes_are_of_no_use_to_others(direct: aio.Channel, app: App, account: Account) -> None:
    other = await App.registered(direct)
    started = await start_device(app)

    with refused(INVALID, "OAUTH_INVALID_GRANT"):
        await poll(other, started)
    with refused(NOT_FOUND, "DEVICE_CODE_NOT_FOUND"):
        await (await app.person(account)).GetDeviceAuthorization(
            oauth_pb2.GetDeviceAuthorizationRequest(user_code="BBBB-BBBB")
        )


async def approved(app: App, account: Account, tenant: Tenant) -> oauth_pb2.StartDeviceAuthorizationResponse:
    started = await start_device(app)
    await (await app.person(account)).ApproveDevice(
        oauth_pb2.ApproveDeviceRequest(user_code=started.user_code, approved=True, tenant_id=str(tenant.tenant_id))
    )
    return started


async def start_device(app: App) -> oauth_pb2.StartDeviceAuthorizationResponse:
    return await app.oauth.StartDeviceAuthorization(
        oauth_pb2.StartDeviceAuthorizationRequest(client=app.proof, scope="memory.read")
    )


async def poll(app: App, started: oauth_pb2.StartDeviceAuthorizationResponse) -> oauth_pb2.ExchangeTokenResponse:
    return await app.oauth.ExchangeToken(
        oauth_pb2.ExchangeTokenRequest(
            client=app.proof, device_code=oauth_pb2.DeviceCodeGrant(device_code=started.device_code)
        )
    )


async def waited(cluster: Cluster) -> None:
    """Let devices have asked long ago, so that no test sleeps."""
    async with cluster.superuser() as connection:
        await connection.execute("UPDATE auth.device_codes SET poll_time = poll_time - interval '1 hour'")
