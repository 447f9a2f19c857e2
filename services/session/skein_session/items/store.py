"""Items, their limits and their rows.

Methods that take `tx` work in the caller's transaction, which sees the tenant.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from asyncpg import Record

from skein_kit.database.named_queries import Queries
from skein_kit.database.transactions import Database, Transaction
from skein_kit.errors import TransactionConflict
from skein_kit.quotas.store import QuotaCounter
from skein_session.errors import ItemsFull, SessionItemNotFound
from skein_session.sessions.store import lock_session_shared, require_session

_QUERIES = Queries.load("skein_session")
DEFAULT_ITEM_TTL = timedelta(days=1)
MAX_ITEM_TTL = timedelta(days=30)
# Items of one session, including expired ones that no job has removed yet.
MAX_ITEMS = 1000


class ItemStore:
    """Items by session and key."""

    def __init__(self, database: Database, quotas: QuotaCounter) -> None:
        self._database = database
        self._quotas = quotas

    async def put_item(
        self, tx: Transaction, tenant_id: UUID, put: ItemPut, *, at: datetime, created_by: str
    ) -> Record:
        """Store an item in place of the one under its key. Raises SessionNotFound, ItemsFull and QuotaExceeded."""
        session_key = {"tenant_id": tenant_id, "session_id": put.session_id}
        await lock_session_shared(tx, tenant_id, put.session_id)
        row = await tx.row(
            _QUERIES["put_item"],
            **session_key,
            key=put.key,
            value=put.value,
            expire_time=put.expire_time,
            at=at,
            create_time=put.create_time,
            update_time=put.update_time,
            created_by=created_by,
        )
        if row is None:  # The statement always returns a row.
            raise TransactionConflict
        if row["is_new"] and await tx.value(_QUERIES["count_items"], **session_key, limit=MAX_ITEMS + 1) > MAX_ITEMS:
            raise ItemsFull(limit=MAX_ITEMS)
        await self._quotas.charge(tx, tenant_id, {"session_items": int(row["is_new"])})
        return row

    async def get_item(self, tenant_id: UUID, session_id: str, item_key: str, at: datetime) -> Record:
        """Read an item that has not expired. Raises SessionNotFound and SessionItemNotFound."""
        async with self._database.transaction(tenant_id) as tx:
            row = await tx.row(_QUERIES["get_item"], tenant_id=tenant_id, session_id=session_id, key=item_key, at=at)
            if row is None:
                await require_session(tx, tenant_id, session_id)
                raise SessionItemNotFound
        return row

    async def list_items(
        self, tenant_id: UUID, session_id: str, *, prefix: str | None, after_key: str, at: datetime, limit: int
    ) -> list[Record]:
        """Read items of a session that have not expired, by key. Raises SessionNotFound."""
        async with self._database.transaction(tenant_id) as tx:
            rows = await tx.rows(
                _QUERIES["list_items"],
                tenant_id=tenant_id,
                session_id=session_id,
                after=after_key,
                prefix=prefix,
                at=at,
                limit=limit,
            )
            if not rows:
                await require_session(tx, tenant_id, session_id)
        return rows

    async def delete_item(self, tx: Transaction, tenant_id: UUID, session_id: str, item_key: str, at: datetime) -> None:
        """Delete an item for good. Raises SessionNotFound and SessionItemNotFound."""
        await require_session(tx, tenant_id, session_id)
        expire_time = await tx.value(_QUERIES["delete_item"], tenant_id=tenant_id, session_id=session_id, key=item_key)
        if expire_time is None or expire_time <= at:
            raise SessionItemNotFound
        await self._quotas.charge(tx, tenant_id, {"session_items": -1})

    async def delete_expired(self, tenant_id: UUID, at: datetime, *, count: int) -> int:
        """Delete up to `count` expired items; return how many."""
        async with self._database.transaction(tenant_id) as tx:
            deleted_count = await tx.execute(_QUERIES["delete_expired_items"], tenant_id=tenant_id, at=at, count=count)
            await self._quotas.charge(tx, tenant_id, {"session_items": -deleted_count})
        return deleted_count


@dataclass(frozen=True, kw_only=True, slots=True)
class ItemPut:
    """A value to store under a key of a session. `value` is JSON text."""

    session_id: str
    key: str
    value: str
    expire_time: datetime
    create_time: datetime
    update_time: datetime
