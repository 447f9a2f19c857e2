"""Purges of archived memories: by name, by subject, or by filter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from skein_kit import filters
from skein_kit.idempotency.store import LIFETIME
from skein_kit.ids import id_time, new_id, parse_id
from skein_kit.json_values import exact
from skein_kit.search_text.purged_items import record_purge
from skein_memory.cold_storage import rows as archive_rows
from skein_memory.erasure import access_log_erasure
from skein_memory.erasure.receipt import KEPT_RESPONSE_TYPES
from skein_memory.errors import ArchiveNotFound
from skein_memory.events import writer
from skein_memory.lineage import store as lineage
from skein_memory.memories.model import purge_events
from skein_memory.memories.rows import fields_of_row
from skein_memory.queries import QUERIES
from skein_memory.tombstones import store as tombstones

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from datetime import datetime

    import asyncpg

    from skein_kit.cold_storage import ColdFiles
    from skein_kit.database.transactions import Database, Transaction
    from skein_kit.filters.expression import Expression
    from skein_memory.cold_storage.store import ArchiveReader
    from skein_memory.listing.filter import Filter

    Rows = Mapping[str, Sequence[dict[str, Any]]]

# Archives whose files one call reads for a filter, and archives that it scans for them.
ARCHIVES_BATCH_SIZE = 4
_SCAN_BATCH_SIZE = 200
# Memories of a person that are found at once.
_FOUND_BATCH_SIZE = 2000
_BEFORE_ALL = UUID(int=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class PurgeOptions:
    """When and by whom memories are purged, and whether this is a dry run."""

    at: datetime
    by: str
    dry_run: bool
    # The person whose memories are all purged, if any: their sessions leave the access log too.
    subject_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ArchivePurge:
    """The purged memories, the names of archived memories, and the archive up to which all are purged."""

    memory_ids: list[UUID]
    names: AbstractSet[str] = frozenset()
    # None: archives were not scanned.
    newest_archive_id: UUID | None = None
    # Whether there are archives after that one.
    has_more: bool = False


class ArchivePurgeStore:
    """Purges archived memories; tombstones stay. Raises ArchiveDamaged where a file cannot be read."""

    def __init__(self, database: Database, *, reader: ArchiveReader, cold: ColdFiles) -> None:
        self._database = database
        self._reader = reader
        self._cold = cold

    async def purge_by_names(
        self, tenant_id: UUID, names: Sequence[str], filter_: Filter, *, after: UUID | None, options: PurgeOptions
    ) -> ArchivePurge:
        """Remove the matching ones of some memories, by ids or external ids, from archives after one."""
        ids = [id_ for name in names if (id_ := parse_id(name)) is not None]
        async with self._database.transaction(tenant_id) as tx:
            newest = await _newest(tx, tenant_id)
            rows = await tx.rows(
                QUERIES["find_archived"], tenant_id=tenant_id, memory_ids=ids, external_ids=list(names)
            )
        rows = [row for row in rows if after is None or row["archive_id"] > after]
        archived_keys = {row["memory_id"] for row in rows} | {row["external_id"] for row in rows}
        archived_names = frozenset(
            name for name in names if name in archived_keys or (parse_id(name) or name) in archived_keys
        )
        purged_ids: list[UUID] = []
        for archive_id, memory_ids in _by_archive(rows).items():
            purged_ids += await self._purge_from_archive(
                tenant_id, archive_id, _matcher(filter_.condition(options.at), memory_ids), options
            )
        return ArchivePurge(memory_ids=purged_ids, names=archived_names, newest_archive_id=newest)

    async def purge_subject(
        self, tenant_id: UUID, subject_id: str, *, after: UUID | None, options: PurgeOptions
    ) -> ArchivePurge:
        """Remove all memories about a person from archives after one, and what is noted as made of a person's items."""
        purged_ids = await self._purge_lineage(tenant_id, subject_id, options)
        since = _BEFORE_ALL if after is None else UUID(int=after.int + 1)
        async with self._database.transaction(tenant_id) as tx:
            newest = await _newest(tx, tenant_id)
        while True:
            async with self._database.transaction(tenant_id) as tx:
                rows = await tx.rows(
                    QUERIES["find_archived_subject"],
                    tenant_id=tenant_id,
                    subject_id=subject_id,
                    since_id=since,
                    count=_FOUND_BATCH_SIZE,
                )
            archives, is_last_batch = _by_archive(rows), len(rows) < _FOUND_BATCH_SIZE
            if not is_last_batch:
                # The last archive may hold more than were found, and is requested again.
                since = max(archives)
                del archives[since]
            for archive_id, memory_ids in archives.items():
                purged_ids += await self._purge_from_archive(tenant_id, archive_id, _matcher(None, memory_ids), options)
            if is_last_batch:
                return ArchivePurge(memory_ids=purged_ids, newest_archive_id=newest)

    async def _purge_lineage(self, tenant_id: UUID, subject_id: str, options: PurgeOptions) -> list[UUID]:
        """Remove what is noted as made of a person's items, unless it is about another person."""
        purged_ids: list[UUID] = []
        has_more = True
        while has_more:
            async with self._database.transaction(tenant_id) as tx:
                rows = await tx.rows(
                    QUERIES["list_archived_lineage_purges"],
                    tenant_id=tenant_id,
                    subject_id=subject_id,
                    count=_FOUND_BATCH_SIZE,
                )
            for archive_id, memory_ids in _by_archive(rows).items():
                purged_ids += await self._purge_from_archive(tenant_id, archive_id, _matcher(None, memory_ids), options)
            has_more = bool(rows) and not options.dry_run
        return purged_ids

    async def purge_matching(
        self, tenant_id: UUID, filter_: Filter, *, after: UUID | None, options: PurgeOptions
    ) -> ArchivePurge:
        """Purge matching memories from some archives after one, whose files are read."""
        async with self._database.transaction(tenant_id) as tx:
            rows = await tx.rows(
                QUERIES["walk_archives"],
                tenant_id=tenant_id,
                after_id=after or _BEFORE_ALL,
                subject_id=filter_.subject_id,
                count=_SCAN_BATCH_SIZE,
            )
        purged_ids: list[UUID] = []
        find_matches, files = _matcher(filter_.condition(options.at), None), 0
        for index, row in enumerate(rows, start=1):
            if row["may_hold"] and filter_.may_match_created_between(row["from_time"], row["to_time"]):
                purged_ids += await self._purge_from_archive(tenant_id, row["archive_id"], find_matches, options)
                files += 1
            if files == ARCHIVES_BATCH_SIZE and index < len(rows):
                return ArchivePurge(memory_ids=purged_ids, newest_archive_id=row["archive_id"], has_more=True)
        last_archive_id = rows[-1]["archive_id"] if rows else after or _BEFORE_ALL
        return ArchivePurge(
            memory_ids=purged_ids, newest_archive_id=last_archive_id, has_more=len(rows) == _SCAN_BATCH_SIZE
        )

    async def _purge_from_archive(
        self, tenant_id: UUID, archive_id: UUID, find_matches: Callable[[Rows], set[UUID]], options: PurgeOptions
    ) -> Sequence[UUID]:
        """Purge chosen memories from an archive; return their ids: none when the archive was restored meanwhile."""
        while True:
            try:
                archive, rows = await self._reader.read(tenant_id, archive_id)
            except ArchiveNotFound:
                return ()
            purged_ids = sorted(find_matches(rows))
            if options.dry_run or not purged_ids:
                return purged_ids
            names = {str(id_) for id_ in purged_ids}
            remaining_rows = {
                table: [
                    row
                    for row in table_rows
                    if not any(row[column] in names for column in archive_rows.ARCHIVED_TABLES[table])
                ]
                for table, table_rows in rows.items()
            }
            new_file = (
                await self._cold.write(tenant_id, archive_id, archive_rows.write_lines(remaining_rows))
                if remaining_rows["memories"]
                else None
            )
            async with self._database.transaction(tenant_id) as tx:
                lock_row = await tx.row(QUERIES["lock_archive"], tenant_id=tenant_id, archive_id=archive_id)
                is_unchanged = lock_row is not None and lock_row["checksum"] == archive["checksum"]
                if is_unchanged:
                    await _record_purge(tx, tenant_id, dict.fromkeys(purged_ids, archive["space_id"]), rows, options)
                    if new_file is None:
                        await tx.execute(QUERIES["delete_archive"], tenant_id=tenant_id, archive_id=archive_id)
                    else:
                        await tx.execute(
                            QUERIES["update_archive_after_purge"],
                            tenant_id=tenant_id,
                            archive_id=archive_id,
                            memory_count=len(remaining_rows["memories"]),
                            byte_count=new_file.byte_count,
                            checksum=new_file.checksum,
                        )
            if is_unchanged:
                await self._cold.delete(tenant_id, archive_id, archive["checksum"])
                return purged_ids
            # The archive was changed meanwhile: try again.
            if new_file is not None:
                await self._cold.delete(tenant_id, archive_id, new_file.checksum)


