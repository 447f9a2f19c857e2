"""Exports of a tenant's memory as items, and imports of items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from skein_kit.admission.processor_time import run_by_size, with_pauses
from skein_kit.calls.call import current_space_ids
from skein_kit.database.monthly_partitions import MonthlyPartitions
from skein_kit.database.transactions import Database, Transaction
from skein_kit.ids import id_time
from skein_kit.policies.store import PolicyCache
from skein_kit.quotas.store import QuotaCounter
from skein_memory.events import writer
from skein_memory.events.model import Event
from skein_memory.memories import level_capacity
from skein_memory.memories.model import LEVELS
from skein_memory.transfer import exporter
from skein_memory.transfer.import_parsing import ImportBatch, ImportMode, parse_import
from skein_memory.transfer.importer import Importer
from skein_memory.transfer.model import ImportLine, ImportProblem, TransferCursor, TransferItem

# What checking a line costs, in bytes of text (`run_by_size`).
_LINE_BYTES = 4096


class TransferStore:
    """Reads and writes a tenant's memory as items."""

    def __init__(
        self,
        database: Database,
        *,
        quotas: QuotaCounter,
        policies: PolicyCache,
        months: MonthlyPartitions,
        max_content: int,
    ) -> None:
        """Contents have at most `max_content` characters."""
        self._database = database
        self._quotas = quotas
        self._policies = policies
        self._months = months
        self._max_content = max_content

    async def read_batch(
        self, tenant_id: UUID, cursor: TransferCursor, *, count: int, at: datetime, now: datetime
    ) -> tuple[list[TransferItem], TransferCursor | None]:
        """Read a batch of a tenant's memory as of a time, without expired memories; and the next cursor."""
        async with self._database.transaction(tenant_id) as tx:
            items, last = await exporter.read_batch(
                tx, tenant_id, cursor.kind, after=cursor.after, count=count, at=at, now=now
            )
            if current_space_ids() is not None:
                items = await exporter.with_spaces(tx, tenant_id, items)
        return items, cursor.advance(last)

    async def start_export(self, tenant_id: UUID, *, at: datetime, by: str) -> None:
        """Wait for the transactions that are open now, so that the export has their writes; record the event."""
        horizon = await exporter.next_transaction(self._database, tenant_id)
        await exporter.wait_for_transactions(self._database, tenant_id, horizon)
        reach = current_space_ids()
        # Who sees one of the spaces learns of it.
        space_ids: tuple[UUID | None, ...] = (None,) if reach is None else reach
        events = [
            Event(
                type="data_exported",
                entity_type="tenant",
                entity_id=str(tenant_id),
                summary="data exported",
                space_id=space_id,
            )
            for space_id in space_ids
        ]
        async with self._database.transaction(tenant_id) as tx:
            await writer.insert_events(tx, tenant_id, events, at=at, by=by)

    async def prepare_import(
        self, lines: Sequence[ImportLine | ImportProblem], *, at: datetime, by: str
    ) -> ImportBatch:
        """Check items, and create the partitions of their months."""
        import_batch = await run_by_size(
            len(lines) * _LINE_BYTES, parse_import, with_pauses(lines), at=at, by=by, max_content=self._max_content
        )
        await self._months.ensure(id_time(memory.memory_id) for memory in import_batch.memories)
        return import_batch

    async def import_items(
        self,
        tx: Transaction,
        tenant_id: UUID,
        batches: Mapping[UUID | None, ImportBatch],
        mode: ImportMode,
        *,
        dry_run: bool,
        at: datetime,
        by: str,
    ) -> Importer:
        """Store items in their spaces; None: in that of the call. The caller rolls a dry run back.

        Raises QuotaExceeded.
        """
        policy = await self._policies.get(tx, tenant_id)
        importer = Importer(tx, tenant_id, policy, mode, at=at, by=by)
        for space_id, batch in batches.items():
            if space_id is not None:
                await tx.see_spaces((space_id,))
            before = len(importer.created), len(importer.updated)
            await importer.apply(batch)
            created_count, updated_count = len(importer.created) - before[0], len(importer.updated) - before[1]
            if dry_run or not (created_count or updated_count):
                continue
            event = Event(
                type="data_imported",
                entity_type="tenant",
                entity_id=str(tenant_id),
                summary="data imported",
                payload={"created": created_count, "updated": updated_count},
            )
            await writer.insert_events(tx, tenant_id, [event], at=at, by=by)
            # One batch of each full level is demoted now, the rest by the maintenance.
            await level_capacity.enforce_capacities(tx, tenant_id, policy, LEVELS, at=at, by=by)
        if not dry_run:
            await self._quotas.charge(tx, tenant_id, importer.usage)
        return importer
