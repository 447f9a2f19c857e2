"""Doing a thing once: stored answers to requests that carry a request_id.

An answer is claimed before the work and given with it, in the same transaction, so a repeated request waits for the
first, then gets its answer. Answers are scoped to (tenant, principal, method) and live for 24 hours.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Self

from google.protobuf.message import Message

from skein_kit.database.named_queries import Queries, with_schema
from skein_kit.errors import RequestIdReused
from skein_kit.ids import now
from skein_kit.json_values import fields

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from google.protobuf.descriptor import Descriptor

    from skein_kit.database.named_queries import Query
    from skein_kit.database.transactions import Transaction
    from skein_kit.identity.identity_token import Caller

LIFETIME = timedelta(hours=24)


@dataclass(frozen=True, kw_only=True, slots=True)
class IdempotencyKey:
    """One request that must have one effect; an empty request_id means no such wish."""

    principal: str
    method: str
    request_id: str
    fingerprint: bytes

    @classmethod
    def of(cls, caller: Caller, request: Message) -> Self:
        """Recognise a request by everything in it but its request_id and its secrets.

        A fingerprint of a password would be a hash of it that is quick to guess at.
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
    """Say whether messages of a kind have secrets anywhere inside; no kind that has lies inside itself, or in a map."""
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


class IdempotencyStore:
    """The stored answers of one service, in its table `<schema>.requests`."""

    def __init__(self, schema: str) -> None:
        """Use the schema's table."""
        queries = Queries.of("skein_kit")

        self._claim, self._answer = (with_schema(schema, queries[name]) for name in ("claim_request", "answer_request"))
        self._correct = with_schema(schema, queries["correct_request"])
        self._delete = with_schema(schema, queries["delete_expired_requests"])

    async def claim(
        self, tx: Transaction, tenant_id: UUID, once: IdempotencyKey, *, answer: Message | None = None
    ) -> bytes | None:
        """Return the first answer if there is one; else None, and the request is the caller's to answer.

        An `answer` that is known before the work is kept at once, which saves keeping it later. Raises RequestIdReused
        when the id came with another request before.
        """
        if not once.request_id:
            return None
        at = now()
        row = await tx.row(
            self._claim,
            tenant_id=tenant_id,
            principal=once.principal,
            method=once.method,
            request_id=once.request_id,
            fingerprint=once.fingerprint,
            response=b"" if answer is None else answer.SerializeToString(),
            create_time=at,
            expired_before=at - LIFETIME,
        )
        if row is None or row["claimed"]:
            return None
        # A purge empties both the answer and the fingerprint, which is a hash of what was said.
        if row["fingerprint"] and row["fingerprint"] != once.fingerprint:
            raise RequestIdReused
        first: bytes = row["response"]
        return first

    async def answer(self, tx: Transaction, tenant_id: UUID, once: IdempotencyKey, response: Message) -> None:
        """Keep the answer of a claimed request."""
        await self._keep(self._answer, tx, tenant_id, once, response)

    async def correct(self, tx: Transaction, tenant_id: UUID, once: IdempotencyKey, response: Message) -> None:
        """Replace the answer of a request whose work is committed, unless what it spoke of was purged meanwhile."""
        await self._keep(self._correct, tx, tenant_id, once, response)

    async def delete_expired(self, tx: Transaction, tenant_id: UUID, at: datetime) -> int:
        """Remove the tenant's answers that are older than their lifetime; return how many."""
        return await tx.execute(self._delete, tenant_id=tenant_id, expired_before=at - LIFETIME)

    async def _keep(
        self, query: Query, tx: Transaction, tenant_id: UUID, once: IdempotencyKey, response: Message
    ) -> None:
        if not once.request_id:
            return
        await tx.execute(
            query,
            tenant_id=tenant_id,
            principal=once.principal,
            method=once.method,
            request_id=once.request_id,
            response=response.SerializeToString(),
        )
