"""Which credentials the cluster can have made, seen at the gateway without a question to auth.

An API key shows it by its check digits, an access token by its signature. What such a credential is worth, auth says.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import time
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import RSAKey

from skein.auth.v1 import auth_pb2
from skein_kit.identity.bearer_token import API_KEY_PREFIX, MIN_LEGACY, BearerToken, is_jwt
from skein_kit.telemetry import logs

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from skein.auth.v1 import auth_pb2_grpc

ALGORITHM = "RS256"
# What the headers of the cluster's tokens name; auth refuses any other.
_HEADER = frozenset({"alg", "kid", "typ"})
# Seconds until auth's keys are read again; an unknown signing key, or a reading that failed, has them read sooner.
REFRESH_SECONDS = 60.0
RETRY_SECONDS = 1.0
# The first calls wait this long for the keys; without keys every credential is one that only auth can tell.
WAIT_SECONDS = 2.0

log = logs.get("gateway")


class CredentialOrigin(Enum):
    """What a credential's form says."""

    # The cluster made it.
    GENUINE = "genuine"
    # The cluster did not make it, whatever auth has stored.
    FORGED = "forged"
    # Only auth can tell: a legacy token, a key without check digits, a token of an unknown signing key.
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True, slots=True)
class CredentialCheckKeys:
    """What genuine credentials are recognised by."""

    check_keys: tuple[bytes, ...] = field(default=(), repr=False)
    # Public halves by their ids; empty: none is known.
    access_keys: Mapping[str, RSAKey] = field(default_factory=dict)

    def recognize(self, credential: str) -> CredentialOrigin:
        """Say what a credential's form says."""
        if credential.startswith(API_KEY_PREFIX):
            return self._of_key(BearerToken.read(API_KEY_PREFIX, credential))
        if is_jwt(credential):
            return self._of_jwt(credential)
        return CredentialOrigin.FORGED if len(credential) < MIN_LEGACY else CredentialOrigin.UNKNOWN

    def _of_key(self, key: BearerToken | None) -> CredentialOrigin:
        if key is None:
            return CredentialOrigin.FORGED
        if not key.check_digits or not self.check_keys:
            return CredentialOrigin.UNKNOWN
        return CredentialOrigin.GENUINE if key.has_check_digits_of(self.check_keys) else CredentialOrigin.FORGED

    def _of_jwt(self, text: str) -> CredentialOrigin:
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
    """Recognises credentials by auth's keys, which it reads beside the calls."""

    def __init__(
        self, fetch: Callable[[], Awaitable[CredentialCheckKeys]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Use `fetch` to read the keys."""
        self._fetch = fetch
        self._clock = clock
        self._keys: CredentialCheckKeys | None = None
        self._read = self._tried = float("-inf")
        self._reading: asyncio.Task[None] | None = None

    async def recognize(self, credential: str) -> CredentialOrigin:
        """Say what a credential's form says, by keys that are a minute old at most while auth answers."""
        if self._clock() - self._read >= REFRESH_SECONDS:
            self._refresh()
        if self._keys is None and self._reading is not None:
            await asyncio.wait({self._reading}, timeout=WAIT_SECONDS)
        recognition = (self._keys or CredentialCheckKeys()).recognize(credential)
        if recognition is CredentialOrigin.UNKNOWN and is_jwt(credential):
            # Its signing key may be newer than what is known here.
            self._refresh()
        return recognition

    def _refresh(self) -> None:
        """Read the keys beside the call, unless that was tried a moment ago."""
        if self._clock() - self._tried < RETRY_SECONDS or (self._reading is not None and not self._reading.done()):
            return
        self._tried = self._clock()
        # Not the call's own work, so it has neither its deadline nor its identity.
        self._reading = asyncio.create_task(self._renew(), context=contextvars.Context())

    async def _renew(self) -> None:
        started = self._clock()
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                self._keys = await self._fetch()
        except Exception as error:  # noqa: BLE001 - whatever it is: auth does not answer, and auth decides anyway.
            log.warning("recognition_keys_unread", error=type(error).__name__)
            return
        self._read = started


def key_fetcher(
    auth: auth_pb2_grpc.AuthServiceAsyncStub, identities: auth_pb2_grpc.IdentityServiceAsyncStub
) -> Callable[[], Awaitable[CredentialCheckKeys]]:
    """Return how the keys are read from auth."""

    async def fetch() -> CredentialCheckKeys:
        purpose = auth_pb2.SIGNING_KEY_PURPOSE_ACCESS
        checks, signing = await asyncio.gather(
            identities.GetCheckKeys(auth_pb2.GetCheckKeysRequest()),
            auth.ListSigningKeys(auth_pb2.ListSigningKeysRequest(purpose=purpose)),
        )
        access_keys = {key.key_id: RSAKey.import_key(json.loads(key.jwk)) for key in signing.signing_keys}
        return CredentialCheckKeys(check_keys=tuple(checks.check_keys), access_keys=access_keys)

    return fetch
