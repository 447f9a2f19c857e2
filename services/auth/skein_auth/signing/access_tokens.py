"""Access tokens (RFC 9068) and ID tokens (OpenID Connect): signed with RS256, verified against our own keys alone."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol

from joserfc import jwt
from joserfc.errors import JoseError

from skein_auth.signing.model import ACCESS_ALGORITHM
from skein_kit.database.transactions import NO_TENANT
from skein_kit.errors import CredentialExpired, CredentialInvalid
from skein_kit.identity.identity_token import LEEWAY_SECONDS
from skein_kit.ids import new_id, parse_id

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from uuid import UUID

    from joserfc.jwk import RSAKey

TOKEN_TYPE = "at+jwt"  # noqa: S105 - a media type.
_TOKEN_TYPES = frozenset({TOKEN_TYPE, f"application/{TOKEN_TYPE}"})
# What an account's own sign-ins name as their client: no application can be called so.
OWN_CLIENT = "skein"
# What stands in a header of ours, and nothing else may: no key that a token brings along is ever looked at.
_HEADER = frozenset({"alg", "kid", "typ"})
_PARTS = 3
MCP_PATH = "/mcp"


@dataclass(frozen=True, kw_only=True, slots=True)
class AccessClaims:
    """What a verified access token says. What it is worth now is a question to the sign-in, or to the key."""

    # The id of an account or of a service account.
    subject: str
    # Empty: the account's own sign-in.
    client_id: str
    scopes: frozenset[str]
    audiences: tuple[str, ...]
    token_id: str
    issue_time: datetime
    expire_time: datetime
    # The tenant that it was made for, which the sign-in's rows are kept under; NO_TENANT for none.
    tenant_id: UUID
    # None for a service account.
    sign_in_id: UUID | None = None
    # The key that a service account's token was given for; None for an account.
    api_key_id: UUID | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenSubject:
    """Whom a new access token is for."""

    subject: UUID
    client_id: str = OWN_CLIENT
    tenant_id: UUID = NO_TENANT
    sign_in_id: UUID | None = None
    api_key_id: UUID | None = None
    auth_time: datetime | None = None


class KeySource(Protocol):
    """The keys of this issuer."""

    async def active(self, purpose: Literal["access"]) -> RSAKey:
        """Return the one that signs."""

    async def verifying(self, key_id: str) -> RSAKey | None:
        """Return the public half of one that verifies; None for any other."""


class AccessTokens:
    """Signs and verifies tokens in the name of one issuer."""

    def __init__(self, keyring: KeySource, issuer: Callable[[], str], more_resources: Sequence[str] = ()) -> None:
        """Ask `issuer` each time: a process that picks its own port knows it late."""
        self._keyring = keyring
        self._issuer = issuer
        self._more_resources = tuple(more_resources)

    def issuer(self) -> str:
        """Return what tokens name as their issuer, which is also the API as a resource."""
        return self._issuer()

    def resources(self) -> tuple[str, ...]:
        """Return what tokens can be made for; the API comes first."""
        issuer = self.issuer()
        return (issuer, issuer + MCP_PATH, *self._more_resources)

    async def sign(
        self, bearer: TokenSubject, *, scopes: Collection[str], resources: Sequence[str], at: datetime, until: datetime
    ) -> tuple[str, datetime]:
        """Sign an access token; return it and the time, a whole second, at which it ends."""
        ends = int(until.timestamp())
        claims: dict[str, Any] = {
            "iss": self.issuer(),
            "sub": str(bearer.subject),
            "aud": resources[0] if len(resources) == 1 else list(resources),
            "client_id": bearer.client_id,
            "scope": " ".join(sorted(scopes)),
            "jti": str(new_id(at)),
            "iat": int(at.timestamp()),
            "exp": ends,
        }
        if bearer.tenant_id != NO_TENANT:
            claims["tid"] = str(bearer.tenant_id)
        if bearer.sign_in_id is not None:
            claims["sid"] = str(bearer.sign_in_id)
        if bearer.api_key_id is not None:
            claims["key"] = str(bearer.api_key_id)
        if bearer.auth_time is not None:
            claims["auth_time"] = int(bearer.auth_time.timestamp())
        return await self._signed(claims, TOKEN_TYPE), datetime.fromtimestamp(ends, UTC)

    async def sign_id(
        self,
        bearer: TokenSubject,
        *,
        nonce: str,
        access_token: str,
        at: datetime,
        until: datetime,
        facts: dict[str, Any],
    ) -> str:
        """Sign an ID token for the application that the access token is given to; `facts` are claims of the account."""
        digest = hashlib.sha256(access_token.encode("ascii")).digest()
        claims: dict[str, Any] = {
            **facts,
            "iss": self.issuer(),
            "sub": str(bearer.subject),
            "aud": bearer.client_id,
            "iat": int(at.timestamp()),
            "exp": int(until.timestamp()),
            "at_hash": base64.urlsafe_b64encode(digest[: len(digest) // 2]).rstrip(b"=").decode(),
        }
        if bearer.auth_time is not None:
            claims["auth_time"] = int(bearer.auth_time.timestamp())
        if nonce:
            claims["nonce"] = nonce
        return await self._signed(claims, "JWT")

    async def verify(self, text: str, audience: str | None, at: datetime) -> AccessClaims:
        """Return what a token says that was made for `audience` (empty: the API; None: anything of ours).

        Refuses with CredentialInvalid or, when nothing but the time is wrong, with CredentialExpired.
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
        key = await self._keyring.verifying(key_id)
        if key is None:
            raise CredentialInvalid
        try:
            claims = jwt.decode(text, key, algorithms=[ACCESS_ALGORITHM]).claims
        except (JoseError, ValueError):
            raise CredentialInvalid from None
        found = _claims(claims)
        wanted = self.issuer() if audience == "" else audience
        if claims.get("iss") != self.issuer() or (wanted is not None and wanted not in found.audiences):
            raise CredentialInvalid
        if at.timestamp() >= found.expire_time.timestamp() + LEEWAY_SECONDS:
            raise CredentialExpired
        return found

    async def _signed(self, claims: dict[str, Any], kind: str) -> str:
        key = await self._keyring.active("access")
        header = {"alg": ACCESS_ALGORITHM, "kid": key.kid, "typ": kind}
        return jwt.encode(header, claims, key, algorithms=[ACCESS_ALGORITHM])


def _header(text: str) -> dict[str, Any]:
    """Read a token's header before anything in it is believed."""
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
        sign_in_id=ids["sid"],
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
    found = parse_id(str(claims[name]))
    if found is None:
        raise CredentialInvalid
    return found
