"""Reindexes: what stands, how far each tenant is, and whose turn it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

import asyncpg

from skein.recall.v1 import recall_pb2 as pb
from skein_kit.database.transactions import NO_TENANT, translate_constraint_errors
from skein_kit.database.tx_options import TxOptions
from skein_kit.errors import TenantNotFound
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.ids import new_id
from skein_kit.search_text import vector_columns as kit
from skein_recall import convert as wire
from skein_recall.errors import ReindexNotFound
from skein_recall.queries import QUERIES

if TYPE_CHECKING:
    from datetime import datetime

    from skein_kit.database.transactions import Database, Transaction
    from skein_kit.idempotency.key import IdempotencyKey
    from skein_recall.models.model import EmbeddingModel

_REFUSALS = {"reindexes_tenant_fkey": TenantNotFound}


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """A reindex to begin."""

    model: str
    # None: all tenants.
    only_tenant_id: UUID | None
    texts_per_second: float
    # By then every process follows the model.
    settle_time: datetime
    at: datetime
    created_by: str
    # The model has everything that was written until now.
    whole: bool = False
    # One that stands already keeps its rate.
    keeps_rate: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Due:
    """A reindex that is not done in a tenant, and its look at all documents: None when there was none yet."""

    reindex_id: UUID
    model: str
    settle_time: datetime
    look_time: datetime | None
    after_id: UUID | None
    finished: bool | None
    stale: bool | None
    made: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """How much further a look is."""

    after: UUID
    to: UUID
    seen: int
    made: int
    missing: int
    finished: bool


class ReindexStore:
    """The reindexes of the cluster, and how far each is in each tenant."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._requests = IdempotencyStore(database, "recall")

    async def start(self, start: Start, once: IdempotencyKey) -> pb.StartReindexResponse:
        """Begin a reindex, or let the one that stands look at everything again, once for each request."""
        with translate_constraint_errors(_REFUSALS):
            async with self._database.operator() as tx:
                if (first := (await self._requests.claim(tx, NO_TENANT, once)).saved_response) is not None:
                    return pb.StartReindexResponse.FromString(first)
                row = await get(tx, await begin(tx, start))
                response = pb.StartReindexResponse(reindex=wire.reindex(row))
                await self._requests.save(tx, NO_TENANT, once, response.SerializeToString())
                return response

    async def read(self, reindex_id: UUID) -> asyncpg.Record:
        """Return a reindex; refuse with ReindexNotFound."""
        async with self._database.operator() as tx:
            return await get(tx, reindex_id)

    async def list_newest(self, before: UUID | None, limit: int) -> list[asyncpg.Record]:
        """Return reindexes older than one, the newest first."""
        async with self._database.operator() as tx:
            return await tx.rows(QUERIES["list_reindexes"], reindex_id=None, model=None, before=before, limit=limit)

    async def cancel(self, reindex_id: UUID, at: datetime, once: IdempotencyKey) -> pb.CancelReindexResponse:
        """End a reindex; refuse with ReindexNotFound."""
        async with self._database.operator() as tx:
            if (first := (await self._requests.claim(tx, NO_TENANT, once)).saved_response) is not None:
                return pb.CancelReindexResponse.FromString(first)
            row = await tx.row(QUERIES["cancel_reindex"], reindex_id=reindex_id, at=at)
            if row is None:
                raise ReindexNotFound
            if row["now"]:
                await tx.execute(QUERIES["leave_model"], model=row["model"], at=at)
            response = pb.CancelReindexResponse(reindex=wire.reindex(await get(tx, reindex_id)))
            await self._requests.save(tx, NO_TENANT, once, response.SerializeToString())
            return response

    async def list_due_tenants(self, after: UUID, limit: int) -> list[UUID]:
        """Return tenants, by id, in which a reindex is not done."""
        async with self._database.operator() as tx:
            rows = await tx.rows(QUERIES["list_due_tenants"], after=after, limit=limit)
        return [row["tenant_id"] for row in rows]

    async def due(self, tenant_id: UUID) -> list[Due]:
        """Return the reindexes that are not done in a tenant."""
        async with self._database.transaction(tenant_id) as tx:
            return [Due(**row) for row in await tx.rows(QUERIES["due_reindexes"], tenant_id=tenant_id)]

    async def begin_look(self, tenant_id: UUID, reindex_id: UUID, at: datetime) -> None:
        """Begin to look at all documents of a tenant."""
        async with self._database.transaction(tenant_id) as tx:
            documents = await tx.value(QUERIES["counted_documents"], tenant_id=tenant_id)
            values = {"tenant_id": tenant_id, "reindex_id": reindex_id, "at": at, "documents": documents}
            await tx.execute(QUERIES["begin_look"], **values)

    async def look_on(self, tenant_id: UUID, model: EmbeddingModel, after: UUID, limit: int) -> list[asyncpg.Record]:
        """Return some documents after one, each with whether it lacks vectors of the model."""
        query = kit.for_table(QUERIES["look_on"], model.table_name)
        async with self._database.transaction(tenant_id) as tx:
            return await tx.rows(query, tenant_id=tenant_id, after=after, limit=limit)

    async def advance(self, tenant_id: UUID, due: Due, step: Step) -> bool:
        """Say that a look is further; False when somebody else was faster."""
        async with self._database.transaction(tenant_id, TxOptions(durable=False)) as tx:
            touched = await tx.execute(
                QUERIES["advance_look"],
                tenant_id=tenant_id,
                reindex_id=due.reindex_id,
                look_time=due.look_time,
                after=step.after,
                to=step.to,
                seen=step.seen,
                made=step.made,
                missing=step.missing,
                finished=step.finished,
            )
        return bool(touched)

    async def turn(self, reindex_id: UUID, texts: int, at: datetime) -> datetime:
        """Queue for the model with so many texts; return when it is their turn."""
        async with self._database.shared() as tx:
            found: datetime | None = await tx.value(QUERIES["reserve_texts"], reindex_id=reindex_id, texts=texts, at=at)
        return found or at


async def begin(tx: Transaction, start: Start) -> UUID:
    """Begin a reindex in the operator's transaction; return its id, or that of the one that stands."""
    found: UUID = await tx.value(
        QUERIES["start_reindex"],
        reindex_id=new_id(start.at),
        model=start.model,
        only_tenant_id=start.only_tenant_id,
        texts_per_second=start.texts_per_second,
        settle_time=start.settle_time,
        at=start.at,
        created_by=start.created_by,
        whole=start.whole,
        keeps_rate=start.keeps_rate,
    )
    return found


async def get(tx: Transaction, reindex_id: UUID) -> asyncpg.Record:
    """Return a reindex with how far all tenants are; refuse with ReindexNotFound."""
    row = await tx.row(QUERIES["list_reindexes"], reindex_id=reindex_id, model=None, before=None, limit=1)
    if row is None:
        raise ReindexNotFound
    return row


async def lacking(tx: Transaction, model: EmbeddingModel) -> dict[str, int] | None:
    """Say what a model lacks: None for nothing, else in how many tenants and, as far as they are counted, items.

    The model in force lacks nothing, whatever became of it: it is the measure. One that was in force, or done, when its
    look began lacks only what failed since.
    """
    row = await tx.row(QUERIES["list_reindexes"], reindex_id=None, model=model.model, before=None, limit=1)
    if row is None:
        return None if model.active else {}
    if row["whole"]:
        return None
    found = {"tenants": row["tenants"] - row["done"], "items": row["missing"]}
    return found if any(found.values()) else None
