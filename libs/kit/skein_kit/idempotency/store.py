"""Idempotent requests: a repeat of a request id gets the first response and changes nothing.

The claim of a request id, the work and the saved response share one transaction. So a repeat waits for the first
request and then gets its response. Responses are scoped to (tenant, principal, method) and live for 24 hours.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Protocol, Self, TypeVar
from uuid import UUID

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from skein_kit.audit_log.writer import AuditLog
from skein_kit.calls.call import current_space_ids
from skein_kit.database import tx_options
from skein_kit.database.named_queries import Queries, Query, with_schema
from skein_kit.database.transactions import NO_TENANT, Database, Transaction
from skein_kit.database.tx_options import TxOptions
from skein_kit.errors import RequestIdReused
from skein_kit.identity.identity_token import Caller
from skein_kit.ids import now
from skein_kit.json_values import fields

LIFETIME = timedelta(hours=24)


@dataclass(frozen=True, kw_only=True, slots=True)
class IdempotencyKey:
    """Identifies one request that must have one effect; with an empty `request_id` every repeat has its own."""

    principal: str
    method: str
    request_id: str
    fingerprint: bytes
    # For the audit log.
    request: Message | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, caller: Caller, request: Message) -> Self:
        """Take the fingerprint of a request without its request_id and its secrets.

        A fingerprint of a password would be a fast hash of it.
        """
        request_id: str = request.request_id  # type: ignore[attr-defined]  # Every mutation has the field.
        method = request.DESCRIPTOR.full_name
        digest = hashlib.sha256()
        if request_id:
            request_copy = type(request)()
            request_copy.CopyFrom(request)
            request_copy.ClearField("request_id")
            _clear_secrets(request_copy)
            fields.canonicalize(request_copy)
            digest.update(request_copy.SerializeToString(deterministic=True))
            # The same request in another space is another one.
            for space_id in current_space_ids() or ():
                digest.update(space_id.bytes)
        return cls(
            principal=caller.principal,
            method=method,
            request_id=request_id,
            fingerprint=digest.digest(),
            request=request,
        )


class Serializable(Protocol):
    """A response that can be stored."""

    def SerializeToString(self) -> bytes:
        """Return the bytes to store."""


Response = TypeVar("Response", bound=Serializable)


class AnsweredBefore(Exception):
    """A request was answered before: the chain sends the response, which a purge may have emptied."""

    def __init__(self, response: bytes) -> None:
        """Send the bytes of `response`."""
        super().__init__()
        self.response = response


class _RollBackClaim(Exception):
    """Ends a transaction that claimed a request only to look at it."""


class IdempotentWrite:
    """One write in its transaction.

    `saved_response` is the serialized response of the first request, None when this is the first. A purge empties it.
    """

    def __init__(
        self,
        store: IdempotencyStore,
        tx: Transaction,
        tenant_id: UUID,
        key: IdempotencyKey,
        saved_response: bytes | None,
    ) -> None:
        self.tx = tx
        self.saved_response = saved_response
        # The response of this request, once it is saved.
        self.response: object = None
        self._store = store
        self._tenant_id = tenant_id
        self._key = key

    async def save(self, response: Response) -> Response:
        """Save the response for repeats, and return it."""
        self.response = response
        await self._store.save(self.tx, self._tenant_id, self._key, response.SerializeToString())
        return response

    async def record_audit_event(self, audit: AuditLog) -> None:
        """Record the event that the call's method declares; a repeat leaves none."""
        if self.saved_response is None:
            await audit.record_declared(self.tx, self._tenant_id, self._key.request, self.response)


