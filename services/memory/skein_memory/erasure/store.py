"""Purges of memories with every copy of their content, and deletion of many memories at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from skein_kit.database.named_queries import Query
from skein_kit.database.transactions import Database, Transaction
from skein_kit.idempotency.store import LIFETIME
from skein_kit.ids import min_id_at, new_id, parse_id
from skein_kit.jobs.model import MAX_COUNTED
from skein_kit.policies.store import PolicyCache
from skein_kit.quotas.store import QuotaCounter
from skein_kit.search_text import postings
from skein_kit.search_text.purged_items import record_purge
from skein_memory.blocks import purge as block_purge
from skein_memory.erasure import access_log_erasure
from skein_memory.erasure.receipt import KEPT_RESPONSE_TYPES, PurgeReceipt
from skein_memory.errors import BlockNotDeleted, BlockNotFound
from skein_memory.events import writer
from skein_memory.events.store import position_before_own
from skein_memory.lineage import store as lineage
from skein_memory.listing import store as listing_store
from skein_memory.listing.filter import Filter
from skein_memory.memories import names, oldest, writes
from skein_memory.memories import rows as memory_rows
from skein_memory.memories.model import Memory, purge_events
from skein_memory.memories.store import MAX_FACTS
from skein_memory.pages import store as pages
from skein_memory.queries import QUERIES
from skein_memory.tombstones import store as tombstones

# Every table with content of memories, children before the memories themselves, and former rows last. Each query purges
# the rows of `memory_ids`. Rows of other tables are purged by their foreign keys, uncounted.
CONTENT_TABLES: Mapping[str, Query] = {
    "memory.versions": QUERIES["purge_memory_versions"],
    "memory.revisions": QUERIES["purge_memory_revisions"],
    "memory.access_counts": QUERIES["purge_access_counts"],
    "memory.links": QUERIES["purge_memory_links"],
    "memory.sources": QUERIES["purge_memory_sources"],
    "memory.trust": QUERIES["purge_memory_trust"],
    "memory.pending_rows": QUERIES["purge_pending_rows"],
    "memory.pending_memories": QUERIES["purge_pending_memories"],
    "memory.tags": QUERIES["purge_memory_tags"],
    "memory.properties": QUERIES["purge_memory_properties"],
    "memory.external_ids": QUERIES["purge_memory_external_ids"],
    "memory.fact_keys": QUERIES["purge_memory_fact_keys"],
    "memory.secrets": QUERIES["purge_memory_secrets"],
    "memory.tasks": QUERIES["purge_memory_tasks"],
    "memory.aliases": QUERIES["purge_memory_aliases"],
    "memory.conflict_resolutions": QUERIES["purge_memory_conflict_resolutions"],
    "memory.snapshot_items": QUERIES["purge_memory_snapshot_items"],
    "recall.documents": QUERIES["purge_memory_documents"],
    "memory.memories": QUERIES["purge_memories"],
    # After the tables whose former rows they keep.
    "memory.sources_history": QUERIES["purge_memory_sources_history"],
    "memory.trust_history": QUERIES["purge_memory_trust_history"],
    "memory.aliases_history": QUERIES["purge_memory_aliases_history"],
    "memory.conflict_resolutions_history": QUERIES["purge_memory_conflict_resolutions_history"],
}


# Memories older than the retention that one call purges; rows of one scan; scans of one call.
RETENTION_BATCH = 200
_SCAN_BATCH_SIZE = 2000
_MAX_SCANS = 200
# Expired memories that one transaction erases.
EXPIRED_BATCH_SIZE = 200
# Memories that were about a person whose former versions are purged at once.
_FORMER_BATCH_SIZE = 200
# Fields by which a purge selects what waits for approval, with its columns.
_PENDING_FIELDS = {"subject_id": "subject_id", "session_id": "session_id", "agent_id": "memory_agent_id"}
_NOTHING = listing_store.MatchingIds(memory_ids=[], after=None)


@dataclass(frozen=True, kw_only=True, slots=True)
class PurgeResult:
    """The purged or deleted memories of a selection, and the next cursor; `after` is None when no memories are left.

    Blocks come after the memories: `blocks_after` is the next cursor among them. Only a purge has a `receipt`.
    """

    memory_ids: list[UUID]
    receipt: PurgeReceipt | None
    not_found_ids: list[str]
    after: UUID | None
    blocks_after: str | None = None
    # Whether memories were archived after cold storage was scanned.
    has_newer_archive: bool = False
    # Memories about others that remain, although they were made of what was purged, or were about the person.
    remaining_ids: Sequence[UUID] = ()
    # Whether memories that were made of what was purged are still to be purged.
    has_lineage: bool = False

    def without_block_ids(self) -> PurgeResult:
        """Return it with a receipt that names no blocks."""
        return replace(self, receipt=None if self.receipt is None else replace(self.receipt, block_ids=()))


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """Selected memories: those that match the filter; if there are `names`, only those of them.

    A purge of them takes the blocks about `subject_id` too, from `blocks_after` on when no memories are left.
    """

    names: Sequence[str]
    filter: Filter
    after: UUID | None
    count: int
    subject_id: str = ""
    blocks_after: str | None = None
    # Whether no memories are left in the tables: purges of cold storage take longer.
    is_table_done: bool = False
    # The archive up to which cold storage was scanned; None when it was not.
    newest_archive_id: UUID | None = None


class PurgeStore:
    """Removes memories."""

    def __init__(self, database: Database, *, quotas: QuotaCounter, policies: PolicyCache) -> None:
        self._database = database
        self._quotas = quotas
        self._policies = policies

    async def select(self, tenant_id: UUID, selection: Selection, *, at: datetime) -> tuple[list[Memory], UUID | None]:
        """Read the memories of a selection, newest first; and the next cursor, None when there are no more."""
        async with self._database.transaction(tenant_id) as tx:
            matching, _ = await _select(tx, tenant_id, selection, at=at)
            return await listing_store.read(tx, tenant_id, matching.memory_ids, None), matching.after

    async def purge(
        self, tx: Transaction, tenant_id: UUID, selection: Selection, *, at: datetime, by: str, dry_run: bool
    ) -> PurgeResult:
        """Remove the memories of a selection for good. The caller rolls a dry run back."""
        matching, not_found = await _select(tx, tenant_id, selection, at=at)
        memory_ids = await _lock_matching(tx, tenant_id, selection.filter, matching.memory_ids, at=at)
        sessions = (
            await access_log_erasure.sessions_of(tx, tenant_id, memory_ids) if selection.subject_id else set[str]()
        )
        receipt = PurgeReceipt.empty(new_id(at), at=at, dry_run=dry_run)
        receipt = await self._purge(tx, tenant_id, memory_ids, receipt, by=by, person_id=selection.subject_id)
        remaining_ids: list[UUID] = []
        if selection.subject_id:
            receipt, remaining_ids = await self._purge_lineage(tx, tenant_id, selection, receipt, by=by)
        blocks_after = None
        if selection.subject_id and matching.after is None:
            receipt, former_ids = await _purge_former_versions(tx, tenant_id, selection, receipt)
            remaining_ids += former_ids
            receipt, blocks_after = await self._purge_blocks(tx, tenant_id, selection, receipt, by=by)
        receipt, pending_names = await _purge_pending(tx, tenant_id, selection, receipt)
        not_found = [name for name in not_found if name not in pending_names]
        if selection.subject_id:
            await access_log_erasure.record_erasure(tx, tenant_id, selection.subject_id, at=at)
            await access_log_erasure.clear_sessions(tx, tenant_id, selection.subject_id, sessions, at=at)
        receipt = replace(
            receipt,
            log_position=await access_log_erasure.log_end(tx),
            event_position=await position_before_own(tx) if receipt.memory_ids or receipt.block_ids else "",
            tombstones=await tombstones.list_of_purge(tx, tenant_id, at=at),
        )
        has_newer_archive = await _has_newer_archive(tx, tenant_id, selection)
        if has_newer_archive and not_found:
            not_found = await _without_archived(tx, tenant_id, not_found)
        return PurgeResult(
            memory_ids=list(receipt.memory_ids),
            receipt=receipt,
            not_found_ids=not_found,
            after=matching.after,
            blocks_after=blocks_after,
            has_newer_archive=has_newer_archive,
            remaining_ids=sorted(set(remaining_ids)),
            has_lineage=bool(selection.subject_id)
            and await tx.value(QUERIES["has_lineage_purges"], tenant_id=tenant_id),
        )

    async def delete_selected(
        self, tx: Transaction, tenant_id: UUID, selection: Selection, *, at: datetime, by: str, dry_run: bool
    ) -> PurgeResult:
        """Delete the memories of a selection that are not deleted yet, so that they can be restored."""
        matching, not_found = await _select(tx, tenant_id, selection, at=at)
        memory_ids = matching.memory_ids
        if not dry_run:
            memory_ids = await _lock_matching(tx, tenant_id, selection.filter, matching.memory_ids, at=at)
            for memory in (await memory_rows.read_memories(tx, tenant_id, memory_ids)).values():
                deleted = memory.delete(at=at, by=by)
                await writes.update_memory(tx, tenant_id, memory, deleted, at=at, event="memory_deleted")
            await self._quotas.charge(tx, tenant_id, {"memories": -len(memory_ids)})
        return PurgeResult(memory_ids=memory_ids, receipt=None, not_found_ids=not_found, after=matching.after)

    async def purge_older_than(
        self, tenant_id: UUID, before: datetime, *, at: datetime, by: str, limit: int
    ) -> tuple[int, bool]:
        """Purge up to `limit` memories that were created and last changed before a time.

        Return how many, and whether there may be more.
        """
        async with self._database.transaction(tenant_id) as tx:
            after_id = await oldest.skip_empty_months(tx, tenant_id, UUID(int=0))
            for _ in range(_MAX_SCANS):
                rows = await tx.rows(
                    QUERIES["oldest_memories"],
                    tenant_id=tenant_id,
                    after_id=after_id,
                    before_id=min_id_at(before),
                    before=before,
                    scan=_SCAN_BATCH_SIZE,
                )
                memory_ids = [row["memory_id"] for row in rows if row["goes"]][:limit]
                if memory_ids or len(rows) < _SCAN_BATCH_SIZE:
                    break
                after_id = rows[-1]["memory_id"]
            if memory_ids:
                locked = await writes.lock_memories(tx, tenant_id, memory_ids)
                # A memory may have been changed while this transaction waited for its lock.
                old_ids = [id_ for id_ in memory_ids if id_ in locked and locked[id_].record_time < before]
                await self._purge(tx, tenant_id, old_ids, PurgeReceipt.empty(new_id(at), at=at), by=by)
                return len(old_ids), len(memory_ids) == limit
        return 0, False

    async def purge_facts(self, tenant_id: UUID, message_ids: Sequence[UUID], *, at: datetime, by: str) -> int:
        """Purge the facts that extractors found in purged messages, in whatever space; return how many."""
        async with self._database.transaction(tenant_id) as tx:
            rows = await tx.rows(
                QUERIES["find_facts_of_purged"],
                tenant_id=tenant_id,
                message_ids=list(message_ids),
                count=MAX_FACTS * len(message_ids),
            )
            ids, purged_count = [row["memory_id"] for row in rows], 0
            async for _ in writes.each_space_of(tx, tenant_id, ids):
                locked = await writes.lock_memories(tx, tenant_id, ids)
                fact_ids = sorted(id_ for id_, memory in locked.items() if memory.is_extracted)
                await self._purge(tx, tenant_id, fact_ids, PurgeReceipt.empty(new_id(at), at=at), by=by)
                purged_count += len(fact_ids)
        return purged_count

    async def purge_expired(self, tenant_id: UUID, *, at: datetime, by: str, limit: int) -> tuple[int, bool]:
        """Erase up to `limit` memories whose expiry is longer ago than the policy's grace.

        Return how many, and whether there may be more. They leave an event and no tombstone: an import may bring them
        again.
        """
        async with self._database.transaction(tenant_id) as tx:
            grace = timedelta(hours=(await self._policies.get(tx, tenant_id)).expiry_grace_hours)
            rows = await tx.rows(QUERIES["longest_expired"], tenant_id=tenant_id, before=at - grace, count=limit)
            locked = await writes.lock_memories(tx, tenant_id, [row["memory_id"] for row in rows])
            # A concurrent import may have moved its expiry.
            expired_ids = sorted(id_ for id_, memory in locked.items() if memory.is_expired(at - grace))
            receipt = PurgeReceipt.empty(new_id(at), at=at)
            await self._purge(tx, tenant_id, expired_ids, receipt, by=by, cause="expired")
        return len(expired_ids), len(rows) == limit

    async def count_expired(self, tenant_id: UUID, at: datetime) -> int:
        """Count the memories that `purge_expired` would erase, up to MAX_COUNTED."""
        async with self._database.transaction(tenant_id) as tx:
            grace = timedelta(hours=(await self._policies.get(tx, tenant_id)).expiry_grace_hours)
            count: int = await tx.value(
                QUERIES["count_long_expired"], tenant_id=tenant_id, before=at - grace, count=MAX_COUNTED
            )
        return count

    async def purge_block(
        self, tx: Transaction, tenant_id: UUID, block_id: str, *, at: datetime, by: str, dry_run: bool
    ) -> PurgeReceipt:
        """Remove a deleted block for good. The caller rolls a dry run back. Raises BlockNotFound, BlockNotDeleted."""
        block_row = await tx.row(QUERIES["lock_blocks"], tenant_id=tenant_id, block_ids=[block_id])
        if block_row is None:
            raise BlockNotFound
        if block_row["is_active"]:
            raise BlockNotDeleted
        receipt_id = new_id(at)
        purged = await block_purge.purge_blocks(tx, tenant_id, None, [block_id], receipt_id, at=at, by=by)
        return PurgeReceipt(
            receipt_id=receipt_id,
            purge_time=at,
            memory_ids=(),
            deleted_counts=purged.counts,
            dry_run=dry_run,
            block_ids=(block_id,),
        )

    async def _purge_pages(
        self, tx: Transaction, tenant_id: UUID, subject_id: str | None, memory_ids: list[UUID], *, at: datetime, by: str
    ) -> Counter[str]:
        """Purge the pages about a person and about entities; return the rows by table."""
        counts = Counter(await pages.purge_pages(tx, tenant_id, subject_id, memory_ids, at=at, by=by))
        if counts:
            await self._quotas.charge(tx, tenant_id, {"pages": -counts["memory.pages"]})
        return counts

    async def _purge_blocks(
        self, tx: Transaction, tenant_id: UUID, selection: Selection, receipt: PurgeReceipt, *, by: str
    ) -> tuple[PurgeReceipt, str | None]:
        """Purge some of the blocks about a person; return the receipt with them, and the next cursor."""
        await tombstones.write_subject(tx, tenant_id, selection.subject_id, at=receipt.purge_time)
        page_counts = await self._purge_pages(tx, tenant_id, selection.subject_id, [], at=receipt.purge_time, by=by)
        receipt = replace(receipt, deleted_counts=Counter(receipt.deleted_counts) + page_counts)
        block_ids, after = await block_purge.list_blocks_of_subject(
            tx, tenant_id, selection.subject_id, after=selection.blocks_after or "", count=selection.count
        )
        if not block_ids:
            return receipt, None
        result = await block_purge.purge_blocks(
            tx, tenant_id, selection.subject_id, block_ids, receipt.receipt_id, at=receipt.purge_time, by=by
        )
        await self._quotas.charge(tx, tenant_id, {"blocks": -result.active_count})
        counts = Counter(receipt.deleted_counts) + Counter(result.counts)
        return replace(receipt, deleted_counts=counts, block_ids=tuple(result.block_ids)), after

    async def _purge_lineage(
        self, tx: Transaction, tenant_id: UUID, selection: Selection, receipt: PurgeReceipt, *, by: str
    ) -> tuple[PurgeReceipt, list[UUID]]:
        """Purge memories that were made of a person's items, and what was made of these, as far as a call may.

        Return the receipt with them, and the memories about other people, which remain. Memories in cold storage are
        left to the next call.
        """
        remaining_ids: list[UUID] = []
        while (count := selection.count - len(receipt.memory_ids)) > 0:
            rows = await tx.rows(QUERIES["list_lineage_purges"], tenant_id=tenant_id, count=count)
            listed_ids = [row["memory_id"] for row in rows]
            memories = await writes.lock_memories(tx, tenant_id, listed_ids)
            rows = await tx.rows(QUERIES["read_archived_subjects"], tenant_id=tenant_id, memory_ids=listed_ids)
            subjects = {row["memory_id"]: row["subject_id"] for row in rows}
            subjects |= {id_: memory.draft.subject_id for id_, memory in memories.items()}
            about_others = [id_ for id_ in listed_ids if subjects.get(id_) not in (None, selection.subject_id)]
            purged_ids = [id_ for id_ in listed_ids if id_ in memories and id_ not in about_others]
            archived_ids = subjects.keys() - set(about_others) - set(purged_ids)
            done_ids = [id_ for id_ in listed_ids if id_ not in archived_ids]
            if not done_ids:
                break
            await tx.execute(QUERIES["delete_lineage_purges"], tenant_id=tenant_id, memory_ids=done_ids)
            receipt = await self._purge(tx, tenant_id, purged_ids, receipt, by=by, person_id=selection.subject_id)
            remaining_ids += about_others
        return receipt, remaining_ids

    async def _purge(
        self, tx: Transaction, tenant_id: UUID, memory_ids: list[UUID], receipt: PurgeReceipt, *, by: str,
        cause: str = "", person_id: str = "",
    ) -> PurgeReceipt:  # fmt: skip
        """Remove locked memories, with every copy of their content; return the receipt with them.

        With a person, the purge follows what was made of the memories, and their aliases. Tombstones are inserted,
        unless there is another `cause` than a requested erasure.
        """
        at, receipt_id, counts = receipt.purge_time, receipt.receipt_id, Counter(receipt.deleted_counts)
        if memory_ids:
            links_before = counts["memory.links"]
            active_count = len(await tx.rows(QUERIES["find_active"], tenant_id=tenant_id, memory_ids=memory_ids))
            first_known = await tx.rows(QUERIES["find_first_known"], tenant_id=tenant_id, memory_ids=memory_ids)
            await record_purge(tx, tenant_id, [row["known_time"] for row in first_known], at=at)
            if not cause:
                await tombstones.insert_memories(tx, tenant_id, memory_ids, at=at)
                await access_log_erasure.clear_queries(tx, tenant_id, memory_ids)
            await postings.subtract_counts(tx, tenant_id, memory_ids)
            if person_id:
                await access_log_erasure.clear_entities(tx, tenant_id, person_id, memory_ids)
            await lineage.mark_erased(tx, tenant_id, memory_ids, with_person=bool(person_id))
            await tx.stop_history()
            for table, query in CONTENT_TABLES.items():
                counts[table] += await tx.execute(query, tenant_id=tenant_id, memory_ids=memory_ids)
            await postings.purge_history(tx, tenant_id, memory_ids)
            counts["memory.requests"] += await tx.execute(
                QUERIES["clear_responses"],
                tenant_id=tenant_id,
                since_time=at - LIFETIME,
                names=[str(id_) for id_ in memory_ids],
                spared=list(KEPT_RESPONSE_TYPES),
            )
            space_ids = {row["memory_id"]: row["space_id"] for row in first_known}
            await writer.insert_events(tx, tenant_id, purge_events(space_ids, receipt_id, cause=cause), at=at, by=by)
            counts += await self._purge_pages(tx, tenant_id, None, memory_ids, at=at, by=by)
            await self._quotas.charge(
                tx, tenant_id, {"memories": -active_count, "links": links_before - counts["memory.links"]}
            )
        return replace(receipt, memory_ids=(*receipt.memory_ids, *memory_ids), deleted_counts=+counts)


async def _purge_former_versions(
    tx: Transaction, tenant_id: UUID, selection: Selection, receipt: PurgeReceipt
) -> tuple[PurgeReceipt, list[UUID]]:
    """Purge what other memories were, while they were about the person; return the receipt with the rows, and them.

    All former rows of these memories leave the search index, and their copies leave snapshots, because neither shows
    whom it was about. Each batch deletes the rows that it was found by.
    """
    counts, former_ids = Counter(receipt.deleted_counts), list[UUID]()
    key = {"tenant_id": tenant_id, "subject_id": selection.subject_id}
    await tx.stop_history()
    while rows := await tx.rows(QUERIES["find_formerly_about"], **key, count=_FORMER_BATCH_SIZE):
        memory_ids = [row["memory_id"] for row in rows]
        former_ids += memory_ids
        # A change that waits for the lock would keep another copy.
        await writes.lock_memories(tx, tenant_id, memory_ids)
        counts["memory.versions"] += await tx.execute(
            QUERIES["purge_versions_of_subject"], **key, memory_ids=memory_ids
        )
        counts["memory.snapshot_items"] += await tx.execute(
            QUERIES["purge_memory_snapshot_items"], tenant_id=tenant_id, memory_ids=memory_ids
        )
        counts["memory.requests"] += await tx.execute(
            QUERIES["clear_responses"],
            tenant_id=tenant_id,
            since_time=receipt.purge_time - LIFETIME,
            names=[str(id_) for id_ in memory_ids],
            spared=list(KEPT_RESPONSE_TYPES),
        )
        await postings.purge_history(tx, tenant_id, memory_ids)
    return replace(receipt, deleted_counts=+counts), former_ids


async def _select(
    tx: Transaction, tenant_id: UUID, selection: Selection, *, at: datetime
) -> tuple[listing_store.MatchingIds, list[str]]:
    """Find the selected memories and, for the first page, the names without a memory."""
    if selection.blocks_after is not None or selection.is_table_done:
        return _NOTHING, []
    if not selection.names:
        matching = await listing_store.find(
            tx, tenant_id, selection.filter, after=selection.after, count=selection.count, at=at
        )
        return matching, []
    rows = await names.read_by_names(tx, QUERIES["find_first_known"], tenant_id, selection.names)
    memory_ids = [row["memory_id"] for row in rows.values()]
    matching = await listing_store.filter_ids(
        tx, tenant_id, selection.filter, memory_ids, after=selection.after, count=selection.count, at=at
    )
    missing = [name for name in dict.fromkeys(selection.names) if name not in rows] if selection.after is None else []
    return matching, missing


async def _purge_pending(
    tx: Transaction, tenant_id: UUID, selection: Selection, receipt: PurgeReceipt
) -> tuple[PurgeReceipt, set[str]]:
    """Purge what waits for approval and is selected; return the receipt with it, and its names in the selection.

    Writes that wait are selected by the names of their memories, by subject, session and agent. A filter of other
    fields selects none. Saved responses hold nothing of them.
    """
    values = selection.filter.equal_values(_PENDING_FIELDS)
    if values is None:
        return receipt, set()
    ids = {name: id_ for name in selection.names if (id_ := parse_id(name)) is not None}
    rows = await tx.rows(
        QUERIES["purge_selected_pending_memories"],
        tenant_id=tenant_id,
        names=list(selection.names) or None,
        memory_ids=list(ids.values()),
        **{column: values.get(name) for name, column in _PENDING_FIELDS.items()},
    )
    purged = {row["memory_id"] for row in rows} | {row["external_id"] for row in rows}
    counts = Counter(receipt.deleted_counts) + Counter({"memory.pending_memories": len(rows)})
    names = {name for name in selection.names if name in purged or ids.get(name) in purged - {None}}
    return replace(receipt, deleted_counts=counts), names


async def _has_newer_archive(tx: Transaction, tenant_id: UUID, selection: Selection) -> bool:
    """Return whether memories were archived after cold storage was scanned: some may be selected."""
    if selection.newest_archive_id is None:
        return False
    keys = {"tenant_id": tenant_id, "archive_id": selection.newest_archive_id}
    return bool(await tx.value(QUERIES["has_newer_archive"], **keys))


async def _without_archived(tx: Transaction, tenant_id: UUID, missing: Sequence[str]) -> list[str]:
    """Return the names that no archived memory has either."""
    ids = [id_ for name in missing if (id_ := parse_id(name)) is not None]
    rows = await tx.rows(QUERIES["find_archived"], tenant_id=tenant_id, memory_ids=ids, external_ids=list(missing))
    archived_names = {row["memory_id"] for row in rows} | {row["external_id"] for row in rows}
    return [name for name in missing if name not in archived_names and (parse_id(name) or name) not in archived_names]


async def _lock_matching(
    tx: Transaction, tenant_id: UUID, filter_: Filter, memory_ids: Sequence[UUID], *, at: datetime
) -> list[UUID]:
    """Lock memories; return those that still match, as another transaction may have changed some."""
    if not memory_ids:
        return []
    await tx.rows(QUERIES["lock_memories"], tenant_id=tenant_id, memory_ids=sorted(memory_ids))
    matching_ids = await listing_store.matching_ids(tx, tenant_id, filter_.condition(at), memory_ids)
    return [id_ for id_ in memory_ids if id_ in matching_ids]
