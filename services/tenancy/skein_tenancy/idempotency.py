"""Writes that a caller may repeat: the claim, the work and the saved response share one transaction."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from google.protobuf.message import Message

from skein_kit.database.transactions import NO_TENANT
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.ids import now

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from datetime import datetime
    from uuid import UUID

    from skein_kit.database.transactions import Database, Transaction
    from skein_kit.idempotency.store import IdempotencyKey

Response = TypeVar("Response", bound=Message)


class IdempotentWrite:
    """One write in its transaction, which commits when the block ends without an error.

    `saved_response` is the serialized response of the first request, None when this is the first. A purge empties it.
    """

    def __init__(
        self,
        tx: Transaction,
        store: IdempotencyStore,
        tenant_id: UUID,
        key: IdempotencyKey,
        saved_response: bytes | None,
    ) -> None:
        self.tx = tx
        self.saved_response = saved_response
        self._store = store
        self._tenant_id = tenant_id
        self._key = key

    async def save(self, response: Response) -> Response:
        """Save the response for repeats, and return it.

        Expired responses of the tenant are deleted here: writes in this service are too rare for a job.
        """
        if self._key.request_id:
            await self._store.answer(self.tx, self._tenant_id, self._key, response)
            await self._store.delete_expired(self.tx, self._tenant_id, now())
        return response


class IdempotentWrites:
    """Opens the transactions of writes. A repeat waits for the first request and gets its response."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._store = IdempotencyStore("tenancy")

    @asynccontextmanager
    async def tenant(self, tenant_id: UUID, key: IdempotencyKey) -> AsyncIterator[IdempotentWrite]:
        """Write to one tenant. Raises RequestIdReused."""
        async with self._database.tenant(tenant_id) as tx:
            yield await self._claim(tx, tenant_id, key)

    @asynccontextmanager
    async def operator(self, key: IdempotencyKey) -> AsyncIterator[IdempotentWrite]:
        """Write to the directory of all tenants. The response belongs to no tenant, so it outlives one's purge."""
        async with self._database.operator() as tx:
            yield await self._claim(tx, NO_TENANT, key)

    async def delete_expired(self, tenant_id: UUID, at: datetime) -> int:
        """Delete the tenant's expired responses; return how many."""
        async with self._database.tenant(tenant_id) as tx:
            return await self._store.delete_expired(tx, tenant_id, at)

    async def _claim(self, tx: Transaction, tenant_id: UUID, key: IdempotencyKey) -> IdempotentWrite:
        saved_response = await self._store.claim(tx, tenant_id, key)
        return IdempotentWrite(tx, self._store, tenant_id, key, saved_response)
