"""Snapshots in the database: created, compared, restored and deleted in bounded batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from skein_kit.database.monthly_partitions import MonthlyPartitions
from skein_kit.database.transactions import Database, Transaction, translate_constraint_errors
from skein_kit.errors import PermissionMissing, TransactionConflict
from skein_kit.ids import id_time
from skein_kit.policies.store import PolicyCache
from skein_kit.quotas.store import QuotaCounter
from skein_memory.errors import SnapshotNotFound
from skein_memory.events import writer
from skein_memory.events.model import Event
from skein_memory.queries import QUERIES
from skein_memory.snapshots.model import CREATING, DELETING, READY, Snapshot
from skein_memory.transfer import exporter
from skein_memory.transfer.import_parsing import ImportBatch, ImportMode, parse_import
from skein_memory.transfer.importer import Importer
from skein_memory.transfer.model import (
    KINDS,
    MESSAGES,
    ImportLine,
    ImportProblem,
    TransferCursor,
    TransferItem,
    changed_fields,
)

# Items that one transaction copies or removes, and transactions of one call.
_BATCH_SIZE = 100
_REMOVED_BATCH_SIZE = 1000
_MAX_BATCHES = 20
_RATINGS = "source_trust"
_AFTER_ALL = UUID(int=(1 << 128) - 1)
_CONSTRAINT_ERRORS = {
    "snapshot_items_memory_fkey": TransactionConflict,
    "snapshot_items_other_memory_fkey": TransactionConflict,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """An item that is not the same in both: `type` is added, changed or removed."""

    kind: str
    item_id: str
    type: str
    fields: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class RestoreBatch:
    """Items of one step of a restore; `last` is where the next step continues, None at the end of the kind."""

    snapshot_id: UUID
    cursor: TransferCursor
    items: Sequence[TransferItem]
    last: str | None
    import_batch: ImportBatch


class SnapshotStore:
    """Reads and writes snapshots."""

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

    async def create_snapshot(
        self, tx: Transaction, tenant_id: UUID, label: str, summary: str, *, at: datetime, by: str
    ) -> Snapshot:
        """Begin a snapshot; `copy_items` goes on when this is committed. Raises QuotaExceeded."""
        policy = await self._policies.get(tx, tenant_id)
        row = await tx.row(QUERIES["read_horizon"])
        snapshot = Snapshot.create(label, summary, policy, horizon=0 if row is None else row["next"], at=at, by=by)
        columns = {k: v for k, v in asdict(snapshot).items() if k not in {"last_kind", "last_item_id", "space_id"}}
        await tx.execute(QUERIES["insert_snapshot"], tenant_id=tenant_id, **columns)
        await self._quotas.charge(tx, tenant_id, {"snapshots": 1})
        return snapshot

    async def copy_items(self, tenant_id: UUID, snapshot: Snapshot) -> Snapshot:
        """Copy as many items into a new snapshot as one call may; return the snapshot."""
        await exporter.wait_for_transactions(self._database, tenant_id, snapshot.horizon)
        for _ in range(_MAX_BATCHES):
            snapshot = await self._continue(self._database, tenant_id, snapshot.snapshot_id) or snapshot
            if snapshot.state != CREATING:
                break
        return snapshot

    async def get_snapshot(self, tenant_id: UUID, snapshot_id: UUID) -> Snapshot:
        """Read a snapshot. Raises SnapshotNotFound."""
        async with self._database.transaction(tenant_id) as tx:
            return await _read(tx, tenant_id, snapshot_id)

    async def list_snapshots(self, tenant_id: UUID, *, before: UUID | None, count: int) -> list[Snapshot]:
        """Read up to `count` snapshots that are older than one, newest first."""
        async with self._database.transaction(tenant_id) as tx:
            rows = await tx.rows(
                QUERIES["list_snapshots"],
                tenant_id=tenant_id,
                before_id=before or _AFTER_ALL,
                states=[CREATING, READY],
                count=count,
            )
        return [Snapshot(**dict(row)) for row in rows]

    async def delete_snapshot(
        self, tx: Transaction, tenant_id: UUID, snapshot_id: UUID, *, at: datetime, by: str
    ) -> None:
        """Hide a snapshot; `continue_snapshots` removes its items. Raises SnapshotNotFound."""
        if not await tx.execute(QUERIES["drop_snapshots"], tenant_id=tenant_id, snapshot_ids=[snapshot_id]):
            raise SnapshotNotFound
        await writer.insert_events(tx, tenant_id, [_event("snapshot_deleted", snapshot_id)], at=at, by=by)
        await self._quotas.charge(tx, tenant_id, {"snapshots": -1})

    async def continue_snapshots(self, tenant_id: UUID, *, max_batches: int = _MAX_BATCHES) -> tuple[bool, bool]:
        """Continue snapshots of every space that are being created or deleted.

        Return whether there were any, and more to do.
        """
        for batch_number in range(max_batches):
            async with self._database.for_all_spaces().transaction(tenant_id) as tx:
                rows = await tx.rows(QUERIES["unfinished_snapshots"], tenant_id=tenant_id, count=10)
            if not rows:
                return batch_number > 0, False
            has_progress = False
            for row in rows:
                database = self._database.for_spaces((row["space_id"],))
                snapshot = await self._continue(database, tenant_id, row["snapshot_id"])
                has_progress = snapshot is not None or has_progress
            if not has_progress:
                return True, False
        return True, True

    async def _continue(self, database: Database, tenant_id: UUID, snapshot_id: UUID) -> Snapshot | None:
        """Copy or delete one batch of what lies in the snapshot's space, which the transactions of `database` see.

        Return the snapshot; None when nothing can be done.
        """
        async with database.transaction(tenant_id) as tx:
            row = await tx.row(QUERIES["lock_snapshot"], tenant_id=tenant_id, snapshot_id=snapshot_id)
            if row is None or row["state"] == READY:
                return None if row is None else Snapshot(**dict(row))
            snapshot = Snapshot(**dict(row))
            if snapshot.state == DELETING:
                return await _remove(tx, tenant_id, snapshot)
            if snapshot.last_kind is None:
                horizon_row = await tx.row(QUERIES["read_horizon"])
                if horizon_row is None or horizon_row["oldest"] < snapshot.horizon:
                    return None
            cursor = TransferCursor(phase="", kind=snapshot.last_kind or KINDS[0], after=snapshot.last_item_id or "")
            items, last = await exporter.read_batch(
                tx,
                tenant_id,
                cursor.kind,
                after=cursor.after,
                count=_BATCH_SIZE,
                at=snapshot.as_of_time,
                now=snapshot.as_of_time,
            )
            rows = [_row(snapshot_id, item) for item in items]
            with translate_constraint_errors(_CONSTRAINT_ERRORS):
                copied_count = await tx.insert(QUERIES["insert_snapshot_items"], tenant_id, rows)
            next_cursor = cursor.advance(last)
            after = replace(
                snapshot,
                counts=snapshot.with_count(cursor.kind, copied_count),
                state=READY if next_cursor is None else CREATING,
                last_kind=None if next_cursor is None else next_cursor.kind,
                last_item_id=None if next_cursor is None else next_cursor.after,
            )
            progress = {
                name: getattr(after, name) for name in ("snapshot_id", "state", "last_kind", "last_item_id", "counts")
            }
            await tx.execute(QUERIES["move_snapshot"], tenant_id=tenant_id, **progress)
            if after.state == READY:
                await self._finish(tx, tenant_id, after)
        return after

    async def _finish(self, tx: Transaction, tenant_id: UUID, snapshot: Snapshot) -> None:
        """Record the event of a ready snapshot, and drop the oldest beyond the retention."""
        at, by = snapshot.create_time, snapshot.created_by
        await writer.insert_events(tx, tenant_id, [_event("snapshot_created", snapshot.snapshot_id)], at=at, by=by)
        policy = await self._policies.get(tx, tenant_id)
        rows = await tx.rows(
            QUERIES["surplus_snapshots"], tenant_id=tenant_id, kept=max(1, policy.snapshot_retention), count=100
        )
        if rows:
            ids = [row["snapshot_id"] for row in rows]
            deleted_count = await tx.execute(QUERIES["drop_snapshots"], tenant_id=tenant_id, snapshot_ids=ids)
            await writer.insert_events(tx, tenant_id, [_event("snapshot_deleted", id_) for id_ in ids], at=at, by=by)
            await self._quotas.charge(tx, tenant_id, {"snapshots": -deleted_count})

    async def diff(
        self,
        tenant_id: UUID,
        snapshot_id: UUID,
        other_id: UUID | None,
        *,
        cursor: TransferCursor,
        count: int,
        at: datetime,
    ) -> tuple[list[Difference], TransferCursor | None]:
        """Compare a batch of one snapshot with another, or with the current state when `other_id` is None.

        The phase "of" walks over the first and finds what changed or was removed, "added" over the other. Return where
        to go on, None when all is compared. Raises SnapshotNotFound and SnapshotNotReady.
        """
        async with self._database.transaction(tenant_id) as tx:
            (await _read(tx, tenant_id, snapshot_id)).check_ready()
            if other_id is not None:
                (await _read(tx, tenant_id, other_id)).check_ready()
            kind = cursor.kind
            if cursor.phase == "of":
                items, last = await _read_batch(
                    tx, tenant_id, snapshot_id, kind, after=cursor.after, count=count, now=at
                )
                other_items = await _read_by_ids(tx, tenant_id, other_id, kind, items, now=at)
                differences = [
                    Difference(kind=kind, item_id=item.item_id, type="removed")
                    if item.item_id not in other_items
                    else Difference(kind=kind, item_id=item.item_id, type="changed", fields=fields)
                    for item in items
                    if item.item_id not in other_items
                    or (fields := changed_fields(item.message, other_items[item.item_id].message))
                ]
            else:
                items, last = await _read_batch(tx, tenant_id, other_id, kind, after=cursor.after, count=count, now=at)
                other_items = await _read_by_ids(tx, tenant_id, snapshot_id, kind, items, now=at)
                differences = [
                    Difference(kind=kind, item_id=item.item_id, type="added")
                    for item in items
                    if item.item_id not in other_items
                ]
        next_cursor = cursor.advance(last)
        if next_cursor is None and cursor.phase == "of":
            next_cursor = TransferCursor(phase="added", kind=KINDS[0], after="")
        return differences, next_cursor

    async def read_restore_batch(
        self,
        tenant_id: UUID,
        snapshot_id: UUID,
        cursor: TransferCursor,
        *,
        count: int,
        at: datetime,
        by: str,
        may_rate: bool,
    ) -> RestoreBatch:
        """Read and check a batch of a restore, and create the partitions of its months.

        The phase "remove" deletes items that are not in the snapshot; "store" restores those that are. Without
        `may_rate` the trust in sources stays as it is: each one of the snapshot becomes an error. Raises
        SnapshotNotFound and SnapshotNotReady.
        """
        is_removal = cursor.phase == "remove"
        async with self._database.transaction(tenant_id) as tx:
            (await _read(tx, tenant_id, snapshot_id)).check_ready()
            source = None if is_removal else snapshot_id
            items, last = await _read_batch(tx, tenant_id, source, cursor.kind, after=cursor.after, count=count, now=at)
        lines: list[ImportLine | ImportProblem] = []
        if not is_removal:
            lines = [ImportLine(line_number=n, kind=item.kind, message=item.message) for n, item in enumerate(items, 1)]
        if cursor.kind == _RATINGS and not may_rate:
            # An agent that could restore ratings could remove its own.
            lines = [
                ImportProblem(line_number=line.line_number, kind=_RATINGS, reason=PermissionMissing.reason)
                for line in lines
            ]
            items = []
        import_batch = parse_import(lines, at=at, by=by, max_content=self._max_content)
        await self._months.ensure(id_time(memory.memory_id) for memory in import_batch.memories)
        return RestoreBatch(snapshot_id=snapshot_id, cursor=cursor, items=items, last=last, import_batch=import_batch)

    async def restore(
        self, tx: Transaction, tenant_id: UUID, batch: RestoreBatch, *, at: datetime, by: str
    ) -> tuple[Importer, TransferCursor | None]:
        """Restore a batch of a snapshot; return the importer and the next cursor. Raises QuotaExceeded."""
        cursor, snapshot_id = batch.cursor, batch.snapshot_id
        policy = await self._policies.get(tx, tenant_id)
        importer = Importer(tx, tenant_id, policy, ImportMode.RESTORE, at=at, by=by)
        if cursor.phase == "remove":
            snapshot_items = await _read_by_ids(tx, tenant_id, snapshot_id, cursor.kind, batch.items, now=at)
            if cursor.kind == "link":
                # A link that was restored has another id than the snapshot's.
                kept_pairs = await _link_pairs(tx, tenant_id, snapshot_id, batch.items)
                removed_ids = [item.item_id for item in batch.items if _pair(item) not in kept_pairs]
            else:
                removed_ids = [item.item_id for item in batch.items if item.item_id not in snapshot_items]
            await importer.remove(cursor.kind, removed_ids)
        else:
            await importer.apply(batch.import_batch)
        next_cursor = cursor.advance(batch.last)
        if next_cursor is None and cursor.phase == "remove":
            next_cursor = TransferCursor(phase="store", kind=KINDS[0], after="")
        if next_cursor is None:
            await writer.insert_events(tx, tenant_id, [_event("snapshot_restored", snapshot_id)], at=at, by=by)
        await self._quotas.charge(tx, tenant_id, importer.usage)
        return importer, next_cursor


async def _link_pairs(
    tx: Transaction, tenant_id: UUID, snapshot_id: UUID, links: Sequence[TransferItem]
) -> set[tuple[str, str, str]]:
    """Return ends and relations of those of a snapshot's links that lead from where some links do."""
    rows = await tx.rows(
        QUERIES["get_snapshot_links"],
        tenant_id=tenant_id,
        snapshot_id=snapshot_id,
        memory_ids=list({link.memory_id for link in links}),
    )
    return {_pair(_item("link", row["item_id"], row["content"])) for row in rows}


