"""The signing keys of all replicas, one active for each purpose: generated when missing, rotated with overlap."""

from __future__ import annotations

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import Mapping
from datetime import timedelta
from typing import Literal, overload

import asyncpg
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from joserfc.jwk import OKPKey, RSAKey

from skein_auth.encryption import DecryptionError, SecretCipher
from skein_auth.signing.model import NewKey, Purpose
from skein_auth.signing.store import SigningKeyStore
from skein_kit.database.transactions import Transaction
from skein_kit.errors import RpcError
from skein_kit.identity.identity_token import LIFETIME_SECONDS, Caller, sign_identity_token
from skein_kit.ids import now
from skein_kit.telemetry import logs

# A replaced key verifies for two lifetimes of a token. One is for the last token that it signed, the other for replicas
# that have not read its successor.
OVERLAP = timedelta(seconds=2 * LIFETIME_SECONDS)
# The same for access tokens, beyond their lifetime.
ACCESS_OVERLAP = timedelta(seconds=60)
# A replaced key of certificates stays published for a hundred years: certificates do not expire.
CERTIFICATE_OVERLAP = timedelta(days=36_525)
# The public halves are cached for this long, so auth refuses tokens of an expired key a second later. The gateway
# caches exchanges and refuses them within five seconds.
VERIFICATION_KEYS_TTL_SECONDS = 1.0
# Least time between two reads of the public halves that tokens with unknown keys cause.
UNKNOWN_KEY_SECONDS = 0.25
# Least remaining lifetime of a cached identity token, unless its credential expires sooner.
MIN_SECONDS = LIFETIME_SECONDS / 2
_MAX_CACHED = 10_000

# Seconds until a replica reads a new signing key of another one: less than the caches of checking keys take.
SIGNING_KEY_SECONDS = 2.0

log = logs.get("auth")


