"""Cold storage: memories are archived to files and unarchived from them, with all columns of all their rows."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg

from skein_kit.cold_storage import ColdFiles, FileInfo
from skein_kit.database.monthly_partitions import MonthlyPartitions
from skein_kit.database.transactions import Database, Transaction
from skein_kit.errors import ArchiveDamaged, TransactionConflict
from skein_kit.ids import id_time, min_id_at, new_id
from skein_kit.quotas.store import QuotaCounter
from skein_kit.search_text import postings
from skein_kit.search_text.purged_items import record_purge
from skein_memory.cold_storage import rows as archive_rows
from skein_memory.erasure.store import CONTENT_TABLES
from skein_memory.errors import ArchiveNotFound
from skein_memory.events import writer
from skein_memory.events.model import Event
from skein_memory.lineage import store as lineage
from skein_memory.memories import oldest, writes
from skein_memory.memories import rows as memory_rows
from skein_memory.memories.model import Memory, documents_of, purge_events
from skein_memory.queries import QUERIES
from skein_memory.tombstones import store as tombstones

# Memories of one file, its bytes before compression, and memories of one scan.
MEMORIES_PER_ARCHIVE = 500
BYTES_PER_ARCHIVE = 16 * 1024 * 1024
_SCAN_BATCH_SIZE = 2000
# Scans of one call.
_MAX_SCANS = 200
# An older file without an archive was left by a process that ended.
_MAX_WRITE_TIME = timedelta(hours=1)
_AFTER_ALL = UUID(int=(1 << 128) - 1)
_BEFORE_ALL = UUID(int=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class ArchiveSelection:
    """Memories to archive: those unchanged since a time, or those of a session."""

    idle_since: datetime
    before_id: UUID
    after_id: UUID = _BEFORE_ALL
    session_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ArchiveBatch:
    """Memories of one archive with all their rows, and the next cursor; None at the end."""

    memory_ids: list[UUID]
    rows: dict[str, list[dict[str, Any]]]
    after_id: UUID | None
    # The newest archive at that time.
    newest_archive_id: UUID


@dataclass(frozen=True, kw_only=True, slots=True)
class ArchiveFile:
    """A file of cold storage, which no archive names yet."""

    archive_id: UUID
    byte_count: int
    checksum: bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredArchive:
    """The rows of an archive's file by table, and the file's checksum."""

    archive_id: UUID
    checksum: bytes
    rows: Mapping[str, Sequence[dict[str, Any]]]

    @property
    def memory_ids(self) -> list[UUID]:
        return [UUID(row["memory_id"]) for row in self.rows["memories"]]


class ArchiveReader:
    """Reads archives."""

    def __init__(self, database: Database, *, cold: ColdFiles) -> None:
        self._database = database
        self._cold = cold

    async def read(self, tenant_id: UUID, archive_id: UUID) -> tuple[asyncpg.Record, dict[str, list[dict[str, Any]]]]:
        """Read an archive and its file. Raises ArchiveNotFound and ArchiveDamaged."""
        checksum = None
        while True:
            async with self._database.transaction(tenant_id) as tx:
                archive = await tx.row(QUERIES["get_archive"], tenant_id=tenant_id, archive_id=archive_id)
            if archive is None:
                raise ArchiveNotFound
            try:
                file_info = FileInfo(checksum=archive["checksum"], byte_count=archive["byte_count"])
                lines = await self._cold.read(tenant_id, archive_id, file_info)
                return archive, await asyncio.to_thread(archive_rows.parse_lines, lines)
            except ArchiveDamaged:
                # Another process may just have unarchived the archive, or changed its file.
                if checksum == archive["checksum"]:
                    raise
            checksum = archive["checksum"]


class ArchiveStore:
    """Archives and unarchives memories."""

    def __init__(
        self,
        database: Database,
        *,
        quotas: QuotaCounter,
        months: MonthlyPartitions,
        reader: ArchiveReader,
        cold: ColdFiles,
    ) -> None:
        self._database = database
        self._quotas = quotas
        self._months = months
        self._reader = reader
        self._cold = cold

    async def archive_idle(
        self, tenant_id: UUID, idle_since: datetime, *, label: str, at: datetime, by: str, limit: int
    ) -> tuple[int, bool]:
        """Archive up to `limit` memories unchanged since a time; return how many, and whether there may be more."""
        selection = ArchiveSelection(idle_since=idle_since, before_id=min_id_at(idle_since))
        for _ in range(_MAX_SCANS):
            batch = await self.select_batch(tenant_id, selection, limit=limit)
            if batch.memory_ids or batch.after_id is None:
                break
            selection = replace(selection, after_id=batch.after_id)
        if not batch.memory_ids:
            return 0, False
        file = await self.write_file(tenant_id, batch, at)
        async with self._database.transaction(tenant_id) as tx:
            row = await self.move_to_archive(tx, tenant_id, batch, file, label=label, at=at, by=by)
        if row is None:
            await self.delete_file(tenant_id, file)
        return (0 if row is None else len(batch.memory_ids)), batch.after_id is not None

    async def select_batch(
        self, tenant_id: UUID, selection: ArchiveSelection, *, limit: int = MEMORIES_PER_ARCHIVE
    ) -> ArchiveBatch:
        """Read the next batch to archive, up to `limit` memories with all their rows."""
        async with self._database.transaction(tenant_id) as tx:
            scanned_rows = await tx.rows(
                QUERIES["oldest_idle"],
                tenant_id=tenant_id,
                idle_since=selection.idle_since,
                after_id=await oldest.skip_empty_months(tx, tenant_id, selection.after_id),
                before_id=selection.before_id,
                session_id=selection.session_id,
                scan=_SCAN_BATCH_SIZE,
            )
            idle_ids = [row["memory_id"] for row in scanned_rows if row["goes"]]
            linked_ids = await _linked_elsewhere(tx, tenant_id, idle_ids)
            candidates = [memory_id for memory_id in idle_ids if memory_id not in linked_ids][:limit]
            sizes = await tx.rows(QUERIES["archive_sizes"], tenant_id=tenant_id, memory_ids=candidates)
            memory_ids = _fit_file(candidates, {row["memory_id"]: row["bytes"] for row in sizes})
            rows = await archive_rows.read_rows(tx, tenant_id, memory_ids) if memory_ids else {}
            async with tx.reading_all_spaces():
                newest_archive_id = await tx.value(QUERIES["newest_archive"], tenant_id=tenant_id) or _BEFORE_ALL
        return ArchiveBatch(
            memory_ids=memory_ids,
            rows=rows,
            after_id=_next_cursor(scanned_rows, candidates, memory_ids, limit),
            newest_archive_id=newest_archive_id,
        )

    async def write_file(self, tenant_id: UUID, batch: ArchiveBatch, at: datetime) -> ArchiveFile:
        """Write the rows of a batch to a file, before anything is deleted.

        A call that ends early leaves a file that no row names; the next call archives the same memories.
        """
        # Another process's clock may be ahead.
        archive_id = max(new_id(at), UUID(int=batch.newest_archive_id.int + 1))
        file_info = await self._cold.write(tenant_id, archive_id, archive_rows.write_lines(batch.rows))
        return ArchiveFile(archive_id=archive_id, byte_count=file_info.byte_count, checksum=file_info.checksum)

    async def delete_file(self, tenant_id: UUID, file: ArchiveFile | StoredArchive) -> None:
        """Delete a file that no archive names, or names no longer."""
        await self._cold.delete(tenant_id, file.archive_id, file.checksum)

    async def move_to_archive(
        self,
        tx: Transaction,
        tenant_id: UUID,
        batch: ArchiveBatch,
        file: ArchiveFile,
        *,
        label: str,
        at: datetime,
        by: str,
    ) -> asyncpg.Record | None:
        """Delete the rows that a file holds and insert its archive; return None if a memory changed meanwhile."""
        memories = await writes.lock_memories(tx, tenant_id, batch.memory_ids)
        # A memory that a snapshot copied meanwhile stays: archiving it would remove the copy as well.
        if await tx.value(QUERIES["has_snapshot_copies"], tenant_id=tenant_id, memory_ids=batch.memory_ids):
            return None
        if await _linked_elsewhere(tx, tenant_id, batch.memory_ids):
            return None
        # Their rows are compared too, because a link or a tag changes no revision.
        if await archive_rows.read_rows(tx, tenant_id, batch.memory_ids) != batch.rows:
            return None
        await tx.execute(QUERIES["lock_archive_creation"], tenant_id=tenant_id)
        # A purge that has scanned all archives up to one, of any space, only scans newer ones afterwards.
        async with tx.reading_all_spaces():
            has_newer = await tx.value(QUERIES["has_newer_archive"], tenant_id=tenant_id, archive_id=file.archive_id)
        if has_newer:
            return None
        await postings.subtract_counts(tx, tenant_id, batch.memory_ids)
        await tx.stop_history()
        for query in CONTENT_TABLES.values():
            await tx.execute(query, tenant_id=tenant_id, memory_ids=batch.memory_ids)
        # Archived memories are not found, neither now nor as of a time.
        await postings.purge_history(tx, tenant_id, batch.memory_ids)
        await tx.execute(
            QUERIES["insert_archive"],
            tenant_id=tenant_id,
            archive_id=file.archive_id,
            label=label,
            memory_count=len(batch.memory_ids),
            byte_count=file.byte_count,
            checksum=file.checksum,
            from_time=id_time(min(batch.memory_ids)),
            to_time=id_time(max(batch.memory_ids)),
            create_time=at,
            created_by=by,
        )
        record_times = _first_record_times(batch.rows)
        await tx.insert(
            QUERIES["insert_archived"],
            tenant_id,
            [
                _archived_row(memory_id, file.archive_id, memory.draft, record_times[memory_id])
                for memory_id, memory in memories.items()
            ],
        )
        await tx.insert(QUERIES["insert_archived_sources"], tenant_id, _archived_sources(batch.rows))
        event = _event("archive_created", file.archive_id, len(batch.memory_ids))
        await writer.insert_events(tx, tenant_id, [event], at=at, by=by)
        active_count = sum(memory.is_active for memory in memories.values())
        await self._quotas.charge(tx, tenant_id, {"memories": -active_count, "links": -len(batch.rows["links"])})
        return await tx.row(QUERIES["get_archive"], tenant_id=tenant_id, archive_id=file.archive_id)

    async def list_archives(self, tenant_id: UUID, *, before: UUID | None, count: int) -> list[asyncpg.Record]:
        """Read up to `count` archives older than `before`, newest first."""
        async with self._database.transaction(tenant_id) as tx:
            return await tx.rows(
                QUERIES["list_archives"], tenant_id=tenant_id, before_id=before or _AFTER_ALL, count=count
            )

    async def read_archive(self, tenant_id: UUID, archive_id: UUID) -> StoredArchive | None:
        """Read the rows of an archive, and create the partitions of their months; None when there is none.

        Raises ArchiveDamaged.
        """
        try:
            archive, rows = await self._reader.read(tenant_id, archive_id)
        except ArchiveNotFound:
            return None
        stored_archive = StoredArchive(archive_id=archive_id, checksum=archive["checksum"], rows=rows)
        await self._months.ensure(id_time(id_) for id_ in stored_archive.memory_ids)
        return stored_archive

    async def unarchive(
        self, tx: Transaction, tenant_id: UUID, archive: StoredArchive, *, at: datetime, by: str
    ) -> list[Memory]:
        """Restore the rows of an archive, and delete it; the caller deletes its file after the commit.

        Memories that were purged meanwhile, or that exist already, are left out. Return the restored ones. Raises
        ArchiveNotFound and QuotaExceeded.
        """
        archive_id, rows, ids = archive.archive_id, archive.rows, archive.memory_ids
        archived_ids = await _lock_archives(
            tx, tenant_id, archive_id, archive_rows.referenced_memory_ids(rows) - set(ids)
        )
        archive_row = await tx.row(QUERIES["lock_archive"], tenant_id=tenant_id, archive_id=archive_id)
        if archive_row is None:
            raise ArchiveNotFound
        if archive_row["checksum"] != archive.checksum:
            # A concurrent purge removed rows from it, which must not be restored.
            raise TransactionConflict
        existing_ids = await archive_rows.existing_memory_ids(tx, tenant_id, ids)
        new_ids = [id_ for id_ in ids if id_ not in existing_ids]
        links = await archive_rows.insert_rows(
            tx, tenant_id, archive_rows.in_space(rows, archive_row["space_id"]), set(new_ids), archived_ids
        )
        memories = await memory_rows.read_memories(tx, tenant_id, new_ids)
        purged_ids = await tombstones.find_purged(tx, tenant_id, list(memories.values()))
        for table, query in CONTENT_TABLES.items() if purged_ids else ():
            removed_count = await tx.execute(query, tenant_id=tenant_id, memory_ids=sorted(purged_ids))
            links -= removed_count if table == "memory.links" else 0
        new_memories = [memory for id_, memory in memories.items() if id_ not in purged_ids]
        await postings.add_documents(tx, tenant_id, documents_of(new_memories, at=at))
        # Ratings may have changed meanwhile, and what derives from these memories knows their sources again.
        await lineage.rescore_unarchived(tx, tenant_id, [memory.memory_id for memory in new_memories], at=at)
        await tx.execute(QUERIES["delete_archive"], tenant_id=tenant_id, archive_id=archive_id)
        event = _event("archive_restored", archive_id, len(new_memories))
        await writer.insert_events(tx, tenant_id, [event], at=at, by=by)
        active_count = sum(memory.is_active for memory in new_memories)
        await self._quotas.charge(tx, tenant_id, {"memories": active_count, "links": links})
        return new_memories

    async def delete_orphan_files(self, tenant_id: UUID, at: datetime) -> int:
        """Remove files that nothing names: a process that ended between two steps leaves them. Return how many."""
        async with self._database.for_all_spaces().transaction(tenant_id) as tx:
            rows = await tx.rows(QUERIES["name_archives"], tenant_id=tenant_id)
        archive_files = {(row["archive_id"], row["checksum"]) for row in rows}
        return await self._cold.delete_unreferenced(tenant_id, archive_files, older_than=at - _MAX_WRITE_TIME)

    async def purge_oldest_archive(self, tenant_id: UUID, before: datetime, *, at: datetime, by: str) -> int:
        """Purge an archive whose memories were all created and archived before a time; return their number."""
        async with self._database.transaction(tenant_id) as tx:
            archive = await tx.row(QUERIES["oldest_archive"], tenant_id=tenant_id, before=before)
            if archive is None:
                return 0
            archive_id, count = archive["archive_id"], archive["memory_count"]
            rows = await tx.rows(QUERIES["list_archived_memories"], tenant_id=tenant_id, archive_id=archive_id)
            memory_ids = [row["memory_id"] for row in rows]
            await tombstones.insert_memories(tx, tenant_id, memory_ids, at=at)
            await record_purge(tx, tenant_id, [id_time(id_) for id_ in memory_ids], at=at)
            await tx.execute(QUERIES["delete_archive"], tenant_id=tenant_id, archive_id=archive_id)
            space_ids = dict.fromkeys(memory_ids, archive["space_id"])
            await writer.insert_events(tx, tenant_id, purge_events(space_ids, archive_id), at=at, by=by)
        await self._cold.delete(tenant_id, archive_id, archive["checksum"])
        return int(count)

    async def delete_files(self, tenant_id: UUID) -> int:
        """Remove every file of a tenant that is being deleted."""
        return await self._cold.delete_tenant(tenant_id)


async def _linked_elsewhere(tx: Transaction, tenant_id: UUID, memory_ids: Sequence[UUID]) -> set[UUID]:
    """Return which memories have a link into another space: the file of their archive would lose it."""
    async with tx.reading_all_spaces():
        rows = await tx.rows(QUERIES["find_linked_elsewhere"], tenant_id=tenant_id, memory_ids=list(memory_ids))
    return {row["memory_id"] for row in rows}


async def _lock_archives(tx: Transaction, tenant_id: UUID, archive_id: UUID, memory_ids: set[UUID]) -> set[UUID]:
    """Lock an archive, and the archives of some other memories; return which of these memories are archived.

    Two archives that are restored at the same time then see each other's memories. Raises TransactionConflict.
    """
    parameters = {"tenant_id": tenant_id, "memory_ids": sorted(memory_ids)}
    archive_ids = {row["archive_id"] for row in await tx.rows(QUERIES["find_archive_of_memories"], **parameters)}
    await tx.rows(QUERIES["lock_archives"], tenant_id=tenant_id, archive_ids=sorted({archive_id, *archive_ids}))
    archives = await tx.rows(QUERIES["find_archive_of_memories"], **parameters)
    if not archive_ids.issuperset(row["archive_id"] for row in archives):
        # A memory was archived just now.
        raise TransactionConflict
    return {row["memory_id"] for row in archives}


def _fit_file(memory_ids: Sequence[UUID], sizes: Mapping[UUID, int]) -> list[UUID]:
    """Return the first memories that fit into one file, at least one of them."""
    fitting_ids, remaining_bytes = list[UUID](), BYTES_PER_ARCHIVE
    for memory_id in memory_ids:
        remaining_bytes -= sizes.get(memory_id, 0)
        if fitting_ids and remaining_bytes < 0:
            break
        fitting_ids.append(memory_id)
    return fitting_ids


def _next_cursor(
    scanned_rows: Sequence[asyncpg.Record], candidates: Sequence[UUID], memory_ids: Sequence[UUID], limit: int
) -> UUID | None:
    """Return where the next step begins; None when everything was scanned."""
    if len(memory_ids) < len(candidates) or len(memory_ids) == limit:
        return memory_ids[-1]
    last: UUID | None = scanned_rows[-1]["memory_id"] if len(scanned_rows) == _SCAN_BATCH_SIZE else None
    return last


def _first_record_times(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[UUID, datetime]:
    """Return when each memory was first recorded: as its oldest version that is stored."""
    times: dict[UUID, datetime] = {}
    for row in [*rows["memories"], *rows["versions"]]:
        memory_id = UUID(row["memory_id"])
        record_time = datetime.fromisoformat(row["record_time"] or row["update_time"])
        times[memory_id] = min(record_time, times.get(memory_id, record_time))
    return times


def _archived_row(memory_id: UUID, archive_id: UUID, draft: Any, record_time: datetime) -> dict[str, object]:
    return {
        "memory_id": memory_id,
        "archive_id": archive_id,
        "external_id": draft.external_id,
        "subject_id": draft.subject_id,
        "session_id": draft.session_id,
        "record_time": record_time,
    }


def _archived_sources(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[dict[str, object]]:
    """Return which messages and memories archived memories were made of, now or formerly."""
    sources = {
        (UUID(row["memory_id"]), UUID(row["source_id"]))
        for row in [*rows["sources"], *rows["sources_history"]]
        if row["source_id"] is not None and row["role"] == "part" and row["erased_trust"] is None
    }
    return [{"memory_id": memory_id, "source_id": source_id} for memory_id, source_id in sorted(sources)]


def _event(kind: str, archive_id: UUID, count: int) -> Event:
    return Event(
        type=kind,
        entity_type="archive",
        entity_id=str(archive_id),
        summary=f"{kind.replace('_', ' ')}: {count} memories",
        payload={"count": count},
    )
