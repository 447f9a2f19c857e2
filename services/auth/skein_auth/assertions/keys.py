"""Public keys of other parties (JWK Sets), and the verification of their signatures. Knows no claim of a JWT."""

from __future__ import annotations

import asyncio
import json
import time
import warnings
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from joserfc import jws, jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey

from skein_auth.errors import ProviderUnavailable
from skein_kit.outbound.fetch import JsonResponse, OutboundError
from skein_kit.telemetry import logs

# Algorithms with a public key: every holder of a shared secret could sign.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
_KEYS: Mapping[str, type[RSAKey | ECKey | OKPKey]] = {"RSA": RSAKey, "EC": ECKey, "OKP": OKPKey}
# Members of private keys, and of keys that both sides share.
_SECRET_MEMBERS = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
MAX_KEYS = 16
# Longer moduli and exponents, in base64url, make each signature expensive to verify: 8192 bits and 64 bits.
_MAX_MODULUS, _MAX_EXPONENT = 1366, 11
# Bounds of the time that published keys are cached.
_CACHE_SECONDS = (300.0, 86_400.0)
_DEFAULT_CACHE_SECONDS = 3600.0
# Least time between two fetches that unknown key ids cause: strangers can name any id.
_REFRESH_SECONDS = 30.0
# Pause after a fetch failed.
_PAUSE_SECONDS = 5.0

log = logs.get("auth")


class AssertionInvalid(Exception):
    """A JWT is damaged, or no key of its signer verifies it."""


class PublishedKeys:
    """The keys that a party publishes, cached."""

    def __init__(
        self, party: str, fetch: Callable[[], Awaitable[JsonResponse]], *, clock: Callable[[], float] = time.time
    ) -> None:
        """`fetch` returns the party's JWK Set, or raises OutboundError."""
        self._party = party
        self._fetch_document = fetch
        self._clock = clock
        self._keys: list[dict[str, Any]] = []
        self._stale_time = float("-inf")
        self._last_fetch_time = float("-inf")
        self._fetch_lock = asyncio.Lock()

    async def find(self, key_id: object) -> list[dict[str, Any]]:
        """Return the keys with this id; None means all. An unknown id makes auth fetch the keys again.

        Raises ProviderUnavailable.
        """
        request_time = self._clock()
        is_stale = request_time >= self._stale_time
        pause = _PAUSE_SECONDS if is_stale else _REFRESH_SECONDS
        if (is_stale or not keys_with_id(self._keys, key_id)) and request_time >= self._last_fetch_time + pause:
            async with self._fetch_lock:
                # A call that waited here uses the keys that another one fetched.
                if self._last_fetch_time < request_time:
                    await self._fetch()
        if self._clock() >= self._stale_time:
            raise ProviderUnavailable
        return keys_with_id(self._keys, key_id)

    async def _fetch(self) -> None:
        """Fetch the keys. When it fails, keys that are not stale stay valid."""
        try:
            response = await self._fetch_document()
            self._keys = signing_keys(response.document)
            self._stale_time = self._clock() + _cache_seconds(response)
        except OutboundError as error:
            log_unavailable(self._party, str(error))
        finally:
            self._last_fetch_time = self._clock()


def log_unavailable(party: str, reason: str) -> None:
    """Log that another party failed."""
    log.warning("identity_provider_unavailable", provider=party, reason=reason)


def signing_keys(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the public keys for signatures of a JWK Set; other entries are left out."""
    keys = document.get("keys")
    return [
        key
        for key in (keys if isinstance(keys, list) else [])
        if isinstance(key, dict) and key.get("kty") in _KEYS and key.get("use", "sig") == "sig" and _is_cheap(key)
    ]


def keys_with_id(keys: list[dict[str, Any]], key_id: object) -> list[dict[str, Any]]:
    """Return the keys with this id; None means all."""
    return [key for key in keys if key_id is None or key.get("kid") == key_id]


def key_set_error(document: object) -> str | None:
    """Return the error of a JWK Set that a client registers; None for one whose keys are all public and usable."""
    keys = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(keys, list) or not 0 < len(keys) <= MAX_KEYS:
        return f"is not a JWK Set with 1 to {MAX_KEYS} keys"
    if any(isinstance(key, dict) and _SECRET_MEMBERS & key.keys() for key in keys):
        return "contains a private or shared key"
    if len(signing_keys({"keys": keys})) != len(keys) or any(_import(key) is None for key in keys):
        return "contains a key that is no public RSA, EC or OKP key for signatures"
    return None


def read_header(token: str, types: frozenset[str]) -> dict[str, Any]:
    """Return the unverified header, of which only type and key id are used; a JWT without a type has the type "jwt".

    Raises AssertionInvalid, also for other types: each kind of token has its own, so that none passes as another.
    """
    try:
        header = jws.extract_compact(token.encode("ascii")).headers()
    except (JoseError, ValueError, RecursionError):
        raise AssertionInvalid from None
    kind = header.get("typ", "jwt")
    if not isinstance(kind, str) or kind.lower() not in types or not isinstance(header.get("kid", ""), str):
        raise AssertionInvalid
    return header


def read_claims(token: str) -> dict[str, Any]:
    """Return the unverified claims, which tell whose keys to use. Raises AssertionInvalid."""
    try:
        claims = json.loads(jws.extract_compact(token.encode("ascii")).payload)
    except (JoseError, ValueError, RecursionError):
        raise AssertionInvalid from None
    if not isinstance(claims, dict):
        raise AssertionInvalid
    return claims


def verify(token: str, keys: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the claims if one of the keys signed the token, with the key's own algorithm if it names one.

    Raises AssertionInvalid.
    """
    for jwk in keys[:MAX_KEYS]:
        key_algorithm = jwk.get("alg")
        algorithms = [name for name in ALGORITHMS if key_algorithm in (None, name)]
        try:
            with warnings.catch_warnings():
                # The signer chooses algorithm and key length; auth does not warn.
                warnings.simplefilter("ignore")
                return jwt.decode(token, _KEYS[jwk["kty"]].import_key(jwk), algorithms=algorithms).claims
        except (JoseError, ValueError, TypeError, KeyError, RecursionError):
            continue
    raise AssertionInvalid


def _import(jwk: dict[str, Any]) -> RSAKey | ECKey | OKPKey | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _KEYS[jwk["kty"]].import_key(jwk)
    except (JoseError, ValueError, TypeError, KeyError):
        return None


def _is_cheap(key: Mapping[str, Any]) -> bool:
    return len(str(key.get("n", ""))) <= _MAX_MODULUS and len(str(key.get("e", ""))) <= _MAX_EXPONENT


def _cache_seconds(response: JsonResponse) -> float:
    minimum, maximum = _CACHE_SECONDS
    seconds = _DEFAULT_CACHE_SECONDS if response.max_age is None else float(response.max_age)
    return min(max(seconds, minimum), maximum)
