"""Reindexing: embeds all documents of a tenant with a model, in the background, while another model is searched.

A scan reads every document in order of the ids and embeds those without vectors. The last scan begins after every
process uses the new model, and finds nothing to embed. Later documents get the vectors of both models. A scan also
renews the words of documents that an older version wrote. The policy of a tenant chooses its model.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

import asyncpg

from skein_kit.database.transactions import Database, Transaction
from skein_kit.errors import RpcError
from skein_kit.ids import now
from skein_kit.jobs.model import JobKind, Progress
from skein_kit.jobs.store import JobStore
from skein_kit.telemetry import logs
from skein_recall.errors import ModelResponseInvalid, ModelUnavailable
from skein_recall.index.indexer import BATCH_ITEMS, batches
from skein_recall.index.store import IndexStore
from skein_recall.index.vector_store import VectorStore
from skein_recall.models.model import EmbeddingModel, ModelChoice, ModelRegistry, ModelSnapshot
from skein_recall.models.store import ModelStore
from skein_recall.providers.text_embedder import IndexItem, TextEmbedder
from skein_recall.reindexes.model import PendingReindex, ReindexDraft, ScanProgress
from skein_recall.reindexes.store import ReindexStore
from skein_recall.settings import RecallSettings

# Who starts the reindex.
_STARTER = "policy"
# Texts that a reindex embeds per second, over all processes, unless its call sets a rate: half of what one core does.
TEXTS_PER_SECOND = 100.0
# Documents of one statement.
_PAGE_DOCUMENTS = 500
_FIRST_ID = UUID(int=0)

log = logs.get("recall")


class _JobWaits(Exception):
    """The tenant's job is paused, or has reached a limit, after so many documents of the page were embedded."""

    def __init__(self, embedded_count: int) -> None:
        super().__init__()
        self.embedded_count = embedded_count


