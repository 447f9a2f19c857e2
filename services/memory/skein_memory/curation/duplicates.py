"""Groups of duplicates, found by scanning fingerprints. Only memories with the same readers are grouped."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby
from uuid import UUID

import asyncpg

from skein_kit.database.transactions import Transaction
from skein_memory.memories import model as memories_model
from skein_memory.memories.model import FIRST_WITHOUT_KEY, Memory, draft_audience
from skein_memory.queries import QUERIES

MIN_GROUP_SIZE = 2
# Fingerprints that one call scans; memories of one group that it merges, and of all groups.
_FINGERPRINTS_BATCH_SIZE = 2000
_MAX_GROUP_SIZE = 20
_MAX_GROUPED = 200
_LAST = UUID(int=(1 << 128) - 1)
# The key of a group: a fingerprint, and the readers.
DuplicateKey = tuple[UUID, tuple[str | None, ...]]


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
