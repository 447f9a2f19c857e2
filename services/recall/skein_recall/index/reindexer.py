"""Reindexing: a model's vectors of everything that a tenant has, made in the background while another one is searched.

It looks at every document, in order of the ids, and makes what is missing. A look that began after every process
followed the model, and found nothing to make, is the last one: what is written meanwhile gets the vectors of both.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID

from skein_kit.errors import RpcError
from skein_kit.ids import now
from skein_kit.telemetry import logs
from skein_recall.errors import ModelResponseInvalid, ModelUnavailable
from skein_recall.index.indexer import PORTION_ITEMS, batches
from skein_recall.models.reindex_store import Step

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Sequence
    from datetime import datetime

    import asyncpg

    from skein_recall.index.store import IndexStore
    from skein_recall.index.vector_store import VectorStore
    from skein_recall.models.model import EmbeddingModel, ModelRegistry
    from skein_recall.models.reindex_store import Due, ReindexStore
    from skein_recall.providers.text_embedder import IndexItem, TextEmbedder

# Documents that are looked at with one statement.
PAGE = 500
NIL = UUID(int=0)
log = logs.get("recall")


class Reindexer:
    """Works on the reindexes of one tenant after the other, as it is asked to."""

    def __init__(
        self,
        store: ReindexStore,
        index: IndexStore,
        beside: VectorStore,
        registry: ModelRegistry,
        vectors: TextEmbedder,
    ) -> None:
        """Read texts from `index`, put vectors `beside` those of the model in force."""
        self._store = store
        self._index = index
        self._beside = beside
        self._registry = registry
        self._vectors = vectors

    async def go_on(self, tenant_id: UUID, seconds: float) -> tuple[int, bool]:
        """Work for so many seconds; return how many items got vectors, and whether there is more to do at once.

        A model that does not answer now is passed over: it keeps nothing from the others.
        """
        ends = time.monotonic() + seconds
        made = 0
        passed_over: set[UUID] = set()
        while True:
            work = await self._work(tenant_id, passed_over)
            if work is None:
                return made, False
            due, model = work
            try:
                made += await self._page(tenant_id, due, model, ends)
            except (ModelUnavailable, ModelResponseInvalid) as refusal:
                log.warning("reindex_waits", model=model.model, reason=refusal.reason)
                passed_over.add(due.reindex_id)
            if time.monotonic() >= ends:
                return made, True

    async def _work(self, tenant_id: UUID, passed_over: Collection[UUID]) -> tuple[Due, EmbeddingModel] | None:
        """Return the oldest look that can go on, begun if need be; None when there is none."""
        models = await self._registry.models()
        for due in await self._store.due(tenant_id):
            if due.reindex_id in passed_over:
                continue
            model = models.every.get(due.model)
            if model is None:
                # It is newer than what this process believes.
                self._registry.forget()
                continue
            at = now()
            if is_scan_due(due, at):
                await self._store.begin_look(tenant_id, due.reindex_id, at)
                return replace(due, look_time=at, after_id=NIL, finished=False), model
            if due.finished is False:
                return due, model
        return None

    async def _page(self, tenant_id: UUID, due: Due, model: EmbeddingModel, ends: float) -> int:
        after = due.after_id or NIL
        rows = await self._store.look_on(tenant_id, model, after, PAGE)
        places = {row["item_id"]: place for place, row in enumerate(rows, 1)}
        made_here = seen = 0
        async for portion in self._portions(tenant_id, [row for row in rows if row["lacks"]]):
            if time.monotonic() >= ends:
                return made_here
            made = await self._make(tenant_id, due, model, portion)
            made_here += made
            place = places[portion[-1].item_id]
            step = Step(
                after=after,
                to=portion[-1].item_id,
                seen=place - seen,
                made=made,
                missing=len(portion) - made,
                finished=False,
            )
            if not await self._store.advance(tenant_id, due, step):
                return made_here
            after, seen = step.to, place
        finished = len(rows) < PAGE
        to = rows[-1]["item_id"] if rows else after
        rest = Step(after=after, to=to, seen=len(rows) - seen, made=0, missing=0, finished=finished)
        await self._store.advance(tenant_id, due, rest)
        return made_here

    async def _portions(self, tenant_id: UUID, lacking: Sequence[asyncpg.Record]) -> AsyncIterator[list[IndexItem]]:
        """Read the texts of documents, a few at a time; a blank one has no vectors."""
        for start in range(0, len(lacking), PORTION_ITEMS):
            items = await self._index.read_texts(tenant_id, lacking[start : start + PORTION_ITEMS])
            for portion in batches(item for item in items if item.text.strip()):
                yield portion

    async def _make(self, tenant_id: UUID, due: Due, model: EmbeddingModel, portion: Sequence[IndexItem]) -> int:
        """Make the vectors of some items; return of how many."""
        if not model.embeds:
            return 0
        try:
            await self._store_portion(tenant_id, due, model, portion)
        except RpcError:
            # The database or the model is at fault, not an item.
            raise
        except Exception as error:  # noqa: BLE001 - it may be about one item: alone, each shows whether it is.
            if len(portion) > 1:
                return sum([await self._make(tenant_id, due, model, [item]) for item in portion])
            log.error(  # noqa: TRY400 - the words of an error may quote the text.
                "item_not_reindexed",
                tenant_id=str(tenant_id),
                item_id=str(portion[0].item_id),
                model=model.model,
                error=type(error).__name__,
            )
            return 0
        return len(portion)

    async def _store_portion(
        self, tenant_id: UUID, due: Due, model: EmbeddingModel, portion: Sequence[IndexItem]
    ) -> None:
        cut = await self._vectors.cut(model, portion)
        turn = await self._store.turn(due.reindex_id, cut.count, now())
        # No connection is held meanwhile.
        await asyncio.sleep(max(0.0, (turn - now()).total_seconds()))
        await self._beside.put_beside(tenant_id, model, portion, await self._vectors.of_cut(model, cut))


def is_scan_due(due: Due, at: datetime) -> bool:
    """Say whether a look is to begin: there was none, the last one is not the last, and waiting is over."""
    if due.look_time is None or due.finished is None:
        return True
    if not due.finished:
        return False
    return bool(due.stale or due.made or at >= due.settle_time)
