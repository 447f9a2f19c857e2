"""Every database call of the recall service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_kit.database.tenant_purge import purge_tenant_rows
from skein_kit.database.tx_options import TxOptions
from skein_kit.search_text.vector_columns import for_table
from skein_kit.search_text.vector_columns import prepare_connection as take_vectors
from skein_recall.erasure.store import ErasureStore
from skein_recall.index.state_store import IndexStateStore
from skein_recall.index.store import IndexStore
from skein_recall.index.vector_store import VectorStore
from skein_recall.models.reindex_store import ReindexStore
from skein_recall.models.store import ModelStore
from skein_recall.queries import QUERIES
from skein_recall.query.store import QueryTransaction
from skein_recall.vector_cache.store import VectorCacheStore

if TYPE_CHECKING:
    from uuid import UUID

    import asyncpg

    from skein_kit.database.transactions import Database

__all__ = [
    "IndexStore",
    "ModelStore",
    "QueryTransaction",
    "ReindexStore",
    "Store",
    "VectorCacheStore",
    "VectorStore",
    "prepare_connection",
]

# What there is of a tenant beside vectors, children before parents.
_PURGED = {
    "recall.postings": QUERIES["purge_postings"],
    "recall.vector_origins": QUERIES["purge_vector_origins"],
    "recall.documents": QUERIES["purge_documents"],
    "recall.frequencies": QUERIES["purge_frequencies"],
    "recall.departures": QUERIES["purge_departures"],
    "recall.corpora": QUERIES["purge_corpora"],
    "recall.reindexed": QUERIES["purge_reindexed"],
    "recall.requests": QUERIES["purge_requests"],
}


async def prepare_connection(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Teach a new connection to send vectors in binary, and to stay with the indexes.

    Every statement has an index made for it. What the planner holds to be cheaper is so for a tenant whose rows lie
    side by side, as after an import, and ten times as expensive for one whose rows are scattered.
    """
    await take_vectors(connection)
    await connection.execute("SET enable_seqscan = off; SET enable_bitmapscan = off")


class Store:
    """The search index and the registry of models."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.holding = VectorCacheStore(database)
        self.index = IndexStore(database)
        self.models = ModelStore(database)
        self.reindexes = ReindexStore(database)
        self.states = IndexStateStore(database)
        self.vectors = VectorStore(database)
        self.erasures = ErasureStore(database)

    def reading(self, tenant_id: UUID, *, filtered: bool) -> QueryTransaction:
        """Return a transaction to find and read items, which begins and ends with the block that it is used for.

        Which index serves a filter depends on its values; `filtered` says that those statements come first.
        """
        transaction = self._database.transaction(tenant_id, TxOptions(plan_once=not filtered, read_only=True))
        return QueryTransaction(transaction, tenant_id, plans_again=filtered)

    async def purge_tenant(self, tenant_id: UUID, limit: int) -> tuple[dict[str, int], bool]:
        """Remove some of what is left of a deleted tenant, the vectors of every registered model first.

        Return rows by table, and whether there may be more.
        """
        models = await self.models.list_models()
        tables = {
            f"recall.{model.table_name}": for_table(QUERIES["purge_vectors"], model.table_name) for model in models
        }
        return await purge_tenant_rows(self._database, tenant_id, {**tables, **_PURGED}, limit)
