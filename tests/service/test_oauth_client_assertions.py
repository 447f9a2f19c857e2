"""Clients that authenticate with signed assertions (private_key_jwt), at the HTTP port."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest
from fix_cluster import Cluster, Tenant
from fix_web import REDIRECT, Person, Pkce, Web, authorize_url, new_person
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey

KEY = ECKey.generate_key("P-256", {"kid": "first"})
OTHER_KEY = ECKey.generate_key("P-256", {"kid": "first"})
TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


@pytest.fixture
async def web(cluster: Cluster) -> AsyncIterator[Web]:
    async with Web.of(cluster.addresses["http"]) as browser:
        yield browser


@pytest.fixture
async def client(web: Web) -> dict[str, Any]:
    return await registered(web)


@pytest.fixture
async def person(cluster: Cluster, tenant: Tenant) -> Person:
    return await new_person(cluster, tenant)


async def registered(web: Web, key: ECKey = KEY) -> dict[str, Any]:
    keys = {"keys": [dict(key.as_dict(private=False))]}
    return await web.register(token_endpoint_auth_method="private_key_jwt", jwks=keys)


def assertion(
    web: Web, client: dict[str, Any], *, key: ECKey | OctKey = KEY, alg: str = "ES256", **changed: Any
) -> str:
    at = int(time.time())
    name = client["client_id"]
    claims = {"iss": name, "sub": name, "aud": web.origin, "iat": at, "exp": at + 60, "jti": uuid4().hex, **changed}
    return jwt.encode({"alg": alg, "kid": "first"}, claims, key, algorithms=[alg])


def proof(text: str, **fields: str) -> dict[str, str]:
    return {"client_assertion_type": TYPE, "client_assertion": text, **fields}


async def tried(web: Web, text: str, **fields: str) -> tuple[int, str]:
    """Revoke no token in the name of the client; a client that is authenticated gets 200."""
    answer = await web.post("/revoke", {"token": "none", **proof(text, **fields)})
    return answer.status_code, answer.json()["error"] if answer.content else ""


async def test_a_client_gets_tokens_with_its_key(
    web: Web, client: dict[str, Any], person: Person, tenant: Tenant
) -> None:
    pkce = Pkce()
    code = (await web.code(authorize_url(client["client_id"], pkce), person, tenant))["code"]
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": REDIRECT, "code_verifier": pkce.verifier}

    answer = await web.post("/token", {**form, **proof(assertion(web, client))})
    seen = await web.post(
        "/introspect", {"token": answer.json()["access_token"], **proof(assertion(web, client, aud=[web.origin]))}
    )

    assert answer.status_code == 200, answer.text
    assert seen.json()["client_id"] == client["client_id"]
    assert "client_secret" not in client


async def test_the_assertion_alone_names_the_client(web: Web, client: dict[str, Any]) -> None:
    assert await tried(web, assertion(web, client)) == (200, "")
    assert await tried(web, assertion(web, client), client_id=client["client_id"]) == (200, "")


async def test_an_assertion_works_once(web: Web, client: dict[str, Any]) -> None:
    text = assertion(web, client)

    assert await tried(web, text) == (200, "")
    assert await tried(web, text) == (401, "invalid_client")


async def test_forged_and_foreign_assertions_are_refused(web: Web, client: dict[str, Any]) -> None:
    at = int(time.time())
    neighbour = await registered(web, OTHER_KEY)
    shared = OctKey.import_key(json.dumps(KEY.as_dict(private=False)))
    header = assertion(web, client).split(".")[0]
    unsigned = ".".join([header.replace(header, "eyJhbGciOiJub25lIn0"), assertion(web, client).split(".")[1], ""])
    refusals = {
        "alg none": unsigned,
        "HMAC with the public key": assertion(web, client, key=shared, alg="HS256"),
        "the key of another client": assertion(web, client, key=OTHER_KEY),
        "in the name of another client": assertion(web, neighbour),
        "for the token endpoint": assertion(web, client, aud=f"{web.origin}/token"),
        "for another server": assertion(web, client, aud="https://other.example"),
        "expired": assertion(web, client, exp=at - 60),
        "of the future": assertion(web, client, iat=at + 600),
        "of no client": assertion(web, {"client_id": str(uuid4())}),
        "of a long life": assertion(web, client, exp=at + 86_400),
        "damaged": assertion(web, client)[:-4] + "AAAA",
    }

    answers = {name: await tried(web, text) for name, text in refusals.items()}

    # After ten refusals of one source they are no more recorded, and it is told so.
    assert {status for status, _ in answers.values()} <= {401, 429}, answers
    assert answers["alg none"] == answers["HMAC with the public key"] == (401, "invalid_client")
    assert await tried(web, assertion(web, client)) == (200, "")


async def test_the_assertion_of_one_client_does_not_serve_another(web: Web, client: dict[str, Any]) -> None:
    neighbour = await registered(web)

    answer = await tried(web, assertion(web, client), client_id=neighbour["client_id"])

    assert answer[0] in {401, 429}


@pytest.mark.parametrize(
    "fields",
    [
        {"client_assertion_type": TYPE},
        {"client_assertion": "x"},
        {"client_assertion": "x", "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:saml2-bearer"},
        {"client_assertion": "x", "client_assertion_type": TYPE, "client_secret": "secret"},
        {"client_assertion": "x" * 9000, "client_assertion_type": TYPE},
        {"client_assertion": "x" * 70_000, "client_assertion_type": TYPE},
    ],
    ids=",".join,
)
async def test_a_damaged_authentication_is_told_apart_from_a_wrong_one(web: Web, fields: dict[str, str]) -> None:
    answer = await web.post("/revoke", {"token": "none", **fields})

    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")


async def test_a_client_with_keys_cannot_authenticate_otherwise(web: Web, client: dict[str, Any]) -> None:
    plain = await web.post("/revoke", {"token": "none", "client_id": client["client_id"]})
    secret = await web.post("/revoke", {"token": "none", "client_id": client["client_id"], "client_secret": "x"})

    assert {plain.status_code, secret.status_code} <= {401, 429}


async def test_registration_and_management_tell_the_keys(web: Web, client: dict[str, Any]) -> None:
    headers = {"authorization": f"Bearer {client['registration_access_token']}"}
    url = f"/register/{client['client_id']}"

    read = (await web.client.get(url, headers=headers)).json()
    keys = {"keys": [dict(OTHER_KEY.as_dict(private=False))]}
    replaced = await web.client.put(url, headers=headers, json={**client, "jwks": keys})
    as_secret = {**client, "token_endpoint_auth_method": "client_secret_basic"}
    refused = await web.client.put(url, headers=headers, json=as_secret)

    assert read["jwks"] == client["jwks"] == {"keys": [dict(KEY.as_dict(private=False))]}
    assert replaced.json()["jwks"] == keys
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_client_metadata")
    assert (await tried(web, assertion(web, client)))[0] in {401, 429}
    assert (await tried(web, assertion(web, client, key=OTHER_KEY)))[0] == 200


async def test_the_metadata_names_the_method_and_its_algorithms(web: Web) -> None:
    document = (await web.get("/.well-known/oauth-authorization-server")).json()

    assert "private_key_jwt" in document["token_endpoint_auth_methods_supported"]
    assert "ES256" in document["token_endpoint_auth_signing_alg_values_supported"]
    assert not {"none", "HS256"} & set(document["token_endpoint_auth_signing_alg_values_supported"])
    # No issuer of identity assertions is configured here.
    assert not any("jwt-bearer" in grant for grant in document["grant_types_supported"])
