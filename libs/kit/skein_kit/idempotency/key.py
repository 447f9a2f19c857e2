"""The identity of a request that a caller may repeat: who sent it, its method, its request id and its fingerprint."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Self

from google.protobuf.message import Message

from skein_kit.json_values import fields

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor

    from skein_kit.identity.identity_token import Caller


@dataclass(frozen=True, kw_only=True, slots=True)
class IdempotencyKey:
    """Identifies one request that must have one effect; with an empty `request_id` every repeat has its own."""

    principal: str
    method: str
    request_id: str
    fingerprint: bytes

    @classmethod
    def of(cls, caller: Caller, request: Message) -> Self:
        """Take the fingerprint of a request without its request_id and its secrets.

        A fingerprint of a password would be a fast hash of it.
        """
        request_id: str = request.request_id  # type: ignore[attr-defined]  # Every mutation has the field.
        method = request.DESCRIPTOR.full_name
        digest = hashlib.sha256()
        if request_id:
            rest = type(request)()
            rest.CopyFrom(request)
            rest.ClearField("request_id")
            _clear_secrets(rest)
            fields.canonical(rest)
            digest.update(rest.SerializeToString(deterministic=True))
        return cls(principal=caller.principal, method=method, request_id=request_id, fingerprint=digest.digest())


def _clear_secrets(message: Message) -> None:
    """Clear every field that is marked as a secret, in the message and in those inside of it."""
    for field, value in message.ListFields():
        if field.GetOptions().debug_redact:
            message.ClearField(field.name)
        elif field.message_type is not None and _has_secrets(field.message_type):
            for part in [value] if isinstance(value, Message) else value:
                _clear_secrets(part)


@lru_cache(maxsize=1024)
def _has_secrets(kind: Descriptor) -> bool:
    """Return whether a message type has secret fields at any depth. A map has none."""
    looked_at: set[str] = set()
    left = [kind]
    while left:
        found = left.pop()
        if found.full_name in looked_at:
            continue
        looked_at.add(found.full_name)
        if any(field.GetOptions().debug_redact for field in found.fields):
            return True
        left += [field.message_type for field in found.fields if field.message_type is not None]
    return False
