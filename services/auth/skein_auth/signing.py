"""The keys that sign identities: made when there is none, rotated with an overlap, shared by all replicas of auth."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import asyncpg
from joserfc.jwk import OKPKey

from skein_auth.sealing import SealBroken
from skein_kit import logs
from skein_kit.errors import Refusal
from skein_kit.identity import ALGORITHM, LIFETIME_SECONDS
from skein_kit.ids import now

if TYPE_CHECKING:
    from skein.auth.v1 import auth_pb2 as pb
    from skein_auth.sealing import Sealer
    from skein_auth.store import KeyStore
    from skein_kit.requests import Once

# A replaced key verifies for two lifetimes of a token: one for the last token that it signed, and time enough for other
# replicas to notice its successor.
OVERLAP = timedelta(seconds=2 * LIFETIME_SECONDS)

log = logs.get("auth")


@dataclass(frozen=True, kw_only=True, slots=True)
class NewKey:
    """A signing key on its way into the database."""

    key_id: str
    # JSON Web Key (RFC 8037).
    public_jwk: str
    sealed_private_jwk: bytes = field(repr=False)
    create_time: datetime

    @classmethod
    def make(cls, sealer: Sealer, at: datetime) -> NewKey:
        """Make a key; its id is its thumbprint (RFC 7638)."""
        key = OKPKey.generate_key("Ed25519", private=True)
        key_id = key.thumbprint()
        names = {"kid": key_id, "use": "sig", "alg": ALGORITHM}
        private = json.dumps({**key.as_dict(private=True), **names})
        return cls(
            key_id=key_id,
            public_jwk=json.dumps({**key.as_dict(private=False), **names}),
            sealed_private_jwk=sealer.seal(private.encode(), name=key_id),
            create_time=at,
        )


class Keyring:
    """The key that signs, as this replica knows it. The public halves are always read from the database."""

    def __init__(self, store: KeyStore, sealer: Sealer) -> None:
        self._store = store
        self._sealer = sealer
        self._active: OKPKey | None = None
        self._broken = ""

    async def active(self) -> OKPKey:
        """Return the key that signs; the cluster's first call makes it.

        Raises SealBroken when the key was sealed with a system key that this process was not given.
        """
        return self._active or await self.refresh()

    async def refresh(self) -> OKPKey:
        """Read which key signs now."""
        row = await self._store.active_signing_key()
        if row is None:
            # Two replicas may come here at once: the database keeps one key, and both read that one.
            await self._store.create_signing_key(NewKey.make(self._sealer, now()))
            row = await self._store.active_signing_key()
        if row is None:
            message = "there is no signing key although one was just made"
            raise LookupError(message)
        key_id = row["key_id"]
        if self._active is not None and self._active.kid == key_id:
            return self._active
        try:
            private = self._sealer.open(row["sealed_private_jwk"], name=key_id)
        except SealBroken:
            self._active = None
            if self._broken != key_id:
                log.warning("signing_key_does_not_open", key_id=key_id, check="SKEIN_SYSTEM_KEY")
            self._broken = key_id
            raise
        self._active = OKPKey.import_key(json.loads(private))
        return self._active

    async def rotate(self, once: Once) -> pb.RotateSigningKeyResponse:
        """Make a new key the one that signs, once for each request."""
        new = NewKey.make(self._sealer, now())
        response = await self._store.rotate_signing_key(new, new.create_time + OVERLAP, once)
        await self.refresh()
        if response.signing_key.key_id == new.key_id:
            log.info("signing_key_rotated", key_id=new.key_id)
        return response

    async def keep_fresh(self, seconds: float) -> None:
        """Notice keys that other replicas made, until cancelled."""
        while True:
            await asyncio.sleep(seconds)
            try:
                if self._active is not None:
                    await self.refresh()
            except (Refusal, SealBroken, asyncpg.PostgresError):
                # Readiness says what is wrong with the database; the broken seal is logged already.
                continue
