"""Candidates for conflicts, found by scanning links, keys and resolutions in batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Self
from uuid import UUID

import asyncpg

from skein_memory.conflicts.model import CONTRADICTS, RESOLUTION, SAME_KEY, STATUSES
from skein_memory.memories.model import FACT, FIRST_WITHOUT_KEY, has_key
from skein_memory.tenant_reader import TenantReader

Pair = tuple[UUID, UUID]

_FIRST, _LAST = UUID(int=0), UUID(int=(1 << 128) - 1)
_LINKS, _KEYS, _RESOLUTIONS = "links", "keys", "resolutions"
_SCANS = (_LINKS, _KEYS, _RESOLUTIONS)
# Rows of one statement of a scan.
_LINK_ROWS = 100
_KEY_ROWS = 400
_RESOLUTION_ROWS = 100
# Pairs, and statements of a scan, of one batch.
_BATCH_PAIRS = 400
_BATCH_STEPS = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class ConflictFilter:
    """The requested conflicts."""

    all_types: bool
    # None: pairs without a resolution.
    statuses: frozenset[str | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class ScanPosition:
    """A position in the scans: links first, then keys, then resolutions.

    The scans of links and resolutions read the newest row first, and `id` is the last row that was read. `first` is the
    number of the status whose resolutions are read. In the scan of keys `id` is a fingerprint, and the scan continues
    with the memory `first`. If `second` is set, it continues with the pairs of `first` after `second`.
    """

    scan: str = _LINKS
    id: UUID = _LAST
    first: UUID = _FIRST
    second: UUID = _FIRST

    @property
    def to_token(self) -> list[str]:
        """Return it as the parts of a page token."""
        return [self.scan, str(self.id), str(self.first), str(self.second)]

    @classmethod
    def of(cls, parts: Sequence[str]) -> Self:
        """Read it from a page token. Raises ValueError."""
        scan, id_, first, second = parts
        position = cls(scan=scan, id=UUID(id_), first=UUID(first), second=UUID(second))
        if scan not in _SCANS or (scan == _RESOLUTIONS and position.first.int > len(STATUSES)):
            raise ValueError(scan)
        return position

    @property
    def order(self) -> tuple[int, int, int, int]:
        number = _SCANS.index(self.scan)
        if self.scan == _KEYS:
            return number, self.id.int, self.first.int, self.second.int
        return number, self.first.int, -self.id.int, 0


# The start and the end of the scans.
BEGINNING = ScanPosition()
END = ScanPosition(scan=_RESOLUTIONS, first=UUID(int=len(STATUSES)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A pair that may be in conflict, the lower id first."""

    pair: Pair
    reason: str
    # The lower confidence of the two memories.
    score: float
    position: ScanPosition

    @property
    def rank(self) -> tuple[float, Pair]:
        """Return the key that orders pairs of a batch: the highest confidence first."""
        return -self.score, self.pair


async def scan_candidates(
    reader: TenantReader, conflict_filter: ConflictFilter, start: ScanPosition, until: ScanPosition | None
) -> tuple[list[Candidate], ScanPosition]:
    """Return the pairs of one batch that begins at `start`, in no order, and where the next one begins.

    `until` is the end that an earlier page found for the same batch; without it, the batch ends after a bounded
    number of rows. The second value is END when the scans have ended.
    """
    scan = _CandidateScan(reader, conflict_filter)
    batch: list[Candidate] = []
    position = start
    steps = 0
    while position != END:
        if position.order >= until.order if until else steps >= _BATCH_STEPS or len(batch) >= _BATCH_PAIRS:
            break
        candidates, position = await scan.step(position)
        batch += candidates
        steps += 1
    if until is None:
        return batch, position
    return [candidate for candidate in batch if candidate.position.order <= until.order], until


def sorted_pair(first: UUID, second: UUID) -> Pair:
    """Return two ids, the lower one first."""
    return (first, second) if first < second else (second, first)


