"""The claims of signed assertions and their rules. Pure: no key, no SQL; the clock is passed in."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from skein_auth.assertions.keys import AssertionInvalid

# "client-authentication+jwt" is that of draft-ietf-oauth-rfc7523bis.
CLIENT_ASSERTION_TYPES = frozenset({"jwt", "client-authentication+jwt"})
IDENTITY_ASSERTION_TYPES = frozenset({"oauth-id-jag+jwt"})
# Clocks of two machines may differ by this much.
LEEWAY = timedelta(seconds=30)
# Used assertions are stored until they expire.
_MAX_LIFETIME = timedelta(hours=1)
# In the year 6325, so that sums of times stay valid.
_END_OF_TIME = 2**37
_MAX_TEXT = 255


@dataclass(frozen=True, kw_only=True, slots=True)
class IdentityAssertion:
    """An issuer's statement that a person lets a client act (ID-JAG)."""

    issuer: str
    subject: str
    client_id: str
    assertion_hash: bytes
    # Empty: the assertion names none, and allows the default ones.
    scopes: frozenset[str]
    resources: tuple[str, ...]
    # The tenant that it names, as the issuer writes it; empty for none.
    tenant: str
    auth_time: datetime
    expire_time: datetime


def check_client_assertion(claims: Mapping[str, Any], client_id: str, issuer: str, at: datetime) -> datetime:
    """Return when an assertion of this client for this issuer expires. Raises AssertionInvalid.

    The audience is the issuer alone: an assertion for a token endpoint might come from a server that named ours.
    """
    if claims.get("iss") != client_id or claims.get("sub") != client_id:
        raise AssertionInvalid
    return _check(claims, issuer, at)


def read_identity_assertion(
    claims: Mapping[str, Any], *, client_id: str, assertion_issuer: str, issuer: str, at: datetime
) -> IdentityAssertion:
    """Return a valid identity assertion for this client. Raises AssertionInvalid."""
    subject = claims.get("sub")
    scope, resource, tenant = claims.get("scope", ""), claims.get("resource", []), claims.get("aud_tenant", "")
    resources = [resource] if isinstance(resource, str) else resource
    if (
        claims.get("iss") != assertion_issuer
        or claims.get("client_id") != client_id
        or "iat" not in claims
        # It is bound to a key whose proof auth does not ask for.
        or "cnf" in claims
        or not _is_text(subject)
        or not all(isinstance(each, str) for each in (scope, tenant))
        or not isinstance(resources, list)
        or not all(isinstance(each, str) for each in resources)
    ):
        raise AssertionInvalid
    expire_time = _check(claims, issuer, at)
    login_time = _time(claims, "auth_time") if "auth_time" in claims else _time(claims, "iat")
    return IdentityAssertion(
        issuer=assertion_issuer,
        subject=str(subject),
        client_id=client_id,
        assertion_hash=assertion_hash(assertion_issuer, claims),
        scopes=frozenset(scope.split()),
        resources=tuple(resources),
        tenant=tenant,
        auth_time=min(login_time, at),
        expire_time=expire_time,
    )


def assertion_hash(signer: str, claims: Mapping[str, Any]) -> bytes:
    """Return the SHA-256 of the signer of an assertion and its id."""
    return hashlib.sha256(f"{signer}\0{claims['jti']}".encode("utf-8", "surrogatepass")).digest()


def _check(claims: Mapping[str, Any], issuer: str, at: datetime) -> datetime:
    """Check audience, times and id; return when the assertion can no longer be used. Raises AssertionInvalid."""
    if claims.get("aud") not in (issuer, [issuer]) or not _is_text(claims.get("jti")):
        raise AssertionInvalid
    expire_time = _time(claims, "exp") + LEEWAY
    if not at < expire_time <= at + _MAX_LIFETIME + 2 * LEEWAY:
        raise AssertionInvalid
    if any(at < _time(claims, name) - LEEWAY for name in ("iat", "nbf") if name in claims):
        raise AssertionInvalid
    return expire_time


def _is_text(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _MAX_TEXT and value.isprintable()


def _time(claims: Mapping[str, Any], name: str) -> datetime:
    value = claims.get(name)
    # Python's JSON numbers may be NaN, infinite or very long.
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < _END_OF_TIME:
        raise AssertionInvalid
    try:
        return datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        raise AssertionInvalid from None
