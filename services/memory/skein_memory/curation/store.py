"""Curation in the database: reinforce, decay, merge and consolidate, each in one transaction of bounded size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from uuid import UUID

import asyncpg

from skein_kit.database.transactions import Database, Transaction
from skein_kit.database.tx_options import READ_ONLY
from skein_kit.identity.spaces import Spaces
from skein_kit.ids import new_ids
from skein_kit.jobs.model import MAX_COUNTED
from skein_kit.policies.store import PolicyCache
from skein_kit.quotas.store import QuotaCounter
from skein_kit.search_text.postings import Document
from skein_memory.curation import model as curation
from skein_memory.errors import MemoryNotFound, MergeTooLarge, SpacesDiffer
from skein_memory.lineage import store as lineage
from skein_memory.lineage.model import MAX_STORED_SOURCES, Source
from skein_memory.links import store as link_store
from skein_memory.links.model import Link
from skein_memory.memories import model as memories_model
from skein_memory.memories import names, writes
from skein_memory.memories import rows as memory_rows
from skein_memory.memories.model import FIRST_WITHOUT_KEY, Memory, draft_audience
from skein_memory.memories.rows import with_scores
from skein_memory.queries import QUERIES
from skein_memory.scoring import model as scoring_model
from skein_memory.scoring.inputs import NO_INPUTS, read_score_inputs
from skein_memory.scoring.model import Explanation

# Neighbours that one call reinforces.
MAX_NEIGHBOURS = 50
# Links that one merge moves.
MAX_LINKS = 500
FIRST = UUID(int=0)
MIN_GROUP_SIZE = 2
# Fingerprints that one call scans; memories of one group that it merges, and of all groups.
_FINGERPRINTS_BATCH_SIZE = 2000
_MAX_GROUP_SIZE = 20
_MAX_GROUPED = 200
_LAST = UUID(int=(1 << 128) - 1)
# The key of a group: a fingerprint, and the readers.
DuplicateKey = tuple[UUID, tuple[str | None, ...]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Reinforcement:
    """The increase of a memory's scores, and the part of it for its neighbours."""

    confidence: float
    importance: float
    spread: float


