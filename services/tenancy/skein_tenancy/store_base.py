"""What every group of tables shares: the pool, the stored answers, and who sees how much."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_kit.errors import RevisionStale
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.ids import now
from skein_kit.quotas.store import QuotaCounter

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from uuid import UUID

    import asyncpg
    from google.protobuf.message import Message

    from skein_kit.database.transactions import Database, Transaction
    from skein_kit.idempotency.store import IdempotencyKey


# Shared by all tables: it remembers which tenants are limited.
QUOTAS = QuotaCounter("tenancy")


class StoreBase:
    """Some tables of the tenancy schema.

    Methods that take `once` do their work once for each request and return the first answer whenever it is repeated.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._requests = IdempotencyStore("tenancy")
        self._quotas = QUOTAS

    def _sight(self, own: UUID | None) -> AbstractAsyncContextManager[Transaction]:
        return self._database.operator() if own is None else self._database.tenant(own)

    async def _answer(self, tx: Transaction, keeper: UUID, once: IdempotencyKey, response: Message) -> None:
        """Keep the answer, and let go of those that nobody can ask for any more: writes here are too rare for a job."""
        if once.request_id:
            await self._requests.answer(tx, keeper, once, response)
            await self._requests.delete_expired(tx, keeper, now())


def check_revision(given: int, current: asyncpg.Record) -> None:
    if given not in (0, current["revision"]):
        raise RevisionStale(given=given, current=current["revision"])


def require_row(row: asyncpg.Record | None) -> asyncpg.Record:
    """Return the row that the transaction holds the lock of."""
    if row is None:
        message = "a locked row disappeared"
        raise LookupError(message)
    return row