def _pair(link: TransferItem) -> tuple[str, str, str]:
    message: Any = link.message
    return message.from_memory_id, message.to_memory_id, message.relation


async def _read(tx: Transaction, tenant_id: UUID, snapshot_id: UUID) -> Snapshot:
    row = await tx.row(QUERIES["get_snapshot"], tenant_id=tenant_id, snapshot_id=snapshot_id)
    if row is None or row["state"] == DELETING:
        raise SnapshotNotFound
    return Snapshot(**dict(row))


async def _remove(tx: Transaction, tenant_id: UUID, snapshot: Snapshot) -> Snapshot:
    keys = {"tenant_id": tenant_id, "snapshot_id": snapshot.snapshot_id}
    if await tx.execute(QUERIES["delete_snapshot_items"], count=_REMOVED_BATCH_SIZE, **keys) < _REMOVED_BATCH_SIZE:
        await tx.execute(QUERIES["delete_snapshot"], **keys)
    return snapshot


async def _read_batch(
    tx: Transaction, tenant_id: UUID, snapshot_id: UUID | None, kind: str, *, after: str, count: int, now: datetime
) -> exporter.ItemBatch:
    """Read items of a snapshot, or of the current state when there is none, and the next cursor.

    Memories that have expired at the time `now` are left out: a restore does not bring them back.
    """
    if snapshot_id is None:
        return await exporter.read_batch(tx, tenant_id, kind, after=after, count=count, now=now)
    rows = await tx.rows(
        QUERIES["next_snapshot_items"],
        tenant_id=tenant_id,
        snapshot_id=snapshot_id,
        kind=kind,
        after_id=after,
        count=count,
    )
    items = [_item(kind, row["item_id"], row["content"]) for row in rows]
    last = items[-1].item_id if len(items) == count else None
    return [item for item in items if not exporter.is_expired(item, now)], last


