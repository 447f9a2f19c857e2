"""Purges of deleted tenants: the rows, and the RPC that the worker calls."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from skein.recall.v1 import recall_pb2 as pb
from skein_kit.calls.call import Context, caller
from skein_kit.database.tenant_purge import purge_tenant_rows
from skein_kit.database.transactions import Database
from skein_kit.search_text.vector_columns import for_table
from skein_recall.models.model import EmbeddingModel
from skein_recall.models.store import ModelStore
from skein_recall.queries import QUERIES

# Tables beside those of vectors, children before parents.
_PURGES = {
    "recall.postings": QUERIES["purge_postings"],
    "recall.vector_origins": QUERIES["purge_vector_origins"],
    "recall.documents": QUERIES["purge_documents"],
    # After the tables whose former rows they keep.
    "recall.documents_history": QUERIES["purge_documents_history"],
    "recall.postings_history": QUERIES["purge_postings_history"],
    "recall.purged_items": QUERIES["purge_purged_items"],
    "recall.frequencies": QUERIES["purge_frequencies"],
    "recall.removals": QUERIES["purge_removals"],
    "recall.corpora": QUERIES["purge_corpora"],
    "recall.model_choices": QUERIES["purge_model_choices"],
    "recall.reindex_progress": QUERIES["purge_reindex_progress"],
    "recall.reindexes": QUERIES["purge_reindexes"],
    "recall.requests": QUERIES["purge_requests"],
    "recall.receipts": QUERIES["purge_receipts"],
    "recall.search_counts": QUERIES["purge_search_counts"],
}


class PurgeStore:
    """Removes the rows of deleted tenants."""

    def __init__(self, database: Database, models: ModelStore) -> None:
        self._database = database
        self._models = models

    async def purge_tenant(self, tenant_id: UUID, limit: int) -> tuple[dict[str, int], bool]:
        """Purge up to `limit` rows of a deleted tenant; return rows by table, and whether more remain."""

        async def purge(models: Sequence[EmbeddingModel]) -> tuple[dict[str, int], bool]:
            vectors = {
                f"recall.{model.table_name}": for_table(QUERIES["purge_vectors"], model.table_name) for model in models
            }
            former_vectors = {
                f"recall.{model.table_name}_history": for_table(QUERIES["purge_vectors_history"], model.table_name)
                for model in models
            }
            return await purge_tenant_rows(self._database, tenant_id, {**vectors, **_PURGES, **former_vectors}, limit)

        return await self._models.read_by_models(purge)


class MaintenanceHandlers:
    """Purges for the worker."""

    def __init__(self, store: PurgeStore) -> None:
        self._store = store

    async def PurgeTenant(self, request: pb.PurgeTenantRequest, context: Context) -> pb.PurgeTenantResponse:
        counts, more = await self._store.purge_tenant(caller(context).require_tenant(), request.limit)
        return pb.PurgeTenantResponse(deleted_counts=counts, more=more)