class IdempotencyStore:
    """The saved responses of one service, in its table `<schema>.requests`."""

    def __init__(self, database: Database, schema: str, audit: AuditLog | None = None) -> None:
        """Use the schema's table. With `audit`, each write leaves the audit event that its method declares."""
        self._database = database
        self._audit = audit
        queries = Queries.load("skein_kit")
        self._claim, self._save, self._replace, self._delete_expired = (
            with_schema(schema, queries[name])
            for name in ("claim_request", "save_response", "replace_response", "delete_expired_requests")
        )

    @asynccontextmanager
    async def begin(self, caller: Caller, request: Message) -> AsyncIterator[IdempotentWrite]:
        """Begin a write to the caller's tenant; it commits when the block ends without an error.

        Raises RequestIdReused. Raises AnsweredBefore for a repeat, which the chain answers as the first request.
        """
        async with self.begin_with_key(caller.require_tenant(), IdempotencyKey.of(caller, request)) as write:
            yield write

    @asynccontextmanager
    async def begin_with_key(
        self,
        tenant_id: UUID,
        key: IdempotencyKey,
        options: TxOptions = tx_options.DEFAULT,
        *,
        sees_repeats: bool = False,
    ) -> AsyncIterator[IdempotentWrite]:
        """Begin a write as `begin`, for the caller and the request of a key.

        With `sees_repeats` the block runs for a repeat too, and looks at `saved_response` itself.
        """
        async with self._database.transaction(tenant_id, options) as tx:
            write = await self._first(tx, tenant_id, key, sees_repeats=sees_repeats)
            yield write
            await self._record(write)

    @asynccontextmanager
    async def begin_as_operator(
        self, key: IdempotencyKey, *, sees_repeats: bool = False
    ) -> AsyncIterator[IdempotentWrite]:
        """Begin a write to the directory of all tenants as `begin_with_key`. Its response belongs to no tenant.

        Expired responses of operators are deleted here: the worker deletes those of tenants alone.
        """
        async with self._database.operator_transaction() as tx:
            await self.delete_expired(tx, NO_TENANT, now())
            write = await self._first(tx, NO_TENANT, key, sees_repeats=sees_repeats)
            yield write
            await self._record(write)

    @asynccontextmanager
    async def begin_as_account(
        self, account_id: UUID, key: IdempotencyKey, *, sees_repeats: bool = False
    ) -> AsyncIterator[IdempotentWrite]:
        """Begin a write to an account's rows in every tenant as `begin_with_key`. Its response belongs to no tenant."""
        async with self._database.account_transaction(account_id) as tx:
            write = await self._first(tx, NO_TENANT, key, sees_repeats=sees_repeats)
            yield write
            await self._record(write)

    async def _record(self, write: IdempotentWrite) -> None:
        """Record the audit event of a write at its end, in its transaction."""
        if self._audit is not None:
            await write.record_audit_event(self._audit)

    async def saved_response(self, tenant_id: UUID, key: IdempotencyKey) -> bytes | None:
        """Return the saved response of a request without claiming it; None for a first request.

        Waits for a first request that is under way. Raises RequestIdReused.
        """
        if not key.request_id:
            return None
        try:
            async with self._database.transaction(tenant_id) as tx:
                response = (await self.claim(tx, tenant_id, key)).saved_response
                if response is None:
                    raise _RollBackClaim  # noqa: TRY301 - rolls back.
        except _RollBackClaim:
            return None
        return response

    async def _first(
        self, tx: Transaction, tenant_id: UUID, key: IdempotencyKey, *, sees_repeats: bool
    ) -> IdempotentWrite:
        write = await self.claim(tx, tenant_id, key)
        if write.saved_response is not None and not sees_repeats:
            raise AnsweredBefore(write.saved_response)
        return write

    async def claim(
        self, tx: Transaction, tenant_id: UUID, key: IdempotencyKey, *, response: bytes = b""
    ) -> IdempotentWrite:
        """Claim a request in the caller's own transaction. Raises RequestIdReused.

        A `response` that is known before the work is saved at once, which spares the statement of `save`.
        """
        if not key.request_id:
            return IdempotentWrite(self, tx, tenant_id, key, None)
        at = now()
        row = await tx.row(
            self._claim,
            tenant_id=tenant_id,
            principal=key.principal,
            method=key.method,
            request_id=key.request_id,
            fingerprint=key.fingerprint,
            response=response,
            create_time=at,
            expired_before=at - LIFETIME,
        )
        if row is None or row["claimed"]:
            return IdempotentWrite(self, tx, tenant_id, key, None)
        # A purge empties the response and the fingerprint, which is a hash of the content.
        if row["fingerprint"] and row["fingerprint"] != key.fingerprint:
            raise RequestIdReused
        return IdempotentWrite(self, tx, tenant_id, key, row["response"])

    async def save(self, tx: Transaction, tenant_id: UUID, key: IdempotencyKey, response: bytes) -> None:
        """Save the response of a claimed request."""
        await self._execute(self._save, tx, tenant_id, key, response)

    async def replace(self, tx: Transaction, tenant_id: UUID, key: IdempotencyKey, response: bytes) -> None:
        """Replace the response of a committed request. One that a purge has emptied stays empty."""
        await self._execute(self._replace, tx, tenant_id, key, response)

    async def delete_expired(self, tx: Transaction, tenant_id: UUID, at: datetime) -> int:
        """Delete the tenant's responses that are older than LIFETIME; return how many."""
        return await tx.execute(self._delete_expired, tenant_id=tenant_id, expired_before=at - LIFETIME)

    async def _execute(
        self, query: Query, tx: Transaction, tenant_id: UUID, key: IdempotencyKey, response: bytes
    ) -> None:
        if key.request_id:
            await tx.execute(
                query,
                tenant_id=tenant_id,
                principal=key.principal,
                method=key.method,
                request_id=key.request_id,
                response=response,
            )


def _clear_secrets(message: Message) -> None:
    """Clear every field that is marked as a secret, in the message and in the messages inside it."""
    for descriptor, value in message.ListFields():
        if descriptor.GetOptions().debug_redact:
            message.ClearField(descriptor.name)
        elif descriptor.message_type is not None and _has_secrets(descriptor.message_type):
            for part in [value] if isinstance(value, Message) else value:
                _clear_secrets(part)


@lru_cache(maxsize=1024)
def _has_secrets(kind: Descriptor) -> bool:
    """Return whether a message type has secret fields at any depth. A map has none."""
    visited: set[str] = set()
    pending = [kind]
    while pending:
        descriptor = pending.pop()
        if descriptor.full_name in visited:
            continue
        visited.add(descriptor.full_name)
        if any(field.GetOptions().debug_redact for field in descriptor.fields):
            return True
        pending += [field.message_type for field in descriptor.fields if field.message_type is not None]
    return False
