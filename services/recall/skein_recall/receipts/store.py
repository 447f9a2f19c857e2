"""Receipts in the database, in partitions by month."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

import asyncpg

from skein_kit.database.monthly_partitions import MonthlyPartitions
from skein_kit.database.transactions import Database
from skein_kit.database.tx_options import TxOptions
from skein_kit.ids import add_months, min_id_at, month_start
from skein_kit.recall_receipts import SignedContext, SignedReceipt
from skein_kit.search_text.vector_columns import for_table
from skein_recall.models.model import EmbeddingModel
from skein_recall.queries import QUERIES
from skein_recall.receipts.model import ItemName, PinnedItem
from skein_recall.search.model import LogPosition

_MONTHS_AHEAD = 1
# Calls that began so long before a search may have committed after it.
_MAX_CALL_TIME = timedelta(minutes=10)
# Events are inserted so long after the begin of their calls.
_EVENT_DELAY = timedelta(seconds=60)
# Transactions that began after a search, among which the vectors recorded during it are looked for.
_MAX_LATER_TRANSACTIONS = 1_000_000


class ReceiptStore:
    """The receipts of all tenants."""

    def __init__(self, database: Database, *, months: int) -> None:
        """Keep whole `months` of receipts; 0 keeps all."""
        self._database = database
        self._months = months
        self._partitions = MonthlyPartitions(database, QUERIES["ensure_month"])

    async def insert(self, tenant_id: UUID, rows: Sequence[Mapping[str, object]], months: Iterable[datetime]) -> None:
        """Insert the rows of receipts, which are of some months. A repeated receipt changes nothing."""
        await self._partitions.ensure(months)
        # A lost receipt is noticed: its answer names it.
        async with self._database.transaction(tenant_id, TxOptions(durable=False, plan_once=True)) as tx:
            await tx.insert(QUERIES["insert_receipt"], tenant_id, rows)

    async def get(self, tenant_id: UUID, receipt_id: UUID) -> SignedReceipt | None:
        """Read a receipt, which may have been altered, with its context; None for an unknown one."""
        async with self._database.transaction(tenant_id, TxOptions(read_only=True, skip_replica=True)) as tx:
            rows = await tx.rows(QUERIES["get_receipt"], tenant_id=tenant_id, receipt_id=receipt_id)
        if not rows or rows[0]["is_context"]:
            return None
        row, *contexts = rows
        return SignedReceipt(
            tenant_id=tenant_id,
            receipt_id=receipt_id,
            content=row["content"],
            key_id=row["key_id"],
            signature=row["signature"],
            request=row["request"],
            query=row["query"],
            context=_context(contexts[0]) if contexts else None,
        )

    async def list_receipts(
        self, tenant_id: UUID, principal: str, from_id: UUID, before_id: UUID, *, count: int
    ) -> list[SignedReceipt]:
        """Return up to `count` receipts of a range of ids, newest first, with contexts; they may have been altered.

        An empty `principal` lists those of all.
        """
        values: dict[str, object] = {"tenant_id": tenant_id, "from_id": from_id, "before_id": before_id}
        if principal:
            query, values = QUERIES["list_receipts_of_principal"], {**values, "principal": principal}
        else:
            query = QUERIES["list_receipts"]
        async with self._database.transaction(tenant_id, TxOptions(read_only=True)) as tx:
            rows = await tx.rows(query, **values, count=count)
            contexts = await tx.rows(
                QUERIES["list_contexts"], tenant_id=tenant_id, receipt_ids=[row["receipt_id"] for row in rows]
            )
        context_of = {row["receipt_id"]: _context(row) for row in contexts}
        return [SignedReceipt(**row, context=context_of.get(row["receipt_id"])) for row in rows]

    async def list_unseen_times(
        self, tenant_id: UUID, model: EmbeddingModel, position: LogPosition, until: datetime
    ) -> tuple[datetime, ...]:
        """Return the times, up to `until`, at which concurrent calls recorded what a position does not have.

        Raises HistoryNotKept.
        """
        beyond, since = position.start + position.size, until - _MAX_CALL_TIME
        options = TxOptions(read_only=True, skip_replica=True, as_of_time=until)
        async with self._database.transaction(tenant_id, options) as tx:
            rows = await tx.rows(
                for_table(QUERIES["list_unseen_times"], model.table_name),
                tenant_id=tenant_id,
                start=position.start,
                beyond=beyond,
                running=[position.start + gap for gap in position.gaps],
                since=since,
                until=until,
                since_id=min_id_at(since),
                until_id=min_id_at(until + _EVENT_DELAY),
                last=beyond + _MAX_LATER_TRANSACTIONS,
            )
        return tuple(row["at"] for row in rows)

    async def list_archived(self, tenant_id: UUID, item_ids: Sequence[UUID]) -> set[UUID]:
        """Return those of some items that are in cold storage."""
        async with self._database.transaction(tenant_id, TxOptions(read_only=True, skip_replica=True)) as tx:
            rows = await tx.rows(QUERIES["list_archived_items"], tenant_id=tenant_id, item_ids=list(item_ids))
        return {row["item_id"] for row in rows}

    async def list_hidden(
        self, tenant_id: UUID, names: Iterable[ItemName], space_ids: Sequence[UUID], *, agent_id: str
    ) -> set[ItemName]:
        """Return those of some items that lie in other spaces than some, or are hidden from an agent; "": no agent.

        Whose agent's a memory in cold storage is stands in its archive alone, so its space decides.
        """
        ids: list[UUID] = []
        pinned_ids: dict[str, list[str]] = {"block": [], "profile": []}
        for name in names:
            if isinstance(name, UUID):
                ids.append(name)
            else:
                pinned_ids[name.kind].append(name.item_id)
        hidden = set[ItemName]()
        options = TxOptions(read_only=True, skip_replica=True, has_all_agents=True)
        async with self._database.for_all_spaces().transaction(tenant_id, options) as tx:
            if ids:
                rows = await tx.rows(
                    QUERIES["list_hidden_items"],
                    tenant_id=tenant_id,
                    item_ids=sorted(ids),
                    space_ids=list(space_ids),
                    agent_id=agent_id,
                )
                hidden.update(row["item_id"] for row in rows)
            if pinned_ids["block"] or pinned_ids["profile"]:
                rows = await tx.rows(
                    QUERIES["list_hidden_pins"],
                    tenant_id=tenant_id,
                    block_ids=pinned_ids["block"],
                    subject_ids=pinned_ids["profile"],
                    space_ids=list(space_ids),
                )
                hidden.update(PinnedItem(**row) for row in rows)
        return hidden

    async def list_changes(
        self, tenant_id: UUID, item_ids: Sequence[UUID], start: int, beyond: int, *, count: int
    ) -> list[asyncpg.Record]:
        """Return up to `count` events of items, oldest first, of the transactions from `start` to before `beyond`."""
        async with self._database.transaction(tenant_id, TxOptions(read_only=True, skip_replica=True)) as tx:
            return await tx.rows(
                QUERIES["list_item_changes"],
                tenant_id=tenant_id,
                item_ids=[str(item_id) for item_id in item_ids],
                start=start,
                beyond=beyond,
                count=count,
            )

    async def maintain(self, at: datetime) -> None:
        """Create the partitions of the next months, and drop those of receipts that are too old."""
        await self._partitions.ensure_ahead(at, _MONTHS_AHEAD)
        if self._months:
            async with self._database.global_transaction() as tx:
                await tx.value(QUERIES["drop_receipts"], before=add_months(month_start(at), -self._months))


def _context(row: asyncpg.Record) -> SignedContext:
    return SignedContext(
        content=row["content"], key_id=row["key_id"], signature=row["signature"], salted_inputs=row["request"]
    )