@dataclass(frozen=True, kw_only=True, slots=True)
class DuplicateGroup:
    """A group of duplicates: the one that is kept, and those that are archived."""

    kept_id: UUID
    archived_ids: tuple[UUID, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class MergeResult:
    """A merged memory, the memories that it replaces, and the documents that need embeddings."""

    memory: Memory
    archived_ids: tuple[UUID, ...]
    moved_links: int
    documents: list[Document]


class CurationStore:
    """Reinforces, decays, merges and consolidates memories, and explains their scores."""

    def __init__(self, database: Database, *, quotas: QuotaCounter, policies: PolicyCache) -> None:
        self._database = database
        self._quotas = quotas
        self._policies = policies

    async def explain(self, tenant_id: UUID, name: str, *, at: datetime) -> tuple[UUID, Explanation]:
        """Return a memory's id and its scores, term by term, at the time `at`. Raises MemoryNotFound."""
        async with self._database.transaction(tenant_id) as tx:
            rows = await names.read_by_names(tx, QUERIES["get_memories"], tenant_id, [name])
            memory = memory_rows.memory_of(rows[name]) if name in rows else None
            if memory is None or not memory.is_visible(at):
                raise MemoryNotFound
            inputs = (await read_score_inputs(tx, tenant_id, [memory])).get(memory.memory_id, NO_INPUTS)
            formula = (await self._policies.get(tx, tenant_id)).importance_formula
        return memory.memory_id, scoring_model.explain(memory, inputs, formula=formula, at=at)

    async def reinforce(
        self, tx: Transaction, tenant_id: UUID, name: str, reinforcement: Reinforcement, *, at: datetime, by: str
    ) -> tuple[list[Memory], bool]:
        """Raise the scores of a memory and its neighbours, except those that contradict it.

        Return the memory, then its neighbours, and whether it has more. Raises MemoryNotFound.
        """
        memory_id = (await names.find_visible(tx, tenant_id, [name], at=at))[name]
        neighbours, has_more = await _read_neighbours(tx, tenant_id, memory_id) if reinforcement.spread else ([], False)
        memories = await writes.lock_memories(tx, tenant_id, [memory_id, *neighbours])
        if memory_id not in memories or not memories[memory_id].is_visible(at):
            raise MemoryNotFound
        results = []
        for id_, share in ((memory_id, 1.0), *((id_, reinforcement.spread) for id_ in neighbours)):
            before = memories.get(id_)
            if before is None or not before.is_visible(at):
                continue
            confidence, importance = share * reinforcement.confidence, share * reinforcement.importance
            after = curation.reinforce(before, confidence=confidence, importance=importance, at=at, by=by)
            if after.draft != before.draft:
                await writes.update_memory(tx, tenant_id, before, after, at=at, event="memory_reinforced")
            results.append(after if after.draft != before.draft else before)
        return results, has_more

    async def reinforce_alone(self, tx: Transaction, tenant_id: UUID, memory: Memory, at: datetime, by: str) -> Memory:
        """Raise the scores of a memory by the defaults, not those of its neighbours; return it with its scores."""
        reinforcement = Reinforcement(
            confidence=curation.REINFORCE_CONFIDENCE, importance=curation.REINFORCE_IMPORTANCE, spread=0.0
        )
        memories, _ = await self.reinforce(tx, tenant_id, str(memory.memory_id), reinforcement, at=at, by=by)
        (scored,) = await memory_rows.with_scores(tx, tenant_id, self._policies, memories, at=at)
        return scored

    async def decay(self, tx: Transaction, tenant_id: UUID, *, limit: int, at: datetime, by: str) -> tuple[int, bool]:
        """Lower the scores of up to `limit` idle memories, once for each period.

        Return how many memories decayed, and whether more may be due.
        """
        days = (await self._policies.get(tx, tenant_id)).decay_days
        return await _decay(tx, tenant_id, days, limit=limit, at=at, by=by)

    async def decay_batch(self, tenant_id: UUID, *, limit: int, at: datetime, by: str) -> tuple[int, bool]:
        """Do the same in a transaction of its own."""
        async with self._database.transaction(tenant_id) as tx:
            return await self.decay(tx, tenant_id, limit=limit, at=at, by=by)

    async def count_idle(self, tenant_id: UUID, at: datetime) -> int:
        """Count the memories whose decay is due, up to MAX_COUNTED."""
        async with self._database.transaction(tenant_id) as tx:
            before = at - curation.period((await self._policies.get(tx, tenant_id)).decay_days)
            count: int = await tx.value(
                QUERIES["count_idle"], tenant_id=tenant_id, before=before, at=at, count=MAX_COUNTED
            )
        return count

    async def merge(
        self,
        tx: Transaction,
        tenant_id: UUID,
        memory_names: Sequence[str],
        *,
        max_content: int,
        at: datetime,
        by: str,
    ) -> MergeResult:
        """Merge memories into the first of them.

        Raises MemoryNotFound, ReadersWidened, ContentTooLong, MergeTooLarge and QuotaExceeded.
        """
        ids_by_name = await names.find_visible(tx, tenant_id, memory_names, at=at)
        # Two names may belong to one memory.
        ids = list(dict.fromkeys(ids_by_name[name] for name in memory_names))
        locked = await writes.lock_memories(tx, tenant_id, ids)
        if not all(id_ in locked and locked[id_].is_visible(at) for id_ in ids):
            raise MemoryNotFound
        memories = [locked[id_] for id_ in ids]
        after = curation.merge(memories, max_content=max_content, at=at, by=by)
        origin = await lineage.own_origin(tx, tenant_id, ids[0], at=at)
        documents = await writes.update_memory(tx, tenant_id, memories[0], after, at=at, event="memory_merged")
        parts = [*origin, *(Source(kind="memory", source_id=id_) for id_ in ids[1:])]
        await lineage.add_sources(tx, tenant_id, ids[0], parts, at=at, max_count=MAX_STORED_SOURCES)
        await writes.archive_memories(tx, tenant_id, memories[1:], event="memory_merged", at=at, by=by)
        moved_count, link_delta = await _move_links(tx, tenant_id, ids[0], ids[1:], at=at, by=by)
        link_delta += await _supersede(tx, tenant_id, [(ids[0], id_) for id_ in ids[1:]], at=at, by=by)
        (merged,) = await with_scores(tx, tenant_id, self._policies, [after], at=at)
        await self._quotas.charge(tx, tenant_id, {"links": link_delta})
        return MergeResult(memory=merged, archived_ids=tuple(ids[1:]), moved_links=moved_count, documents=documents)

    async def check_same_space(self, tenant_id: UUID, memory_names: Sequence[str], spaces: Spaces) -> None:
        """Raise SpacesDiffer for memories that lie in different ones of the spaces that the caller sees."""
        if len(spaces) < 2:  # noqa: PLR2004 - two differ.
            return
        async with self._database.transaction(tenant_id, READ_ONLY) as tx:
            await tx.set_spaces([space_id for space_id, _ in spaces])
            rows = await names.read_by_names(tx, QUERIES["find_spaces"], tenant_id, memory_names)
        if len(rows) == len(set(memory_names)) and len({row["space_id"] for row in rows.values()}) > 1:
            raise SpacesDiffer

    async def consolidate(
        self, tx: Transaction, tenant_id: UUID, *, after: UUID, max_groups: int, dry_run: bool, at: datetime, by: str
    ) -> tuple[list[DuplicateGroup], UUID | None]:
        """Keep one memory of each group of duplicates, and archive the others.

        A group has the same readers, has not expired and does not contradict itself. Scan a bounded number of memories
        with fingerprints above `after`; return the groups, and where the next call continues, None at the end. A
        `dry_run` changes nothing, and of very many groups with one fingerprint names only some. Raises QuotaExceeded.
        """
        candidates, cursor, contradictions = await find_groups(tx, tenant_id, after, max_groups, at=at, dry_run=dry_run)
        ids = [id_ for _, members in candidates for id_ in members]
        read = memory_rows.read_memories if dry_run else writes.lock_memories
        memories = await read(tx, tenant_id, ids) if ids else {}
        distrusted_ids = await lineage.find_distrusted(tx, tenant_id, ids)
        groups: list[DuplicateGroup] = []
        for key, members in candidates:
            current_members = [memories[id_] for id_ in members if is_still_member(memories.get(id_), key, at)]
            for group in curation.split_contradictions(current_members, contradictions):
                if len(group) >= MIN_GROUP_SIZE:
                    # A distrusted memory replaces none that is not.
                    trusted = [memory for memory in group if memory.memory_id not in distrusted_ids]
                    best = curation.best_duplicate(trusted or group)
                    archived_ids = tuple(memory.memory_id for memory in group if memory is not best)
                    groups.append(DuplicateGroup(kept_id=best.memory_id, archived_ids=archived_ids))
        links = 0
        if not dry_run:
            archived_memories = [memories[id_] for group in groups for id_ in group.archived_ids]
            await writes.archive_memories(tx, tenant_id, archived_memories, event="memory_consolidated", at=at, by=by)
            pairs = [(group.kept_id, id_) for group in groups for id_ in group.archived_ids]
            links = await _supersede(tx, tenant_id, pairs, at=at, by=by)
            for kept in groups:
                await _record_duplicates(tx, tenant_id, memories, kept, at=at)
        await self._quotas.charge(tx, tenant_id, {"links": links})
        return groups, cursor


async def _record_duplicates(
    tx: Transaction, tenant_id: UUID, memories: Mapping[UUID, Memory], group: DuplicateGroup, *, at: datetime
) -> None:
    """Store which memories the kept one stands for: those with its text confirm it, the others are only named."""
    kept_hash = memories[group.kept_id].draft.content_hash
    sources = [
        Source(
            kind="memory",
            source_id=id_,
            role="repeat" if memories[id_].draft.content_hash == kept_hash else "replaced",
        )
        for id_ in group.archived_ids
    ]
    await lineage.add_sources(tx, tenant_id, group.kept_id, sources, at=at, max_count=MAX_STORED_SOURCES)


async def _read_neighbours(tx: Transaction, tenant_id: UUID, memory_id: UUID) -> tuple[list[UUID], bool]:
    rows = await tx.rows(QUERIES["list_neighbours"], tenant_id=tenant_id, memory_id=memory_id, count=MAX_NEIGHBOURS + 1)
    neighbour_ids = dict.fromkeys(row["other_id"] for row in rows[:MAX_NEIGHBOURS] if row["relation"] != "contradicts")
    return list(neighbour_ids), len(rows) > MAX_NEIGHBOURS


async def _decay(
    tx: Transaction, tenant_id: UUID, decay_days: int, *, limit: int, at: datetime, by: str
) -> tuple[int, bool]:
    before = at - curation.period(decay_days)
    idle_rows = await tx.rows(QUERIES["find_idle"], tenant_id=tenant_id, before=before, at=at, count=limit)
    memory_ids = [row["memory_id"] for row in idle_rows]
    if not memory_ids:
        return 0, False
    memories = await writes.lock_memories(tx, tenant_id, memory_ids)
    # Another worker may have changed some of them before the locks.
    rows = await tx.rows(QUERIES["read_idleness"], tenant_id=tenant_id, memory_ids=memory_ids)
    decayed_count = 0
    for row in rows:
        memory = memories.get(row["memory_id"])
        if memory is None or not memory.is_visible(at) or row["decay_time"] is None:
            continue
        state = curation.DecayState(since=row["decay_time"], periods=row["decay_periods"])
        last_access_time = row["last_access_time"]
        last_used = memory.update_time if last_access_time is None else max(memory.update_time, last_access_time)
        periods, next_state = state.due_periods(last_used, at, decay_days)
        after = curation.decay(memory, periods)
        if after.draft != memory.draft:
            await writes.update_memory(tx, tenant_id, memory, after, at=at, event="memory_decayed", by=by)
            decayed_count += 1
        await tx.execute(
            QUERIES["mark_decay"],
            tenant_id=tenant_id,
            memory_id=memory.memory_id,
            decay_time=None if next_state is None else next_state.since,
            decay_periods=curation.MAX_DECAY_PERIODS if next_state is None else next_state.periods,
        )
    return decayed_count, len(memory_ids) == limit


async def _supersede(
    tx: Transaction, tenant_id: UUID, pairs: Sequence[tuple[UUID, UUID]], *, at: datetime, by: str
) -> int:
    """Link each first memory to the second, which it supersedes; return how many links are new."""
    links = [
        Link.create(newer_id, older_id, "supersedes", id_, time=at, at=at, by=by)
        for id_, (newer_id, older_id) in zip(new_ids(at, len(pairs)), pairs, strict=True)
    ]
    return len(await link_store.insert(tx, tenant_id, links, at=at, by=by))


async def _move_links(
    tx: Transaction, tenant_id: UUID, target_id: UUID, memory_ids: Sequence[UUID], *, at: datetime, by: str
) -> tuple[int, int]:
    """Move the links of some memories to another one; return how many it got, and the change of their number.

    A moved link keeps its creator, whose rating counts for it. Links among these memories are removed, because they
    would link the other one to itself. Links that the other one has already are removed too.
    """
    rows = await tx.rows(
        QUERIES["find_links_of"], tenant_id=tenant_id, memory_ids=list(memory_ids), count=MAX_LINKS + 1
    )
    ids = {row["link_id"] for row in rows}
    if len(ids) > MAX_LINKS:
        raise MergeTooLarge(kind="links", limit=MAX_LINKS)
    removed_links = await link_store.remove(tx, tenant_id, sorted(ids), at=at, by=by)
    archived_ids = set(memory_ids)
    copies: dict[tuple[UUID, UUID, str], Link] = {}
    for id_, link in zip(new_ids(at, len(removed_links)), removed_links, strict=True):
        copy = replace(
            link,
            link_id=id_,
            from_memory_id=target_id if link.from_memory_id in archived_ids else link.from_memory_id,
            to_memory_id=target_id if link.to_memory_id in archived_ids else link.to_memory_id,
            create_time=at,
            revision=1,
            update_time=at,
            updated_by=by,
            record_time=at,
        )
        if copy.from_memory_id != copy.to_memory_id:
            copies.setdefault(copy.pair, copy)
    new_links = await link_store.insert(tx, tenant_id, list(copies.values()), at=at, by=by)
    return len(new_links), len(new_links) - len(removed_links)


async def find_groups(
    tx: Transaction, tenant_id: UUID, after: UUID, max_groups: int, *, at: datetime, dry_run: bool
) -> tuple[list[tuple[DuplicateKey, list[UUID]]], UUID | None, set[tuple[UUID, UUID]]]:
    """Return groups of duplicates with the same readers, and the fingerprint to continue after; None at the end.

    The third value are pairs of them that contradict each other, the lower id first.
    """
    rows = await tx.rows(
        QUERIES["walk_fingerprints"],
        tenant_id=tenant_id,
        after_fingerprint=after,
        after_id=_LAST,
        before_fingerprint=FIRST_WITHOUT_KEY,
        count=_FINGERPRINTS_BATCH_SIZE,
    )
    by_fingerprint = [(number, list(group)) for number, group in groupby(rows, key=lambda row: row["fingerprint"])]
    next_fingerprint: UUID | None = None
    if len(rows) == _FINGERPRINTS_BATCH_SIZE:
        # The last group may have more rows: the next call handles it, unless it is the only one.
        if len(by_fingerprint) > 1:
            by_fingerprint.pop()
        next_fingerprint = by_fingerprint[-1][0]
    candidates = [row["memory_id"] for _, group in by_fingerprint if len(group) >= MIN_GROUP_SIZE for row in group]
    contradictions = await _contradictions(tx, tenant_id, candidates)
    groups: list[tuple[DuplicateKey, list[UUID]]] = []
    grouped_count, last = 0, after
    for fingerprint, group in by_fingerprint:
        for audience, members in _group_duplicates(group, contradictions, at):
            if len(groups) == max_groups or grouped_count >= _MAX_GROUPED:
                return groups, last, contradictions
            groups.append(((fingerprint, audience), members[:_MAX_GROUP_SIZE]))
            grouped_count += len(groups[-1][1])
            if len(members) > _MAX_GROUP_SIZE and not dry_run:
                # The next call handles the rest of the group.
                return groups, last, contradictions
            if dry_run and (len(groups) == max_groups or grouped_count >= _MAX_GROUPED):
                # A dry run changes nothing, so the next call would return the same groups again.
                return groups, fingerprint, contradictions
        last = fingerprint
    return groups, next_fingerprint, contradictions


async def _contradictions(tx: Transaction, tenant_id: UUID, memory_ids: Sequence[UUID]) -> set[tuple[UUID, UUID]]:
    """Return the pairs of some memories that contradict each other by a link or an open conflict."""
    if not memory_ids:
        return set()
    rows = await tx.rows(QUERIES["find_disagreements"], tenant_id=tenant_id, memory_ids=list(memory_ids))
    return {(min(row["one_id"], row["other_id"]), max(row["one_id"], row["other_id"])) for row in rows}


def _group_duplicates(
    rows: Sequence[asyncpg.Record], contradictions: set[tuple[UUID, UUID]], at: datetime
) -> list[tuple[tuple[str | None, ...], list[UUID]]]:
    """Return groups of memories with the same readers that do not contradict each other, each with these readers.

    A group has two memories at least. Deleted and expired memories are left out.
    """
    # Memories with one key and different contents contradict each other. Different data makes different memories.
    groups_by_key: dict[tuple[tuple[str | None, ...], bytes | None], list[list[UUID]]] = {}
    for row in rows:
        if row["expire_time"] is not None and row["expire_time"] <= at:
            continue
        readers = {name: row[name] for name in ("agent_id", "subject_id", "session_id")}
        key = (memories_model.audience(row["scope"], **readers), row["content_hash"])
        groups, memory_id = groups_by_key.setdefault(key, []), row["memory_id"]
        for group in groups:
            if all((min(member_id, memory_id), max(member_id, memory_id)) not in contradictions for member_id in group):
                group.append(memory_id)
                break
        else:
            groups.append([memory_id])
    return [
        (key[0], members)
        for key, groups in groups_by_key.items()
        for members in groups
        if len(members) >= MIN_GROUP_SIZE
    ]


def is_still_member(memory: Memory | None, key: DuplicateKey, at: datetime) -> bool:
    """Return whether a memory still belongs to its group when it is read again."""
    return (
        memory is not None
        and memory.is_visible(at)
        and memory.draft.archive_time is None
        and (memory.draft.fingerprint, draft_audience(memory.draft)) == key
    )
