"""The tables of vectors: those that this cluster computes, and those that callers bring."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from uuid import UUID

import asyncpg

from skein_kit.calls.call import bound_agent_id, current_call
from skein_kit.database.transactions import Database, Transaction
from skein_kit.database.tx_options import TxOptions
from skein_kit.errors import RevisionStale
from skein_kit.ids import id_time, now
from skein_kit.search_text.vector_columns import for_table, new_vectors
from skein_kit.telemetry.metrics import INDEX_DELAY
from skein_recall.errors import DocumentNotFound
from skein_recall.index.model import CallerVectors
from skein_recall.models.model import EmbeddingModel
from skein_recall.models.store import translate_dropped
from skein_recall.providers.text_embedder import IndexItem, ItemEmbeddings
from skein_recall.queries import QUERIES

# The delay of older items is not measured: they were imported with their creation times.
_MAX_DELAY_SECONDS = 3600.0


class VectorStore:
    """Vectors of items. Computed vectors never replace stored ones, which fit the text already."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(
        self,
        tenant_id: UUID,
        items: Sequence[IndexItem],
        embeddings: Sequence[tuple[EmbeddingModel, ItemEmbeddings]],
        *,
        pending: bool,
        failed: Sequence[EmbeddingModel] = (),
    ) -> int:
        """Store vectors by model for the items that are still at their revision; return how many are.

        `pending` puts these items into the backlog, or takes them out. The reindexes of `failed` models scan the tenant
        once more, which is recorded before: an item that leaves the backlog without a vector is found by that scan.
        """
        if failed:
            # Apart, because a transaction that also writes a table that Citus copies commits on the workers after the
            # coordinator: the caches, which ask the coordinator which transactions have ended, would miss its vectors.
            async with self._database.transaction(tenant_id) as tx:
                await _mark_incomplete(tx, tenant_id, [model.model for model in failed])
        async with self._database.transaction(tenant_id, TxOptions(durable=False, plan_once=True)) as tx:
            documents = await tx.rows(
                QUERIES["claim_documents"],
                tenant_id=tenant_id,
                item_ids=[item.item_id for item in items],
                revisions=[item.revision for item in items],
                pending=pending,
                at=_write_time(),
            )
            for model, of_model in embeddings:
                await _add_missing(tx, tenant_id, model, documents, of_model)
        if not pending:
            _observe_delay(row["item_id"] for row in documents)
        return len(documents)

    async def put_reindexed(
        self, tenant_id: UUID, model: EmbeddingModel, items: Sequence[IndexItem], embeddings: ItemEmbeddings
    ) -> int:
        """Store vectors for items outside of the backlog; return how many are still at their revision.

        Vectors that the cluster computed without codes of tokens are replaced by vectors with such.
        """
        async with self._database.transaction(tenant_id, TxOptions(durable=False)) as tx:
            documents = await tx.rows(
                QUERIES["lock_documents"],
                tenant_id=tenant_id,
                item_ids=[item.item_id for item in items],
                revisions=[item.revision for item in items],
            )
            await _delete_without_tokens(tx, tenant_id, model, documents, embeddings)
            await _add_missing(tx, tenant_id, model, documents, embeddings)
        return len(documents)

    async def items_without_vectors(
        self, tenant_id: UUID, model: EmbeddingModel, items: Sequence[IndexItem]
    ) -> list[IndexItem]:
        """Return the items that have no vectors of a model."""
        async with self._database.transaction(tenant_id) as tx:
            present = await _items_with_vectors(tx, tenant_id, model, [item.item_id for item in items])
        return [item for item in items if item.item_id not in present]

    async def put_caller_vectors(
        self,
        tx: Transaction,
        tenant_id: UUID,
        model: EmbeddingModel,
        vectors: CallerVectors,
        others: Iterable[EmbeddingModel],
    ) -> UUID:
        """Replace the vectors that an item has of a model; return the item's id.

        The item stays in the backlog while it lacks vectors of one of the `others`. Raises DocumentNotFound,
        ModelNotFound, and RevisionStale when the text is newer than the vectors.
        """
        document = await _lock_document(tx, tenant_id, vectors)
        item_id: UUID = document["item_id"]
        with translate_dropped(model):
            await tx.execute(
                for_table(QUERIES["delete_vectors"], model.table_name), tenant_id=tenant_id, item_ids=[item_id]
            )
        await tx.insert_all(tenant_id, [new_vectors(model.table_name, [(item_id, document["kind"], vectors.vectors)])])
        await tx.execute(
            QUERIES["put_vector_origin"],
            tenant_id=tenant_id,
            item_id=item_id,
            model=model.model,
            provider=vectors.provider,
            create_time=now(),
        )
        pending = False
        for other in others:
            pending = pending or not await _items_with_vectors(tx, tenant_id, other, [item_id])
        if pending is not document["pending"]:
            await tx.execute(
                QUERIES["set_embedding_pending"],
                tenant_id=tenant_id,
                item_id=item_id,
                pending=pending,
                at=_write_time(),
            )
        return item_id


