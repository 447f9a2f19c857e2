"""Dead tokens: refused as often as they come, and never the reason why live credentials of the same address fail."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast

import grpc
import pytest
from fix_accounts import Account
from fix_auth import PASSWORD, AuthServer, run_auth_server
from fix_cluster import Tenant, refused
from fix_database import TestDatabase
from fix_oauth import REDIRECT, VERIFIER, App
from grpc import aio

from skein.auth.v1 import accounts_pb2 as pb
from skein.auth.v1 import auth_pb2, auth_pb2_grpc, oauth_pb2, oauth_pb2_grpc
from skein_auth.accounts.model import ONE_TIME_PREFIX
from skein_auth.auth_sessions.model import CODE_PREFIX, REFRESH_PREFIX
from skein_auth.oauth.device_model import DEVICE_PREFIX
from skein_kit.database.transactions import NO_TENANT
from skein_kit.identity.bearer_token import BearerToken
from skein_kit.ids import new_id, now

INVALID = grpc.StatusCode.INVALID_ARGUMENT
UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED
# More than the attempts that an address has.
MANY = 12
ADDRESS = (("skein-client-address", "192.0.2.7"),)


@dataclass(frozen=True)
class ClientSite:
    """An address with an application behind it, and a person who uses it."""

    app: App
    account: Account

    async def exchange(self, **grant: Any) -> oauth_pb2.ExchangeTokenResponse:
        request = oauth_pb2.ExchangeTokenRequest(client=self.app.proof, **grant)
        return await self.app.oauth.ExchangeToken(request, metadata=ADDRESS)

    async def redeem(self, code: str, verifier: str = VERIFIER) -> oauth_pb2.ExchangeTokenResponse:
        return await self.exchange(
            authorization_code=oauth_pb2.AuthorizationCodeGrant(
                code=code, redirect_uri=REDIRECT, code_verifier=verifier
            )
        )

    async def refresh(self, token: str) -> oauth_pb2.ExchangeTokenResponse:
        return await self.exchange(refresh_token=oauth_pb2.RefreshTokenGrant(refresh_token=token))

    async def poll(self, code: str) -> oauth_pb2.ExchangeTokenResponse:
        return await self.exchange(device_code=oauth_pb2.DeviceCodeGrant(device_code=code))

    async def code(self) -> str:
        return await self.app.code(self.account, None, "openid")


@pytest.fixture
async def auth_server(database: TestDatabase) -> AsyncIterator[AuthServer]:
    """An auth service with the limits that it has by default."""
    async with run_auth_server(database) as auth_server:
        yield auth_server


@pytest.fixture
async def site(auth_server: AuthServer) -> ClientSite:
    person = await auth_server.sign_up()
    signed_in = await auth_server.sign_in(person.email)
    account = Account(
        email=person.email,
        password=PASSWORD,
        account_id=str(person.account_id),
        access_token=signed_in.tokens.access_token,
        refresh_token=signed_in.tokens.refresh_token,
        stubs=cast("Any", None),
    )
    return ClientSite(await App.registered(auth_server.channel), account)


def random_token(prefix: str) -> str:
    return BearerToken.generate(prefix, NO_TENANT, new_id(now())).encode()


async def all_pass(site: ClientSite) -> None:
    """Use every right credential from the address."""
    tokens = await site.redeem(await site.code())
    assert (await site.refresh(tokens.refresh_token)).access_token
    request = pb.SignInRequest(email=site.account.email, password=PASSWORD)
    assert (await auth_of(site).SignIn(request, metadata=ADDRESS)).tokens.access_token


def auth_of(site: ClientSite) -> auth_pb2_grpc.AuthServiceAsyncStub:
    return auth_pb2_grpc.AuthServiceStub(site.app.channel)


DEAD: dict[str, Callable[[ClientSite], Awaitable[object]]] = {
    "refresh tokens": lambda site: site.refresh(random_token(REFRESH_PREFIX)),
    "texts that are no tokens": lambda site: site.refresh("skein_rt_nonsense"),
    "codes": lambda site: site.redeem(random_token(CODE_PREFIX)),
    "device codes": lambda site: site.poll(random_token(DEVICE_PREFIX)),
}


@pytest.mark.parametrize("kind", DEAD)
async def test_dead_tokens_keep_nothing_else_of_their_address_out(site: ClientSite, kind: str) -> None:
    for _ in range(MANY):
        with refused(INVALID, "OAUTH_INVALID_GRANT"):
            await DEAD[kind](site)

    await all_pass(site)


async def test_wrong_verifiers_keep_nothing_else_of_their_address_out(site: ClientSite) -> None:
    code = await site.code()
    for number in range(MANY):
        with refused(INVALID, "OAUTH_INVALID_GRANT"):
            await site.redeem(code, f"{number:043}")

    assert (await site.redeem(code)).access_token
    await all_pass(site)


async def test_replayed_codes_keep_nothing_else_of_their_address_out(site: ClientSite) -> None:
    code = await site.code()
    await site.redeem(code)
    for _ in range(MANY):
        with refused(INVALID, "OAUTH_INVALID_GRANT"):
            await site.redeem(code)

    await all_pass(site)


async def test_dead_sign_ins_keep_nothing_else_of_their_address_out(site: ClientSite) -> None:
    auth = auth_of(site)
    for _ in range(MANY):
        with refused(UNAUTHENTICATED, "CREDENTIAL_INVALID"):
            await auth.RefreshSession(
                pb.RefreshSessionRequest(refresh_token=random_token(REFRESH_PREFIX)), metadata=ADDRESS
            )

    renewed = await auth.RefreshSession(
        pb.RefreshSessionRequest(refresh_token=site.account.refresh_token), metadata=ADDRESS
    )
    assert renewed.tokens.access_token
    await all_pass(site)


async def test_old_links_in_mails_keep_nothing_else_of_their_address_out(site: ClientSite) -> None:
    auth = auth_of(site)
    for _ in range(MANY):
        with refused(INVALID, "ONE_TIME_TOKEN_INVALID"):
            await auth.VerifyEmail(pb.VerifyEmailRequest(token=random_token(ONE_TIME_PREFIX)), metadata=ADDRESS)
        with refused(INVALID, "ONE_TIME_TOKEN_INVALID"):
            await auth.ResetPassword(
                pb.ResetPasswordRequest(token=random_token(ONE_TIME_PREFIX), new_password=PASSWORD),
                metadata=ADDRESS,
            )

    await all_pass(site)


async def test_wrong_keys_of_a_service_account_do_not_keep_its_right_key_out(
    direct: aio.Channel, tenant: Tenant
) -> None:
    made = await tenant.auth.CreateServiceAccount(
        pb.CreateServiceAccountRequest(
            service_account=pb.ServiceAccount(display_name="nightly", permissions=["memory.read"])
        )
    )
    account_id = made.service_account.service_account_id
    key = await tenant.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="k", service_account_id=account_id))

    async def exchange(secret: str) -> oauth_pb2.ExchangeTokenResponse:
        proof = oauth_pb2.ClientAuthentication(client_id=account_id, client_secret=secret, method="client_secret_post")
        request = oauth_pb2.ExchangeTokenRequest(
            client=proof, client_credentials=oauth_pb2.ClientCredentialsGrant(scope="memory.read")
        )
        return await oauth_pb2_grpc.OAuthServiceStub(direct).ExchangeToken(request, metadata=ADDRESS)

    for _ in range(MANY):
        with refused(UNAUTHENTICATED, "OAUTH_INVALID_CLIENT"):
            await exchange("wrong")

    assert (await exchange(key.secret)).access_token


async def test_wrong_secrets_of_clients_keep_nothing_else_of_their_address_out(site: ClientSite) -> None:
    wrong = oauth_pb2.ClientAuthentication(
        client_id=site.app.client.client_id, client_secret="wrong", method="client_secret_basic"
    )
    for _ in range(MANY):
        with pytest.raises(aio.AioRpcError):
            await site.app.oauth.RevokeToken(oauth_pb2.RevokeTokenRequest(client=wrong, token="x"), metadata=ADDRESS)

    await all_pass(site)


async def test_guesses_at_the_letters_of_a_device_are_still_limited(site: ClientSite) -> None:
    person = await site.app.person(site.account)
    request = oauth_pb2.GetDeviceAuthorizationRequest(user_code="BBBB-BBBB")
    for _ in range(10):
        with refused(grpc.StatusCode.NOT_FOUND, "DEVICE_CODE_NOT_FOUND"):
            await person.GetDeviceAuthorization(request)

    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_ATTEMPTS"):
        await person.GetDeviceAuthorization(request)