class Reindexer:
    """Continues the reindexes of one tenant per call."""

    def __init__(
        self,
        store: ReindexStore,
        index_store: IndexStore,
        vector_store: VectorStore,
        registry: ModelRegistry,
        embedder: TextEmbedder,
        jobs: JobStore,
        choices: ChosenModels,
    ) -> None:
        self._store = store
        self._index_store = index_store
        self._vector_store = vector_store
        self._registry = registry
        self._embedder = embedder
        self._jobs = jobs
        self._choices = choices

    async def continue_reindex(self, tenant_id: UUID, seconds: float) -> tuple[int, bool]:
        """Work for some seconds; return the number of items embedded, and whether there is more to do at once.

        A reindex whose model does not answer is skipped, so that it does not hold up the others. There is nothing to
        do at once while the tenant's job is paused, or beyond its limits.
        """
        deadline = time.monotonic() + seconds
        embedded = 0
        skipped: set[UUID] = set()
        await self._choices.prepare(tenant_id)
        while True:
            work = await self._next_scan(tenant_id, skipped)
            if work is None and await self._choices.complete(tenant_id):
                continue
            if work is None:
                if not skipped:
                    await self._jobs.finish(tenant_id, JobKind.REINDEX)
                return embedded, False
            pending, model = work
            try:
                embedded += await self._scan_page(tenant_id, pending, model, deadline)
            except (ModelUnavailable, ModelResponseInvalid) as error:
                log.warning("reindex_skipped", model=model.model, reason=error.reason)
                skipped.add(pending.reindex_id)
            except _JobWaits as wait:
                return embedded + wait.embedded_count, False
            if time.monotonic() >= deadline:
                return embedded, True

    async def _next_scan(
        self, tenant_id: UUID, skipped: Collection[UUID]
    ) -> tuple[PendingReindex, EmbeddingModel] | None:
        """Return the oldest scan that can continue; begin it if it is due. None when there is none."""
        models = await self._registry.models()
        for pending in await self._store.list_pending(tenant_id):
            if pending.reindex_id in skipped:
                continue
            model = models.by_name.get(pending.model)
            if model is None:
                # The model is newer than the cached registry.
                self._registry.invalidate()
                continue
            at = now()
            if pending.is_scan_due(at):
                await self._store.begin_scan(tenant_id, pending.reindex_id, at)
                return replace(pending, scan_time=at, after_id=_FIRST_ID, is_finished=False), model
            if pending.is_finished is False:
                return pending, model
        return None

    async def _scan_page(self, tenant_id: UUID, pending: PendingReindex, model: EmbeddingModel, deadline: float) -> int:
        """Renew the next documents that lack vectors or have old words, and record the progress; return how many."""
        after = pending.after_id or _FIRST_ID
        rows = await self._store.read_scan_page(
            tenant_id, model, after, _PAGE_DOCUMENTS, with_tokens=self._embedder.has_tokens(model)
        )
        positions = {row["item_id"]: position for position, row in enumerate(rows, 1)}
        lacking = {row["item_id"] for row in rows if row["lacks"]}
        old = {row["item_id"] for row in rows if row["has_old_words"]}
        embedded = seen = 0
        due = [row for row in rows if row["lacks"] or row["has_old_words"]]
        async for batch in self._read_batches(tenant_id, due):
            if time.monotonic() >= deadline:
                return embedded
            async with self._jobs.batch(tenant_id, JobKind.REINDEX, len(batch)) as job_batch:
                grant = job_batch.grant
                if not grant.count:
                    raise _JobWaits(embedded)
                granted = batch[: grant.count]
                without = [item for item in granted if item.item_id in lacking]
                await self._wait_for_rate(pending, len(granted) - len(without))
                await self._index_store.renew_words(tenant_id, [item for item in granted if item.item_id in old])
                missing = len(without) - await self._embed(tenant_id, pending, model, without)
                count = len(granted) - missing
                job_batch.progress = Progress(done_count=count, has_more=True)
                embedded += count
                position = positions[granted[-1].item_id]
                progress = ScanProgress(
                    after=after,
                    to=granted[-1].item_id,
                    seen_count=position - seen,
                    embedded_count=count,
                    missing_count=missing,
                    is_finished=False,
                )
                is_current = await self._store.advance_scan(tenant_id, pending, progress)
                remaining = await self._store.count_remaining(tenant_id)
                job_batch.progress = replace(job_batch.progress, remaining_count=remaining)
            if not is_current:
                return embedded
            if len(granted) < len(batch):
                raise _JobWaits(embedded)
            after, seen = progress.to, position
        rest = ScanProgress(
            after=after,
            to=rows[-1]["item_id"] if rows else after,
            seen_count=len(rows) - seen,
            embedded_count=0,
            missing_count=0,
            is_finished=len(rows) < _PAGE_DOCUMENTS,
        )
        await self._store.advance_scan(tenant_id, pending, rest)
        return embedded

    async def _read_batches(self, tenant_id: UUID, rows: Sequence[asyncpg.Record]) -> AsyncIterator[list[IndexItem]]:
        """Read the texts of documents, in batches; a blank text has no vectors and is left out."""
        for start in range(0, len(rows), BATCH_ITEMS):
            items = await self._index_store.read_texts(tenant_id, rows[start : start + BATCH_ITEMS])
            for batch in batches(item for item in items if item.text.strip()):
                yield batch

    async def _embed(
        self, tenant_id: UUID, pending: PendingReindex, model: EmbeddingModel, batch: Sequence[IndexItem]
    ) -> int:
        """Embed and store a batch; return the number of items embedded."""
        if not model.can_embed or not batch:
            return 0
        try:
            await self._store_batch(tenant_id, pending, model, batch)
        except RpcError:
            # The database or the model failed, not an item.
            raise
        except Exception as error:  # noqa: BLE001 - one item may be the cause: alone, each shows whether it is.
            if len(batch) > 1:
                return sum([await self._embed(tenant_id, pending, model, [item]) for item in batch])
            log.error(  # noqa: TRY400 - the words of an error may quote the text.
                "item_reindex_failed",
                tenant_id=str(tenant_id),
                item_id=str(batch[0].item_id),
                model=model.model,
                error=type(error).__name__,
            )
            return 0
        return len(batch)

    async def _store_batch(
        self, tenant_id: UUID, pending: PendingReindex, model: EmbeddingModel, batch: Sequence[IndexItem]
    ) -> None:
        chunked = await self._embedder.chunk(model, batch)
        await self._wait_for_rate(pending, chunked.count)
        embeddings = await self._embedder.embed_chunks(model, chunked)
        await self._vector_store.put_reindexed(tenant_id, model, batch, embeddings)

    async def _wait_for_rate(self, pending: PendingReindex, texts: int) -> None:
        """Wait until so many texts are within the rate of the reindex, without a database connection."""
        if texts:
            start_time = await self._store.reserve_texts(pending.reindex_id, texts, now())
            await asyncio.sleep(max(0.0, (start_time - now()).total_seconds()))


