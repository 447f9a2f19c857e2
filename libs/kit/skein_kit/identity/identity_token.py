"""Identity tokens: signed statements of auth about a caller, which every service verifies locally."""

from __future__ import annotations

import asyncio
import contextvars
import json
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import OKPKey

from skein_kit.clock import CLOCK
from skein_kit.errors import CredentialExpired, CredentialInvalid
from skein_kit.identity.spaces import DEFAULT_SPACE, Spaces, of_claims, of_grant_claims, to_claims, to_grant_claims

ISSUER = "skein"
AUDIENCE = "skein-internal"
TOKEN_TYPE = "skein-identity+jwt"  # noqa: S105 - a media type.
ALGORITHM = "Ed25519"
LIFETIME_SECONDS = 60
# Seconds by which the clocks of two machines may differ.
LEEWAY_SECONDS = 5
_MAX_CACHED_TOKENS = 10_000
# Seconds between fetches of the keys for unknown key ids.
_REFRESH_SECONDS = 1.0
# A key that auth has removed verifies nothing after this time: a stolen signing key is useless within five seconds.
_KEY_MAX_AGE_SECONDS = 4.0
# A busy verifier fetches again after this time, without delaying a call.
_KEY_REFRESH_SECONDS = 2.0
# While auth does not answer, its last keys are valid for this time.
_KEY_STALE_IF_ERROR_SECONDS = 60.0
# A call waits no longer than this for the keys.
_WAIT_SECONDS = 2.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Caller:
    """The verified caller of a call."""

    # One of account:<id>, api_key:<id>, service_account:<id>, legacy:bearer, operator:<id>, system:<service> and
    # extractor:<name>@<version>.
    principal: str
    # None for an operator, an account or the system outside any tenant.
    tenant_id: UUID | None
    permissions: frozenset[str]
    # The agent that the credential acts as; may be empty.
    agent_id: str = ""
    # The account that logged in, itself or through an application; None for every other credential.
    account_id: UUID | None = None
    # The auth session of the browser, device or application; None for every other credential.
    auth_session_id: UUID | None = None
    # The application that acts for the account; empty for none.
    client_id: str = ""
    # owner, admin, member or viewer; empty for a caller that is no member of the tenant.
    role: str = ""
    # The account's verified email address; only for logins of the account itself.
    email: str = ""
    # Grants by which the credential exists: credentials that this call creates end with any of them.
    grant_ids: tuple[UUID, ...] = ()
    # The role in each space of the tenant that the caller sees; None: auth knew of no spaces in the tenant.
    spaces: Spaces | None = None
    # The grants by which it sees them, in the same order; the nil UUID for the default space. Empty: not known.
    space_grant_ids: tuple[UUID, ...] = ()
    # The tenant is deleted: only calls that purge it are allowed.
    is_tenant_deleted: bool = False

    @property
    def space_principals(self) -> list[str]:
        """Return the principals whose grants of spaces the caller has; the agent is that of its credential."""
        return [self.principal, *([f"agent:{self.agent_id}"] if self.agent_id else ())]

    @property
    def space_client(self) -> str:
        """Return the principal of the application that acts for the caller, which must see a space too; empty for none.

        A service account's own client is no application that acts for another.
        """
        return f"client:{self.client_id}" if self.client_id and self.account_id is not None else ""

    def require_account(self) -> UUID:
        """Return the account. Raises LookupError unless the method's access rule requires one."""
        if self.account_id is None:
            message = "the access rule of this method requires no account"
            raise LookupError(message)
        return self.account_id

    def require_tenant(self) -> UUID:
        """Return the tenant. Raises LookupError unless the method's access rule requires one."""
        if self.tenant_id is None:
            message = "the access rule of this method requires no tenant"
            raise LookupError(message)
        return self.tenant_id

    def grants_of(self, space_ids: Sequence[UUID]) -> tuple[UUID, ...]:
        """Return the grants by which the caller sees some spaces; the nil UUID for the default one and if unknown."""
        grants = {
            space_id: grant for (space_id, _), grant in zip(self.spaces or (), self.space_grant_ids, strict=False)
        }
        return tuple(grants.get(space_id, DEFAULT_SPACE) for space_id in space_ids)


