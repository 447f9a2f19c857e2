"""The vectors of items: those that are made here, and those that callers bring."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_kit.database.tx_options import TxOptions
from skein_kit.errors import RevisionStale
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.ids import id_time, now
from skein_kit.search_text import vector_columns as kit
from skein_kit.telemetry.metrics import INDEX_DELAY
from skein_recall.errors import DocumentNotFound
from skein_recall.queries import QUERIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from uuid import UUID

    import asyncpg
    import numpy as np
    from google.protobuf.message import Message
    from numpy.typing import NDArray

    from skein_kit.database.transactions import Database, Transaction
    from skein_kit.idempotency.key import IdempotencyKey
    from skein_recall.index.caller_vectors import CallerVectors
    from skein_recall.models.model import EmbeddingModel
    from skein_recall.providers.text_embedder import IndexItem

    # The vectors of each item that a model has some for.
    VectorsByItem = Mapping[UUID, NDArray[np.float32]]


# Items that were created so long ago at most were written just now: what was imported with an old date says nothing
# about how long it took.
_LIVE_SECONDS = 3600.0


class VectorStore:
    """The tables of vectors. A vector is never replaced by one that is made here: what is there fits the text."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._requests = IdempotencyStore(database, "recall")

    async def put(
        self,
        tenant_id: UUID,
        items: Sequence[IndexItem],
        made: Sequence[tuple[EmbeddingModel, VectorsByItem]],
        *,
        pending: bool,
        behind: Sequence[EmbeddingModel] = (),
    ) -> int:
        """Store what models made of items, where they are still at the revision given; return how many are.

        Afterwards the items are the backlog's or not, as `pending` says. The models that are `behind` get another look
        at everything. Should the server crash, vectors and marks go together: the backlog has the items again.
        """
        async with self._database.transaction(tenant_id, TxOptions(durable=False, plan_once=True)) as tx:
            claimed = await tx.rows(
                QUERIES["claim_documents"],
                tenant_id=tenant_id,
                item_ids=[item.item_id for item in items],
                revisions=[item.revision for item in items],
                pending=pending,
            )
            for model, vectors in made:
                await _add(tx, tenant_id, model, claimed, vectors)
            if claimed and behind:
                await _fall_behind(tx, tenant_id, [model.model for model in behind])
        if not pending:
            _observe([row["item_id"] for row in claimed])
        return len(claimed)

    async def put_beside(
        self, tenant_id: UUID, model: EmbeddingModel, items: Sequence[IndexItem], vectors: VectorsByItem
    ) -> int:
        """Store what a model made of items that are nobody's backlog; return how many are still at their revision."""
        async with self._database.transaction(tenant_id, TxOptions(durable=False)) as tx:
            locked = await tx.rows(
                QUERIES["lock_documents"],
                tenant_id=tenant_id,
                item_ids=[item.item_id for item in items],
                revisions=[item.revision for item in items],
            )
            await _add(tx, tenant_id, model, locked, vectors)
        return len(locked)

    async def lacking(self, tenant_id: UUID, model: EmbeddingModel, items: Sequence[IndexItem]) -> list[IndexItem]:
        """Return those items that have no vectors of a model."""
        async with self._database.transaction(tenant_id) as tx:
            having = await _having(tx, tenant_id, model, [item.item_id for item in items])
        return [item for item in items if item.item_id not in having]

    async def put_given(
        self,
        tenant_id: UUID,
        model: EmbeddingModel,
        given: CallerVectors,
        others: Sequence[EmbeddingModel],
        once: IdempotencyKey,
        response: Message,
    ) -> bytes | None:
        """Store the vectors that a caller brought for an item, instead of those it has; return the first answer.

        The item stays the backlog's while one of the `others` that make vectors here has none of it.
        """
        async with self._database.transaction(tenant_id) as tx:
            if (first := (await self._requests.claim(tx, tenant_id, once)).saved_response) is not None:
                return first
            document = await _locked(tx, tenant_id, given)
            await tx.execute(
                kit.for_table(QUERIES["delete_vectors"], model.table_name),
                tenant_id=tenant_id,
                item_ids=[document["item_id"]],
            )
            await kit.insert(tx, tenant_id, model.table_name, [(document["item_id"], document["kind"], given.vectors)])
            await tx.execute(
                QUERIES["put_vector_origin"],
                tenant_id=tenant_id,
                item_id=document["item_id"],
                model=model.model,
                provider=given.provider,
                create_time=now(),
            )
            pending = False
            for other in others:
                pending = pending or not await _having(tx, tenant_id, other, [document["item_id"]])
            if pending is not document["pending"]:
                await tx.execute(
                    QUERIES["set_pending"], tenant_id=tenant_id, item_id=document["item_id"], pending=pending
                )
            response.item_id = str(document["item_id"])  # type: ignore[attr-defined]  # A PutEmbeddingResponse.
            await self._requests.save(tx, tenant_id, once, response.SerializeToString())
            if once.request_id:
                # Too few for a job of their own.
                await self._requests.delete_expired(tx, tenant_id, now())
        return None


async def _locked(tx: Transaction, tenant_id: UUID, given: CallerVectors) -> asyncpg.Record:
    item_id = given.item_id
    if item_id is None:
        item_id = await tx.value(
            QUERIES["document_of_external_id"], tenant_id=tenant_id, external_id=given.external_id, kind=given.kind
        )
    row = None if item_id is None else await tx.row(QUERIES["lock_document"], tenant_id=tenant_id, item_id=item_id)
    if row is None:
        raise DocumentNotFound
    if given.revision and given.revision < row["revision"]:
        # The text is a later one than the vectors were made of.
        raise RevisionStale(given=given.revision, current=row["revision"])
    return row


async def _having(tx: Transaction, tenant_id: UUID, model: EmbeddingModel, item_ids: Sequence[UUID]) -> set[UUID]:
    query = kit.for_table(QUERIES["items_with_vectors"], model.table_name)
    return {row["item_id"] for row in await tx.rows(query, tenant_id=tenant_id, item_ids=list(item_ids))}


async def _add(
    tx: Transaction, tenant_id: UUID, model: EmbeddingModel, locked: Iterable[asyncpg.Record], vectors: VectorsByItem
) -> None:
    """Store the vectors of locked items that have none of the model yet."""
    fresh = [row for row in locked if row["item_id"] in vectors]
    if not fresh:
        return
    having = await _having(tx, tenant_id, model, [row["item_id"] for row in fresh])
    rows = [(row["item_id"], row["kind"], list(vectors[row["item_id"]])) for row in fresh]
    await kit.insert(tx, tenant_id, model.table_name, [row for row in rows if row[0] not in having])


async def _fall_behind(tx: Transaction, tenant_id: UUID, models: Sequence[str]) -> None:
    rows = await tx.rows(QUERIES["standing_reindexes"], tenant_id=tenant_id, models=list(models))
    await tx.execute(QUERIES["no_longer_whole"], reindex_ids=[row["reindex_id"] for row in rows])
    for row in rows:
        await tx.execute(QUERIES["need_another_look"], tenant_id=tenant_id, reindex_id=row["reindex_id"])


def _observe(item_ids: Iterable[UUID]) -> None:
    at = now()
    for item_id in item_ids:
        waited = (at - id_time(item_id)).total_seconds()
        if waited < _LIVE_SECONDS:
            INDEX_DELAY.observe(max(0.0, waited))
