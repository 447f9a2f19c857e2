"""Access tokens (RFC 9068) and ID tokens (OpenID Connect): signed with RS256, verified against our own keys alone."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, Protocol
from uuid import UUID

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import RSAKey

from skein_auth.signing.model import ACCESS_ALGORITHM
from skein_kit.database.transactions import NO_TENANT
from skein_kit.errors import CredentialExpired, CredentialInvalid
from skein_kit.identity.identity_token import LEEWAY_SECONDS
from skein_kit.ids import new_id, parse_id

TOKEN_TYPE = "at+jwt"  # noqa: S105 - a media type.
_TOKEN_TYPES = frozenset({TOKEN_TYPE, f"application/{TOKEN_TYPE}"})
# The client id of people's own sessions; it is reserved.
OWN_CLIENT = "skein"
# The only fields of a header: a key that a token brings along is never used.
_HEADER = frozenset({"alg", "kid", "typ"})
_PARTS = 3
MCP_PATH = "/mcp"


@dataclass(frozen=True, kw_only=True, slots=True)
class AccessClaims:
    """The claims of a verified access token. Whether it is live depends on its session or key."""

    # The id of an account or of a service account.
    subject: str
    # Empty: the account's own session.
    client_id: str
    scopes: frozenset[str]
    audiences: tuple[str, ...]
    token_id: str
    issue_time: datetime
    expire_time: datetime
    # The tenant of its session or key; NO_TENANT for none.
    tenant_id: UUID
    # None for a service account.
    auth_session_id: UUID | None = None
    # The key of a service account; None for an account.
    api_key_id: UUID | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenSubject:
    """The subject of a new access token."""

    subject: UUID
    client_id: str = OWN_CLIENT
    tenant_id: UUID = NO_TENANT
    auth_session_id: UUID | None = None
    api_key_id: UUID | None = None
    auth_time: datetime | None = None


class KeySource(Protocol):
    """The keys of this issuer."""

    async def active_key(self, purpose: Literal["access"]) -> RSAKey:
        """Return the active key."""

    async def verification_key(self, key_id: str) -> RSAKey | None:
        """Return the public half of a key that verifies; None for any other."""


class AccessTokens:
    """Signs and verifies tokens in the name of one issuer."""

    def __init__(self, keyring: KeySource, issuer: Callable[[], str], more_resources: Sequence[str] = ()) -> None:
        """`issuer` is called each time: a process that picks its own port knows it late."""
        self._keyring = keyring
        self._issuer = issuer
        self._more_resources = tuple(more_resources)

    def issuer(self) -> str:
        """Return the issuer of tokens, which is also the resource of the API."""
        return self._issuer()

    def resources(self) -> tuple[str, ...]:
        """Return the resources of tokens, the API first."""
        issuer = self.issuer()
        return (issuer, issuer + MCP_PATH, *self._more_resources)

    async def sign(
        self, subject: TokenSubject, *, scopes: Collection[str], resources: Sequence[str], at: datetime, until: datetime
    ) -> tuple[str, datetime]:
        """Sign an access token; return it and its expiry, a whole second."""
        seconds = int(until.timestamp())
        claims: dict[str, Any] = {
            "iss": self.issuer(),
            "sub": str(subject.subject),
            "aud": resources[0] if len(resources) == 1 else list(resources),
            "client_id": subject.client_id,
            "scope": " ".join(sorted(scopes)),
            "jti": str(new_id(at)),
            "iat": int(at.timestamp()),
            "exp": seconds,
        }
        if subject.tenant_id != NO_TENANT:
            claims["tid"] = str(subject.tenant_id)
        if subject.auth_session_id is not None:
            claims["sid"] = str(subject.auth_session_id)
        if subject.api_key_id is not None:
            claims["key"] = str(subject.api_key_id)
        if subject.auth_time is not None:
            claims["auth_time"] = int(subject.auth_time.timestamp())
        return await self._sign(claims, TOKEN_TYPE), datetime.fromtimestamp(seconds, UTC)

    async def sign_id(
        self,
        subject: TokenSubject,
        *,
        nonce: str,
        access_token: str,
        at: datetime,
        until: datetime,
        account_claims: dict[str, Any],
    ) -> str:
        """Sign an ID token for the client of the access token."""
        digest = hashlib.sha256(access_token.encode("ascii")).digest()
        claims: dict[str, Any] = {
            **account_claims,
            "iss": self.issuer(),
            "sub": str(subject.subject),
            "aud": subject.client_id,
            "iat": int(at.timestamp()),
            "exp": int(until.timestamp()),
            "at_hash": base64.urlsafe_b64encode(digest[: len(digest) // 2]).rstrip(b"=").decode(),
        }
        if subject.auth_time is not None:
            claims["auth_time"] = int(subject.auth_time.timestamp())
        if nonce:
            claims["nonce"] = nonce
        return await self._sign(claims, "JWT")

    async def verify(self, text: str, audience: str | None, at: datetime) -> AccessClaims:
        """Return the claims of a token for `audience` (empty: the API; None: any resource).

        Raises CredentialInvalid or, when only the time is wrong, CredentialExpired.
        """
        header = _header(text)
        key_id = header.get("kid")
        if (
            header.get("alg") != ACCESS_ALGORITHM
            or str(header.get("typ", "")).lower() not in _TOKEN_TYPES
            or not isinstance(key_id, str)
            or not header.keys() <= _HEADER
        ):
            raise CredentialInvalid
        key = await self._keyring.verification_key(key_id)
        if key is None:
            raise CredentialInvalid
        try:
            claims = jwt.decode(text, key, algorithms=[ACCESS_ALGORITHM]).claims
        except (JoseError, ValueError):
            raise CredentialInvalid from None
        result = _claims(claims)
        required_audience = self.issuer() if audience == "" else audience
        if claims.get("iss") != self.issuer() or (
            required_audience is not None and required_audience not in result.audiences
        ):
            raise CredentialInvalid
        if at.timestamp() >= result.expire_time.timestamp() + LEEWAY_SECONDS:
            raise CredentialExpired
        return result

    async def _sign(self, claims: dict[str, Any], kind: str) -> str:
        key = await self._keyring.active_key("access")
        header = {"alg": ACCESS_ALGORITHM, "kid": key.kid, "typ": kind}
        return jwt.encode(header, claims, key, algorithms=[ACCESS_ALGORITHM])


def _header(text: str) -> dict[str, Any]:
    """Read a token's header, which is not verified yet. Raises CredentialInvalid."""
    parts = text.split(".")
    if len(parts) != _PARTS or not text.isascii():
        raise CredentialInvalid
    try:
        header = json.loads(base64.urlsafe_b64decode(parts[0] + "=" * (-len(parts[0]) % 4)))
    except (ValueError, RecursionError):
        raise CredentialInvalid from None
    if not isinstance(header, dict):
        raise CredentialInvalid
    return header


