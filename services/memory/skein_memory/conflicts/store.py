"""Conflicts in the database: listed in batches, and resolved."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Self
from uuid import UUID

from skein_kit.database.transactions import Database, Transaction
from skein_kit.errors import FieldInvalid
from skein_kit.ids import new_id
from skein_kit.policies.store import PolicyCache
from skein_kit.quotas.store import QuotaCounter
from skein_memory.conflicts import candidate_scan
from skein_memory.conflicts.candidate_scan import BEGINNING, END, ConflictFilter, Pair, ScanPosition, sorted_pair
from skein_memory.conflicts.model import Conflict, Resolution, ResolutionDraft, pair_key
from skein_memory.errors import CanonicalNotInPair, MemoryNotFound
from skein_memory.events import writer
from skein_memory.events.model import Event
from skein_memory.events.writer import Revision
from skein_memory.lineage import store as lineage
from skein_memory.links import store as link_store
from skein_memory.links.model import Link
from skein_memory.listing import store as listing_store
from skein_memory.memories import names, writes
from skein_memory.memories.model import Memory
from skein_memory.memories.rows import with_scores
from skein_memory.queries import QUERIES
from skein_memory.tenant_reader import TenantReader

_KIND = "conflict"
_LAST = UUID(int=(1 << 128) - 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class ConflictCursor:
    """Where a page begins: the start of a batch of the scan, its end if known, and the last listed pair."""

    start: ScanPosition = BEGINNING
    end: ScanPosition | None = None
    after: tuple[float, Pair] | None = None

    @property
    def to_token(self) -> list[str]:
        """Return it as the parts of a page token."""
        end = [""] * len(self.start.to_token) if self.end is None else self.end.to_token
        after = ["", "", ""] if self.after is None else [repr(self.after[0]), *map(str, self.after[1])]
        return [*self.start.to_token, *end, *after]

    @classmethod
    def of(cls, parts: Sequence[str]) -> Self | None:
        """Read a page token; None when it is invalid."""
        try:
            start, end, (score, a, b) = parts[:4], parts[4:8], parts[8:]
            return cls(
                start=ScanPosition.of(start),
                end=ScanPosition.of(end) if any(end) else None,
                after=(float(score), (UUID(a), UUID(b))) if score else None,
            )
        except ValueError:
            return None


@dataclass(frozen=True, kw_only=True, slots=True)
class ConflictBatch:
    """Some conflicts of a batch, each with its rank there."""

    conflicts: Sequence[tuple[Conflict, tuple[float, Pair]]]
    # The cursor after all of them; None at the end.
    after: ConflictCursor | None
    batch: ConflictCursor

    def cursor_after(self, count: int) -> ConflictCursor | None:
        """Return the cursor after the first `count` conflicts; None at the end."""
        if count == len(self.conflicts):
            return self.after
        return replace(self.batch, after=self.conflicts[count - 1][1] if count else self.batch.after)


class ConflictStore:
    """Finds conflicts, and reads and writes their resolutions."""

    def __init__(self, database: Database, *, quotas: QuotaCounter, policies: PolicyCache) -> None:
        self._database = database
        self._quotas = quotas
        self._policies = policies

    async def find_conflicts(
        self,
        tenant_id: UUID,
        conflict_filter: ConflictFilter,
        cursor: ConflictCursor,
        *,
        count: int,
        at: datetime,
        as_of_time: datetime | None,
    ) -> ConflictBatch:
        """Return the first `count` conflicts of a batch after the cursor, the highest confidence first, as of a time.

        Raises NotKnownThen and HistoryNotKept.
        """
        async with TenantReader.open(self._database, tenant_id, at=at, as_of_time=as_of_time) as reader:
            candidates, end = await candidate_scan.scan_candidates(reader, conflict_filter, cursor.start, cursor.end)
            resolutions = await _resolutions(reader, [candidate.pair for candidate in candidates])
            candidates_after = sorted(
                (
                    candidate
                    for candidate in candidates
                    if _status(resolutions.get(candidate.pair)) in conflict_filter.statuses
                    and (cursor.after is None or candidate.rank > cursor.after)
                ),
                key=lambda candidate: candidate.rank,
            )
            page = candidates_after[:count]
            memory_ids = sorted({id_ for candidate in page for id_ in candidate.pair})
            read_memories = await listing_store.read(reader.tx, tenant_id, memory_ids, as_of_time)
            if as_of_time is None:
                read_memories = await with_scores(reader.tx, tenant_id, self._policies, read_memories, at=at)
        memories = {memory.memory_id: memory for memory in read_memories}
        batch = replace(cursor, end=end)
        after = None if end == END else ConflictCursor(start=end)
        return ConflictBatch(
            conflicts=[
                (
                    Conflict(
                        a=memories[candidate.pair[0]],
                        b=memories[candidate.pair[1]],
                        reason=candidate.reason,
                        score=candidate.score,
                        resolution=resolutions.get(candidate.pair),
                    ),
                    candidate.rank,
                )
                for candidate in page
                if memories.keys() >= set(candidate.pair)
            ],
            after=replace(batch, after=page[-1].rank) if len(candidates_after) > count else after,
            batch=batch,
        )

    async def resolve_conflict(
        self, tx: Transaction, tenant_id: UUID, draft: ResolutionDraft, *, at: datetime, by: str
    ) -> Resolution:
        """Replace the resolution of a conflict.

        Raises MemoryNotFound, CanonicalNotInPair, FieldInvalid and QuotaExceeded.
        """
        pair, canonical_id = await _find_pair(tx, tenant_id, draft, at=at)
        # Concurrent resolutions of the same pair wait here.
        memories = await writes.lock_memories(tx, tenant_id, pair)
        if not all(id_ in memories and memories[id_].is_visible(at) for id_ in pair):
            raise MemoryNotFound
        before = (await _resolutions(TenantReader(tx=tx, tenant_id=tenant_id, at=at), [pair])).get(pair)
        last_revision = 0 if before else await writer.last_revision(tx, tenant_id, _KIND, pair_key(*pair))
        after = draft.to_resolution(before, last_revision, pair, canonical_id, (None, None), at=at, by=by)
        after, links = await _apply_resolution(tx, tenant_id, memories, before, after, at=at, by=by)
        if before is not None:
            await writer.insert_revisions(tx, tenant_id, [revision_of(before, at)])
        await tx.execute(QUERIES["put_resolution"], tenant_id=tenant_id, **asdict(after))
        await writer.insert_events(tx, tenant_id, [_event(after)], at=at, by=by)
        await self._quotas.charge(tx, tenant_id, {"links": links})
        return after

    async def list_resolutions(
        self, tenant_id: UUID, status: str | None, *, before: UUID | None, count: int, at: datetime
    ) -> list[Resolution]:
        """Read up to `count` resolutions older than `before`, newest first, without those of expired memories."""
        resolutions: list[Resolution] = []
        query, last = QUERIES["list_resolutions"], before or _LAST
        async with self._database.transaction(tenant_id) as tx:
            while len(resolutions) < count:
                rows = await tx.rows(query, tenant_id=tenant_id, status=status, before_id=last, count=count)
                if not rows:
                    break
                memory_ids = {row[column] for row in rows for column in ("a_memory_id", "b_memory_id")}
                expired = await names.find_hidden(tx, tenant_id, memory_ids, at=at)
                resolutions += [
                    Resolution(**dict(row))
                    for row in rows
                    if expired.isdisjoint({row["a_memory_id"], row["b_memory_id"]})
                ]
                if len(rows) < count:
                    break
                last = rows[-1]["resolution_id"]
        return resolutions[:count]


def _status(resolution: Resolution | None) -> str | None:
    return None if resolution is None else resolution.status


async def _resolutions(reader: TenantReader, pairs: Sequence[tuple[UUID, UUID]]) -> dict[tuple[UUID, UUID], Resolution]:
    rows = await reader.rows(
        "get_resolutions",
        a_ids=[pair[0] for pair in pairs],
        b_ids=[pair[1] for pair in pairs],
    )
    return {(row["a_memory_id"], row["b_memory_id"]): Resolution(**dict(row)) for row in rows}


async def _find_pair(
    tx: Transaction, tenant_id: UUID, draft: ResolutionDraft, *, at: datetime
) -> tuple[tuple[UUID, UUID], UUID | None]:
    memory_names = [draft.a_name, draft.b_name, *([draft.canonical_name] if draft.canonical_name else [])]
    rows = await names.read_by_names(tx, QUERIES["find_visible"], tenant_id, memory_names, at=at)
    if not rows.keys() >= {draft.a_name, draft.b_name}:
        raise MemoryNotFound
    a_id, b_id = rows[draft.a_name]["memory_id"], rows[draft.b_name]["memory_id"]
    if a_id == b_id:
        raise FieldInvalid(violations=[("b_memory_id", "names the same memory as a_memory_id")])
    canonical_row = None if draft.canonical_name is None else rows.get(draft.canonical_name)
    if draft.canonical_name is not None and (canonical_row is None or canonical_row["memory_id"] not in {a_id, b_id}):
        raise CanonicalNotInPair
    return sorted_pair(a_id, b_id), None if canonical_row is None else canonical_row["memory_id"]


async def _apply_resolution(
    tx: Transaction,
    tenant_id: UUID,
    memories: Mapping[UUID, Memory],
    before: Resolution | None,
    after: Resolution,
    *,
    at: datetime,
    by: str,
) -> tuple[Resolution, int]:
    """Create the link and end the validity that follow from a resolution, and undo those of the one before.

    Return the resolution with these effects, and the change of the number of links.
    """
    if before is not None and before.canonical_memory_id == after.canonical_memory_id:
        return replace(after, link_id=before.link_id, closed_time=before.closed_time), 0
    link_delta = 0
    if before is not None and before.link_id is not None:
        link_delta -= len(await link_store.remove(tx, tenant_id, [before.link_id], at=at, by=by))
    if before is not None and before.closed_time is not None and before.other_memory_id is not None:
        other_memory = memories[before.other_memory_id]
        if other_memory.draft.valid_to_time == before.closed_time:
            await _set_validity_end(tx, tenant_id, other_memory, None, at=at, by=by)
    canonical_id, other_id = after.canonical_memory_id, after.other_memory_id
    if canonical_id is None or other_id is None:
        return after, link_delta
    link = Link.create(canonical_id, other_id, "supersedes", new_id(at), time=after.update_time, at=at, by=by)
    new_links = await link_store.insert(tx, tenant_id, [link], at=at, by=by)
    draft = memories[other_id].draft
    closed_time = None
    # A distrusted principal's resolution ends the validity of nothing, as its link hides nothing.
    if draft.valid_to_time is None and not await lineage.is_distrusted(tx, tenant_id, by):
        end_time = after.update_time
        closed_time = end_time if draft.valid_from_time is None else max(end_time, draft.valid_from_time)
        await _set_validity_end(tx, tenant_id, memories[other_id], closed_time, at=at, by=by, keeps_time=end_time != at)
    return replace(after, link_id=link.link_id if new_links else None, closed_time=closed_time), link_delta + len(
        new_links
    )


async def _set_validity_end(
    tx: Transaction,
    tenant_id: UUID,
    memory: Memory,
    end: datetime | None,
    *,
    at: datetime,
    by: str,
    keeps_time: bool = False,
) -> None:
    """Set the end of a memory's validity; an imported resolution keeps its update_time."""
    after = memory.revise(replace(memory.draft, valid_to_time=end), at=at, by=by)
    if keeps_time:
        after = replace(after, update_time=memory.update_time)
    await writes.update_memory(tx, tenant_id, memory, after, at=at)


def revision_of(before: Resolution, until: datetime) -> Revision:
    """Return the revision that is stored when a resolution changes or is deleted."""
    canonical = before.canonical_memory_id
    columns = {
        "status": before.status,
        "canonical_memory_id": None if canonical is None else str(canonical),
        "note": before.note,
    }
    return Revision(
        kind=_KIND,
        item_id=pair_key(before.a_memory_id, before.b_memory_id),
        revision=before.revision,
        state=json.dumps(columns, ensure_ascii=False, separators=(",", ":")),
        from_time=before.update_time,
        until_time=until,
        changed_by=before.updated_by,
        memory_id=before.a_memory_id,
        other_memory_id=before.b_memory_id,
    )


def _event(resolution: Resolution) -> Event:
    payload: dict[str, object] = {"status": resolution.status, "revision": resolution.revision}
    if resolution.canonical_memory_id is not None:
        payload["canonical_memory_id"] = str(resolution.canonical_memory_id)
    return Event(
        type="memory_conflict_resolved",
        entity_type=_KIND,
        entity_id=pair_key(resolution.a_memory_id, resolution.b_memory_id),
        summary=f"conflict {resolution.status.replace('_', ' ')}",
        payload=payload,
    )