def sign_identity_token(caller: Caller, *, key: OKPKey, at: float, until: float | None = None) -> tuple[str, float]:
    """Return a caller's identity token and the Unix time at which it expires.

    It expires a minute after `at`, or at `until` (the expiry of the credential) if that is sooner.
    """
    expiry = at + LIFETIME_SECONDS if until is None else min(at + LIFETIME_SECONDS, until)
    claims: dict[str, Any] = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": caller.principal,
        "perms": sorted(caller.permissions),
        "iat": int(at),
        "exp": int(expiry),
    }
    if caller.tenant_id is not None:
        claims["tid"] = str(caller.tenant_id)
    if caller.spaces is not None:
        # Also when it is empty: then the caller sees none.
        claims["spaces"] = to_claims(caller.spaces)
        claims["space_grants"] = to_grant_claims(caller.space_grant_ids)
    claims |= {name: value for name, value in _optional_claims(caller).items() if value}
    header = {"alg": ALGORITHM, "kid": key.kid, "typ": TOKEN_TYPE}
    return jwt.encode(header, claims, key, algorithms=[ALGORITHM]), float(int(expiry))


def _optional_claims(caller: Caller) -> dict[str, str | bool | list[str]]:
    """Return the claims that most callers lack."""
    return {
        "agent": caller.agent_id,
        "account": "" if caller.account_id is None else str(caller.account_id),
        "sign_in": "" if caller.auth_session_id is None else str(caller.auth_session_id),
        "client": caller.client_id,
        "role": caller.role,
        "email": caller.email,
        "closed": caller.is_tenant_deleted,
        "grants": [str(grant_id) for grant_id in caller.grant_ids],
    }


