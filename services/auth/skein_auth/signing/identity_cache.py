"""Identities signed a moment ago, handed out again: signing and checking them is most of what an exchange costs."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from skein_kit.identity.identity_token import LIFETIME_SECONDS, sign_identity_token

if TYPE_CHECKING:
    from joserfc.jwk import OKPKey

    from skein_kit.identity.identity_token import Caller

# Whoever gets one has it for at least so long, unless the credential that it stands for ends sooner.
LEAST_SECONDS = LIFETIME_SECONDS / 2
_MAX_REMEMBERED = 10_000


class IdentityCache:
    """Tokens by whom they stand for; one is as good as another, as long as everything that it says still holds."""

    def __init__(self) -> None:
        # With the Unix time at which each ends.
        self._tokens: OrderedDict[tuple[Caller, str, float | None], tuple[str, float]] = OrderedDict()

    def of(self, caller: Caller, *, key: OKPKey, at: float, until: float | None = None) -> tuple[str, float]:
        """Return a token as `skein_kit.identity.identity_token.sign` makes it, and the Unix time at which it ends."""
        place = (caller, str(key.kid), until)
        token, ends = self._tokens.get(place, ("", 0.0))
        if at + LEAST_SECONDS <= ends <= at + LIFETIME_SECONDS:
            return token, ends
        made = sign_identity_token(caller, key=key, at=at, until=until)
        self._tokens[place] = made
        self._tokens.move_to_end(place)
        if len(self._tokens) > _MAX_REMEMBERED:
            self._tokens.popitem(last=False)
        return made
