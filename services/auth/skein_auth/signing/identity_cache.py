"""A cache of identity tokens: to sign and verify them is most of the cost of an exchange."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from skein_kit.identity.identity_token import LIFETIME_SECONDS, sign_identity_token

if TYPE_CHECKING:
    from joserfc.jwk import OKPKey

    from skein_kit.identity.identity_token import Caller

# Least remaining lifetime of a cached token, unless its credential expires sooner.
LEAST_SECONDS = LIFETIME_SECONDS / 2
_MAX_CACHED = 10_000


class IdentityCache:
    """Identity tokens by caller, key and expiry."""

    def __init__(self) -> None:
        # With the expiry of each, in Unix seconds.
        self._tokens: OrderedDict[tuple[Caller, str, float | None], tuple[str, float]] = OrderedDict()

    def get_or_sign(self, caller: Caller, *, key: OKPKey, at: float, until: float | None = None) -> tuple[str, float]:
        """Return an identity token and its expiry in Unix seconds, `until` at the latest."""
        cache_key = (caller, str(key.kid), until)
        token, expire_time = self._tokens.get(cache_key, ("", 0.0))
        if at + LEAST_SECONDS <= expire_time <= at + LIFETIME_SECONDS:
            return token, expire_time
        signed = sign_identity_token(caller, key=key, at=at, until=until)
        self._tokens[cache_key] = signed
        self._tokens.move_to_end(cache_key)
        if len(self._tokens) > _MAX_CACHED:
            self._tokens.popitem(last=False)
        return signed