async def _read_by_ids(
    tx: Transaction,
    tenant_id: UUID,
    snapshot_id: UUID | None,
    kind: str,
    items: Sequence[TransferItem],
    *,
    now: datetime,
) -> dict[str, TransferItem]:
    """Read those of some items that are in a snapshot, or in the current state when there is none.

    A snapshot contains a memory even after its expiry: its current version may expire later, and a restore must not
    remove it.
    """
    ids = [item.item_id for item in items]
    if not ids:
        return {}
    if snapshot_id is None:
        return await exporter.read_by_ids(tx, tenant_id, kind, ids, now=now)
    rows = await tx.rows(
        QUERIES["get_snapshot_items"], tenant_id=tenant_id, snapshot_id=snapshot_id, kind=kind, item_ids=ids
    )
    return {row["item_id"]: _item(kind, row["item_id"], row["content"]) for row in rows}


def _item(kind: str, item_id: str, content: bytes) -> TransferItem:
    return TransferItem(kind=kind, item_id=item_id, message=MESSAGES[kind].FromString(content))


def _row(snapshot_id: UUID, item: TransferItem) -> dict[str, object]:
    return {
        "snapshot_id": snapshot_id,
        "kind": item.kind,
        "item_id": item.item_id,
        "memory_id": item.memory_id,
        "other_memory_id": item.other_memory_id,
        "content": item.message.SerializeToString(deterministic=True),
    }


def _event(kind: str, snapshot_id: UUID) -> Event:
    verb = kind.removeprefix("snapshot_")
    return Event(type=kind, entity_type="snapshot", entity_id=str(snapshot_id), summary=f"snapshot {verb}")