def _claims(claims: dict[str, Any]) -> AccessClaims:
    audience = claims.get("aud")
    audiences = [audience] if isinstance(audience, str) else audience
    times = [claims.get(name) for name in ("iat", "exp")]
    texts = [claims.get(name) for name in ("sub", "client_id", "scope", "jti")]
    if (
        not isinstance(audiences, list)
        or not all(isinstance(each, str) for each in (*audiences, *texts))
        or not all(type(each) is int for each in times)
    ):
        raise CredentialInvalid
    ids = {name: _id(claims, name) for name in ("tid", "sid", "key")}
    client_id = claims["client_id"]
    return AccessClaims(
        subject=claims["sub"],
        client_id="" if client_id == OWN_CLIENT else client_id,
        scopes=frozenset(claims["scope"].split()),
        audiences=tuple(audiences),
        token_id=claims["jti"],
        issue_time=_time(claims["iat"]),
        expire_time=_time(claims["exp"]),
        tenant_id=ids["tid"] or NO_TENANT,
        auth_session_id=ids["sid"],
        api_key_id=ids["key"],
    )


def _time(seconds: int) -> datetime:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        raise CredentialInvalid from None


def _id(claims: dict[str, Any], name: str) -> UUID | None:
    if name not in claims:
        return None
    result = parse_id(str(claims[name]))
    if result is None:
        raise CredentialInvalid
    return result
