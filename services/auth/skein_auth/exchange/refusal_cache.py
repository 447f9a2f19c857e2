"""Credentials that were refused for good, remembered for seconds: they cost the database one look in that time."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from skein_auth.audit.model import AuditFields
    from skein_kit.errors import RpcError

TTL_SECONDS = 5.0
MAX_REMEMBERED = 10_000


class RejectedCredentialCache:
    """Refusals by the digest of their credential; only those that no later change takes back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # The class of the refusal, what is surely known of the credential, and until when. No credential is kept.
        self._known: OrderedDict[bytes, tuple[type[RpcError], AuditFields, float]] = OrderedDict()

    def find(self, credential: str) -> tuple[RpcError, AuditFields] | None:
        """Return how the credential was refused a moment ago, and what is known of it; None when it was not."""
        digest = _digest(credential)
        found = self._known.get(digest)
        if found is None:
            return None
        refusal, facts, until = found
        if self._clock() < until:
            return refusal(), facts
        del self._known[digest]
        return None

    def put(self, credential: str, refusal: RpcError, facts: AuditFields) -> None:
        """Remember a refusal that no later change takes back."""
        self._known[_digest(credential)] = (type(refusal), facts, self._clock() + TTL_SECONDS)
        if len(self._known) > MAX_REMEMBERED:
            self._known.popitem(last=False)


def _digest(credential: str) -> bytes:
    return hashlib.sha256(credential.encode()).digest()
