"""What the index has of items, read for people and for exports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_kit.database.tx_options import READ_ONLY
from skein_kit.ids import parse_id
from skein_kit.search_text import vector_columns as kit
from skein_recall.index.state import IndexState, ModelVectors, VectorOrigin
from skein_recall.queries import QUERIES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    import numpy as np
    from numpy.typing import NDArray

    from skein_kit.database.transactions import Database, Transaction
    from skein_recall.models.model import EmbeddingModel


class IndexStateStore:
    """Reads documents and the tables of vectors."""

    def __init__(self, database: Database) -> None:
        self._database = database

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
        """Return what the index has of memories or messages, by their names: ids or external ids.

        What cannot be recalled at the time `at` is left out. Vectors are read where `show_embeddings` says so.
        """
        async with self._database.transaction(tenant_id, READ_ONLY) as tx:
            ids = {name: id_ for name in names if (id_ := parse_id(name)) is not None}
            rows = await tx.rows(QUERIES["find_named_items"], tenant_id=tenant_id, kind=kind, names=list(names))
            ids |= {row["external_id"]: row["item_id"] for row in rows}
            item_ids = list(set(ids.values()))
            documents = await tx.rows(
                QUERIES["read_documents"], tenant_id=tenant_id, item_ids=item_ids, kind=kind, at=at
            )
            found = [row["item_id"] for row in documents]
            rows = await tx.rows(QUERIES["read_vector_origins"], tenant_id=tenant_id, item_ids=found)
            origins = {
                (row["item_id"], row["model"]): VectorOrigin(provider=row["provider"], create_time=row["create_time"])
                for row in rows
            }
            held: dict[UUID, list[ModelVectors]] = {item_id: [] for item_id in found}
            for model in models:
                for item_id, count, vectors in await _vectors(tx, tenant_id, model, found, show=show_embeddings):
                    origin = origins.get((item_id, model.model))
                    # A model of the same name was there before, whose vectors went with it.
                    is_older = origin is not None and origin.create_time < model.create_time
                    held[item_id].append(
                        ModelVectors(model=model, count=count, provenance=None if is_older else origin, vectors=vectors)
                    )
        states = {
            row["item_id"]: IndexState(
                item_id=row["item_id"],
                kind=row["kind"],
                revision=row["revision"],
                is_pending=row["pending"],
                models=held[row["item_id"]],
            )
            for row in documents
        }
        return {name: states[ids[name]] for name in names if ids.get(name) in states}


async def _vectors(
    tx: Transaction, tenant_id: UUID, model: EmbeddingModel, item_ids: Sequence[UUID], *, show: bool
) -> list[tuple[UUID, int, Sequence[NDArray[np.float32]]]]:
    if not show:
        query = kit.for_table(QUERIES["count_vectors_of_items"], model.table_name)
        rows = await tx.rows(query, tenant_id=tenant_id, item_ids=list(item_ids))
        return [(row["item_id"], row["vector_count"], ()) for row in rows]
    query = kit.for_table(QUERIES["read_vectors"], model.table_name)
    found: dict[UUID, list[NDArray[np.float32]]] = {}
    for row in await tx.rows(query, tenant_id=tenant_id, item_ids=list(item_ids)):
        found.setdefault(row["item_id"], []).append(kit.vector_of(row["embedding"], row["rest"]))
    return [(item_id, len(vectors), vectors) for item_id, vectors in found.items()]
