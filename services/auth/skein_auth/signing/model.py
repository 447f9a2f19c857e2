"""A signing key and its purpose. No SQL, no clock."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from joserfc.jwk import OKPKey, RSAKey

from skein_kit.identity.identity_token import ALGORITHM

if TYPE_CHECKING:
    from datetime import datetime

    from skein_auth.encryption import SecretCipher

# Internal identities, and the access and ID tokens that the world verifies.
Purpose = Literal["identity", "access"]


ACCESS_ALGORITHM = "RS256"


_RSA_BITS = 2048


@dataclass(frozen=True, kw_only=True, slots=True)
class NewKey:
    """A signing key on its way into the database."""

    key_id: str
    purpose: Purpose
    # JSON Web Key (RFC 8037, RFC 7518).
    public_jwk: str
    sealed_private_jwk: bytes = field(repr=False)
    create_time: datetime

    @classmethod
    async def make(cls, sealer: SecretCipher, at: datetime, purpose: Purpose = "identity") -> NewKey:
        """Make a key; its id is its thumbprint (RFC 7638)."""
        key: OKPKey | RSAKey
        if purpose == "access":
            # Looking for primes takes a while, in which the loop has other things to do.
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
            sealed_private_jwk=sealer.seal(private.encode(), name=key_id),
            create_time=at,
        )
