"""Reads a tenant's vectors for the vector cache, and those written since."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self
from uuid import UUID

import numpy as np

from skein_kit.database.tx_options import TxOptions
from skein_kit.search_text.vector_columns import for_table
from skein_recall.queries import QUERIES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from contextlib import AbstractAsyncContextManager
    from datetime import datetime

    import asyncpg
    from numpy.typing import NDArray

    from skein_kit.database.transactions import Database, Transaction
    from skein_recall.models.model import EmbeddingModel

# Rows of one statement: their conversion blocks the event loop for some milliseconds.
_BATCH_ROWS = 500
_FIRST = (UUID(int=0), 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class TransactionHorizon:
    """When a read began, in terms of the database."""

    # Start time of the server: another server restarts the transaction numbers.
    server_start: datetime
    # All transactions below this number had ended.
    transaction: int
    # Position of the server's write-ahead log.
    log_position: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ChunkVectors:
    """The vectors of n chunks over all dimensions."""

    item_ids: list[UUID]
    # bool (n,): whether the item is a message.
    are_messages: NDArray[np.bool_]
    # float32 (n, dimensions), of unit length.
    vectors: NDArray[np.float32]

    @classmethod
    def of(cls, rows: Sequence[asyncpg.Record], dimensions: int) -> Self:
        """Convert rows with the columns of vectors_after."""
        vectors = np.empty((len(rows), dimensions), dtype=np.float32)
        for index, row in enumerate(rows):
            first = row["embedding"].to_numpy()
            vectors[index, : len(first)] = first
            if row["rest"] is not None:
                vectors[index, len(first) :] = row["rest"].to_numpy()
        return cls(
            item_ids=[row["item_id"] for row in rows],
            are_messages=np.array([row["kind"] == "message" for row in rows], dtype=np.bool_),
            vectors=vectors,
        )


class VectorCacheStore:
    """Reads the vectors of one tenant in batches, each in a transaction of its own."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read_horizon(self) -> TransactionHorizon:
        """Return the present horizon: later reads see everything that transactions below it wrote."""
        async with self._database.global_transaction() as tx:
            (row,) = await tx.rows(QUERIES["read_transaction_horizon"])
        return TransactionHorizon(**row)

    async def is_durable(self, horizon: TransactionHorizon) -> bool | None:
        """Return whether a crash of the server cannot reuse the transaction numbers below a horizon.

        None when another server answers.
        """
        async with self._database.global_transaction() as tx:
            durable: bool | None = await tx.value(
                QUERIES["is_horizon_durable"], server_start=horizon.server_start, log_position=horizon.log_position
            )
        return durable

    async def count(self, tenant_id: UUID, model: EmbeddingModel, max_count: int) -> int:
        """Count a tenant's chunks, up to `max_count`."""
        async with self._transaction(tenant_id) as tx:
            query = for_table(QUERIES["count_vectors"], model.table_name)
            count: int = await tx.value(query, tenant_id=tenant_id, most=max_count)
        return count

    async def read_all(self, tenant_id: UUID, model: EmbeddingModel) -> AsyncIterator[ChunkVectors]:
        """Read all of a tenant's chunks, in batches."""
        query, (item_id, chunk) = for_table(QUERIES["vectors_after"], model.table_name), _FIRST
        while True:
            async with self._transaction(tenant_id) as tx:
                rows = await tx.rows(query, tenant_id=tenant_id, item_id=item_id, chunk=chunk, count=_BATCH_ROWS)
            if rows:
                yield ChunkVectors.of(rows, model.dimensions)
                item_id, chunk = rows[-1]["item_id"], rows[-1]["chunk"]
            if len(rows) < _BATCH_ROWS:
                return

    async def read_since(
        self, tenant_id: UUID, model: EmbeddingModel, horizon: TransactionHorizon, max_count: int
    ) -> ChunkVectors | None:
        """Read the chunks written since a horizon; None when they are more than `max_count`."""
        query = for_table(QUERIES["vectors_since"], model.table_name)
        async with self._transaction(tenant_id) as tx:
            rows = await tx.rows(query, tenant_id=tenant_id, horizon=horizon.transaction, count=max_count + 1)
        return None if len(rows) > max_count else ChunkVectors.of(rows, model.dimensions)

    def _transaction(self, tenant_id: UUID) -> AbstractAsyncContextManager[Transaction]:
        return self._database.transaction(tenant_id, TxOptions(plan_once=True, skip_replica=True, read_only=True))
