"""Reindexes in the database. Methods that take `tx` work in the caller's transaction, which is an operator's."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

import asyncpg

from skein_kit.database.transactions import Database, Transaction
from skein_kit.database.tx_options import TxOptions
from skein_kit.errors import DatabaseUnavailable, TenantNotFound
from skein_kit.ids import new_id
from skein_kit.rpc.due_tenants import list_directory
from skein_kit.search_text.segmentation import WORDS_VERSION
from skein_kit.search_text.vector_columns import for_table
from skein_recall.errors import ReindexNotFound
from skein_recall.models.model import EmbeddingModel
from skein_recall.queries import QUERIES
from skein_recall.reindexes.model import PendingReindex, Reindex, ReindexDraft, ScanProgress

# Tenants that one statement looks at.
_TENANTS_BATCH_SIZE = 5000


class ReindexStore:
    """The reindexes of the cluster, and the progress of each in each tenant."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def start_reindex(self, tx: Transaction, draft: ReindexDraft) -> UUID:
        """Start a reindex, or have a running one of the model scan once more; return its id. Raises TenantNotFound."""
        tenant_id = draft.only_tenant_id
        if tenant_id is not None and not await tx.value(QUERIES["has_tenant"], only_tenant_id=tenant_id):
            raise TenantNotFound
        reindex_id: UUID = await tx.value(
            QUERIES["start_reindex"],
            reindex_id=new_id(draft.at),
            model=draft.model,
            only_tenant_id=tenant_id,
            texts_per_second=draft.texts_per_second,
            settle_time=draft.settle_time,
            at=draft.at,
            created_by=draft.created_by,
            is_complete=draft.is_complete,
            keep_rate=draft.keep_rate,
        )
        return reindex_id

    async def start_own(self, tx: Transaction, draft: ReindexDraft) -> None:
        """Start the reindex of a tenant that chose a model, unless one of the model runs there."""
        await tx.execute(
            QUERIES["start_own_reindex"],
            reindex_id=new_id(draft.at),
            model=draft.model,
            only_tenant_id=draft.only_tenant_id,
            texts_per_second=draft.texts_per_second,
            settle_time=draft.settle_time,
            at=draft.at,
            created_by=draft.created_by,
        )

    async def list_own(self, tx: Transaction, tenant_id: UUID) -> list[asyncpg.Record]:
        """Return the running reindexes of one tenant alone: reindex_id, model, is_of_choice, is_done."""
        return await tx.rows(QUERIES["list_own_reindexes"], tenant_id=tenant_id)

    async def settle(self, tx: Transaction, reindex_id: UUID, settle_time: datetime) -> None:
        """Have a reindex scan once more, after a time."""
        await tx.execute(QUERIES["settle_reindex"], reindex_id=reindex_id, settle_time=settle_time)

    async def get_reindex_in(self, tx: Transaction, reindex_id: UUID) -> Reindex:
        """Return a reindex as a transaction sees it. Raises ReindexNotFound."""
        row = await tx.row(QUERIES["list_reindexes"], reindex_id=reindex_id, model=None, before=None, limit=1)
        if row is None:
            raise ReindexNotFound
        return Reindex(**row)

    async def get_reindex(self, reindex_id: UUID) -> Reindex:
        """Raises ReindexNotFound."""
        async with self._database.operator_transaction() as tx:
            return await self.get_reindex_in(tx, reindex_id)

    async def list_reindexes(self, before: UUID | None, limit: int) -> list[Reindex]:
        """Return reindexes that are older than one, the newest first."""
        async with self._database.operator_transaction() as tx:
            rows = await tx.rows(QUERIES["list_reindexes"], reindex_id=None, model=None, before=before, limit=limit)
        return [Reindex(**row) for row in rows]

    async def cancel_reindex(self, tx: Transaction, reindex_id: UUID, at: datetime) -> str | None:
        """Cancel a reindex; return its model, None when it was cancelled before. Raises ReindexNotFound."""
        row = await tx.row(QUERIES["cancel_reindex"], reindex_id=reindex_id, at=at)
        if row is None:
            raise ReindexNotFound
        return row["model"] if row["was_running"] else None

    async def count_missing(self, tx: Transaction, model: EmbeddingModel) -> dict[str, int] | None:
        """Count the tenants and items that have no vectors of a model; None when it has all.

        `limited_tenants` have paused or limited their reindex, and `tenants` are the others. Items are counted as far
        as they are known. The active model has all by definition: it is the measure. So has a model that was active,
        or done, when its latest scan began, except for what failed since.
        """
        row = await tx.row(QUERIES["list_reindexes"], reindex_id=None, model=model.model, before=None, limit=1)
        if row is None:
            return None if model.active else {}
        reindex = Reindex(**row)
        if reindex.is_complete:
            return None
        tenants = reindex.tenants - reindex.done_tenants
        if not tenants and not reindex.missing:
            return None
        limited: int = await tx.value(
            QUERIES["count_limited_tenants"], reindex_id=reindex.reindex_id, settle_time=reindex.settle_time
        )
        return {"tenants": tenants - limited, "limited_tenants": limited, "items": reindex.missing}

    async def count_remaining(self, tenant_id: UUID) -> int:
        """Count the documents that the running scans of a tenant have yet to read."""
        async with self._database.transaction(tenant_id) as tx:
            count: int = await tx.value(QUERIES["count_remaining"], tenant_id=tenant_id)
        return count

    async def list_due_tenants(self, after: UUID, limit: int) -> list[UUID]:
        """Return tenants, by id, in which a reindex is not done, or that want another model than they search."""
        try:
            return await self._list_due_tenants(after, limit)
        except DatabaseUnavailable:
            return await list_directory(self._database, after, limit)

    async def _list_due_tenants(self, after: UUID, limit: int) -> list[UUID]:
        due: list[UUID] = []
        choosing: list[UUID] = []
        async with self._database.operator_transaction() as tx:
            # Usually none runs, and then no tenant is looked at.
            has_reindexes, has_choices = await tx.row(QUERIES["has_work"]) or (False, False)
            if has_choices:
                rows = await tx.rows(QUERIES["list_choosing_tenants"], after=after, limit=limit)
                choosing = [row["tenant_id"] for row in rows]
            while has_reindexes and len(due) < limit:
                rows = await tx.rows(QUERIES["list_tenant_dues"], after=after, limit=_TENANTS_BATCH_SIZE)
                due += [row["tenant_id"] for row in rows if row["is_due"]]
                if len(rows) < _TENANTS_BATCH_SIZE:
                    break
                after = rows[-1]["tenant_id"]
        return sorted({*due, *choosing})[:limit]

    async def list_pending(self, tenant_id: UUID) -> list[PendingReindex]:
        """Return the reindexes that are not done in a tenant, the oldest first."""
        async with self._database.transaction(tenant_id) as tx:
            rows = await tx.rows(QUERIES["list_pending_reindexes"], tenant_id=tenant_id)
        return [PendingReindex(**row) for row in rows]

    async def begin_scan(self, tenant_id: UUID, reindex_id: UUID, at: datetime) -> None:
        """Begin a scan of a tenant's documents."""
        async with self._database.transaction(tenant_id) as tx:
            documents = await tx.value(QUERIES["counted_documents"], tenant_id=tenant_id)
            await tx.execute(
                QUERIES["begin_scan"], tenant_id=tenant_id, reindex_id=reindex_id, at=at, documents=documents
            )

    async def read_scan_page(
        self, tenant_id: UUID, model: EmbeddingModel, after: UUID, limit: int, *, with_tokens: bool
    ) -> list[asyncpg.Record]:
        """Return the next documents by id: item_id, kind, revision, whether each `lacks` vectors of the model or
        `has_old_words`.

        `with_tokens`: an item lacks them without codes of tokens too, unless the tenant leaves these out.
        """
        query = for_table(QUERIES["read_scan_page"], model.table_name)
        async with self._database.transaction(tenant_id) as tx:
            return await tx.rows(
                query,
                tenant_id=tenant_id,
                model=model.model,
                after=after,
                limit=limit,
                with_tokens=with_tokens,
                words_version=WORDS_VERSION,
            )

    async def advance_scan(self, tenant_id: UUID, pending: PendingReindex, progress: ScanProgress) -> bool:
        """Record the progress of a scan; return False when another process was faster.

        A crash of the server may lose it: then documents are scanned again.
        """
        async with self._database.transaction(tenant_id, TxOptions(durable=False)) as tx:
            updated = await tx.execute(
                QUERIES["advance_scan"],
                tenant_id=tenant_id,
                reindex_id=pending.reindex_id,
                scan_time=pending.scan_time,
                after=progress.after,
                to=progress.to,
                seen=progress.seen_count,
                embedded=progress.embedded_count,
                missing=progress.missing_count,
                is_finished=progress.is_finished,
            )
        return bool(updated)

    async def reserve_texts(self, reindex_id: UUID, texts: int, at: datetime) -> datetime:
        """Reserve texts within a reindex's rate, over all processes; return when they may be embedded."""
        async with self._database.global_transaction() as tx:
            row = await tx.row(QUERIES["lock_next_time"], reindex_id=reindex_id, at=at)
            if row is None:
                return at
            start_time: datetime = row["start_time"]
            next_time = start_time + timedelta(seconds=texts / row["texts_per_second"])
            await tx.execute(QUERIES["set_next_time"], reindex_id=reindex_id, next_time=next_time)
        return start_time
