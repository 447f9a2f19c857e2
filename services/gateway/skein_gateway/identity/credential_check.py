"""Recognizes forged credentials at the gateway, without a call of auth.

Genuine API keys have valid check digits, genuine access tokens a valid signature. Only auth knows what they permit.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import RSAKey

from skein.auth.v1 import auth_pb2, auth_pb2_grpc
from skein_kit.identity.bearer_token import API_KEY_PREFIX, MIN_LEGACY, BearerToken, is_jwt
from skein_kit.telemetry import logs

ALGORITHM = "RS256"
# Header fields of the cluster's tokens; auth refuses any other.
_HEADER = frozenset({"alg", "kid", "typ"})
# Seconds between fetches of auth's keys; an unknown signing key or a failed fetch triggers one sooner.
REFRESH_SECONDS = 60.0
RETRY_SECONDS = 1.0
# The first calls wait this long for the keys; without keys the origin of every credential is UNKNOWN.
WAIT_SECONDS = 2.0

log = logs.get("gateway")


class CredentialOrigin(Enum):
    """Where a credential comes from, as far as its form shows."""

    # Issued by the cluster.
    GENUINE = "genuine"
    # Not issued by the cluster.
    FORGED = "forged"
    # Only auth can judge: a legacy token, a key without check digits, a token of an unknown signing key.
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True, slots=True)
class CredentialCheckKeys:
    """The keys that verify credentials."""

    check_keys: tuple[bytes, ...] = field(default=(), repr=False)
    # Public keys by key id; empty before the first fetch.
    access_keys: Mapping[str, RSAKey] = field(default_factory=dict)

    def origin_of(self, credential: str) -> CredentialOrigin:
        """Return the origin of a credential."""
        if credential.startswith(API_KEY_PREFIX):
            return self._origin_of_key(BearerToken.decode(API_KEY_PREFIX, credential))
        if is_jwt(credential):
            return self._origin_of_jwt(credential)
        return CredentialOrigin.FORGED if len(credential) < MIN_LEGACY else CredentialOrigin.UNKNOWN

    def _origin_of_key(self, key: BearerToken | None) -> CredentialOrigin:
        if key is None:
            return CredentialOrigin.FORGED
        if not key.mac or not self.check_keys:
            return CredentialOrigin.UNKNOWN
        return CredentialOrigin.GENUINE if key.has_valid_mac(self.check_keys) else CredentialOrigin.FORGED

    def _origin_of_jwt(self, text: str) -> CredentialOrigin:
        try:
            header: dict[str, Any] = jws.extract_compact(text.encode("ascii")).headers()
        except (JoseError, ValueError, TypeError):
            return CredentialOrigin.FORGED
        key_id = header.get("kid")
        if not header.keys() <= _HEADER or header.get("alg") != ALGORITHM or not isinstance(key_id, str):
            return CredentialOrigin.FORGED
        key = self.access_keys.get(key_id)
        if key is None:
            return CredentialOrigin.UNKNOWN
        try:
            jws.deserialize_compact(text, key, algorithms=[ALGORITHM])
        except (JoseError, ValueError, TypeError):
            return CredentialOrigin.FORGED
        return CredentialOrigin.GENUINE


class CredentialChecker:
    """Checks credentials with auth's keys, which it fetches in the background."""

    def __init__(
        self, fetch: Callable[[], Awaitable[CredentialCheckKeys]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Fetch the keys with `fetch`; `clock` returns monotonic seconds."""
        self._fetch = fetch
        self._clock = clock
        self._keys: CredentialCheckKeys | None = None
        self._read_time = self._try_time = float("-inf")
        self._fetch_task: asyncio.Task[None] | None = None

    async def origin_of(self, credential: str) -> CredentialOrigin:
        """Return the origin of a credential, by keys at most a minute old while auth is available."""
        if self._clock() - self._read_time >= REFRESH_SECONDS:
            self._refresh()
        if self._keys is None and self._fetch_task is not None:
            await asyncio.wait({self._fetch_task}, timeout=WAIT_SECONDS)
        origin = (self._keys or CredentialCheckKeys()).origin_of(credential)
        if origin is CredentialOrigin.UNKNOWN and is_jwt(credential):
            # Its signing key may be newer than the cached ones.
            self._refresh()
        return origin

    def _refresh(self) -> None:
        """Start a fetch in the background, at most one per RETRY_SECONDS."""
        if self._clock() - self._try_time < RETRY_SECONDS or (
            self._fetch_task is not None and not self._fetch_task.done()
        ):
            return
        self._try_time = self._clock()
        # An empty context: the fetch has neither the call's deadline nor its identity.
        self._fetch_task = asyncio.create_task(self._fetch_keys(), context=contextvars.Context())

    async def _fetch_keys(self) -> None:
        started = self._clock()
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                self._keys = await self._fetch()
        except Exception as error:  # noqa: BLE001 - without keys, auth judges every credential.
            log.warning("check_keys_unavailable", error=type(error).__name__)
            return
        self._read_time = started


def key_fetcher(
    auth: auth_pb2_grpc.AuthServiceAsyncStub, identities: auth_pb2_grpc.AuthInternalServiceAsyncStub
) -> Callable[[], Awaitable[CredentialCheckKeys]]:
    """Return a function that fetches the keys from auth."""

    async def fetch() -> CredentialCheckKeys:
        purpose = auth_pb2.SIGNING_KEY_PURPOSE_ACCESS
        checks, signing = await asyncio.gather(
            identities.GetCheckKeys(auth_pb2.GetCheckKeysRequest()),
            auth.ListSigningKeys(auth_pb2.ListSigningKeysRequest(purpose=purpose)),
        )
        access_keys = {key.key_id: RSAKey.import_key(json.loads(key.jwk)) for key in signing.signing_keys}
        return CredentialCheckKeys(check_keys=tuple(checks.check_keys), access_keys=access_keys)

    return fetch
