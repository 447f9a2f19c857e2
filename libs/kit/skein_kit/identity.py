"""Who makes a call: the signed identity that travels between services, and how each verifies it locally."""

from __future__ import annotations

import asyncio
import json
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import OKPKey

from skein_kit.errors import CredentialExpired, CredentialInvalid

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

ISSUER = "skein"
AUDIENCE = "skein-internal"
TOKEN_TYPE = "skein-identity+jwt"  # noqa: S105 - a media type.
ALGORITHM = "Ed25519"
LIFETIME_SECONDS = 60
# Clocks of two machines may differ by this much.
LEEWAY_SECONDS = 5
_MAX_CACHED_TOKENS = 10_000
# An unknown key id asks auth for the keys at most this often.
_REFRESH_SECONDS = 1.0
# A key that auth lists no more verifies nothing after this long.
_BELIEVED_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Caller:
    """The verified maker of a call."""

    # "api_key:<id>", "operator:<id>" or "system:<service>".
    principal: str
    # None for an operator or the system acting on no tenant.
    tenant_id: UUID | None
    permissions: frozenset[str]
    # The agent that the credential acts as; may be empty.
    agent_id: str = ""

    def tenant(self) -> UUID:
        """Return the tenant; methods whose rule wants one always have it."""
        if self.tenant_id is None:
            message = "the method's access rule must want a tenant"
            raise LookupError(message)
        return self.tenant_id


def sign(caller: Caller, *, key: OKPKey, at: float, until: float | None = None) -> tuple[str, float]:
    """Sign a caller's identity; return the token and the Unix time at which it ends.

    It ends after a minute, or at `until` (the end of the credential that it stands for) if that is sooner.
    """
    ends = at + LIFETIME_SECONDS if until is None else min(at + LIFETIME_SECONDS, until)
    claims: dict[str, Any] = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": caller.principal,
        "perms": sorted(caller.permissions),
        "iat": int(at),
        "exp": int(ends),
    }
    if caller.tenant_id is not None:
        claims["tid"] = str(caller.tenant_id)
    if caller.agent_id:
        claims["agent"] = caller.agent_id
    header = {"alg": ALGORITHM, "kid": key.kid, "typ": TOKEN_TYPE}
    return jwt.encode(header, claims, key, algorithms=[ALGORITHM]), float(int(ends))


class TokenVerifier:
    """Verifies identity tokens with auth's public keys, fetched when they are old or an unknown key id turns up.

    A verified token is remembered until it ends, so that a busy caller costs one signature check a minute.
    """

    def __init__(
        self, fetch: Callable[[], Awaitable[Mapping[str, str]]], *, believed_seconds: float = _BELIEVED_SECONDS
    ) -> None:
        """Use `fetch` to get public keys: key id to JSON Web Key."""
        self._fetch = fetch
        self._believed_seconds = believed_seconds
        self._keys: dict[str, OKPKey] = {}
        self._fetched = -_REFRESH_SECONDS
        self._fetching = asyncio.Lock()
        self._verified: OrderedDict[str, tuple[Caller, float]] = OrderedDict()

    async def verify(self, token: str) -> Caller:
        """Return the caller, or refuse with CredentialInvalid or CredentialExpired."""
        at = time.time()
        known = self._verified.get(token)
        if known is not None:
            caller, ends = known
            if at < ends:
                return caller
            del self._verified[token]
            raise CredentialExpired
        caller, ends = self._read(token, await self._key(token), at)
        self._verified[token] = (caller, ends)
        if len(self._verified) > _MAX_CACHED_TOKENS:
            self._verified.popitem(last=False)
        return caller

    async def ready(self) -> bool:
        """Say whether keys are there, fetching them if not."""
        if not self._keys:
            await self._refresh()
        return bool(self._keys)

    async def _key(self, token: str) -> OKPKey:
        key_id = _key_id(token)
        if key_id not in self._keys or time.monotonic() >= self._fetched + self._believed_seconds:
            await self._fetch_since(time.monotonic())
        try:
            return self._keys[key_id]
        except KeyError:
            raise CredentialInvalid from None

    async def _fetch_since(self, asked: float) -> None:
        """Return once the keys were fetched after `asked`: everybody who waits shares one fetch."""
        async with self._fetching:
            if self._fetched >= asked:
                return
            await asyncio.sleep(self._fetched + _REFRESH_SECONDS - time.monotonic())
            await self._refresh()

    async def _refresh(self) -> None:
        started = time.monotonic()
        keys = await self._fetch()
        self._fetched = started
        self._keys = {key_id: OKPKey.import_key(json.loads(jwk)) for key_id, jwk in keys.items()}

    @staticmethod
    def _read(token: str, key: OKPKey, at: float) -> tuple[Caller, float]:
        try:
            decoded = jwt.decode(token, key, algorithms=[ALGORITHM])
        except (JoseError, ValueError):
            raise CredentialInvalid from None
        claims = decoded.claims
        if (
            decoded.header.get("typ") != TOKEN_TYPE
            or claims.get("iss") != ISSUER
            or claims.get("aud") != AUDIENCE
            or not isinstance(claims.get("exp"), int)
        ):
            raise CredentialInvalid
        ends = float(claims["exp"]) + LEEWAY_SECONDS
        if at >= ends:
            raise CredentialExpired
        try:
            caller = Caller(
                principal=str(claims["sub"]),
                tenant_id=UUID(claims["tid"]) if "tid" in claims else None,
                permissions=frozenset(claims["perms"]),
                agent_id=str(claims.get("agent", "")),
            )
        except (KeyError, ValueError, TypeError):
            raise CredentialInvalid from None
        return caller, ends


def _key_id(token: str) -> str:
    from joserfc.jws import extract_compact  # noqa: PLC0415 - only unknown tokens pay for it.

    try:
        key_id = extract_compact(token.encode("ascii")).headers().get("kid")
    except (JoseError, ValueError):
        raise CredentialInvalid from None
    if not isinstance(key_id, str):
        raise CredentialInvalid
    return key_id