class Keyring:
    """The active keys, and the public halves that verify access tokens, as this replica has read them."""

    def __init__(self, store: SigningKeyStore, cipher: SecretCipher, *, access_seconds: int = 3600) -> None:
        """`access_seconds` is the lifetime of an access token; a replaced access key verifies a little longer."""
        self._store = store
        self._cipher = cipher
        self._overlaps: Mapping[Purpose, timedelta] = {
            "identity": OVERLAP,
            "access": timedelta(seconds=access_seconds) + ACCESS_OVERLAP,
            "certificate": CERTIFICATE_OVERLAP,
        }
        self._active: dict[Purpose, OKPKey | RSAKey] = {}
        self._undecryptable_key_id = ""
        self._verification_keys: Mapping[str, RSAKey] = {}
        self._read_time = float("-inf")
        self._read_lock = asyncio.Lock()
        self._identities = IdentityCache()

    @overload
    async def active_key(self, purpose: Literal["identity", "certificate"] = "identity") -> OKPKey: ...

    @overload
    async def active_key(self, purpose: Literal["access"]) -> RSAKey: ...

    async def active_key(self, purpose: Purpose = "identity") -> OKPKey | RSAKey:
        """Return the active key; the cluster's first call generates it.

        Raises DecryptionError when it is encrypted with a system key that this process lacks.
        """
        return self._active.get(purpose) or await self.refresh(purpose)

    async def certificate_key(self) -> tuple[str, Ed25519PrivateKey]:
        """Return the id and the private half of the key of certificates. Raises DecryptionError.

        Reads the active key each time: another replica may have replaced this one in an emergency.
        """
        key = await self.refresh("certificate")
        private_key = key.private_key
        if not isinstance(private_key, Ed25519PrivateKey):
            message = f"the key {key.kid} is no Ed25519 key"
            raise TypeError(message)
        return str(key.kid), private_key

    async def sign_identity(self, caller: Caller, *, at: float, until: float | None = None) -> tuple[str, float]:
        """Return an identity token and its expiry in Unix seconds, `until` at the latest. Raises DecryptionError."""
        return self._identities.get_or_sign(caller, key=await self.active_key(), at=at, until=until)

    @overload
    async def refresh(self, purpose: Literal["identity", "certificate"] = "identity") -> OKPKey: ...

    @overload
    async def refresh(self, purpose: Purpose) -> OKPKey | RSAKey: ...

    async def refresh(self, purpose: Purpose = "identity") -> OKPKey | RSAKey:
        """Read the active key. Raises DecryptionError."""
        row = await self._store.active_signing_key(purpose)
        if row is None:
            # Of several replicas at once, one inserts its key, and all read that one.
            await self._store.create_signing_key(await NewKey.generate(self._cipher, now(), purpose))
            row = await self._store.active_signing_key(purpose)
        if row is None:
            message = "no signing key although one was just created"
            raise LookupError(message)
        key_id = row["key_id"]
        cached = self._active.get(purpose)
        if cached is not None and cached.kid == key_id:
            return cached
        try:
            private = json.loads(self._cipher.decrypt(row["encrypted_private_jwk"], name=key_id))
        except DecryptionError:
            self._active.pop(purpose, None)
            if self._undecryptable_key_id != key_id:
                log.warning("signing_key_undecryptable", key_id=key_id, check="SKEIN_SYSTEM_KEY")
            self._undecryptable_key_id = key_id
            raise
        key = RSAKey.import_key(private) if purpose == "access" else OKPKey.import_key(private)
        self._active[purpose] = key
        return key

    async def verification_key(self, key_id: str) -> RSAKey | None:
        """Return the public key of access tokens with this id; None for an unknown or expired one."""
        request_time = time.monotonic()
        if request_time - self._read_time >= VERIFICATION_KEYS_TTL_SECONDS or key_id not in self._verification_keys:
            await self._read_verification_keys(request_time)
        return self._verification_keys.get(key_id)

    async def generate(self, purpose: Purpose) -> NewKey:
        """Generate a key that may replace the active one."""
        return await NewKey.generate(self._cipher, now(), purpose)

    async def rotate(self, tx: Transaction, new: NewKey, *, emergency: bool) -> None:
        """Make a key the active one in the database; in an emergency, all earlier ones end at once."""
        overlap = self._overlaps[new.purpose]
        old_expire_time = new.create_time if emergency else new.create_time + overlap
        await self._store.rotate_signing_key(tx, new, old_expire_time, emergency=emergency)

    async def refresh_periodically(self, seconds: float) -> None:
        """Read the keys of other replicas every `seconds` until cancelled."""
        while True:
            await asyncio.sleep(seconds)
            try:
                for purpose in tuple(self._active):
                    await self.refresh(purpose)
            except (RpcError, DecryptionError, asyncpg.PostgresError):
                # Readiness reports the database; the decryption error is logged already.
                continue

    async def _read_verification_keys(self, request_time: float) -> None:
        """Return after a read of the public halves that began after `request_time`; waiting callers share one."""
        async with self._read_lock:
            if self._read_time >= request_time:
                return
            await asyncio.sleep(self._read_time + UNKNOWN_KEY_SECONDS - time.monotonic())
            start_time = time.monotonic()
            keys = await self._store.list_signing_keys(now(), "access")
            self._verification_keys = {key.key_id: RSAKey.import_key(json.loads(key.public_jwk)) for key in keys}
            self._read_time = start_time


class IdentityCache:
    """Identity tokens by caller, key and expiry: to sign and verify them is most of the cost of an exchange."""

    def __init__(self) -> None:
        # With the expiry of each, in Unix seconds.
        self._tokens: OrderedDict[tuple[Caller, str, float | None], tuple[str, float]] = OrderedDict()

    def get_or_sign(self, caller: Caller, *, key: OKPKey, at: float, until: float | None = None) -> tuple[str, float]:
        """Return an identity token and its expiry in Unix seconds, `until` at the latest."""
        cache_key = (caller, str(key.kid), until)
        token, expire_time = self._tokens.get(cache_key, ("", 0.0))
        if at + MIN_SECONDS <= expire_time <= at + LIFETIME_SECONDS:
            return token, expire_time
        signed_token = sign_identity_token(caller, key=key, at=at, until=until)
        self._tokens[cache_key] = signed_token
        self._tokens.move_to_end(cache_key)
        if len(self._tokens) > _MAX_CACHED:
            self._tokens.popitem(last=False)
        return signed_token
