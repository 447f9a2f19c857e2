"""Which pages may read the HTTP API's answers, and which address a call comes from."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from fix_cluster import Cluster, Tenant
from fix_gateway import gateway_before
from fix_web import Web

from skein.session.v1 import session_pb2
from skein_kit.calls.call import Call

LIST = "/skein.memory.v1.MemoryService/ListMemories"
OURS = "https://app.example"
ALLOWED = "access-control-allow-origin"


@pytest.fixture
async def web(cluster: Cluster, tenant: Tenant) -> AsyncIterator[Web]:
    async with (
        gateway_before(cluster, tenant, {}, SKEIN_CORS_ORIGINS=f"{OURS},http://localhost:3000") as gateway,
        Web.of(gateway.host.addresses["http"]) as browser,
    ):
        yield browser


def preflight(origin: str) -> dict[str, str]:
    return {
        "origin": origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type",
    }


@pytest.mark.parametrize("path", [LIST, "/token", "/register", "/revoke", "/introspect", "/userinfo"])
async def test_a_listed_origin_may_call(web: Web, path: str) -> None:
    answer = await web.client.options(path, headers=preflight(OURS))
    answered = await web.client.post(path, headers={"origin": OURS})

    assert (answer.status_code, answer.headers[ALLOWED]) == (200, OURS)
    assert answered.headers[ALLOWED] == OURS
    assert "access-control-allow-credentials" not in answered.headers
    assert "Origin" in answered.headers["vary"]


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "https://app.example.evil.example", "http://app.example", "null"]
)
@pytest.mark.parametrize("path", [LIST, "/token", "/userinfo"])
async def test_no_other_origin_may(web: Web, path: str, origin: str) -> None:
    answer = await web.client.options(path, headers=preflight(origin))
    answered = await web.client.post(path, headers={"origin": origin})

    assert answer.status_code == 400
    assert ALLOWED not in answer.headers
    assert ALLOWED not in answered.headers


@pytest.mark.system
@pytest.mark.parametrize(
    "path", ["/.well-known/oauth-authorization-server", "/.well-known/oauth-protected-resource", "/jwks.json"]
)
async def test_discovery_is_for_everybody(web: Web, path: str) -> None:
    answer = await web.client.get(path, headers={"origin": "https://anybody.example"})

    assert (answer.status_code, answer.headers[ALLOWED]) == (200, "*")


@pytest.mark.parametrize("path", ["/authorize", "/device", "/account/reset", "/"])
async def test_pages_are_closed_to_other_origins(web: Web, path: str) -> None:
    preflighted = await web.client.options(path, headers=preflight(OURS))
    answer = await web.client.get(path, headers={"origin": OURS})

    assert ALLOWED not in preflighted.headers
    assert ALLOWED not in answer.headers


@pytest.mark.parametrize(("trusted", "expected"), [("127.0.0.0/8", "203.0.113.7"), ("", "127.0.0.1")])
async def test_a_proxys_word_counts_if_it_is_trusted(
    cluster: Cluster, tenant: Tenant, trusted: str, expected: str
) -> None:
    async def append(_request: session_pb2.AppendMessagesRequest, call: Call) -> session_pb2.AppendMessagesResponse:
        seen.append(call.client_address)
        return session_pb2.AppendMessagesResponse()

    seen: list[str] = []
    request = session_pb2.AppendMessagesRequest(session_id="s", messages=[session_pb2.Message(content="tea")])
    async with gateway_before(cluster, tenant, {"AppendMessages": append}, SKEIN_TRUSTED_PROXIES=trusted) as gateway:
        async with Web.of(gateway.host.addresses["http"]) as web:
            await web.client.post(
                "/skein.session.v1.SessionService/AppendMessages",
                json={"sessionId": "s", "messages": [{"content": "tea"}]},
                headers={"authorization": f"Bearer {tenant.api_key}", "x-forwarded-for": "6.6.6.6, 203.0.113.7"},
            )
        await gateway.sessions.AppendMessages(request, metadata=(("x-forwarded-for", "6.6.6.6, 203.0.113.7"),))

    assert seen == [expected, expected]
