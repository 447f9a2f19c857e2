"""Reads a tenant's vectors for the vector cache, and those written since."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Self
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from skein_kit.database.transactions import Database, Transaction
from skein_kit.database.tx_options import TxOptions
from skein_kit.search_text.vector_columns import COVERED_DIMENSIONS, for_table
from skein_recall.models.model import EmbeddingModel
from skein_recall.queries import QUERIES
from skein_recall.vector_cache.item_ids import to_uuids, unpack_ids

# Numbers of one statement's vectors, and ids of one statement: a megabyte or two, which the event loop receives in a
# millisecond.
_BATCH_NUMBERS, _BATCH_IDS = 1_000_000, 100_000
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

    # uint64 (n, 2): the item of each.
    ids: NDArray[np.uint64]
    # bool (n,): whether the item is a message.
    are_messages: NDArray[np.bool_]
    # float32 (n, dimensions), of unit length.
    vectors: NDArray[np.float32]

    @classmethod
    def of(cls, rows: NDArray[np.void]) -> Self:
        """Convert rows of `row_type`."""
        parts = [rows["embedding"].astype(np.float32)]
        if "rest" in (rows.dtype.names or ()):
            parts.append(rows["rest"].astype(np.float32))
        return cls(
            ids=rows["item_id"].astype(np.uint64),
            are_messages=rows["is_message"] == 1,
            vectors=np.concatenate(parts, axis=1) if len(parts) > 1 else parts[0],
        )


@cache
def row_type(dimensions: int) -> np.dtype[np.void]:
    """Return the type of one row of the query vectors_after. A halfvec has a header of four bytes."""
    covered = min(dimensions, COVERED_DIMENSIONS)
    fields: list[tuple[str, str] | tuple[str, str, tuple[int]]] = [
        ("item_id", ">u8", (2,)),
        ("chunk", ">i2"),
        ("is_message", "u1"),
        ("embedding_header", "V4"),
        ("embedding", ">f2", (covered,)),
    ]
    if dimensions > covered:
        fields += [("rest_header", "V4"), ("rest", ">f2", (dimensions - covered,))]
    return np.dtype(fields)


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
        """Read all of a tenant's chunks in order of their keys, in batches."""
        query, (item_id, chunk) = for_table(QUERIES["vectors_after"], model.table_name), _FIRST
        count = max(1, _BATCH_NUMBERS // model.dimensions)
        while True:
            async with self._transaction(tenant_id) as tx:
                chunks = await tx.value(query, tenant_id=tenant_id, item_id=item_id, chunk=chunk, count=count)
            rows = np.frombuffer(chunks or b"", dtype=row_type(model.dimensions))
            if len(rows):
                yield await asyncio.to_thread(ChunkVectors.of, rows)
                (item_id,), chunk = to_uuids(rows["item_id"][-1:]), int(rows["chunk"][-1])
            if len(rows) < count:
                return

    async def read_since(
        self, tenant_id: UUID, model: EmbeddingModel, horizon: TransactionHorizon, max_count: int
    ) -> ChunkVectors | None:
        """Read the chunks written since a horizon; None when they are more than `max_count`."""
        query = for_table(QUERIES["vectors_since"], model.table_name)
        async with self._transaction(tenant_id) as tx:
            chunks = await tx.value(query, tenant_id=tenant_id, horizon=horizon.transaction, count=max_count + 1)
        rows = np.frombuffer(chunks or b"", dtype=row_type(model.dimensions))
        return None if len(rows) > max_count else await asyncio.to_thread(ChunkVectors.of, rows)

    async def read_items(self, tenant_id: UUID, model: EmbeddingModel) -> NDArray[np.uint64]:
        """Return the ids (n, 2) of all items that have vectors, in order; some come several times."""
        query, item_id = for_table(QUERIES["items_after"], model.table_name), _FIRST[0]
        parts = []
        while True:
            async with self._transaction(tenant_id) as tx:
                ids = unpack_ids(await tx.value(query, tenant_id=tenant_id, item_id=item_id, count=_BATCH_IDS) or b"")
            parts.append(ids)
            if len(ids) < _BATCH_IDS:
                return np.concatenate(parts)
            (item_id,) = to_uuids(ids[-1:])

    def _transaction(self, tenant_id: UUID) -> AbstractAsyncContextManager[Transaction]:
        return self._database.transaction(tenant_id, TxOptions(plan_once=True, skip_replica=True, read_only=True))