class ChosenModels:
    """Brings each tenant to the model that its policy wants: first the vectors, then the switch.

    A reindex of the tenant alone gives its items the vectors, while it searches the former model. When a scan found
    nothing to embed, the tenant searches the new model, and one more scan finds what processes wrote that did not know
    yet.
    """

    def __init__(
        self,
        database: Database,
        store: ReindexStore,
        models: ModelStore,
        registry: ModelRegistry,
        settings: RecallSettings,
    ) -> None:
        self._database = database
        self._store = store
        self._models = models
        self._registry = registry
        self._texts_per_second = TEXTS_PER_SECOND
        self._settle_time = timedelta(seconds=settings.settle_seconds)

    async def prepare(self, tenant_id: UUID) -> None:
        """Start the reindex that a tenant's choice needs, and end those of former wishes.

        A model whose vectors callers bring is searched at once, as is one that the tenant searches already.
        """
        snapshot = await self._registry.models()
        if not snapshot.has_choices:
            return
        at = now()
        async with self._database.transaction(tenant_id) as tx:
            wanted, chosen = await self._models.read_policy_and_choice(tx, tenant_id)
            if wanted is not None and wanted not in snapshot.by_name:
                # It is newer than the cached registry, or was deleted meanwhile.
                log.warning("chosen_model_unknown", tenant_id=str(tenant_id), model=wanted)
                return
            target, current = _searched(snapshot, wanted), _searched(snapshot, chosen)
            for row in await self._store.list_own(tx, tenant_id):
                if row["is_of_choice"] and row["model"] not in {target.model, current.model}:
                    await self._end(tx, row["reindex_id"], row["model"], at)
            if wanted == chosen:
                return
            if target == current or not target.can_embed:
                await self._switch(tx, tenant_id, wanted, current, at)
            else:
                await self._store.start_own(tx, self._draft(target, tenant_id, at))
        self._registry.invalidate()

    async def complete(self, tenant_id: UUID) -> bool:
        """Switch a tenant to the model that it wants once all its items have vectors; return whether that was done.

        A later call ends the reindex, when the scan after the switch is done.
        """
        snapshot = await self._registry.models()
        if not snapshot.has_choices:
            return False
        at, is_switched = now(), False
        async with self._database.transaction(tenant_id) as tx:
            wanted, chosen = await self._models.read_policy_and_choice(tx, tenant_id)
            if wanted is not None and wanted not in snapshot.by_name:
                return False
            target, current = _searched(snapshot, wanted), _searched(snapshot, chosen)
            for row in await self._store.list_own(tx, tenant_id):
                if row["model"] != target.model or not row["is_done"]:
                    continue
                if wanted != chosen:
                    await self._switch(tx, tenant_id, wanted, current, at)
                    await self._store.settle(tx, row["reindex_id"], at + self._settle_time)
                    is_switched = True
                elif row["is_of_choice"]:
                    await self._end(tx, row["reindex_id"], row["model"], at)
        self._registry.invalidate()
        return is_switched

    async def _switch(
        self, tx: Transaction, tenant_id: UUID, wanted: str | None, former: EmbeddingModel, at: datetime
    ) -> None:
        await self._models.choose(tx, tenant_id, wanted, at)
        await self._models.set_left_time(tx, former.model, at)
        log.info("model_chosen", tenant_id=str(tenant_id), model=wanted, former_model=former.model)

    async def _end(self, tx: Transaction, reindex_id: UUID, model: str, at: datetime) -> None:
        await self._store.cancel_reindex(tx, reindex_id, at)
        await self._models.set_left_time(tx, model, at)

    def _draft(self, model: EmbeddingModel, tenant_id: UUID, at: datetime) -> ReindexDraft:
        return ReindexDraft(
            model=model.model,
            only_tenant_id=tenant_id,
            texts_per_second=self._texts_per_second,
            settle_time=at + self._settle_time,
            at=at,
            created_by=_STARTER,
        )


def _searched(snapshot: ModelSnapshot, chosen: str | None) -> EmbeddingModel:
    """Return the model of a choice; None: the one that is active in the cluster."""
    return replace(snapshot, choice=ModelChoice(model=chosen)).active
