"""Groups of duplicates, found by scanning fingerprints. Only memories with the same readers are grouped."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING
from uuid import UUID

from skein_memory.memories import model as memories_model
from skein_memory.memories.hashes import FIRST_WITHOUT_KEY
from skein_memory.memories.model import draft_audience
from skein_memory.queries import QUERIES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    import asyncpg

    from skein_kit.database.transactions import Transaction
    from skein_memory.memories.model import Memory

FEWEST_ALIKE = 2
# Fingerprints that one call scans; memories of one group that it settles, and memories in all.
_FINGERPRINTS_BATCH_SIZE = 2000
_MAX_GROUP_SIZE = 20
_MAX_SETTLED = 200
_LAST = UUID(int=(1 << 128) - 1)
# What memories that say the same to the same share: a fingerprint, and who sees them.
DuplicateKey = tuple[UUID, tuple[str | None, ...]]


async def find_groups(
    tx: Transaction, tenant_id: UUID, after: UUID, most: int, *, at: datetime, dry_run: bool
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
    walked = [(number, list(group)) for number, group in groupby(rows, key=lambda row: row["fingerprint"])]
    place: UUID | None = None
    if len(rows) == _FINGERPRINTS_BATCH_SIZE:
        # The last group may go on behind what was read; it is settled next time, unless it is all there is.
        if len(walked) > 1:
            walked.pop()
        place = walked[-1][0]
    several = [row["memory_id"] for _, group in walked if len(group) >= FEWEST_ALIKE for row in group]
    contradictions = await _contradictions(tx, tenant_id, several)
    found: list[tuple[DuplicateKey, list[UUID]]] = []
    settled, last = 0, after
    for fingerprint, group in walked:
        for audience, members in _alike(group, contradictions, at):
            if len(found) == most or settled >= _MAX_SETTLED:
                return found, last, contradictions
            found.append(((fingerprint, audience), members[:_MAX_GROUP_SIZE]))
            settled += len(found[-1][1])
            if len(members) > _MAX_GROUP_SIZE and not dry_run:
                # Those that are left have their turn with the next call.
                return found, last, contradictions
            if dry_run and (len(found) == most or settled >= _MAX_SETTLED):
                # Nothing was settled, so the next call would only meet the same ones again.
                return found, fingerprint, contradictions
        last = fingerprint
    return found, place, contradictions


async def _contradictions(tx: Transaction, tenant_id: UUID, memory_ids: Sequence[UUID]) -> set[tuple[UUID, UUID]]:
    """Return the pairs of some memories that contradict each other by a link or an open conflict."""
    if not memory_ids:
        return set()
    rows = await tx.rows(QUERIES["find_disagreements"], tenant_id=tenant_id, memory_ids=list(memory_ids))
    return {(min(row["one_id"], row["other_id"]), max(row["one_id"], row["other_id"])) for row in rows}


def _alike(
    rows: Sequence[asyncpg.Record], contradictions: set[tuple[UUID, UUID]], at: datetime
) -> list[tuple[tuple[str | None, ...], list[UUID]]]:
    """Gather memories that the same see and that do not disagree, two at least, each gathering with who sees it.

    Deleted and expired memories are left out.
    """
    # Memories with one key and different contents contradict each other. Data is never replaced by other data or none.
    alike: dict[tuple[tuple[str | None, ...], bytes | None], list[list[UUID]]] = {}
    for row in rows:
        if row["expire_time"] is not None and row["expire_time"] <= at:
            continue
        who = {name: row[name] for name in ("agent_id", "subject_id", "session_id")}
        sameness = (memories_model.audience(row["scope"], **who), row["content_hash"])
        gatherings, memory_id = alike.setdefault(sameness, []), row["memory_id"]
        for one in gatherings:
            if all((min(other, memory_id), max(other, memory_id)) not in contradictions for other in one):
                one.append(memory_id)
                break
        else:
            gatherings.append([memory_id])
    return [
        (sameness[0], members)
        for sameness, gatherings in alike.items()
        for members in gatherings
        if len(members) >= FEWEST_ALIKE
    ]


def is_still_member(memory: Memory | None, sameness: DuplicateKey, at: datetime) -> bool:
    """Return whether a memory that was read again still belongs to its group."""
    return (
        memory is not None
        and memory.is_visible(at)
        and memory.draft.archive_time is None
        and (memory.draft.fingerprint, draft_audience(memory.draft)) == sameness
    )
