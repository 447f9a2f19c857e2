"""The rules of signed assertions (RFC 7523) and of client keys: what a forger tries, and what a client registers."""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fix_catalogue import over
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from skein_auth.assertions.identity_assertions import parse_assertion_issuers
from skein_auth.assertions.keys import AssertionInvalid, key_set_error, read_claims, read_header, signing_keys, verify
from skein_auth.assertions.model import (
    CLIENT_ASSERTION_TYPES,
    IDENTITY_ASSERTION_TYPES,
    check_client_assertion,
    read_identity_assertion,
)
from skein_auth.errors import InvalidClientMetadata
from skein_auth.oauth_clients.model import from_document, from_metadata
from skein_kit.settings import SettingInvalid

AT = datetime(2026, 5, 4, 12, tzinfo=UTC)
SECONDS = int(AT.timestamp())
ISSUER = "https://skein.example"
IDP = "https://idp.example"
EC = ECKey.generate_key("P-256", {"kid": "ec"})
OTHER = ECKey.generate_key("P-256", {"kid": "ec"})
RSA = RSAKey.generate_key(2048, {"kid": "rsa"})
TENANT = "0190a3c5-0000-7000-8000-000000000001"


def public(*keys: ECKey | RSAKey) -> dict[str, Any]:
    return {"keys": [dict(key.as_dict(private=False)) for key in keys]}


def client_claims(**changed: Any) -> dict[str, Any]:
    return {
        "iss": "app",
        "sub": "app",
        "aud": ISSUER,
        "iat": SECONDS,
        "exp": SECONDS + 60,
        "jti": "1",
        **changed,
    }


def identity_claims(**changed: Any) -> dict[str, Any]:
    return {**client_claims(iss=IDP, sub="ann", client_id="app"), **changed}


