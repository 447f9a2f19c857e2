"""Signing in to /mcp: the SDK's own client finds its way in, asks for more when it needs more, is held to its scope."""

from __future__ import annotations

import base64
import json
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from fix_cluster import SYSTEM_KEY, Cluster, Tenant
from fix_mcp import JSON, Mcp
from fix_web import REDIRECT, Person, Pkce, Web, authorize_url, new_person, redirect_parameters
from httpx2 import AsyncClient, Timeout
from joserfc import jwt
from joserfc.jwk import RSAKey
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from skein_auth.encryption import SecretCipher
from skein_auth.settings import SystemKeys

DEFAULT_SCOPE = {"memory.read", "memory.write", "recall.read", "session.read"}
LIST = "/skein.memory.v1.MemoryService/ListMemories"


class Storage:
    """What a client keeps between its runs."""

    def __init__(self, tokens: OAuthToken | None = None, client: OAuthClientInformationFull | None = None) -> None:
        self.tokens = tokens
        self.client = client

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


@pytest.fixture
async def web(cluster: Cluster) -> AsyncIterator[Web]:
    async with Web.of(cluster.addresses["http"]) as browser:
        yield browser


@pytest.fixture
async def person(cluster: Cluster, tenant: Tenant) -> Person:
    return await new_person(cluster, tenant)


@asynccontextmanager
async def signing_in(
    web: Web, person: Person, tenant: Tenant, storage: Storage, *, query: str = "", mode: str = "auto"
) -> AsyncIterator[tuple[Client, list[str]]]:
    """Yield the SDK's client, whose person says yes to everything, and the addresses that its browser is sent to."""
    sent: list[str] = []
    back: list[str] = []

    async def redirect(url: str) -> None:
        sent.append(url)
        page = await web.consent(url, person)
        answer = await web.submit(page, "answer", decision="allow", tenant_id=str(tenant.tenant_id))
        back.append(str(answer.headers["location"]))

    async def callback() -> AuthorizationCodeResult:
        parameters = parse_qs(urlsplit(back[-1]).query)
        return AuthorizationCodeResult(
            code=parameters["code"][0], state=parameters["state"][0], iss=parameters["iss"][0]
        )

    provider = OAuthClientProvider(
        server_url=web.origin + "/mcp" + query,
        client_metadata=OAuthClientMetadata(client_name="the SDK", redirect_uris=[AnyUrl(REDIRECT)]),
        storage=storage,
        redirect_handler=redirect,
        callback_handler=callback,
    )
    async with (
        AsyncClient(auth=provider, trust_env=False, timeout=Timeout(30)) as http,
        Client(streamable_http_client(web.origin + "/mcp" + query, http_client=http), mode=mode) as client,
    ):
        yield client, sent


async def token_of(web: Web, person: Person, tenant: Tenant, scope: str, resource: str) -> dict[str, Any]:
    """Return what a client gets that asks for this scope and this resource."""
    registered, pkce = await web.register(), Pkce()
    url = authorize_url(registered["client_id"], pkce, scope=scope, resource=resource)
    code = (await web.code(url, person, tenant))["code"]
    answer = await web.post(
        "/token",
        {
            "grant_type": "authorization_code",
            "client_id": registered["client_id"],
            "code": code,
            "redirect_uri": REDIRECT,
            "code_verifier": pkce.verifier,
            **({"resource": resource} if resource else {}),
        },
    )
    assert answer.status_code == 200, answer.text
    payload: dict[str, Any] = answer.json()
    return {**payload, "client": registered}


@pytest.mark.system
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_sdks_client_signs_in_saves_and_recalls(web: Web, person: Person, tenant: Tenant, mode: str) -> None:
    storage = Storage()
    async with signing_in(web, person, tenant, storage, mode=mode) as (client, sent):
        tools = await client.list_tools()
        saved = await client.call_tool("remember", {"content": "Ada prefers tea", "tags": ["drinks"]})
        result = await client.call_tool("recall", {"query": "What does Ada drink?"})
        listed = await client.list_resources()
        read = await client.read_resource(listed.resources[0].uri)
        prompt = await client.get_prompt("build_context", {"question": "What does Ada drink?"})

    assert [tool.name for tool in tools.tools] == ["remember", "recall", "build_context"]
    assert saved.structured_content["memory"]["content"] == "Ada prefers tea"
    assert result.structured_content["hits"][0]["item_id"] == saved.structured_content["memory"]["memory_id"]
    assert json.loads(read.contents[0].text)["content"] == "Ada prefers tea"  # type: ignore[union-attr]
    assert "Ada prefers tea" in prompt.messages[0].content.text  # type: ignore[union-attr]
    # One sign-in, for this resource, for no more than these tools need.
    parameters = parse_qs(urlsplit(sent[0]).query)
    assert len(sent) == 1
    assert parameters["resource"] == [web.origin + "/mcp"]
    assert set(parameters["scope"][0].split()) - {"offline_access"} == DEFAULT_SCOPE
    assert storage.tokens is not None


