"""Applications for the tests: registered with auth itself, as the gateway's HTTP would, and people who answer them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import pytest
from fix_accounts import Account, member
from fix_cluster import AuthorizedChannel, Cluster, Tenant
from grpc import aio

from skein.auth.v1 import auth_pb2, auth_pb2_grpc, oauth_pb2, oauth_pb2_grpc
from skein_auth.auth_sessions.model import challenge_of

REDIRECT = "https://app.example/back"
VERIFIER = "a-verifier-of-more-than-forty-three-characters"
DEVICE = "urn:ietf:params:oauth:grant-type:device_code"
ALL_GRANTS = ["authorization_code", "refresh_token", DEVICE]


@dataclass(frozen=True)
class App:
    """An application of a test's own."""

    # To auth itself.
    channel: aio.Channel
    client: oauth_pb2.Client
    secret: str
    registration: str

    @classmethod
    async def registered(cls, channel: aio.Channel, **fields: Any) -> App:
        """Register one that may do everything, unless it says otherwise."""
        metadata = {
            "client_name": "An app",
            "redirect_uris": [REDIRECT],
            "grant_types": ALL_GRANTS,
            "token_endpoint_auth_method": "client_secret_basic",
        }
        response = await oauth_pb2_grpc.OAuthServiceStub(channel).RegisterClient(
            oauth_pb2.RegisterClientRequest(client=oauth_pb2.Client(**{**metadata, **fields}))
        )
        return cls(channel, response.client, response.client_secret, response.registration_access_token)

    @property
    def oauth(self) -> oauth_pb2_grpc.OAuthServiceAsyncStub:
        return oauth_pb2_grpc.OAuthServiceStub(self.channel)

    @property
    def proof(self) -> oauth_pb2.ClientAuthentication:
        return oauth_pb2.ClientAuthentication(
            client_id=self.client.client_id,
            client_secret=self.secret,
            method=self.client.token_endpoint_auth_method,
        )

    def asks(self, scope: str = "memory.read memory.write", **more: Any) -> oauth_pb2.CreateAuthorizationRequest:
        fields = {
            "client_id": self.client.client_id,
            "redirect_uri": REDIRECT,
            "response_type": "code",
            "scope": scope,
            "state": "the state",
            "code_challenge": challenge_of(VERIFIER),
            "code_challenge_method": "S256",
        }
        return oauth_pb2.CreateAuthorizationRequest(**{**fields, **more})

    async def code(
        self, account: Account, tenant: Tenant | None, scope: str = "memory.read memory.write", **more: Any
    ) -> str:
        """Return the code that the account's yes leads to."""
        created = await self.oauth.CreateAuthorization(self.asks(scope, **more))
        assert created.prompt.handle, created
        return answer(await self.approve(account, tenant, handle=created.prompt.handle))["code"]

    async def redeem(self, code: str, **more: Any) -> oauth_pb2.ExchangeTokenResponse:
        grant = {"code": code, "redirect_uri": REDIRECT, "code_verifier": VERIFIER, **more}
        resources = grant.pop("resources", [])
        return await self.oauth.ExchangeToken(
            oauth_pb2.ExchangeTokenRequest(
                client=self.proof,
                authorization_code=oauth_pb2.AuthorizationCodeGrant(**grant),
                resources=resources,
            )
        )

    async def refresh(
        self, token: str, scope: str = "", resources: list[str] | None = None
    ) -> oauth_pb2.ExchangeTokenResponse:
        return await self.oauth.ExchangeToken(
            oauth_pb2.ExchangeTokenRequest(
                client=self.proof,
                refresh_token=oauth_pb2.RefreshTokenGrant(refresh_token=token, scope=scope),
                resources=resources or [],
            )
        )

    async def tokens(
        self, account: Account, tenant: Tenant | None, scope: str = "memory.read memory.write", **more: Any
    ) -> oauth_pb2.ExchangeTokenResponse:
        return await self.redeem(await self.code(account, tenant, scope, **more))

    async def person(self, account: Account) -> oauth_pb2_grpc.OAuthServiceAsyncStub:
        """Call auth as the gateway does for a person who signed in."""
        exchanged = await auth_pb2_grpc.AuthInternalServiceStub(self.channel).Exchange(
            auth_pb2.ExchangeRequest(bearer=account.access_token)
        )
        return oauth_pb2_grpc.OAuthServiceStub(cast("aio.Channel", AuthorizedChannel(self.channel, exchanged.token)))

    async def approve(self, account: Account, tenant: Tenant | None, **answered: Any) -> str:
        """Answer in the name of an account; the answer is where its browser goes."""
        request = oauth_pb2.ApproveAuthorizationRequest(
            **{"approved": True, "tenant_id": str(tenant.tenant_id) if tenant else "", **answered}
        )
        return (await (await self.person(account)).ApproveAuthorization(request)).redirect_url

    async def introspect(self, token: str) -> oauth_pb2.IntrospectTokenResponse:
        return await self.oauth.IntrospectToken(oauth_pb2.IntrospectTokenRequest(client=self.proof, token=token))


def answer(url: str) -> dict[str, str]:
    assert url.startswith(REDIRECT + "?"), url
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}


@pytest.fixture
def direct(cluster: Cluster) -> aio.Channel:
    """A channel to auth itself, as the gateway's HTTP has it."""
    return cluster.shared("auth")


@pytest.fixture
async def app(direct: aio.Channel) -> App:
    """A confidential application that may use every grant."""
    return await App.registered(direct)


@pytest.fixture
async def account(cluster: Cluster, tenant: Tenant) -> Account:
    """A member of the tenant."""
    return await member(cluster, tenant, "member")