async def _newest(tx: Transaction, tenant_id: UUID) -> UUID:
    """Return the newest archive. Read before their memories: those that are archived later are in a newer one."""
    newest: UUID | None = await tx.value(QUERIES["newest_archive"], tenant_id=tenant_id)
    return newest or _BEFORE_ALL


async def _record_purge(
    tx: Transaction, tenant_id: UUID, space_ids: Mapping[UUID, UUID], rows: Rows, options: PurgeOptions
) -> None:
    """Insert the tombstones and events of purged archived memories, by their spaces, and clear saved responses."""
    purged_ids = list(space_ids)
    names = {str(id_) for id_ in purged_ids}
    await record_purge(tx, tenant_id, [id_time(id_) for id_ in purged_ids], at=options.at)
    stored_rows = [row for table in ("memories", "versions") for row in rows[table] if row["memory_id"] in names]
    await lineage.mark_erased(tx, tenant_id, purged_ids, with_person=bool(options.subject_id))
    await tombstones.insert_memories(
        tx,
        tenant_id,
        purged_ids,
        at=options.at,
        external_ids=sorted({row["external_id"] for row in stored_rows if row["external_id"] is not None}),
        contents=[(row["type"], row["content"], _json(row["data"])) for row in stored_rows],
    )
    await access_log_erasure.clear_queries(tx, tenant_id, purged_ids)
    if options.subject_id:
        sessions = {row["session_id"] for row in stored_rows if row["session_id"]}
        await access_log_erasure.clear_sessions(tx, tenant_id, options.subject_id, sessions, at=options.at)
    await tx.execute(QUERIES["delete_archived"], tenant_id=tenant_id, memory_ids=purged_ids)
    await tx.execute(
        QUERIES["clear_responses"],
        tenant_id=tenant_id,
        since_time=options.at - LIFETIME,
        names=sorted(names),
        spared=list(KEPT_RESPONSE_TYPES),
    )
    await writer.insert_events(tx, tenant_id, purge_events(space_ids, new_id(options.at)), at=options.at, by=options.by)


def _matcher(condition: Expression | None, memory_ids: AbstractSet[UUID] | None) -> Callable[[Rows], set[UUID]]:
    """Return a function that chooses the matching memories from an archive's rows; None: all match."""

    def find_matches(rows: Rows) -> set[UUID]:
        tags: dict[str, list[str]] = {}
        for row in rows["tags"]:
            tags.setdefault(row["memory_id"], []).append(row["tag"])
        return {
            memory_id
            for row in rows["memories"]
            if (memory_id := UUID(row["memory_id"])) is not None
            and (memory_ids is None or memory_id in memory_ids)
            and (condition is None or filters.matches(condition, fields_of_row(row, tags.get(row["memory_id"], ()))))
        }

    return find_matches


def _by_archive(rows: Sequence[asyncpg.Record]) -> dict[UUID, set[UUID]]:
    archives: dict[UUID, set[UUID]] = {}
    for row in rows:
        archives.setdefault(row["archive_id"], set()).add(row["memory_id"])
    return dict(sorted(archives.items()))


def _json(value: object) -> str | None:
    return None if value is None else exact.dumps(value)
