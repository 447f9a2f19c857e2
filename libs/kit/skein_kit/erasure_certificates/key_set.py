"""The published keys of certificates as a JWK Set (RFC 7517)."""

from __future__ import annotations

import json
from collections.abc import Iterable

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from joserfc.errors import JoseError
from joserfc.jwk import OKPKey


class KeySetInvalid(Exception):
    """The text is no JWK Set."""


def write(jwks: Iterable[str]) -> str:
    """Return the JWK Set of public keys, each given as the JSON of a JWK."""
    return json.dumps({"keys": [json.loads(jwk) for jwk in jwks]}, indent=2) + "\n"


def read(text: str) -> dict[str, Ed25519PublicKey]:
    """Read the Ed25519 keys of a JWK Set by key id; skip other keys. Raises KeySetInvalid."""
    result: dict[str, Ed25519PublicKey] = {}
    try:
        for jwk in json.loads(text)["keys"]:
            if jwk.get("kty") != "OKP":
                continue
            key = OKPKey.import_key(jwk)
            public_key = key.public_key
            # The id is the thumbprint of the key, so that a set cannot give one key the id of another.
            if isinstance(public_key, Ed25519PublicKey) and jwk.get("kid") == key.thumbprint():
                result[key.thumbprint()] = public_key
    except (ValueError, KeyError, TypeError, AttributeError, JoseError):
        raise KeySetInvalid from None
    return result