class IdentityTokenVerifier:
    """Verifies identity tokens with the public keys of auth, which it fetches every few seconds.

    It caches a verified token until the token expires or auth removes its key, so that a busy caller costs one
    signature check a minute.
    """

    def __init__(
        self, fetch: Callable[[], Awaitable[Mapping[str, str]]], *, key_max_age_seconds: float = _KEY_MAX_AGE_SECONDS
    ) -> None:
        """`fetch` returns the public keys: JSON Web Keys by key id."""
        self._fetch = fetch
        self._key_max_age_seconds = key_max_age_seconds
        self._keys: dict[str, OKPKey] = {}
        self._fetch_time = -_KEY_STALE_IF_ERROR_SECONDS
        self._attempt_time = -_REFRESH_SECONDS
        self._fetch_lock = asyncio.Lock()
        self._refresh_task: asyncio.Task[None] | None = None
        self._cached_callers: OrderedDict[str, tuple[Caller, float, str]] = OrderedDict()

    async def verify(self, token: str) -> Caller:
        """Return the caller. Raises CredentialInvalid and CredentialExpired."""
        await self._refresh_if_stale()
        at = CLOCK.seconds()
        cached = self._cached_callers.get(token)
        if cached is not None:
            caller, expiry, _ = cached
            if at < expiry:
                return caller
            del self._cached_callers[token]
            raise CredentialExpired
        key = await self._key(token)
        caller, expiry = self._read(token, key, at)
        self._cached_callers[token] = (caller, expiry, str(key.kid))
        if len(self._cached_callers) > _MAX_CACHED_TOKENS:
            self._cached_callers.popitem(last=False)
        return caller

    async def is_key_valid(self, token: str) -> bool:
        """Return whether auth still has the key that signed a token; the token itself may have expired."""
        await self._refresh_if_stale()
        return _key_id(token) in self._keys

    async def ready(self) -> bool:
        """Return whether there are keys; fetch them if there are none."""
        if not self._keys:
            await self._refresh()
        return bool(self._keys)

    async def _refresh_if_stale(self) -> None:
        """Refresh the keys in the background; wait for them when they are too old to use."""
        age = time.monotonic() - self._fetch_time
        if age < min(_KEY_REFRESH_SECONDS, self._key_max_age_seconds) or not self._keys:
            return
        if self._refresh_task is None or self._refresh_task.done():
            # Its errors are dropped: the next call tries again. An empty context, because the task outlives the call
            # and must not have its deadline and identity.
            self._refresh_task = asyncio.create_task(self._refresh_in_background(), context=contextvars.Context())
        if age >= self._key_max_age_seconds:
            await asyncio.wait({self._refresh_task}, timeout=_WAIT_SECONDS)

    async def _refresh_in_background(self) -> None:
        try:
            await self._refresh_after(time.monotonic())
        except Exception:  # noqa: BLE001 - auth does not answer, whatever the error.
            if time.monotonic() - self._fetch_time >= _KEY_STALE_IF_ERROR_SECONDS:
                self._replace_keys({})

    async def _key(self, token: str) -> OKPKey:
        key_id = _key_id(token)
        if key_id not in self._keys:
            await self._refresh_after(time.monotonic())
        try:
            return self._keys[key_id]
        except KeyError:
            raise CredentialInvalid from None

    async def _refresh_after(self, at: float) -> None:
        """Return once the keys were fetched after the monotonic time `at`; concurrent callers share one fetch."""
        async with self._fetch_lock:
            if self._fetch_time >= at:
                return
            await asyncio.sleep(self._attempt_time + _REFRESH_SECONDS - time.monotonic())
            await self._refresh()

    async def _refresh(self) -> None:
        self._attempt_time = start_time = time.monotonic()
        keys = await self._fetch()
        self._fetch_time = start_time
        self._replace_keys(keys)

    def _replace_keys(self, keys: Mapping[str, str]) -> None:
        """Replace the keys, and drop cached tokens that other keys have signed."""
        removed_key_ids = self._keys.keys() - keys.keys()
        self._keys = {key_id: OKPKey.import_key(json.loads(jwk)) for key_id, jwk in keys.items()}
        if removed_key_ids:
            valid = ((token, entry) for token, entry in self._cached_callers.items() if entry[2] not in removed_key_ids)
            self._cached_callers = OrderedDict(valid)

    @staticmethod
    def _read(token: str, key: OKPKey, at: float) -> tuple[Caller, float]:
        try:
            jwt_token = jwt.decode(token, key, algorithms=[ALGORITHM])
        except (JoseError, ValueError):
            raise CredentialInvalid from None
        claims = jwt_token.claims
        if (
            jwt_token.header.get("typ") != TOKEN_TYPE
            or claims.get("iss") != ISSUER
            or claims.get("aud") != AUDIENCE
            or not isinstance(claims.get("exp"), int)
        ):
            raise CredentialInvalid
        expiry = float(claims["exp"]) + LEEWAY_SECONDS
        if at >= expiry:
            raise CredentialExpired
        try:
            caller = Caller(
                principal=str(claims["sub"]),
                tenant_id=UUID(claims["tid"]) if "tid" in claims else None,
                permissions=frozenset(claims["perms"]),
                agent_id=str(claims.get("agent", "")),
                account_id=UUID(claims["account"]) if "account" in claims else None,
                auth_session_id=UUID(claims["sign_in"]) if "sign_in" in claims else None,
                client_id=str(claims.get("client", "")),
                role=str(claims.get("role", "")),
                email=str(claims.get("email", "")),
                spaces=of_claims(claims["spaces"]) if "spaces" in claims else None,
                space_grant_ids=of_grant_claims(claims.get("space_grants", ())),
                is_tenant_deleted=claims.get("closed") is True,
                grant_ids=tuple(UUID(grant_id) for grant_id in claims.get("grants", ())),
            )
        except (KeyError, ValueError, TypeError):
            raise CredentialInvalid from None
        return caller, expiry


def _key_id(token: str) -> str:
    from joserfc.jws import extract_compact  # noqa: PLC0415 - only unknown tokens pay for it.

    try:
        key_id = extract_compact(token.encode("ascii")).headers().get("kid")
    except (JoseError, ValueError):
        raise CredentialInvalid from None
    if not isinstance(key_id, str):
        raise CredentialInvalid
    return key_id
