"""Reading a tenant's vectors to hold them in memory, and those that came since."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self
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

# Rows read at once: the loop that answers calls turns them into numbers, which takes some milliseconds.
_PORTION = 500
_FIRST = (UUID(int=0), 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class TransactionHorizon:
    """When a reading began, as the database tells it."""

    # When the server was started: the transactions of another one are others.
    server: datetime
    # All transactions below this number were over.
    horizon: int
    # How far the server's log went.
    position: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ChunkVectors:
    """The vectors of chunks over all dimensions, a row for each, with its item and whether that is a message."""

    item_ids: list[UUID]
    are_messages: NDArray[np.bool_]
    vectors: NDArray[np.float32]

    @classmethod
    def of(cls, rows: Sequence[asyncpg.Record], dimensions: int) -> Self:
        """Take the rows of a statement."""
        vectors = np.empty((len(rows), dimensions), dtype=np.float32)
        for place, row in enumerate(rows):
            first = row["embedding"].to_numpy()
            vectors[place, : len(first)] = first
            if row["rest"] is not None:
                vectors[place, len(first) :] = row["rest"].to_numpy()
        return cls(
            item_ids=[row["item_id"] for row in rows],
            are_messages=np.array([row["kind"] == "message" for row in rows], dtype=np.bool_),
            vectors=vectors,
        )


class VectorCacheStore:
    """Reads the vectors of one tenant in portions, each in a transaction of its own."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def moment(self) -> TransactionHorizon:
        """Return the present: whatever is read from now on has all that the transactions below its horizon wrote."""
        async with self._database.shared() as tx:
            (row,) = await tx.rows(QUERIES["held_state"])
        return TransactionHorizon(**row)

    async def is_settled(self, moment: TransactionHorizon) -> bool | None:
        """Say whether the numbers below a moment's horizon are used up for good, should the server crash now.

        None when another server answers.
        """
        async with self._database.shared() as tx:
            values: dict[str, Any] = {"server": moment.server, "position": moment.position}
            settled: bool | None = await tx.value(QUERIES["held_is_settled"], **values)
        return settled

    async def count(self, tenant_id: UUID, model: EmbeddingModel, most: int) -> int:
        """Return how many chunks a tenant has, up to a number."""
        async with self._reading(tenant_id) as tx:
            query = for_table(QUERIES["count_vectors"], model.table_name)
            count: int = await tx.value(query, tenant_id=tenant_id, most=most)
        return count

    async def all(self, tenant_id: UUID, model: EmbeddingModel) -> AsyncIterator[ChunkVectors]:
        """Read all of a tenant's chunks, some at a time."""
        query, (item_id, chunk) = for_table(QUERIES["vectors_after"], model.table_name), _FIRST
        while True:
            async with self._reading(tenant_id) as tx:
                rows = await tx.rows(query, tenant_id=tenant_id, item_id=item_id, chunk=chunk, count=_PORTION)
            if rows:
                yield ChunkVectors.of(rows, model.dimensions)
                item_id, chunk = rows[-1]["item_id"], rows[-1]["chunk"]
            if len(rows) < _PORTION:
                return

    async def since(self, tenant_id: UUID, model: EmbeddingModel, horizon: int, most: int) -> ChunkVectors | None:
        """Read the chunks that came with the transaction `horizon` or later; None when they are more than `most`."""
        query = for_table(QUERIES["vectors_since"], model.table_name)
        async with self._reading(tenant_id) as tx:
            rows = await tx.rows(query, tenant_id=tenant_id, horizon=horizon, count=most + 1)
        return None if len(rows) > most else ChunkVectors.of(rows, model.dimensions)

    def _reading(self, tenant_id: UUID) -> AbstractAsyncContextManager[Transaction]:
        return self._database.transaction(tenant_id, TxOptions(plan_once=True, skip_replica=True, read_only=True))
