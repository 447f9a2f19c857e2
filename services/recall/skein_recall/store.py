"""Every database call of the recall service."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from pgvector import HalfVector

from skein.recall.v1 import recall_pb2 as pb
from skein_kit.database import NO_TENANT, refusing
from skein_kit.filtering import ENTRIES, compiled
from skein_kit.purging import purge
from skein_kit.requests import Requests
from skein_kit.sql import Queries, Query, completed
from skein_recall import wire
from skein_recall.errors import ModelExists
from skein_recall.filters import Filter
from skein_recall.models import EmbeddingModel
from skein_recall.ranking import Candidate
from skein_recall.vectors import Item

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    import asyncpg
    import numpy as np
    from numpy.typing import NDArray

    from skein_kit.database import Database, Transaction
    from skein_kit.filtering import Expression
    from skein_kit.requests import Once
    from skein_recall.models import Draft

QUERIES = Queries.of("skein_recall")
# Items that each signal may bring; at twice the hits wanted the best of one signal cannot crowd out the other.
_LEAST_CANDIDATES = 50
# Chunks read for each item wanted at first. Where items have more of them close to the query, more are read.
_CHUNKS_PER_ITEM = 4
# Items of each signal that are held against a condition that the index does not know.
_MOST_HELD = 5000
_DEEPER = 16
_REFUSALS = {"embedding_models_pkey": ModelExists, "embedding_models_table_key": ModelExists}
# What there is of a tenant beside vectors, children before parents.
_PURGED = {
    "recall.postings": QUERIES["purge_postings"],
    "recall.documents": QUERIES["purge_documents"],
    "recall.requests": QUERIES["purge_requests"],
}
_TABLE_NAME = re.compile(r"[a-z0-9_]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Probe:
    """What the search statement looks for; without a vector or without text that signal finds nothing."""

    text: str
    vector: NDArray[np.float32] | None
    kinds: tuple[str, ...]
    filter: Filter
    limit: int
    at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What the signals found, and the bound of BM25 for the query."""

    candidates: list[Candidate]
    max_bm25: float
    # A signal brought as many as it may: there can be more.
    is_cut: bool


