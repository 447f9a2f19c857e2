"""A cache of rejected credentials, each of which costs the database one lookup within its time."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict

from skein_auth.audit.model import AuditFields
from skein_kit.errors import RpcError

TTL_SECONDS = 5.0
MAX_CACHED = 10_000


class RejectedCredentialCache:
    """Final errors by the digest of their credential."""

    def __init__(self) -> None:
        # Class of the error, fields of the audit event, and expiry. The credential itself is not stored.
        self._errors: OrderedDict[bytes, tuple[type[RpcError], AuditFields, float]] = OrderedDict()

    def find(self, credential: str) -> tuple[RpcError, AuditFields] | None:
        """Return the error and the audit fields of a credential that was rejected a moment ago; None for others."""
        digest = _digest(credential)
        entry = self._errors.get(digest)
        if entry is None:
            return None
        error, fields, until = entry
        if time.monotonic() < until:
            return error(), fields
        del self._errors[digest]
        return None

    def put(self, credential: str, error: RpcError, fields: AuditFields) -> None:
        """Cache an error that no later change takes back."""
        self._errors[_digest(credential)] = (type(error), fields, time.monotonic() + TTL_SECONDS)
        if len(self._errors) > MAX_CACHED:
            self._errors.popitem(last=False)


def _digest(credential: str) -> bytes:
    return hashlib.sha256(credential.encode()).digest()
