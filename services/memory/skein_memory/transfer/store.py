"""Exports of a tenant's memory as items, and imports of items."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from google.protobuf.message import Message

from skein_kit.ids import id_time
from skein_memory.events import writer
from skein_memory.events.model import Event
from skein_memory.memories import level_store
from skein_memory.memories.level import LEVELS
from skein_memory.transfer import exporter
from skein_memory.transfer.import_items import ImportMode, parse_import
from skein_memory.transfer.importer import Importer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from uuid import UUID

    from skein_kit.database.monthly_partitions import MonthlyPartitions
    from skein_kit.database.transactions import Database
    from skein_kit.idempotency.key import IdempotencyKey
    from skein_kit.idempotency.store import IdempotencyStore
    from skein_kit.policies.store import Policies
    from skein_kit.quotas.store import QuotaCounter
    from skein_memory.transfer.model import ImportLine, ImportProblem, TransferCursor, TransferItem

Response = TypeVar("Response", bound=Message)


class TransferStore:
    """Reads and writes a tenant's memory as items."""

    def __init__(
        self,
        database: Database,
        *,
        idempotency: IdempotencyStore,
        quotas: QuotaCounter,
        policies: Policies,
        months: MonthlyPartitions,
        max_content: int,
    ) -> None:
        """Use what the service shares; contents have at most `max_content` characters."""
        self._database = database
        self._idempotency = idempotency
        self._quotas = quotas
        self._policies = policies
        self._months = months
        self._max_content = max_content

    async def read_batch(
        self, tenant_id: UUID, cursor: TransferCursor, *, count: int, at: datetime, now: datetime
    ) -> tuple[list[TransferItem], TransferCursor | None]:
        """Read a batch of a tenant's memory as it was at a time, less what has expired since; and the next cursor."""
        async with self._database.transaction(tenant_id) as tx:
            items, last = await exporter.read_batch(
                tx, tenant_id, cursor.kind, after=cursor.after, count=count, at=at, now=now
            )
        return items, cursor.advance(last)

    async def start_export(self, tenant_id: UUID, *, at: datetime, by: str) -> None:
        """Wait for the transactions that are open now, so that the export has their writes; record the event."""
        horizon = await exporter.next_transaction(self._database, tenant_id)
        await exporter.wait_for_transactions(self._database, tenant_id, horizon)
        event = Event(type="data_exported", entity_type="tenant", entity_id=str(tenant_id), summary="data exported")
        async with self._database.transaction(tenant_id) as tx:
            await writer.insert_events(tx, tenant_id, [event], at=at, by=by)

    async def import_items(
        self,
        tenant_id: UUID,
        idempotency_key: IdempotencyKey,
        lines: Sequence[ImportLine | ImportProblem],
        mode: ImportMode,
        respond: Callable[[Importer], Response],
        *,
        dry_run: bool,
        at: datetime,
        by: str,
    ) -> tuple[Response | bytes, Importer | None]:
        """Store items, or find out what would be done; or return the stored response. Raises QuotaExceeded."""
        import_batch = parse_import(lines, at=at, by=by, max_content=self._max_content)
        await self._months.ensure(id_time(memory.memory_id) for memory in import_batch.memories)
        result: tuple[Response, Importer] | None = None
        with suppress(_Rollback):
            async with self._database.transaction(tenant_id) as tx:
                first = (
                    None if dry_run else (await self._idempotency.claim(tx, tenant_id, idempotency_key)).saved_response
                )
                if first is not None:
                    return first, None
                policy = await self._policies.of(tx, tenant_id)
                importer = Importer(tx, tenant_id, policy, mode, at=at, by=by)
                await importer.apply(import_batch)
                response = respond(importer)
                result = response, importer
                if dry_run:
                    raise _Rollback
                event = Event(
                    type="data_imported",
                    entity_type="tenant",
                    entity_id=str(tenant_id),
                    summary="data imported",
                    payload={"created": len(importer.created), "updated": len(importer.updated)},
                )
                if importer.created or importer.updated:
                    await writer.insert_events(tx, tenant_id, [event], at=at, by=by)
                    # What is too much for a level passes down at once, so many memories; the maintenance goes on.
                    await level_store.enforce_capacities(tx, tenant_id, policy, LEVELS, at=at, by=by)
                await self._idempotency.save(tx, tenant_id, idempotency_key, response.SerializeToString())
                await self._quotas.charge(tx, tenant_id, importer.usage)
        assert result is not None  # noqa: S101 - made before it was undone.
        return result


class _Rollback(Exception):
    """Leaves a transaction without a trace."""
