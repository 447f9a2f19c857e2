from __future__ import annotations

import base64
import hashlib
import hmac
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from uuid import UUID

import pytest
from fix_catalogue import over
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from skein_auth.signing.access_tokens import AccessTokens, TokenSubject
from skein_kit.database.transactions import NO_TENANT
from skein_kit.errors import CredentialExpired, CredentialInvalid

ISSUER = "https://skein.example"
AT = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


def rsa_key() -> RSAKey:
    key = RSAKey.generate_key(2048)
    return RSAKey.import_key({**key.as_dict(private=True), "kid": key.thumbprint()})


KEY, OTHER = rsa_key(), rsa_key()
PUBLIC_PEM = KEY.as_pem(private=False)


@dataclass(frozen=True)
class SingleKeyIssuer:
    """An issuer with one key."""

    key: RSAKey

    async def active_key(self, purpose: Literal["access"]) -> RSAKey:
        return self.key

    async def verification_key(self, key_id: str) -> RSAKey | None:
        return RSAKey.import_key(self.key.as_dict(private=False)) if key_id == self.key.kid else None


TOKENS = AccessTokens(SingleKeyIssuer(KEY), lambda: ISSUER, ("https://tools.example",))
PERSON = TokenSubject(
    subject=UUID(int=1), client_id="app", tenant_id=UUID(int=2), auth_session_id=UUID(int=3), auth_time=AT - HOUR
)


