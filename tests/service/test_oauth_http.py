"""OAuth at the gateway's HTTP port: discovery, registration, codes, tokens, devices, as raw HTTP."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from fix_cluster import Cluster, Tenant
from fix_web import PASSWORD, REDIRECT, SCOPE, Person, Pkce, Web, authorize_url, new_person, redirect_parameters

DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"
LIST = "/skein.memory.v1.MemoryService/ListMemories"


@pytest.fixture
async def web(cluster: Cluster) -> AsyncIterator[Web]:
    async with Web.of(cluster.addresses["http"]) as browser:
        yield browser


@pytest.fixture
async def person(cluster: Cluster, tenant: Tenant) -> Person:
    return await new_person(cluster, tenant)


async def tokens_of(
    web: Web, client: dict[str, Any], person: Person, tenant: Tenant, **parameters: str
) -> dict[str, Any]:
    """Walk the whole way to tokens."""
    pkce = Pkce()
    back = await web.code(authorize_url(client["client_id"], pkce, **parameters), person, tenant)
    answer = await redeem(web, client, back["code"], pkce)
    assert answer.status_code == 200, answer.text
    payload: dict[str, Any] = answer.json()
    return payload


async def redeem(web: Web, client: dict[str, Any], code: str, pkce: Pkce, **changed: str) -> Any:
    return await web.post(
        "/token",
        {
            "grant_type": "authorization_code",
            "client_id": client["client_id"],
            "code": code,
            "redirect_uri": REDIRECT,
            "code_verifier": pkce.verifier,
            **changed,
        },
    )


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def basic(client: dict[str, Any]) -> dict[str, str]:
    pair = f"{client['client_id']}:{client['client_secret']}"
    return {"authorization": "Basic " + base64.b64encode(pair.encode()).decode()}


async def listed(web: Web, token: str) -> int:
    return (await web.client.post(LIST, json={}, headers=bearer(token))).status_code


async def test_both_discovery_documents_tell_the_same(web: Web) -> None:
    oauth = (await web.get("/.well-known/oauth-authorization-server")).json()
    openid = (await web.get("/.well-known/openid-configuration")).json()

    assert oauth == openid
    assert oauth["issuer"] == web.origin
    assert oauth["code_challenge_methods_supported"] == ["S256"]
    assert {"memory.read", "openid"} <= set(oauth["scopes_supported"])


async def test_every_endpoint_that_is_named_exists(web: Web) -> None:
    document = (await web.get("/.well-known/oauth-authorization-server")).json()
    named = {name: url for name, url in document.items() if name.endswith("_endpoint") or name == "jwks_uri"}

    results = {name: (await web.client.get(url)).status_code for name, url in named.items()}

    assert len(named) == 8
    assert {name for name, status in results.items() if status == 404} == set()


@pytest.mark.parametrize("path", ["", "/mcp"])
async def test_resources_say_where_their_tokens_come_from(web: Web, path: str) -> None:
    document = (await web.get(f"/.well-known/oauth-protected-resource{path}")).json()

    assert document["resource"] == web.origin + path
    assert document["authorization_servers"] == [web.origin]


async def test_a_resource_that_there_is_not_has_no_document(web: Web) -> None:
    assert (await web.get("/.well-known/oauth-protected-resource/other")).status_code == 404


async def test_the_keys_hold_nothing_secret(web: Web) -> None:
    keys = (await web.get("/jwks.json")).json()["keys"]

    assert keys
    assert {key["kty"] for key in keys} == {"RSA"}
    assert all(not {"d", "p", "q", "dp", "dq", "qi"} & set(key) for key in keys)


async def test_a_code_becomes_tokens_that_open_the_tenant(web: Web, person: Person, tenant: Tenant) -> None:
    client, pkce = await web.register(), Pkce()

    back = await web.code(authorize_url(client["client_id"], pkce), person, tenant)
    answer = await redeem(web, client, back["code"], pkce)

    assert (back["state"], back["iss"]) == ("the state", web.origin)
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    payload = answer.json()
    assert (payload["token_type"], set(payload["scope"].split())) == ("Bearer", set(SCOPE.split()))
    assert await listed(web, payload["access_token"]) == 200


async def test_a_refresh_token_gives_the_next(web: Web, person: Person, tenant: Tenant) -> None:
    client = await web.register()
    token_answer = await tokens_of(web, client, person, tenant)

    answer = await web.post(
        "/token",
        {
            "grant_type": "refresh_token",
            "client_id": client["client_id"],
            "refresh_token": token_answer["refresh_token"],
        },
    )

    assert answer.status_code == 200
    assert answer.json()["refresh_token"] != token_answer["refresh_token"]


@pytest.mark.system
async def test_a_revoked_refresh_token_gives_nothing(web: Web, person: Person, tenant: Tenant) -> None:
    client = await web.register()
    token_answer = await tokens_of(web, client, person, tenant)

    revoked = await web.post("/revoke", {"client_id": client["client_id"], "token": token_answer["refresh_token"]})
    answer = await web.post(
        "/token",
        {
            "grant_type": "refresh_token",
            "client_id": client["client_id"],
            "refresh_token": token_answer["refresh_token"],
        },
    )

    assert (revoked.status_code, revoked.content) == (200, b"")
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant")


async def test_a_client_with_a_secret_learns_what_its_token_allows(web: Web, person: Person, tenant: Tenant) -> None:
    client, pkce = await web.register(token_endpoint_auth_method="client_secret_basic"), Pkce()
    back = await web.code(authorize_url(client["client_id"], pkce), person, tenant)
    grant = {
        "grant_type": "authorization_code",
        "code": back["code"],
        "redirect_uri": REDIRECT,
        "code_verifier": pkce.verifier,
    }
    payload = (await web.post("/token", grant, **basic(client))).json()

    live = await web.post("/introspect", {"token": payload["access_token"]}, **basic(client))
    unknown = await web.post("/introspect", {"token": "nonsense"}, **basic(client))

    assert (live.json()["active"], live.json()["sub"], live.json()["iss"]) == (True, person.account_id, web.origin)
    assert live.json()["tenant_id"] == str(tenant.tenant_id)
    assert unknown.json() == {"active": False}


async def test_the_tenants_own_key_learns_what_a_token_allows(web: Web, person: Person, tenant: Tenant) -> None:
    token_answer = await tokens_of(web, await web.register(), person, tenant)

    live = await web.post("/introspect", {"token": token_answer["access_token"]}, **bearer(tenant.api_key))

    assert live.json()["active"] is True


async def test_userinfo_tells_what_the_scopes_let_out(web: Web, person: Person, tenant: Tenant) -> None:
    token_answer = await tokens_of(web, await web.register(), person, tenant, scope="openid email memory.read")

    who = await web.client.get("/userinfo", headers=bearer(token_answer["access_token"]))

    assert who.json() == {"sub": person.account_id, "email": person.email, "email_verified": True}
    assert token_answer["id_token"].count(".") == 2


async def test_discovery_names_the_scope_and_the_claims_of_an_address(web: Web) -> None:
    document = (await web.get("/.well-known/openid-configuration")).json()

    assert {"openid", "profile", "email"} <= set(document["scopes_supported"])
    assert {"sub", "name", "email", "email_verified"} <= set(document["claims_supported"])


@pytest.mark.system
async def test_userinfo_wants_a_token(web: Web, person: Person, tenant: Tenant) -> None:
    token_answer = await tokens_of(web, await web.register(), person, tenant)

    nothing = await web.get("/userinfo")
    wrong = await web.client.get("/userinfo", headers=bearer("nonsense"))
    little = await web.client.get("/userinfo", headers=bearer(token_answer["access_token"]))

    metadata = f'resource_metadata="{web.origin}/.well-known/oauth-protected-resource"'
    assert (nothing.status_code, nothing.headers["www-authenticate"]) == (401, f"Bearer {metadata}")
    assert wrong.headers["www-authenticate"] == f'Bearer error="invalid_token", {metadata}'
    assert (little.status_code, little.json()["error"]) == (403, "insufficient_scope")


async def test_a_service_account_gets_a_token_for_its_key(web: Web, tenant: Tenant) -> None:
    from skein.auth.v1 import accounts_pb2, auth_pb2  # noqa: PLC0415

    made = await tenant.auth.CreateServiceAccount(
        accounts_pb2.CreateServiceAccountRequest(
            service_account=accounts_pb2.ServiceAccount(display_name="nightly", permissions=["memory.read"])
        )
    )
    account_id = made.service_account.service_account_id
    key = await tenant.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="k", service_account_id=account_id))

    answer = await web.post(
        "/token", {"grant_type": "client_credentials", "client_id": account_id, "client_secret": key.secret}
    )

    assert answer.status_code == 200, answer.text
    assert await listed(web, answer.json()["access_token"]) == 200
    assert "refresh_token" not in answer.json()


@pytest.mark.system
async def test_a_device_gets_tokens_once_its_person_agrees(web: Web, person: Person, tenant: Tenant) -> None:
    client = await web.register(grant_types=[DEVICE_CODE, "refresh_token"], redirect_uris=[], response_types=[])
    started = (await web.post("/device_authorization", {"client_id": client["client_id"], "scope": SCOPE})).json()
    poll = {"grant_type": DEVICE_CODE, "client_id": client["client_id"], "device_code": started["device_code"]}

    before = await web.post("/token", poll)
    page = await web.signed_in(await web.get("/device", user_code=started["user_code"]), person)
    page = await web.submit(page, "find", user_code=started["user_code"].lower().replace("-", ""))
    done = await web.submit(page, "answer", decision="allow", tenant_id=str(tenant.tenant_id))
    after = await web.post("/token", poll)

    assert started["verification_uri"] == f"{web.origin}/device"
    assert before.json()["error"] == "authorization_pending"
    assert (done.status_code, "Done" in done.text) == (200, True)
    # Asked too soon after the first time, a device is told to wait; its code stays good.
    assert after.json().get("error", "slow_down") == "slow_down"


async def test_a_client_looks_after_its_registration(web: Web) -> None:
    client = await web.register()
    path, proof = f"/register/{client['client_id']}", bearer(client["registration_access_token"])

    read = await web.client.get(path, headers=proof)
    changed = await web.client.put(
        path,
        headers=proof,
        json={"client_id": client["client_id"], "client_name": "Renamed", "redirect_uris": [REDIRECT],
              "token_endpoint_auth_method": "none"},
    )  # fmt: skip
    stranger = await web.client.get(path, headers=bearer("nonsense"))
    removed = await web.client.delete(path, headers=proof)
    after = await web.client.get(path, headers=proof)

    assert client["registration_client_uri"] == web.origin + path
    assert (read.status_code, read.json()["client_name"]) == (200, "Tester")
    assert (changed.status_code, changed.json()["client_name"]) == (200, "Renamed")
    assert (removed.status_code, after.status_code, stranger.status_code) == (204, 401, 401)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"redirect_uris": ["http://app.example/cb"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://app.example/cb#x"]}, "invalid_redirect_uri"),
        ({"redirect_uris": "https://app.example/cb"}, "invalid_client_metadata"),
        ({"redirect_uris": [REDIRECT], "grant_types": ["password"]}, "invalid_client_metadata"),
        ({"redirect_uris": [REDIRECT], "client_name": "x" * 300}, "invalid_client_metadata"),
        ({"redirect_uris": [REDIRECT], "client_name": "\ud800"}, "invalid_client_metadata"),
        ([], "invalid_client_metadata"),
    ],
)
async def test_a_registration_that_cannot_be_is_refused(web: Web, body: object, error: str) -> None:
    answer = await web.client.post(
        "/register", content=json.dumps(body).encode(), headers={"content-type": "application/json"}
    )

    assert (answer.status_code, answer.json()["error"]) == (400, error)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("", "invalid_request"),
        ("grant_type=authorization_code&grant_type=refresh_token&client_id=c", "invalid_request"),
        ("grant_type=password&client_id=c", "unsupported_grant_type"),
        ("grant_type=authorization_code&client_id=c&code=x", "invalid_request"),
        ("grant_type=refresh_token&client_id=c&refresh_token=" + "x" * 10_000, "invalid_request"),
        ("grant_type=refresh_token&client_id=c&refresh_token=%00", "invalid_request"),
        ("grant_type=refresh_token&client_id=c&refresh_token=" + "x" * 100_000, "invalid_request"),
    ],
)
async def test_a_token_request_that_breaks_a_rule_is_refused(web: Web, body: str, error: str) -> None:
    answer = await web.post("/token", body)

    assert (answer.status_code, answer.json()["error"]) == (400, error), answer.text
    assert answer.headers["cache-control"] == "no-store"


async def test_a_token_request_is_a_form(web: Web) -> None:
    answer = await web.client.post("/token", json={"grant_type": "refresh_token"})

    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")


async def test_a_client_that_shows_two_secrets_is_refused(web: Web) -> None:
    client = await web.register(token_endpoint_auth_method="client_secret_post")
    both = {"grant_type": "refresh_token", "refresh_token": "x", "client_secret": client["client_secret"]}

    answer = await web.post("/token", both, **basic(client))

    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")


async def test_an_unknown_client_is_told_how_to_authenticate(web: Web) -> None:
    answer = await web.post(
        "/token",
        {"grant_type": "refresh_token", "refresh_token": "x"},
        **basic({"client_id": "nobody", "client_secret": "s"}),
    )

    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")
    assert answer.headers["www-authenticate"].startswith("Basic ")


async def test_a_client_that_fails_too_often_has_to_wait(web: Web) -> None:
    client = await web.register(token_endpoint_auth_method="client_secret_post")
    wrong = {
        "grant_type": "refresh_token",
        "refresh_token": "x",
        "client_id": client["client_id"],
        "client_secret": "wrong",
    }

    answers = [await web.post("/token", wrong) for _ in range(11)]

    assert [answer.status_code for answer in answers[:2]] == [401, 401]
    assert (answers[-1].status_code, answers[-1].json()["error"]) == (429, "temporarily_unavailable")
    assert int(answers[-1].headers["retry-after"]) > 0


async def test_the_api_says_what_it_wants(web: Web, person: Person, tenant: Tenant) -> None:
    token_answer = await tokens_of(web, await web.register(), person, tenant, scope="session.read")

    nothing = await web.client.post(LIST, json={})
    wrong = await web.client.post(LIST, json={}, headers=bearer("nonsense"))
    little = await web.client.post(LIST, json={}, headers=bearer(token_answer["access_token"]))

    metadata = f'resource_metadata="{web.origin}/.well-known/oauth-protected-resource"'
    scope = 'scope="memory.read"'
    assert nothing.headers["www-authenticate"] == f"Bearer {scope}, {metadata}"
    assert wrong.headers["www-authenticate"] == f'Bearer error="invalid_token", {scope}, {metadata}'
    assert (little.status_code, little.headers["www-authenticate"]) == (
        403,
        f'Bearer error="insufficient_scope", scope="memory.read", {metadata}',
    )


async def test_a_person_who_says_no_is_believed(web: Web, person: Person) -> None:
    client = await web.register()
    page = await web.consent(authorize_url(client["client_id"], Pkce()), person)

    answer = await web.submit(page, "answer", decision="deny")

    assert answer.status_code == 303
    assert redirect_parameters(answer) == {"error": "access_denied", "state": "the state", "iss": web.origin} | (
        {"error_description": redirect_parameters(answer)["error_description"]}
        if "error_description" in redirect_parameters(answer)
        else {}
    )


async def test_a_password_does_not_show_in_any_answer(web: Web, person: Person) -> None:
    client = await web.register()
    page = await web.get(authorize_url(client["client_id"], Pkce()))

    answer = await web.submit(page, "sign_in", email=person.email, password=PASSWORD + "!")

    assert answer.status_code == 403
    assert PASSWORD not in answer.text
    assert person.email in answer.text
