"""Reads a tenant's documents and postings for the term cache, and those written since."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from uuid import UUID

import asyncpg

from skein_kit.database.transactions import Database, Transaction
from skein_kit.database.tx_options import TxOptions
from skein_recall.queries import QUERIES
from skein_recall.term_cache.table import CachedDocument

# Documents of one statement, and terms of one: their conversion blocks the event loop for some milliseconds.
_BATCH_DOCUMENTS, _BATCH_TERMS = 300, 300
_FIRST = UUID(int=0)


class TermCacheStore:
    """Reads one tenant in batches, each in a transaction of its own."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def count(self, tenant_id: UUID, max_count: int) -> int:
        """Count a tenant's documents, up to `max_count`."""
        async with self._transaction(tenant_id) as tx:
            count: int = await tx.value(QUERIES["count_documents"], tenant_id=tenant_id, most=max_count)
        return count

    async def read_documents(self, tenant_id: UUID) -> AsyncIterator[list[CachedDocument]]:
        """Read all of a tenant's documents, in batches, in the order of their ids."""
        after = _FIRST
        while True:
            async with self._transaction(tenant_id) as tx:
                rows = await tx.rows(
                    QUERIES["documents_after"], tenant_id=tenant_id, item_id=after, count=_BATCH_DOCUMENTS
                )
            if rows:
                yield [document_of(row) for row in rows]
                after = rows[-1]["item_id"]
            if len(rows) < _BATCH_DOCUMENTS:
                return

    async def read_postings(self, tenant_id: UUID) -> AsyncIterator[list[tuple[str, bytes]]]:
        """Read all of a tenant's postings, in batches of whole terms, as `postings_after` sends them."""
        after = ""
        while True:
            async with self._transaction(tenant_id) as tx:
                rows = await tx.rows(QUERIES["postings_after"], tenant_id=tenant_id, term=after, count=_BATCH_TERMS)
            if rows:
                yield [(row["term"], row["postings"]) for row in rows]
                after = rows[-1]["term"]
            if len(rows) < _BATCH_TERMS:
                return

    async def list_ids(self, tenant_id: UUID) -> bytes:
        """Return the ids of all of a tenant's documents, 16 bytes for each."""
        async with self._transaction(tenant_id) as tx:
            item_ids: bytes = await tx.value(QUERIES["list_document_ids"], tenant_id=tenant_id)
        return item_ids

    async def read_changed(self, tenant_id: UUID, horizon: int, max_count: int) -> list[tuple[UUID, int]] | None:
        """Return the documents of the transaction `horizon` and later ones; None if they exceed `max_count`."""
        async with self._transaction(tenant_id) as tx:
            rows = await tx.rows(
                QUERIES["list_changed_documents"], tenant_id=tenant_id, horizon=horizon, most_changed=max_count + 1
            )
        return None if len(rows) > max_count else [(row["item_id"], row["transaction"]) for row in rows]

    async def read_with_postings(self, tenant_id: UUID, item_ids: Sequence[UUID]) -> list[asyncpg.Record]:
        """Read documents with their postings, as `read_documents_with_postings` returns them."""
        async with self._transaction(tenant_id, plan_once=False) as tx:
            return await tx.rows(QUERIES["read_documents_with_postings"], tenant_id=tenant_id, item_ids=list(item_ids))

    def _transaction(self, tenant_id: UUID, *, plan_once: bool = True) -> AbstractAsyncContextManager[Transaction]:
        return self._database.transaction(tenant_id, TxOptions(plan_once=plan_once, skip_replica=True, read_only=True))


def document_of(row: asyncpg.Record) -> CachedDocument:
    """Convert a row of a document. Without a transaction it counts as older than any."""
    return CachedDocument(
        item_id=row["item_id"],
        kind=row["kind"],
        length=row["length"],
        session_id=row["session_id"],
        is_question=row["is_question"],
        is_assistant=row["is_assistant"],
        mentions_time=row["mentions_time"],
        transaction=row["transaction"] or 0,
    )
