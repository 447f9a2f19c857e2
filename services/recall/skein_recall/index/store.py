"""Documents of the search index: the backlog, their texts, and what the index has of an item."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import asyncpg
import numpy as np
from numpy.typing import NDArray

from skein_kit.calls.call import bound_agent_id
from skein_kit.database.transactions import Database, Transaction
from skein_kit.database.tx_options import READ_ONLY, TxOptions
from skein_kit.ids import parse_id
from skein_kit.search_text import postings
from skein_kit.search_text.postings import Document
from skein_kit.search_text.vector_columns import for_table, read_vector
from skein_recall.index.model import IndexState, ModelVectors, VectorOrigin
from skein_recall.models.model import EmbeddingModel
from skein_recall.providers.text_embedder import IndexItem
from skein_recall.queries import QUERIES


class IndexStore:
    """Reads the documents of the index."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_pending(self, tenant_id: UUID, limit: int, *, exclude: Sequence[UUID] = ()) -> list[asyncpg.Record]:
        """Return the oldest documents of the backlog, except some: item_id, kind, revision."""
        async with self._database.transaction(tenant_id, READ_ONLY) as tx:
            return await tx.rows(QUERIES["list_pending"], tenant_id=tenant_id, excluded=list(exclude), limit=limit)

    async def filter_pending(self, tenant_id: UUID, items: Sequence[IndexItem]) -> list[IndexItem]:
        """Return the items that are in the backlog in the revision that they have."""
        async with self._database.transaction(tenant_id, READ_ONLY) as tx:
            rows = await tx.rows(
                QUERIES["filter_pending"],
                tenant_id=tenant_id,
                item_ids=[item.item_id for item in items],
                revisions=[item.revision for item in items],
            )
        pending_ids = {row["item_id"] for row in rows}
        return [item for item in items if item.item_id in pending_ids]

    async def pending_backlog(self, tenant_id: UUID, limit: int) -> tuple[int, UUID | None]:
        """Return the number of documents of the backlog, at most `limit`, and the oldest one's id."""
        async with self._database.transaction(tenant_id, READ_ONLY) as tx:
            row = await tx.row(QUERIES["pending_backlog"], tenant_id=tenant_id, limit=limit)
        return (0, None) if row is None else (row["count"], row["oldest_id"])

    async def read_texts(self, tenant_id: UUID, documents: Sequence[asyncpg.Record]) -> list[IndexItem]:
        """Read the texts of documents, in their order; a deleted item has none.

        A text that changed since its document was read belongs to a newer revision than this one. The store of its
        vectors skips it then.
        """
        ids: dict[str, list[UUID]] = {"memory": [], "message": []}
        for row in documents:
            ids[row["kind"]].append(row["item_id"])
        rows: list[asyncpg.Record] = []
        # A call embeds what others wrote too.
        async with self._database.transaction(tenant_id, TxOptions(plan_once=True, has_all_agents=True)) as tx:
            if ids["memory"]:
                rows += await tx.rows(QUERIES["memory_texts"], tenant_id=tenant_id, memory_ids=ids["memory"])
            if ids["message"]:
                rows += await tx.rows(QUERIES["message_texts"], tenant_id=tenant_id, message_ids=ids["message"])
        texts: dict[UUID, str] = {row["item_id"]: row["text"] for row in rows}
        return [IndexItem(row["item_id"], row["revision"], texts.get(row["item_id"], "")) for row in documents]

    async def renew_words(self, tenant_id: UUID, items: Sequence[IndexItem]) -> None:
        """Give the items that are still at their revision the words of today's rule."""
        if not items:
            return
        # The texts are read once the documents are locked: who changes one writes its words after this transaction.
        options = TxOptions(durable=False, plan_once=True, has_all_agents=True)
        async with self._database.transaction(tenant_id, options) as tx:
            rows = await tx.rows(
                QUERIES["lock_documents"],
                tenant_id=tenant_id,
                item_ids=[item.item_id for item in items],
                revisions=[item.revision for item in items],
            )
            ids: dict[str, list[UUID]] = {"memory": [], "message": []}
            for row in rows:
                ids[row["kind"]].append(row["item_id"])
            revisions = {item.item_id: item.revision for item in items}
            memories = await tx.rows(QUERIES["memory_words"], tenant_id=tenant_id, memory_ids=ids["memory"])
            messages = await tx.rows(QUERIES["message_words"], tenant_id=tenant_id, message_ids=ids["message"])
            documents = [_memory(row, revisions[row["item_id"]]) for row in memories]
            documents += [_message(row, revisions[row["item_id"]]) for row in messages]
            await postings.renew_words(tx, tenant_id, documents)

    async def read_states(
        self,
        tenant_id: UUID,
        names: Sequence[str],
        kind: str,
        models: Sequence[EmbeddingModel],
        *,
        show_embeddings: bool,
        at: datetime,
    ) -> dict[str, IndexState]:
        """Return what the index has of items of one kind, by their names: ids or external ids.

        Items that cannot be recalled at the time `at` are left out.
        """
        async with self._database.transaction(tenant_id, READ_ONLY) as tx:
            ids = {name: id_ for name in names if (id_ := parse_id(name)) is not None}
            rows = await tx.rows(QUERIES["find_named_items"], tenant_id=tenant_id, kind=kind, names=list(names))
            ids |= {row["external_id"]: row["item_id"] for row in rows}
            documents = await tx.rows(
                QUERIES["read_documents"],
                tenant_id=tenant_id,
                item_ids=list(set(ids.values())),
                kind=kind,
                at=at,
                agent_id=bound_agent_id(),
            )
            item_ids = [row["item_id"] for row in documents]
            rows = await tx.rows(QUERIES["read_vector_origins"], tenant_id=tenant_id, item_ids=item_ids)
            origins = {
                (row["item_id"], row["model"]): VectorOrigin(provider=row["provider"], create_time=row["create_time"])
                for row in rows
            }
            vectors: dict[UUID, list[ModelVectors]] = {item_id: [] for item_id in item_ids}
            for model in models:
                for item_id, count, arrays in await _read_vectors(tx, tenant_id, model, item_ids, show=show_embeddings):
                    origin = origins.get((item_id, model.model))
                    if origin is not None and origin.create_time < model.create_time:
                        # It is that of a dropped model of the same name.
                        origin = None
                    vectors[item_id].append(ModelVectors(model=model, count=count, origin=origin, vectors=arrays))
        states = {
            row["item_id"]: IndexState(
                item_id=row["item_id"],
                kind=row["kind"],
                revision=row["revision"],
                is_pending=row["pending"],
                models=vectors[row["item_id"]],
            )
            for row in documents
        }
        return {name: states[ids[name]] for name in names if ids.get(name) in states}