@pytest.mark.system
async def test_a_client_that_needs_more_asks_its_person_for_more(web: Web, person: Person, tenant: Tenant) -> None:
    result = await token_of(web, person, tenant, "memory.read", web.origin + "/mcp")
    storage = Storage(
        OAuthToken(access_token=result["access_token"], scope=result["scope"]),
        OAuthClientInformationFull.model_validate({**result["client"], "issuer": web.origin}),
    )

    async with signing_in(web, person, tenant, storage, query="?toolsets=core,standard") as (client, sent):
        before = await client.call_tool("list_memories", {})
        asked_before = len(sent)
        saved = await client.call_tool("remember", {"content": "tea"})

    assert not before.is_error
    assert asked_before == 0
    assert not saved.is_error
    assert set(parse_qs(urlsplit(sent[0]).query)["scope"][0].split()) >= {"memory.read", "memory.write"}


async def test_an_insufficient_scope_is_an_http_error(web: Web, person: Person, tenant: Tenant) -> None:
    result = await token_of(web, person, tenant, "memory.read", web.origin + "/mcp")

    address = urlsplit(web.origin).netloc
    async with Mcp.of(address, result["access_token"], "?toolsets=core,standard") as mcp:
        answer = await mcp.send("tools/call", {"name": "remember", "arguments": {"content": "tea"}})
        listed = await mcp.call("list_memories")

    assert answer.status_code == 403
    challenge = answer.headers["www-authenticate"]
    assert 'error="insufficient_scope"' in challenge
    assert 'scope="memory.write"' in challenge
    assert f'resource_metadata="{web.origin}/.well-known/oauth-protected-resource/mcp"' in challenge
    assert answer.json()["result"]["_meta"]["skein/error"]["reason"] == "PERMISSION_MISSING"
    assert "memories" not in listed


@pytest.mark.parametrize(
    "sent", ["", "{origin}", "{origin}/", "{origin}/mcp/", "{origin}/mcp?toolsets=all", "{local}/mcp"]
)
async def test_what_can_only_mean_mcp_reaches_it(web: Web, person: Person, tenant: Tenant, sent: str) -> None:
    local = web.origin.replace("127.0.0.1", "LocalHost")
    result = await token_of(web, person, tenant, "recall.read", sent.format(origin=web.origin, local=local))

    async with Mcp.of(urlsplit(web.origin).netloc, result["access_token"]) as mcp:
        listed = await mcp.send("tools/list")
        found = await mcp.call("recall", query="tea")

    assert listed.status_code == 200
    assert "hits" not in found


@pytest.mark.parametrize(
    "sent", ["https://else.example/mcp", "{origin}/mcp/sse", "{origin}?toolsets=all", "{origin}/mcp#a"]
)
async def test_another_resource_is_refused_with_the_ones_there_are(web: Web, person: Person, sent: str) -> None:
    client_id = (await web.register())["client_id"]
    url = authorize_url(client_id, Pkce(), resource=sent.format(origin=web.origin))

    page = await web.get(url)
    await web.consent(authorize_url(client_id, Pkce()), person)
    back = redirect_parameters(await web.get(url))

    known = f"resource: is none of {web.origin}, {web.origin}/mcp"
    assert (page.status_code, known in page.text) == (400, True)
    assert (back["error"], known in back["error_description"]) == ("invalid_target", True)


async def test_the_address_with_a_slash_is_the_same(web: Web, tenant: Tenant) -> None:
    headers = {"authorization": f"Bearer {tenant.api_key}", **JSON}

    answer = await web.client.post("/mcp/", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, headers=headers)
    stranger = await web.client.post("/mcp/", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, headers=JSON)
    document = await web.get("/.well-known/oauth-protected-resource/mcp/")

    assert len(answer.json()["result"]["tools"]) == 3
    assert (
        f'resource_metadata="{web.origin}/.well-known/oauth-protected-resource/mcp"'
        in stranger.headers["www-authenticate"]
    )
    assert document.json()["resource"] == web.origin + "/mcp"


