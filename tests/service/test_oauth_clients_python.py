"""Clients that others wrote in Python, against the running cluster: Authlib's, and the MCP SDK's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from authlib.integrations.httpx_client import AsyncOAuth2Client
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from fix_cluster import Cluster, Tenant
from fix_web import REDIRECT, SCOPE, Person, Web, new_person
from httpx2 import AsyncClient
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

LIST = "/skein.memory.v1.MemoryService/ListMemories"


@pytest.fixture
async def web(cluster: Cluster) -> AsyncIterator[Web]:
    async with Web.of(cluster.addresses["http"]) as browser:
        yield browser


@pytest.fixture
async def person(cluster: Cluster, tenant: Tenant) -> Person:
    return await new_person(cluster, tenant)


async def allowed(web: Web, url: str, person: Person, tenant: Tenant) -> str:
    """Walk the person's pages; return where the browser is sent in the end."""
    page = await web.consent(url, person)
    answer = await web.submit(page, "answer", decision="allow", tenant_id=str(tenant.tenant_id))
    return str(answer.headers["location"])


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post", "none"])
async def test_authlib_gets_refreshes_and_revokes_tokens(web: Web, person: Person, tenant: Tenant, method: str) -> None:
    document = (await web.get("/.well-known/oauth-authorization-server")).json()
    registered = await web.register(token_endpoint_auth_method=method)
    verifier = "v" * 64
    async with AsyncOAuth2Client(
        registered["client_id"],
        registered.get("client_secret"),
        scope=SCOPE,
        redirect_uri=REDIRECT,
        code_challenge_method="S256",
        token_endpoint_auth_method=method,
        token_endpoint=document["token_endpoint"],
        revocation_endpoint_auth_method=method,
        trust_env=False,
    ) as client:
        url, state = client.create_authorization_url(document["authorization_endpoint"], code_verifier=verifier)
        back = await allowed(web, url, person, tenant)
        token = await client.fetch_token(authorization_response=back, state=state, code_verifier=verifier)
        listed = await client.post(web.origin + LIST, json={})
        refreshed = await client.refresh_token(document["token_endpoint"])
        revoked = await client.revoke_token(document["revocation_endpoint"], refreshed["refresh_token"])
        seen = await web.post(
            "/token",
            {
                "grant_type": "refresh_token",
                "refresh_token": refreshed["refresh_token"],
                "client_id": registered["client_id"],
                **({"client_secret": registered["client_secret"]} if method == "client_secret_post" else {}),
            },
            **(_basic(registered) if method == "client_secret_basic" else {}),
        )

    assert create_s256_code_challenge(verifier) in url
    assert (listed.status_code, revoked.status_code) == (200, 200)
    assert refreshed["refresh_token"] != token["refresh_token"]
    assert (seen.status_code, seen.json()["error"]) == (400, "invalid_grant")


class Storage:
    """What the MCP SDK keeps tokens in."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


async def test_the_mcp_sdk_finds_its_own_way_in(web: Web, person: Person, tenant: Tenant) -> None:
    storage, sent = Storage(), list[str]()

    async def redirect(url: str) -> None:
        sent.append(await allowed(web, url, person, tenant))

    async def callback() -> AuthorizationCodeResult:
        from urllib.parse import parse_qs, urlsplit  # noqa: PLC0415

        parameters = parse_qs(urlsplit(sent[-1]).query)
        return AuthorizationCodeResult(
            code=parameters["code"][0], state=parameters["state"][0], iss=parameters["iss"][0]
        )

    provider = OAuthClientProvider(
        server_url=web.origin + LIST,
        client_metadata=OAuthClientMetadata(
            client_name="the MCP SDK", redirect_uris=[AnyUrl(REDIRECT)], scope="memory.read"
        ),
        storage=storage,
        redirect_handler=redirect,
        callback_handler=callback,
    )
    async with AsyncClient(auth=provider, trust_env=False) as client:
        first = await client.post(web.origin + LIST, json={})
        again = await client.post(web.origin + LIST, json={})

    assert (first.status_code, again.status_code) == (200, 200)
    assert len(sent) == 1
    assert storage.tokens is not None
    assert storage.tokens.scope == "memory.read"


def _basic(registered: dict[str, Any]) -> dict[str, str]:
    from base64 import b64encode  # noqa: PLC0415

    pair = f"{registered['client_id']}:{registered['client_secret']}"
    return {"authorization": "Basic " + b64encode(pair.encode()).decode()}