class _CandidateScan:
    """The scans of one transaction for candidates of conflicts."""

    def __init__(self, reader: TenantReader, conflict_filter: ConflictFilter) -> None:
        self._reader = reader
        self._filter = conflict_filter

    async def step(self, position: ScanPosition) -> tuple[list[Candidate], ScanPosition]:
        """Return the pairs of one statement's rows, and the next cursor."""
        if position.scan == _LINKS:
            return await self._links(position)
        if position.scan == _RESOLUTIONS:
            return await self._resolutions(position)
        return await (self._keys(position) if position.second == _FIRST else self._key_of_memory(position))

    async def _links(self, position: ScanPosition) -> tuple[list[Candidate], ScanPosition]:
        rows = await self._reader.rows("walk_contradictions", before_id=position.id, count=_LINK_ROWS)
        linked_pairs = [(row["from_memory_id"], row["to_memory_id"]) for row in rows]
        # A pair that is linked in both directions is returned for the link from the lower id.
        reverse_links = await self._find_contradictions([(end, start) for start, end in linked_pairs if start > end])
        contenders = await self._contenders({id_ for pair in linked_pairs for id_ in pair})
        candidates = [
            Candidate(
                pair=pair,
                reason=CONTRADICTS,
                score=_score(contenders, pair),
                position=ScanPosition(scan=_LINKS, id=row["link_id"]),
            )
            for row, (start, end) in zip(rows, linked_pairs, strict=True)
            if (start < end or (end, start) not in reverse_links)
            and self._may_conflict(contenders, pair := sorted_pair(start, end))
        ]
        if len(rows) < _LINK_ROWS:
            return candidates, ScanPosition(scan=_KEYS, id=_FIRST)
        return candidates, ScanPosition(scan=_LINKS, id=rows[-1]["link_id"])

    async def _keys(self, position: ScanPosition) -> tuple[list[Candidate], ScanPosition]:
        rows = await self._key_rows(position.id, position.first)
        groups = [(key, [row["memory_id"] for row in group]) for key, group in groupby(rows, key=_fingerprint)]
        after = ScanPosition(scan=_RESOLUTIONS)
        if len(rows) == _KEY_ROWS and len(groups) > 1:
            # The last group may have more rows.
            key, ids = groups.pop()
            after = ScanPosition(scan=_KEYS, id=key, first=ids[0])
        elif len(rows) == _KEY_ROWS:
            # One key fills all rows, so each of its memories is scanned by itself.
            key, ids = groups[0]
            return await self._key_of_memory(ScanPosition(scan=_KEYS, id=key, first=ids[0], second=ids[0]))
        shared_keys = [(key, ids) for key, ids in groups if len(ids) > 1]
        contenders = await self._contenders({id_ for _, ids in shared_keys for id_ in ids})
        pairs = (
            (key, (first, second))
            for key, ids in shared_keys
            for index, first in enumerate(ids)
            for second in ids[index + 1 :]
            if self._differ(contenders, (first, second))
        )
        return await self._key_candidates(contenders, pairs, after)

    async def _key_of_memory(self, position: ScanPosition) -> tuple[list[Candidate], ScanPosition]:
        key, memory_id = position.id, position.first
        rows = await self._key_rows(key, _next_id(position.second))
        other_ids = [row["memory_id"] for row in rows if row["fingerprint"] == key]
        after = ScanPosition(scan=_KEYS, id=key, first=_next_id(memory_id))
        if len(other_ids) == _KEY_ROWS:
            after = ScanPosition(scan=_KEYS, id=key, first=memory_id, second=other_ids[-1])
        contenders = await self._contenders({memory_id, *other_ids})
        pairs = (
            (key, (memory_id, other_id)) for other_id in other_ids if self._differ(contenders, (memory_id, other_id))
        )
        return await self._key_candidates(contenders, pairs, after)

    async def _key_rows(self, fingerprint: UUID, memory_id: UUID) -> list[asyncpg.Record]:
        return await self._reader.rows(
            "walk_keys",
            from_fingerprint=fingerprint,
            from_id=memory_id,
            before_fingerprint=FIRST_WITHOUT_KEY,
            count=_KEY_ROWS,
        )

    async def _key_candidates(
        self, contenders: Mapping[UUID, asyncpg.Record], pairs: Iterator[tuple[UUID, Pair]], after: ScanPosition
    ) -> tuple[list[Candidate], ScanPosition]:
        """Return the first pairs with one key; the scan continues after them when there are more."""
        candidates: list[Candidate] = []
        for key, pair in pairs:
            if len(candidates) == _BATCH_PAIRS:
                after = candidates[-1].position
                break
            candidates.append(
                Candidate(
                    pair=pair,
                    reason=SAME_KEY,
                    score=_score(contenders, pair),
                    position=ScanPosition(scan=_KEYS, id=key, first=pair[0], second=pair[1]),
                )
            )
        # The scan of links has returned linked pairs.
        linked_pairs = await self._find_contradictions(
            [direction for candidate in candidates for direction in (candidate.pair, candidate.pair[::-1])]
        )
        return [
            candidate for candidate in candidates if not {candidate.pair, candidate.pair[::-1]} & linked_pairs
        ], after

    async def _resolutions(self, position: ScanPosition) -> tuple[list[Candidate], ScanPosition]:
        number = position.first.int
        after = ScanPosition(scan=_RESOLUTIONS, first=UUID(int=number + 1))
        if STATUSES[number] not in self._filter.statuses:
            return [], after
        rows = await self._reader.rows(
            "list_resolutions",
            status=STATUSES[number],
            before_id=position.id,
            count=_RESOLUTION_ROWS,
        )
        if len(rows) == _RESOLUTION_ROWS:
            after = ScanPosition(scan=_RESOLUTIONS, id=rows[-1]["resolution_id"], first=position.first)
        pairs = [(row["a_memory_id"], row["b_memory_id"]) for row in rows]
        contenders = await self._contenders({id_ for pair in pairs for id_ in pair})
        linked_pairs = await self._find_contradictions(
            [direction for pair in pairs for direction in (pair, pair[::-1])]
        )
        candidates: list[Candidate] = []
        for row, pair in zip(rows, pairs, strict=True):
            if not contenders.keys() >= set(pair):
                continue
            is_linked = bool({pair, pair[::-1]} & linked_pairs)
            has_same_key = _have_same_key(contenders, pair) and _differ(contenders, pair)
            if self._may_conflict(contenders, pair) and (is_linked or has_same_key):
                # Another scan has returned it.
                continue
            candidates.append(
                Candidate(
                    pair=pair,
                    reason=CONTRADICTS if is_linked else SAME_KEY if has_same_key else RESOLUTION,
                    score=_score(contenders, pair),
                    position=ScanPosition(scan=_RESOLUTIONS, id=row["resolution_id"], first=position.first),
                )
            )
        return candidates, after

    async def _contenders(self, memory_ids: set[UUID]) -> dict[UUID, asyncpg.Record]:
        """Read the columns that decide on conflicts; deleted, archived and expired memories are left out."""
        if not memory_ids:
            return {}
        rows = await self._reader.rows("read_contenders", memory_ids=sorted(memory_ids), at=self._reader.at)
        return {row["memory_id"]: row for row in rows}

    async def _find_contradictions(self, pairs: Sequence[Pair]) -> set[Pair]:
        if not pairs:
            return set()
        rows = await self._reader.rows(
            "find_contradictions",
            from_ids=[start for start, _ in pairs],
            to_ids=[end for _, end in pairs],
        )
        return {(row["from_memory_id"], row["to_memory_id"]) for row in rows}

    def _may_conflict(self, contenders: Mapping[UUID, asyncpg.Record], pair: Pair) -> bool:
        """Return whether both exist and have a requested type."""
        types = [contenders[id_]["type"] for id_ in pair if id_ in contenders]
        return len(types) == len(pair) and (self._filter.all_types or set(types) == {FACT})

    def _differ(self, contenders: Mapping[UUID, asyncpg.Record], pair: Pair) -> bool:
        return self._may_conflict(contenders, pair) and _differ(contenders, pair)


def _differ(contenders: Mapping[UUID, asyncpg.Record], pair: Pair) -> bool:
    """Return whether two memories of one subject have different content."""
    first, second = (contenders[id_] for id_ in pair)
    content_columns = ("content_digest", "data_digest")
    return first["subject_id"] == second["subject_id"] and any(first[name] != second[name] for name in content_columns)


def _have_same_key(contenders: Mapping[UUID, asyncpg.Record], pair: Pair) -> bool:
    first, second = (contenders[id_]["fingerprint"] for id_ in pair)
    return first is not None and first == second and has_key(first)


def _score(contenders: Mapping[UUID, asyncpg.Record], pair: Pair) -> float:
    return min((contenders[id_]["confidence"] for id_ in pair if id_ in contenders), default=0.0)


def _fingerprint(row: asyncpg.Record) -> UUID:
    fingerprint: UUID = row["fingerprint"]
    return fingerprint


def _next_id(id_: UUID) -> UUID:
    return UUID(int=min(id_.int + 1, _LAST.int))
