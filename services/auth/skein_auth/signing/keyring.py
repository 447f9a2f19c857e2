"""The keys that sign, one for each purpose: made when there is none, rotated with overlap, shared by all replicas."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, overload

import asyncpg
from joserfc.jwk import OKPKey, RSAKey

from skein_auth.encryption import DecryptionError
from skein_auth.signing.identity_cache import IdentityCache
from skein_auth.signing.model import NewKey
from skein_kit.errors import RpcError
from skein_kit.identity.identity_token import LIFETIME_SECONDS
from skein_kit.ids import now
from skein_kit.telemetry import logs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skein.auth.v1 import auth_pb2 as pb
    from skein_auth.encryption import SecretCipher
    from skein_auth.signing.model import Purpose
    from skein_auth.signing.store import SigningKeyStore
    from skein_kit.idempotency.key import IdempotencyKey
    from skein_kit.identity.identity_token import Caller

# A replaced key verifies for two lifetimes of a token: one for the last token that it signed, and time enough for other
# replicas to notice its successor.
OVERLAP = timedelta(seconds=2 * LIFETIME_SECONDS)
# The same for access tokens, beyond their lifetime.
ACCESS_OVERLAP = timedelta(seconds=60)
# The public halves are believed for this long: what a key signed that has ended is refused a second later, and by the
# gateway, which remembers what it exchanged, within five.
VERIFICATION_KEYS_TTL_SECONDS = 1.0
# Tokens that name unknown keys make a replica read the public halves no more often than this.
UNKNOWN_KEY_SECONDS = 0.25

log = logs.get("auth")


class Keyring:
    """The keys that sign, and the public halves that verify access tokens, as this replica knows them."""

    def __init__(self, store: SigningKeyStore, sealer: SecretCipher, *, access_seconds: int = 3600) -> None:
        """Give replaced access keys `access_seconds`, the life of an access token, and a little more."""
        self._store = store
        self._sealer = sealer
        self._access_overlap = timedelta(seconds=access_seconds) + ACCESS_OVERLAP
        self._active: dict[Purpose, OKPKey | RSAKey] = {}
        self._broken = ""
        self._verifying: Mapping[str, RSAKey] = {}
        self._read = float("-inf")
        self._reading = asyncio.Lock()
        self._signed = IdentityCache()

    @overload
    async def active(self, purpose: Literal["identity"] = "identity") -> OKPKey: ...

    @overload
    async def active(self, purpose: Literal["access"]) -> RSAKey: ...

    async def active(self, purpose: Purpose = "identity") -> OKPKey | RSAKey:
        """Return the key that signs; the cluster's first call makes it.

        Raises DecryptionError when the key was sealed with a system key that this process was not given.
        """
        return self._active.get(purpose) or await self.refresh(purpose)

    async def signed(self, caller: Caller, *, at: float, until: float | None = None) -> tuple[str, float]:
        """Return a signed identity and the Unix time when it ends, `until` at the latest. Raises DecryptionError."""
        return self._signed.of(caller, key=await self.active(), at=at, until=until)

    @overload
    async def refresh(self, purpose: Literal["identity"] = "identity") -> OKPKey: ...

    @overload
    async def refresh(self, purpose: Purpose) -> OKPKey | RSAKey: ...

    async def refresh(self, purpose: Purpose = "identity") -> OKPKey | RSAKey:
        """Read which key signs now."""
        row = await self._store.active_signing_key(purpose)
        if row is None:
            # Two replicas may come here at once: the database keeps one key, and both read that one.
            await self._store.create_signing_key(await NewKey.make(self._sealer, now(), purpose))
            row = await self._store.active_signing_key(purpose)
        if row is None:
            message = "there is no signing key although one was just made"
            raise LookupError(message)
        key_id = row["key_id"]
        known = self._active.get(purpose)
        if known is not None and known.kid == key_id:
            return known
        try:
            private = json.loads(self._sealer.open(row["sealed_private_jwk"], name=key_id))
        except DecryptionError:
            self._active.pop(purpose, None)
            if self._broken != key_id:
                log.warning("signing_key_does_not_open", key_id=key_id, check="SKEIN_SYSTEM_KEY")
            self._broken = key_id
            raise
        key = RSAKey.import_key(private) if purpose == "access" else OKPKey.import_key(private)
        self._active[purpose] = key
        return key

    async def verifying(self, key_id: str) -> RSAKey | None:
        """Return the public key that verifies access tokens of this id; None for one that is not there, or ended."""
        asked = time.monotonic()
        if asked - self._read >= VERIFICATION_KEYS_TTL_SECONDS or key_id not in self._verifying:
            await self._read_since(asked)
        return self._verifying.get(key_id)

    async def rotate(
        self, once: IdempotencyKey, purpose: Purpose = "identity", *, emergency: bool = False
    ) -> pb.RotateSigningKeyResponse:
        """Make a new key the one that signs, once for each request; in an emergency the old one ends at once."""
        new = await NewKey.make(self._sealer, now(), purpose)
        overlap = self._access_overlap if purpose == "access" else OVERLAP
        ends = new.create_time if emergency else new.create_time + overlap
        response = await self._store.rotate_signing_key(new, ends, once, emergency=emergency)
        await self.refresh(purpose)
        if response.signing_key.key_id == new.key_id:
            log.info("signing_key_rotated", key_id=new.key_id, purpose=purpose, emergency=emergency)
        return response

    async def keep_fresh(self, seconds: float) -> None:
        """Notice keys that other replicas made, until cancelled."""
        while True:
            await asyncio.sleep(seconds)
            try:
                for purpose in tuple(self._active):
                    await self.refresh(purpose)
            except (RpcError, DecryptionError, asyncpg.PostgresError):
                # Readiness says what is wrong with the database; the broken seal is logged already.
                continue

    async def _read_since(self, asked: float) -> None:
        """Return once the public halves were read after `asked`: everybody who waits shares one reading."""
        async with self._reading:
            if self._read >= asked:
                return
            await asyncio.sleep(self._read + UNKNOWN_KEY_SECONDS - time.monotonic())
            started = time.monotonic()
            keys = await self._store.list_signing_keys(now(), "access")
            self._verifying = {key.key_id: RSAKey.import_key(json.loads(key.jwk)) for key in keys}
            self._read = started