async def signed(bearer: TokenSubject = PERSON, *, resources: tuple[str, ...] = (ISSUER,)) -> str:
    text, _ = await TOKENS.sign(bearer, scopes={"openid", "memory.read"}, resources=resources, at=AT, until=AT + HOUR)
    return text


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def parts_of(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    header, claims, _ = (base64.urlsafe_b64decode(each + "==") for each in text.split("."))
    return json.loads(header), json.loads(claims)


async def claims_of_a_good_one(**changes: object) -> dict[str, Any]:
    _, claims = parts_of(await signed())
    return {name: value for name, value in {**claims, **changes}.items() if value is not None}


async def forged(claims: dict[str, Any] | None = None, key: RSAKey = KEY, **header: object) -> str:
    full = {"alg": "RS256", "kid": KEY.kid, "typ": "at+jwt", **header}
    kept = {name: value for name, value in full.items() if value is not None}
    return jwt.encode(
        kept, claims or await claims_of_a_good_one(), key, algorithms=[str(kept["alg"])], default_type=None
    )


async def test_a_token_comes_back_as_it_was_signed() -> None:
    result = await TOKENS.verify(await signed(), "", AT)

    assert result.subject == str(PERSON.subject)
    assert result.client_id == "app"
    assert result.scopes == {"openid", "memory.read"}
    assert result.audiences == (ISSUER,)
    assert (result.tenant_id, result.auth_session_id, result.api_key_id) == (
        PERSON.tenant_id,
        PERSON.auth_session_id,
        None,
    )
    assert (result.issue_time, result.expire_time) == (AT, AT + HOUR)


async def test_a_token_says_what_rfc_9068_wants() -> None:
    header, claims = parts_of(await signed())

    assert header == {"alg": "RS256", "kid": KEY.kid, "typ": "at+jwt"}
    assert {"iss", "exp", "aud", "sub", "client_id", "iat", "jti", "scope", "auth_time"} <= claims.keys()
    assert claims["scope"] == "memory.read openid"


async def test_an_account_s_own_token_names_no_application_and_no_tenant() -> None:
    result = await TOKENS.verify(await signed(TokenSubject(subject=UUID(int=1), auth_session_id=UUID(int=3))), "", AT)

    assert (result.client_id, result.tenant_id) == ("", NO_TENANT)


async def test_a_token_is_good_for_its_resources_alone() -> None:
    text = await signed(resources=(f"{ISSUER}/mcp", "https://tools.example"))

    assert (await TOKENS.verify(text, f"{ISSUER}/mcp", AT)).audiences == (f"{ISSUER}/mcp", "https://tools.example")
    await TOKENS.verify(text, "https://tools.example", AT)
    await TOKENS.verify(text, None, AT)
    for audience in ("", ISSUER, f"{ISSUER}/", f"{ISSUER}/mcp/", "https://else.example"):
        with pytest.raises(CredentialInvalid):
            await TOKENS.verify(text, audience, AT)


def test_the_api_and_mcp_are_resources_whatever_the_operator_adds() -> None:
    assert TOKENS.resources() == (ISSUER, f"{ISSUER}/mcp", "https://tools.example")


async def test_a_token_expires() -> None:
    text = await signed()

    await TOKENS.verify(text, "", AT + HOUR)
    with pytest.raises(CredentialExpired):
        await TOKENS.verify(text, "", AT + HOUR + timedelta(seconds=5))


async def test_no_algorithm_is_no_signature() -> None:
    claims = await claims_of_a_good_one()

    for name in ("none", "None", "NONE", "nOnE", ""):
        for kid in ({"kid": KEY.kid}, {}):
            for signature in ("", "AA"):
                text = f"{part({'alg': name, 'typ': 'at+jwt', **kid})}.{part(claims)}.{signature}"
                with pytest.raises(CredentialInvalid):
                    await TOKENS.verify(text, "", AT)


@over("secret", [PUBLIC_PEM, PUBLIC_PEM.strip(), json.dumps(KEY.as_dict(private=False)).encode(), b""])
async def test_the_public_key_is_no_shared_secret(secret: bytes) -> None:
    body = f"{part({'alg': 'HS256', 'kid': KEY.kid, 'typ': 'at+jwt'})}.{part(await claims_of_a_good_one())}"
    mac = base64.urlsafe_b64encode(hmac.new(secret, body.encode(), hashlib.sha256).digest()).rstrip(b"=").decode()

    with pytest.raises(CredentialInvalid):
        await TOKENS.verify(f"{body}.{mac}", "", AT)


@pytest.mark.parametrize(
    "header",
    [
        {"jwk": OTHER.as_dict(private=False)},
        {"jku": "https://evil.example/jwks.json"},
        {"x5u": "https://evil.example/cert.pem"},
        {"x5c": ["MIIB"]},
        {"crit": ["exp"]},
        {"b64": False, "crit": ["b64"]},
    ],
)
@pytest.mark.parametrize("key", [KEY, OTHER], ids=["ours", "theirs"])
async def test_a_key_that_a_token_brings_along_is_not_looked_at(header: dict[str, object], key: RSAKey) -> None:
    full = {"alg": "RS256", "kid": KEY.kid, "typ": "at+jwt", **header}
    body = f"{part(full)}.{part(await claims_of_a_good_one())}"
    signature = (await forged(key=key)).rsplit(".", 1)[1]

    with pytest.raises(CredentialInvalid):
        await TOKENS.verify(f"{body}.{signature}", "", AT)


async def test_another_key_signs_nothing() -> None:
    for kid in (KEY.kid, OTHER.kid, "", None, "../../etc/passwd"):
        with pytest.raises(CredentialInvalid):
            await TOKENS.verify(await forged(key=OTHER, kid=kid), "", AT)


@over("algorithm", ["RS384", "RS512", "PS256"])
async def test_other_algorithms_of_the_right_key_are_refused(algorithm: str) -> None:
    with pytest.raises(CredentialInvalid):
        await TOKENS.verify(await forged(alg=algorithm), "", AT)


async def test_an_elliptic_key_under_our_name_is_refused() -> None:
    key = ECKey.generate_key("P-256")
    text = jwt.encode(
        {"alg": "ES256", "kid": str(KEY.kid), "typ": "at+jwt"}, await claims_of_a_good_one(), key, algorithms=["ES256"]
    )

    with pytest.raises(CredentialInvalid):
        await TOKENS.verify(text, "", AT)


@over("kind", ["JWT", None, "", "skein-identity+jwt", "at+jwt "])
async def test_a_token_of_another_kind_is_no_access_token(kind: str | None) -> None:
    with pytest.raises(CredentialInvalid):
        await TOKENS.verify(await forged(typ=kind), "", AT)


async def test_an_id_token_is_no_access_token() -> None:
    text = await TOKENS.sign_id(PERSON, nonce="n", access_token="a.b.c", at=AT, until=AT + HOUR, account_claims={})

    with pytest.raises(CredentialInvalid):
        await TOKENS.verify(text, None, AT)


@over(
    "changes",
    [
        {"iss": "https://evil.example"},
        {"iss": None},
        {"iss": ISSUER + "/"},
        {"aud": None},
        {"aud": []},
        {"aud": ["https://else.example"]},
        {"aud": {"0": ISSUER}},
        {"aud": [ISSUER, 1]},
        {"exp": None},
        {"exp": "1900000000"},
        {"exp": True},
        {"exp": 1e12},
        {"exp": 10**18},
        {"iat": None},
        {"sub": None},
        {"sub": 1},
        {"client_id": None},
        {"scope": None},
        {"scope": ["memory.read"]},
        {"jti": None},
        {"tid": "everybody"},
        {"tid": 1},
        {"sid": ""},
        {"sid": ["x"]},
    ],
)
async def test_claims_must_be_whole_and_ours(changes: dict[str, object]) -> None:
    text = await forged(await claims_of_a_good_one(**changes))

    with pytest.raises(CredentialInvalid):
        await TOKENS.verify(text, "", AT)


@over(
    "text",
    [
        "",
        ".",
        "..",
        "...",
        "a.b.c",
        "e30.e30.",
        "e30.e30.e30",
        "W10.e30.",
        "bnVsbA.e30.AA",
        "ä.b.c",
        "é" * 40,
        "a" * 8192,
    ],
)
async def test_a_malformed_token_is_refused(text: str) -> None:
    with pytest.raises(CredentialInvalid):
        await TOKENS.verify(text, "", AT)


async def test_a_changed_token_is_refused() -> None:
    header, claims, signature = (await signed()).split(".")
    _, changed_claims = parts_of(f"{header}.{claims}.")
    more = part({**changed_claims, "scope": "keys.write"})

    for text in (f"{header}.{more}.{signature}", f"{header}.{claims}.{signature[:-4]}AAAA", f"{header}.{claims}."):
        with pytest.raises(CredentialInvalid):
            await TOKENS.verify(text, "", AT)


async def test_an_id_token_is_about_its_access_token() -> None:
    text = await TOKENS.sign_id(
        PERSON, nonce="n-1", access_token="a.b.c", at=AT, until=AT + HOUR, account_claims={"email": "a@b.example"}
    )

    _, claims = parts_of(text)

    half = hashlib.sha256(b"a.b.c").digest()[:16]
    assert claims["at_hash"] == base64.urlsafe_b64encode(half).rstrip(b"=").decode()
    assert (claims["aud"], claims["nonce"], claims["email"]) == ("app", "n-1", "a@b.example")
    assert claims["auth_time"] == int((AT - HOUR).timestamp())
