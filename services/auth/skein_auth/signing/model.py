"""Signing keys and their purposes."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from joserfc.jwk import OKPKey, RSAKey

from skein_auth.encryption import SecretCipher
from skein_kit.identity.identity_token import ALGORITHM

# "identity" keys sign identity tokens, "access" keys sign access and ID tokens, "certificate" keys sign certificates of
# erasures.
Purpose = Literal["identity", "access", "certificate"]
ACCESS_ALGORITHM = "RS256"
_RSA_BITS = 2048


@dataclass(frozen=True, kw_only=True, slots=True)
class SigningKey:
    """The public half of a signing key."""

    key_id: str
    # JSON Web Key (RFC 8037, RFC 7518).
    public_jwk: str
    create_time: datetime
    # None: the active key.
    expire_time: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class NewKey:
    """A signing key to be stored."""

    key_id: str
    purpose: Purpose
    public_jwk: str
    encrypted_private_jwk: bytes = field(repr=False)
    create_time: datetime

    @classmethod
    async def generate(cls, cipher: SecretCipher, at: datetime, purpose: Purpose = "identity") -> NewKey:
        """Generate a key; its id is its thumbprint (RFC 7638)."""
        key: OKPKey | RSAKey
        if purpose == "access":
            # In a thread: the search for primes would block the event loop.
            key, algorithm = await asyncio.to_thread(RSAKey.generate_key, _RSA_BITS), ACCESS_ALGORITHM
        else:
            key, algorithm = OKPKey.generate_key("Ed25519", private=True), ALGORITHM
        key_id = key.thumbprint()
        names = {"kid": key_id, "use": "sig", "alg": algorithm}
        private = json.dumps({**key.as_dict(private=True), **names})
        return cls(
            key_id=key_id,
            purpose=purpose,
            public_jwk=json.dumps({**key.as_dict(private=False), **names}),
            encrypted_private_jwk=cipher.encrypt(private.encode(), name=key_id),
            create_time=at,
        )