def encoded(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()


def unsigned(header: dict[str, Any], signature: bytes = b"") -> str:
    parts = (json.dumps(header).encode(), json.dumps(client_claims()).encode(), signature)
    return ".".join(encoded(part) for part in parts)


def is_accepted(read: Callable[..., object], *arguments: object) -> bool:
    try:
        read(*arguments)
    except AssertionInvalid:
        return False
    return True


def test_a_key_of_the_client_verifies_its_assertion() -> None:
    token = jwt.encode({"alg": "ES256", "kid": "ec"}, client_claims(), EC)

    claims = verify(token, signing_keys(public(RSA, EC)))

    assert check_client_assertion(claims, "app", ISSUER, AT) == AT + timedelta(seconds=90)
    assert read_claims(token)["sub"] == "app"
    assert read_header(token, CLIENT_ASSERTION_TYPES)["kid"] == "ec"


def test_no_forged_signature_is_accepted() -> None:
    # The public key as the secret of an HMAC.
    signed_part = unsigned({"alg": "HS256"}).removesuffix(".")
    code = hmac.digest(RSA.as_pem(private=False), signed_part.encode(), "sha256")
    forged = {
        "none": unsigned({"alg": "none"}),
        "None": unsigned({"alg": "None"}),
        "empty signature": unsigned({"alg": "ES256", "kid": "ec"}),
        "zero signature": unsigned({"alg": "ES256", "kid": "ec"}, bytes(64)),
        "HMAC with the public key": f"{signed_part}.{encoded(code)}",
        "another key": jwt.encode({"alg": "ES256", "kid": "ec"}, client_claims(), OTHER),
        "a key of its own": unsigned({"alg": "ES256", "jwk": OTHER.as_dict(private=False)}, bytes(64)),
    }
    keys = signing_keys(public(RSA, EC))

    accepted = [name for name, token in forged.items() if is_accepted(verify, token, keys)]

    assert not accepted


def test_damaged_tokens_are_refused() -> None:
    deep = encoded(b'{"a":' * 5000 + b"1" + b"}" * 5000)
    damaged = ["", ".", "..", "a.b", "a.b.c.d", "é.é.é", "x" * 8192, f"{deep}.{deep}.", f"e30.{encoded(b'[]')}."]

    assert not [token[:20] for token in damaged if is_accepted(read_claims, token)]


@over("kind", ["at+jwt", "oauth-id-jag+jwt", "logout+jwt", 7, None])
def test_another_kind_of_token_is_no_client_assertion(kind: object) -> None:
    with pytest.raises(AssertionInvalid):
        read_header(unsigned({"alg": "ES256", "typ": kind}), CLIENT_ASSERTION_TYPES)


@over("header", [{}, {"typ": "JWT"}, {"typ": "client-authentication+jwt"}])
def test_an_identity_assertion_names_its_type(header: dict[str, Any]) -> None:
    with pytest.raises(AssertionInvalid):
        read_header(unsigned({"alg": "ES256", **header}), IDENTITY_ASSERTION_TYPES)


WRONG_FOR_BOTH: list[dict[str, Any]] = [
    {"aud": "https://other.example"},
    {"aud": f"{ISSUER}/token"},
    {"aud": [ISSUER, "https://other.example"]},
    {"aud": []},
    {"aud": None},
    {"exp": SECONDS - 31},
    {"exp": SECONDS + 3700},
    {"exp": None},
    {"exp": str(SECONDS + 60)},
    {"exp": True},
    {"exp": float("nan")},
    {"exp": float("inf")},
    {"exp": 10**40},
    {"iat": SECONDS + 31},
    {"iat": "now"},
    {"nbf": SECONDS + 31},
    {"jti": None},
    {"jti": ""},
    {"jti": 7},
    {"jti": "x" * 256},
    {"sub": None},
    {"iss": None},
]


@over("changed", [*WRONG_FOR_BOTH, {"iss": "other"}, {"sub": "other"}])
def test_a_client_assertion_with_a_wrong_claim_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(AssertionInvalid):
        check_client_assertion(client_claims(**changed), "app", ISSUER, AT)


@over(
    "changed",
    [
        *WRONG_FOR_BOTH,
        {"iss": "https://other.example"},
        {"client_id": "other"},
        {"client_id": None},
        {"sub": ""},
        {"sub": "a\nb"},
        {"scope": ["memory.read"]},
        {"resource": 7},
        {"resource": [7]},
        {"aud_tenant": 7},
        {"auth_time": "yesterday"},
        {"cnf": {"jkt": "x"}},
    ],
)
def test_an_identity_assertion_with_a_wrong_claim_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(AssertionInvalid):
        read_identity_assertion(identity_claims(**changed), client_id="app", assertion_issuer=IDP, issuer=ISSUER, at=AT)


def test_an_identity_assertion_needs_its_time() -> None:
    claims = identity_claims()
    del claims["iat"]

    with pytest.raises(AssertionInvalid):
        read_identity_assertion(claims, client_id="app", assertion_issuer=IDP, issuer=ISSUER, at=AT)


def test_the_same_id_of_two_issuers_is_two_assertions() -> None:
    one, two = (
        read_identity_assertion(
            identity_claims(iss=issuer, auth_time=SECONDS + 20),
            client_id="app",
            assertion_issuer=issuer,
            issuer=ISSUER,
            at=AT,
        )
        for issuer in (IDP, "https://two.example")
    )

    assert one.assertion_hash != two.assertion_hash
    assert one.auth_time == AT


@over(
    "keys",
    [
        {},
        {"keys": {}},
        {"keys": []},
        {"keys": [1]},
        {"keys": [{"kty": "oct", "k": "c2VjcmV0"}]},
        {"keys": [dict(EC.as_dict(private=True))]},
        {"keys": [{**EC.as_dict(private=False), "use": "enc"}]},
        {"keys": [{"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}]},
        {"keys": [{**RSA.as_dict(private=False), "e": "A" * 600}]},
        {"keys": [{**RSA.as_dict(private=False), "n": "A" * 4000}]},
        {"keys": [dict(EC.as_dict(private=False))] * 17},
    ],
)
def test_keys_that_are_not_public_and_cheap_cannot_be_registered(keys: object) -> None:
    assert key_set_error(keys) is not None


def metadata(**changed: Any) -> dict[str, Any]:
    return {"redirect_uris": ["https://app.example/back"], "token_endpoint_auth_method": "private_key_jwt", **changed}


@over(
    "changed",
    [
        {},
        {"jwks_uri": "http://app.example/keys"},
        {"jwks_uri": "https://app.example"},
        {"jwks": "{"},
        {"jwks": {"keys": []}},
        {"jwks": public(EC), "jwks_uri": "https://app.example/keys"},
    ],
)
def test_a_client_of_this_method_registers_its_keys_once(changed: dict[str, Any]) -> None:
    with pytest.raises(InvalidClientMetadata):
        from_metadata(metadata(**changed), (), AT, client_id="app")


def test_a_metadata_document_may_name_keys_but_no_secret() -> None:
    url = "https://app.example/client"
    document = metadata(client_id=url, jwks_uri="https://app.example/keys")

    client = from_document(url, document, (), AT)

    assert (client.token_endpoint_auth_method, client.jwks_uri) == ("private_key_jwt", "https://app.example/keys")
    with pytest.raises(InvalidClientMetadata):
        from_document(url, {**document, "token_endpoint_auth_method": "client_secret_post"}, (), AT)


@over("text", [IDP, f"{IDP};", f"{IDP};acme", f"ftp://idp.example;{TENANT}", f"{IDP}?a=b;{TENANT}"])
def test_an_issuer_names_its_tenant(text: str) -> None:
    with pytest.raises(SettingInvalid, match="SKEIN_ASSERTION_ISSUERS"):
        parse_assertion_issuers(text)


def test_several_issuers_are_separated_by_commas_or_spaces() -> None:
    issuers = parse_assertion_issuers(f"{IDP};{TENANT}, https://two.example/realm;{TENANT}")

    assert list(issuers) == [IDP, "https://two.example/realm"]