@pytest.mark.parametrize(
    "redirect",
    [
        "cursor://anysphere.cursor-retrieval/oauth/user-skein/callback",
        "cursor://anysphere.cursor-mcp/oauth/callback",
        "windsurf://codeium.windsurf/oauth/callback",
        "vscode://vscode.github-authentication/did-authenticate",
    ],
)
async def test_an_editor_registers_the_scheme_of_its_own(
    web: Web, person: Person, tenant: Tenant, redirect: str
) -> None:
    registered, pkce = await web.register(redirect_uris=[redirect]), Pkce()
    url = authorize_url(registered["client_id"], pkce, redirect_uri=redirect, scope="recall.read")
    page = await web.consent(url, person)
    approved = await web.submit(page, "answer", decision="allow", tenant_id=str(tenant.tenant_id))
    code = parse_qs(urlsplit(approved.headers["location"]).query)["code"][0]

    form = {"grant_type": "authorization_code", "client_id": registered["client_id"], "code": code}
    answer = await web.post("/token", {**form, "redirect_uri": redirect, "code_verifier": pkce.verifier})
    elsewhere = await web.get(
        authorize_url(registered["client_id"], pkce, redirect_uri=redirect + "/more", scope="recall.read")
    )

    assert approved.headers["location"].startswith(redirect + "?")
    assert answer.status_code == 200
    assert (elsewhere.status_code, "location" in elsewhere.headers) == (400, False)


async def test_a_scheme_that_is_refused_names_the_setting(web: Web) -> None:
    metadata = {"redirect_uris": ["someeditor://back"], "token_endpoint_auth_method": "none"}

    answer = await web.client.post("/register", json=metadata)

    assert answer.json()["error"] == "invalid_redirect_uri"
    assert "SKEIN_REDIRECT_SCHEMES" in answer.json()["error_description"]


@pytest.mark.system
async def test_a_token_for_mcp_is_refused_by_the_api(web: Web, person: Person, tenant: Tenant) -> None:
    for_api = (await token_of(web, person, tenant, "memory.read", web.origin))["access_token"]
    for_mcp = (await token_of(web, person, tenant, "memory.read", web.origin + "/mcp"))["access_token"]
    address = urlsplit(web.origin).netloc

    async with Mcp.of(address, for_api) as api, Mcp.of(address, for_mcp) as mcp:
        here = [(await one.send("tools/list")).status_code for one in (api, mcp)]
        there = [(await web.client.post(LIST, json={}, headers=one.headers)).status_code for one in (api, mcp)]

    assert (here, there) == ([200, 200], [200, 401])


async def test_an_expired_token_is_reported_as_expired(
    cluster: Cluster, web: Web, person: Person, tenant: Tenant
) -> None:
    token = (await token_of(web, person, tenant, "memory.read", web.origin + "/mcp"))["access_token"]
    expired = _signed(token, await _signing_key(cluster), exp=int(time.time()) - 60, jti=str(uuid.uuid4()))

    async with Mcp.of(urlsplit(web.origin).netloc, expired) as mcp:
        answer = await mcp.send("tools/list")

    assert answer.status_code == 401
    assert 'error="invalid_token"' in answer.headers["www-authenticate"]
    assert answer.json()["error"]["data"]["reason"] == "CREDENTIAL_EXPIRED"


@pytest.mark.system
async def test_more_tools_are_a_wider_question(web: Web, person: Person, tenant: Tenant) -> None:
    storage = Storage()
    async with signing_in(web, person, tenant, storage, query="?toolsets=core,tenant") as (client, sent):
        tools = await client.list_tools()

    parameters = parse_qs(urlsplit(sent[0]).query)
    assert {"remember", "list_people"} <= {tool.name for tool in tools.tools}
    assert parameters["resource"] == [web.origin + "/mcp"]
    assert {"subject.read", "tenant.write"} <= set(parameters["scope"][0].split())


async def test_the_resource_says_where_its_tokens_come_from(web: Web) -> None:
    answer = await web.get("/.well-known/oauth-protected-resource/mcp")

    document = answer.json()
    assert document["resource"] == web.origin + "/mcp"
    assert document["authorization_servers"] == [web.origin]
    assert set(document["scopes_supported"]) >= DEFAULT_SCOPE


async def _signing_key(cluster: Cluster) -> RSAKey:
    """Open the key that signs access tokens: an attacker who could make any token would have this."""
    async with cluster.superuser() as connection:
        row = await connection.fetchrow(
            "SELECT key_id, encrypted_private_jwk FROM auth.signing_keys WHERE purpose = 'access'"
            " AND expire_time IS NULL"
        )
    assert row is not None
    private = SecretCipher(SystemKeys.of(SYSTEM_KEY)).decrypt(row["encrypted_private_jwk"], name=row["key_id"])
    return RSAKey.import_key(json.loads(private))


def _signed(token: str, key: RSAKey, **changed: object) -> str:
    """Return a token like this one with other claims, signed by the right key."""
    header, claims = (json.loads(base64.urlsafe_b64decode(part + "==")) for part in token.split(".")[:2])
    return jwt.encode(header, {**claims, **changed}, key, algorithms=["RS256"])
