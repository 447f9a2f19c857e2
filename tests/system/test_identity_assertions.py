"""Identity assertions (ID-JAG): an enterprise's issuer lets clients act for its people, in its tenant alone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from fix_accounts import Account, member
from fix_cluster import Cluster, Tenant, running_cluster, test_environment
from fix_issuer import Issuer, issuing, new_key
from fix_web import Web
from httpx2 import AsyncClient, Timeout
from mcp.client.auth.extensions.identity_assertion import IdentityAssertionOAuthProvider
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from skein.auth.v1 import accounts_pb2
from skein.tenancy.v1 import members_pb2
from skein_auth.oauth_clients.model import DEFAULT_SCOPES

GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
# Nothing listens there.
SILENT = "http://127.0.0.1:9"
LIST = "/skein.memory.v1.MemoryService/ListMemories"


class NoStorage:
    """Keeps no token between runs."""

    async def get_tokens(self) -> OAuthToken | None:
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        assert tokens.refresh_token is None

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """The client is registered already."""


@dataclass(frozen=True)
class Enterprise:
    """A cluster whose tenant has an issuer of its own, and a client of it."""

    cluster: Cluster
    web: Web
    tenant: Tenant
    issuer: Issuer
    client: dict[str, Any]

    def assertion(self, subject: str, **claims: Any) -> str:
        return self.issuer.id_jag(subject, self.client["client_id"], self.web.origin, **claims)

    async def redeem(self, assertion: str, *, client: dict[str, Any] | None = None, **fields: str) -> Any:
        used = client or self.client
        form = {"grant_type": GRANT, "assertion": assertion, "client_id": used["client_id"], **fields}
        if "client_secret" in used:
            form["client_secret"] = used["client_secret"]
        return await self.web.post("/token", form)

    async def person(self, subject: str, role: str = "member") -> Account:
        """Make a member of the tenant whose account is linked to a subject of the issuer."""
        account = await member(self.cluster, self.tenant, role)
        token = self.issuer.id_token(subject)
        await account.stubs.auth.LinkIdentity(accounts_pb2.LinkIdentityRequest(provider="home", token=token))
        return account


@pytest.fixture(scope="module")
async def enterprise(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Enterprise]:
    folder = tmp_path_factory.mktemp("enterprise")
    with issuing() as issuer:
        environment = {**test_environment(), **issuer.settings, "SKEIN_ADVANCED_MAX_ATTEMPTS": "1000"}
        async with running_cluster(folder, environment) as cluster:
            tenant = await cluster.new_tenant()
        environment["SKEIN_ASSERTION_ISSUERS"] = f"{issuer.oidc};{tenant.tenant_id}, {SILENT};{tenant.tenant_id}"
        async with running_cluster(folder, environment) as cluster, Web.of(cluster.addresses["http"]) as web:
            client = await web.register(
                grant_types=[GRANT], redirect_uris=[], token_endpoint_auth_method="client_secret_post"
            )
            yield Enterprise(cluster=cluster, web=web, tenant=tenant, issuer=issuer, client=client)


def error_of(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json().get("error", "")


async def test_a_client_acts_for_a_person_without_a_browser(enterprise: Enterprise) -> None:
    ann = await enterprise.person("ann-1")

    answer = await enterprise.redeem(enterprise.assertion("ann-1", scope="memory.read recall.read"))

    tokens = answer.json()
    listed = await enterprise.web.client.post(
        LIST, json={}, headers={"authorization": f"Bearer {tokens['access_token']}"}
    )
    seen = await enterprise.web.post("/introspect", {"token": tokens["access_token"], **secret(enterprise.client)})
    assert (answer.status_code, listed.status_code) == (200, 200)
    assert (tokens["scope"], "refresh_token" in tokens) == ("memory.read recall.read", False)
    assert (seen.json()["sub"], seen.json()["tenant_id"]) == (ann.account_id, str(enterprise.tenant.tenant_id))
    document = (await enterprise.web.get("/.well-known/oauth-authorization-server")).json()
    assert GRANT in document["grant_types_supported"]
    assert document["authorization_grant_profiles_supported"] == ["urn:ietf:params:oauth:grant-profile:id-jag"]


def secret(client: dict[str, Any]) -> dict[str, str]:
    return {"client_id": client["client_id"], "client_secret": client["client_secret"]}


async def test_the_sdk_of_mcp_gets_in_with_an_identity_assertion(enterprise: Enterprise) -> None:
    await enterprise.person("ann-2")

    async def assertion(audience: str, resource: str) -> str:
        return enterprise.issuer.id_jag("ann-2", enterprise.client["client_id"], audience, resource=resource)

    provider = IdentityAssertionOAuthProvider(
        server_url=enterprise.web.origin + "/mcp",
        storage=NoStorage(),
        issuer=enterprise.web.origin,
        assertion_provider=assertion,
        client_id=enterprise.client["client_id"],
        client_secret=enterprise.client["client_secret"],
    )
    async with (
        AsyncClient(auth=provider, trust_env=False, timeout=Timeout(30)) as http,
        Client(streamable_http_client(enterprise.web.origin + "/mcp", http_client=http)) as client,
    ):
        tools = await client.list_tools()

    assert {"recall", "remember"} <= {tool.name for tool in tools.tools}


async def test_an_assertion_works_once_even_at_the_same_moment(enterprise: Enterprise) -> None:
    await enterprise.person("ann-3")
    text = enterprise.assertion("ann-3")

    answers = await asyncio.gather(*(enterprise.redeem(text) for _ in range(4)))

    assert sorted(error_of(answer) for answer in answers) == [(200, ""), *[(400, "invalid_grant")] * 3]


async def test_every_other_assertion_is_refused(enterprise: Enterprise) -> None:
    await enterprise.person("ann-4")
    at = int(time.time())
    foreign = new_key("first")
    unlinked = "nobody"
    refusals = {
        "expired": enterprise.assertion("ann-4", exp=at - 60),
        "of the future": enterprise.assertion("ann-4", iat=at + 600),
        "for another server": enterprise.assertion("ann-4", aud="https://other.example"),
        "for another client": enterprise.assertion("ann-4", client_id="other"),
        "of an unknown issuer": enterprise.assertion("ann-4", iss="https://idp.example"),
        "signed by a stranger": enterprise.assertion("ann-4", key=foreign),
        "an ID token": enterprise.issuer.id_token("ann-4"),
        "for another tenant": enterprise.assertion("ann-4", aud_tenant="0190a3c5-0000-7000-8000-000000000001"),
        "bound to a key": enterprise.assertion("ann-4", cnf={"jkt": "x"}),
        "of a person without an account": enterprise.assertion(unlinked),
        "without an id": enterprise.assertion("ann-4", jti=None),
        "damaged": enterprise.assertion("ann-4") + "A",
    }

    answers = {name: error_of(await enterprise.redeem(text)) for name, text in refusals.items()}

    assert answers == dict.fromkeys(refusals, (400, "invalid_grant"))


async def test_an_issuer_speaks_for_its_own_tenant_alone(enterprise: Enterprise) -> None:
    other = await enterprise.cluster.new_tenant()
    stranger = await member(enterprise.cluster, other, "owner")
    token = enterprise.issuer.id_token("stranger")
    await stranger.stubs.auth.LinkIdentity(accounts_pb2.LinkIdentityRequest(provider="home", token=token))

    answer = await enterprise.redeem(enterprise.assertion("stranger"))

    assert error_of(answer) == (400, "invalid_grant")


async def test_scopes_are_those_of_assertion_request_and_role(enterprise: Enterprise) -> None:
    await enterprise.person("viewer", "viewer")

    def redeem(asserted: str, requested: str) -> Any:
        return enterprise.redeem(enterprise.assertion("viewer", scope=asserted), scope=requested)

    less = await redeem("memory.read recall.read", "memory.read")
    more_than_role = await redeem("memory.read memory.write", "")
    more_than_asserted = await redeem("memory.read", "recall.read")
    nothing = await redeem("memory.write", "")

    assert (less.json()["scope"], more_than_role.json()["scope"]) == ("memory.read", "memory.read")
    assert error_of(more_than_asserted) == error_of(nothing) == (400, "invalid_scope")


async def test_an_assertion_without_scopes_allows_the_default_ones(enterprise: Enterprise) -> None:
    await enterprise.person("admin", "admin")

    default = await enterprise.redeem(enterprise.assertion("admin"))
    less = await enterprise.redeem(enterprise.assertion("admin"), scope="memory.read")
    more = await enterprise.redeem(enterprise.assertion("admin"), scope="memory.read keys.write")
    asserted = await enterprise.redeem(enterprise.assertion("admin", scope="keys.write"), scope="keys.write")

    assert set(default.json()["scope"].split()) == DEFAULT_SCOPES
    assert (less.json()["scope"], asserted.json()["scope"]) == ("memory.read", "keys.write")
    assert error_of(more) == (400, "invalid_scope")


async def test_resources_are_at_most_those_of_the_assertion(enterprise: Enterprise) -> None:
    await enterprise.person("ann-5")
    mcp = enterprise.web.origin + "/mcp"

    narrow = await enterprise.redeem(enterprise.assertion("ann-5", resource=mcp), resource=mcp)
    wide = await enterprise.redeem(enterprise.assertion("ann-5", resource=mcp), resource=enterprise.web.origin)

    assert narrow.status_code == 200
    assert error_of(wide) == (400, "invalid_target")


async def test_public_and_unregistered_clients_cannot_use_assertions(enterprise: Enterprise) -> None:
    public = await enterprise.web.register(grant_types=[GRANT], redirect_uris=[], token_endpoint_auth_method="none")
    other_grants = await enterprise.web.register(token_endpoint_auth_method="client_secret_post")

    for client in (public, other_grants):
        text = enterprise.issuer.id_jag("ann-1", client["client_id"], enterprise.web.origin)
        assert error_of(await enterprise.redeem(text, client=client)) == (400, "unauthorized_client")


async def test_a_removed_member_loses_the_tokens(enterprise: Enterprise) -> None:
    ann = await enterprise.person("ann-6")
    tokens = (await enterprise.redeem(enterprise.assertion("ann-6"))).json()
    operator = enterprise.cluster.with_key(
        enterprise.cluster.operator_key, **{"skein-tenant-id": str(enterprise.tenant.tenant_id)}
    )
    await operator.tenancy.RemoveMember(members_pb2.RemoveMemberRequest(account_id=ann.account_id))

    # Auth caches memberships for some seconds.
    async with asyncio.timeout(30):
        while (await enterprise.redeem(enterprise.assertion("ann-6"))).status_code == 200:
            await asyncio.sleep(0.2)
    seen = await enterprise.web.post("/introspect", {"token": tokens["access_token"], **secret(enterprise.client)})

    assert seen.json() == {"active": False}


async def test_an_issuer_that_does_not_answer_is_temporary(enterprise: Enterprise) -> None:
    answer = await enterprise.redeem(enterprise.assertion("ann", iss=SILENT))

    assert error_of(answer) == (503, "temporarily_unavailable")