def _memory(row: asyncpg.Record, revision: int) -> Document:
    ids = (row["subject_id"], row["agent_id"], row["source_agent"])
    header = postings.header_of_memory(row["title"], row["key"], row["tags"], ids)
    return Document(item_id=row["item_id"], kind="memory", text=row["text"], header=header, revision=revision)


def _message(row: asyncpg.Record, revision: int) -> Document:
    return Document(
        item_id=row["item_id"], kind="message", text=row["text"], header=row["name"] or "", revision=revision
    )


async def _read_vectors(
    tx: Transaction, tenant_id: UUID, model: EmbeddingModel, item_ids: Sequence[UUID], *, show: bool
) -> list[tuple[UUID, int, Sequence[NDArray[np.float32]]]]:
    """Return the number of vectors per item and, if they are shown, the vectors."""
    if not show:
        query = for_table(QUERIES["count_vectors_of_items"], model.table_name)
        rows = await tx.rows(query, tenant_id=tenant_id, item_ids=list(item_ids))
        return [(row["item_id"], row["vector_count"], ()) for row in rows]
    query = for_table(QUERIES["read_vectors"], model.table_name)
    vectors: dict[UUID, list[NDArray[np.float32]]] = {}
    for row in await tx.rows(query, tenant_id=tenant_id, item_ids=list(item_ids)):
        vectors.setdefault(row["item_id"], []).append(read_vector(row["embedding"], row["rest"]))
    return [(item_id, len(arrays), arrays) for item_id, arrays in vectors.items()]