def _write_time() -> datetime:
    """Return the time at which the vectors of this call, or background task, are recorded."""
    call = current_call()
    return now() if call is None else call.write_time


async def _lock_document(tx: Transaction, tenant_id: UUID, vectors: CallerVectors) -> asyncpg.Record:
    item_id = vectors.item_id
    if item_id is None:
        item_id = await tx.value(
            QUERIES["document_of_external_id"], tenant_id=tenant_id, external_id=vectors.external_id, kind=vectors.kind
        )
    row = None
    if item_id is not None:
        row = await tx.row(QUERIES["lock_document"], tenant_id=tenant_id, item_id=item_id, agent_id=bound_agent_id())
    if row is None:
        raise DocumentNotFound
    if vectors.revision and vectors.revision < row["revision"]:
        raise RevisionStale(requested=vectors.revision, current=row["revision"])
    return row


async def _items_with_vectors(
    tx: Transaction, tenant_id: UUID, model: EmbeddingModel, item_ids: Sequence[UUID]
) -> set[UUID]:
    query = for_table(QUERIES["items_with_vectors"], model.table_name)
    return {row["item_id"] for row in await tx.rows(query, tenant_id=tenant_id, item_ids=list(item_ids))}


async def _add_missing(
    tx: Transaction,
    tenant_id: UUID,
    model: EmbeddingModel,
    documents: Iterable[asyncpg.Record],
    embeddings: ItemEmbeddings,
) -> None:
    """Insert the vectors of locked documents that have none of the model, with codes of tokens if they are kept."""
    vectors = embeddings.vectors
    rows = [row for row in documents if row["item_id"] in vectors]
    if not rows:
        return
    # The insert itself skips an item of one chunk that has vectors: it would have the same first chunk.
    long_ids = [row["item_id"] for row in rows if len(vectors[row["item_id"]]) > 1]
    present = await _items_with_vectors(tx, tenant_id, model, long_ids) if long_ids else set()
    new = [row for row in rows if row["item_id"] not in present]
    tokens = embeddings.tokens
    _, vector_rows = new_vectors(
        model.table_name,
        [(row["item_id"], row["kind"], list(vectors[row["item_id"]])) for row in new],
        {row["item_id"]: tokens[row["item_id"]] for row in new if row["keeps_tokens"] and row["item_id"] in tokens},
    )
    await tx.insert(for_table(QUERIES["insert_missing_vectors"], model.table_name), tenant_id, vector_rows)


async def _delete_without_tokens(
    tx: Transaction,
    tenant_id: UUID,
    model: EmbeddingModel,
    documents: Iterable[asyncpg.Record],
    embeddings: ItemEmbeddings,
) -> None:
    """Delete the vectors of locked documents that lack codes of tokens and would get some."""
    item_ids = [row["item_id"] for row in documents if row["keeps_tokens"] and row["item_id"] in embeddings.tokens]
    if item_ids:
        query = for_table(QUERIES["delete_vectors_without_tokens"], model.table_name)
        await tx.execute(query, tenant_id=tenant_id, model=model.model, item_ids=item_ids)


async def _mark_incomplete(tx: Transaction, tenant_id: UUID, models: Sequence[str]) -> None:
    """Have the running reindexes of models scan a tenant once more."""
    rows = await tx.rows(QUERIES["active_reindexes"], tenant_id=tenant_id, models=list(models))
    if rows:
        await tx.execute(QUERIES["mark_incomplete"], reindex_ids=[row["reindex_id"] for row in rows])
    for row in rows:
        await tx.execute(QUERIES["request_rescan"], tenant_id=tenant_id, reindex_id=row["reindex_id"])


def _observe_delay(item_ids: Iterable[UUID]) -> None:
    at = now()
    for item_id in item_ids:
        delay = (at - id_time(item_id)).total_seconds()
        if delay < _MAX_DELAY_SECONDS:
            INDEX_DELAY.observe(max(0.0, delay))