async def prepare_connection(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Teach a new connection to send vectors in binary, and to stay with the indexes.

    Every statement has an index made for it. What the planner holds to be cheaper is so for a tenant whose rows lie
    side by side, as after an import, and ten times as expensive for one whose rows are scattered.
    """
    await connection.set_type_codec(
        "halfvec", schema="public", encoder=HalfVector.to_binary, decoder=HalfVector.from_binary, format="binary"
    )
    await connection.execute("SET enable_seqscan = off; SET enable_bitmapscan = off")


class Reading:
    """One transaction that finds and reads items of one tenant."""

    def __init__(self, tx: Transaction, tenant_id: UUID) -> None:
        self._tx = tx
        self._tenant_id = tenant_id

    async def search(self, model: EmbeddingModel, probe: Probe) -> Found:
        """Find the candidates of both signals, exactly, with both measures of each."""
        wanted = max(_LEAST_CANDIDATES, 2 * probe.limit) if probe.filter.where is None else _MOST_HELD
        chunks = wanted * _CHUNKS_PER_ITEM
        while True:
            rows = await self._tx.rows(
                _of_table("search", model.table_name),
                tenant_id=self._tenant_id,
                words=probe.text,
                vector=None if probe.vector is None else HalfVector(probe.vector),
                kinds=list(probe.kinds),
                at=probe.at,
                filtered=probe.filter.restricts,
                candidates=wanted,
                chunks=chunks,
                **probe.filter.parameters(),
            )
            if not rows or rows[0]["chunks_read"] < chunks or rows[0]["dense_items"] >= wanted:
                break
            # A few long items hold all of the nearest chunks: look past them.
            chunks *= _DEEPER
        candidates = [_candidate(row) for row in rows]
        return Found(
            candidates=candidates,
            max_bm25=rows[0]["max_bm25"] if rows else 0.0,
            is_cut=bool(rows)
            and (rows[0]["dense_items"] >= wanted or sum(found.bm25 > 0 for found in candidates) >= wanted),
        )

    async def passing(self, candidates: list[Candidate], where: Expression | None) -> list[Candidate]:
        """Return those memories that pass a condition; all when there is none."""
        if where is None or not candidates:
            return candidates
        condition = compiled(where, ENTRIES)
        rows = await self._tx.rows(
            completed(QUERIES["passing_memories"], condition.text),
            tenant_id=self._tenant_id,
            memory_ids=[candidate.item_id for candidate in candidates],
            **condition.values,
        )
        passing = {row["memory_id"] for row in rows}
        return [candidate for candidate in candidates if candidate.item_id in passing]

    async def is_emptied(self, model: EmbeddingModel, probe: Probe, kinds: tuple[str, ...]) -> bool:
        """Say whether it was the filter that left nothing: whether there is anything without it."""
        if probe.filter == Filter():
            return False
        return bool((await self.search(model, replace(probe, filter=Filter(), kinds=kinds))).candidates)

    async def items(self, candidates: Sequence[Candidate], at: datetime) -> dict[UUID, asyncpg.Record]:
        """Read the items themselves, by id; those that may not be recalled any more are missing."""
        memory_ids = [candidate.item_id for candidate in candidates if candidate.kind == "memory"]
        message_ids = [candidate.item_id for candidate in candidates if candidate.kind == "message"]
        found: dict[UUID, asyncpg.Record] = {}
        if memory_ids:
            rows = await self._tx.rows(QUERIES["get_memories"], tenant_id=self._tenant_id, memory_ids=memory_ids, at=at)
            found.update((row["memory_id"], row) for row in rows)
        if message_ids:
            rows = await self._tx.rows(QUERIES["get_messages"], tenant_id=self._tenant_id, message_ids=message_ids)
            found.update((row["message_id"], row) for row in rows)
        return found


class Store:
    """The search index and the registry of models."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._requests = Requests("recall")

    @asynccontextmanager
    async def reading(self, tenant_id: UUID) -> AsyncIterator[Reading]:
        """Open a transaction to find and read items."""
        async with self._database.tenant(tenant_id) as tx:
            yield Reading(tx, tenant_id)

    async def put_vectors(
        self,
        tenant_id: UUID,
        model: EmbeddingModel,
        items: Sequence[Item],
        vectors: Mapping[UUID, NDArray[np.float32]],
    ) -> int:
        """Replace the vectors of items that are still at the revision given; return how many are.

        Should the server crash, the vectors and the mark that they are made go together: the backlog has them again.
        """
        async with self._database.tenant(tenant_id, lasting=False) as tx:
            claimed = await tx.rows(
                QUERIES["claim_documents"],
                tenant_id=tenant_id,
                item_ids=[item.item_id for item in items],
                revisions=[item.revision for item in items],
            )
            if not claimed:
                return 0
            await tx.execute(
                _of_table("delete_vectors", model.table_name),
                tenant_id=tenant_id,
                item_ids=[row["item_id"] for row in claimed],
            )
            await tx.insert(
                _of_table("insert_vectors", model.table_name),
                tenant_id,
                [
                    {"item_id": row["item_id"], "chunk": chunk, "kind": row["kind"], "embedding": HalfVector(vector)}
                    for row in claimed
                    for chunk, vector in enumerate(vectors[row["item_id"]])
                ],
            )
            return len(claimed)

    async def list_pending(self, tenant_id: UUID, limit: int, *, but: Sequence[UUID] = ()) -> list[asyncpg.Record]:
        """Return the oldest documents, `but` some, whose vectors are still to be made."""
        async with self._database.tenant(tenant_id) as tx:
            return await tx.rows(QUERIES["list_pending"], tenant_id=tenant_id, passed_over=list(but), limit=limit)

    async def read_texts(self, tenant_id: UUID, pending: Sequence[asyncpg.Record]) -> list[Item]:
        """Read the text of pending documents.

        It is read after the document, so a text that changed meanwhile belongs to a newer revision than is said here,
        and `put_vectors` passes over it. An item that is gone has no text.
        """
        ids: dict[str, list[UUID]] = {"memory": [], "message": []}
        for row in pending:
            ids[row["kind"]].append(row["item_id"])
        async with self._database.tenant(tenant_id) as tx:
            rows = await tx.rows(QUERIES["memory_texts"], tenant_id=tenant_id, memory_ids=ids["memory"])
            rows += await tx.rows(QUERIES["message_texts"], tenant_id=tenant_id, message_ids=ids["message"])
        texts: dict[UUID, str] = {row["item_id"]: row["text"] for row in rows}
        return [Item(row["item_id"], row["revision"], texts.get(row["item_id"], "")) for row in pending]

    async def active_model(self) -> EmbeddingModel | None:
        """Return the model that is searched."""
        async with self._database.shared() as tx:
            row = await tx.row(QUERIES["active_model"])
        return None if row is None else EmbeddingModel(**row)

    async def list_models(self) -> list[EmbeddingModel]:
        """Return every registered model, by name."""
        async with self._database.shared() as tx:
            return [EmbeddingModel(**row) for row in await tx.rows(QUERIES["list_models"])]

    async def purge_tenant(self, tenant_id: UUID, limit: int) -> tuple[dict[str, int], bool]:
        """Remove some of what is left of a deleted tenant, the vectors of every registered model first.

        Return rows by table, and whether there may be more.
        """
        models = await self.list_models()
        tables = {f"recall.{model.table_name}": _of_table("purge_vectors", model.table_name) for model in models}
        return await purge(self._database, tenant_id, {**tables, **_PURGED}, limit)

    async def register_model(self, draft: Draft, at: datetime, once: Once) -> pb.RegisterEmbeddingModelResponse:
        """Register a model and make its table, once for each request; refuse with ModelExists.

        Answers that nobody can ask for any more are let go of: registrations are too rare for a job.
        """
        with refusing(_REFUSALS):
            async with self._database.tenant(NO_TENANT) as tx:
                if (first := await self._requests.claim(tx, NO_TENANT, once)) is not None:
                    return pb.RegisterEmbeddingModelResponse.FromString(first)
                model = await _registered(tx, draft, at)
                response = pb.RegisterEmbeddingModelResponse(embedding_model=wire.embedding_model(model))
                await self._requests.answer(tx, NO_TENANT, once, response)
                await self._requests.delete_expired(tx, NO_TENANT, at)
                return response


async def _registered(tx: Transaction, draft: Draft, at: datetime) -> EmbeddingModel:
    table_name = await tx.value(
        QUERIES["register_model"],
        model=draft.model,
        provider=draft.provider,
        dimensions=draft.dimensions,
        create_time=at,
    )
    return EmbeddingModel(
        model=draft.model,
        provider=draft.provider,
        dimensions=draft.dimensions,
        table_name=table_name,
        active=False,
        create_time=at,
    )


@cache
def _of_table(name: str, table_name: str) -> Query:
    """The statement for one model's table of vectors."""
    if not _TABLE_NAME.fullmatch(table_name):
        message = f"{table_name!r} cannot be the name of a table of vectors"
        raise ValueError(message)
    query = QUERIES[name]
    return replace(query, text=query.text.replace("{table}", table_name))


def _candidate(row: asyncpg.Record) -> Candidate:
    distance: float | None = row["distance"]
    return Candidate(
        item_id=row["item_id"],
        kind=row["kind"],
        similarity=None if distance is None else 1.0 - distance,
        bm25=row["bm25"],
    )
