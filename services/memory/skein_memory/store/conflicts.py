"""Conflicts in the database: found by walking links and keys, so many candidates at a time, and resolved."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations, groupby
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from google.protobuf.message import Message

from skein_kit.errors import FieldInvalid
from skein_kit.ids import new_id
from skein_memory import curation
from skein_memory.conflicts import CONTRADICTS, SAME_KEY, SETTLED, Conflict, Resolution
from skein_memory.errors import CanonicalNotInPair, MemoryNotFound
from skein_memory.events import Event
from skein_memory.links import DEFAULT_WEIGHT, Link
from skein_memory.memories import FACT
from skein_memory.store import edges, entries, history, names
from skein_memory.store.history import Former
from skein_memory.store.queries import QUERIES
from skein_memory.store.scoring import scored
from skein_memory.store.tables import Store

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    import asyncpg

    from skein_kit.database import Transaction
    from skein_kit.requests import Once
    from skein_memory.conflicts import ResolutionDraft
    from skein_memory.memories import Memory

Response = TypeVar("Response", bound=Message)

_KIND = "conflict"
_FIRST, _LAST = UUID(int=0), UUID(int=(1 << 128) - 1)
_LINKS, _KEYS = "links", "keys"
# Rows of a walk that are read at once. Of memories with the same key so many are held against each other.
_LINKS_AT_ONCE = 40
_KEYS_AT_ONCE = 400
_MOST_OF_A_KEY = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a walk goes on: behind a link; or at a key, behind so many of its pairs."""

    walk: str = _LINKS
    id: UUID = _LAST
    pairs: int = 0

    @property
    def words(self) -> list[str]:
        """Return it as a page token has it."""
        return [self.walk, str(self.id), str(self.pairs)]

    @classmethod
    def of(cls, words: Sequence[str]) -> Place | None:
        """Read what a page token has; None when it is none of ours."""
        try:
            walk, id_, pairs = words
            return cls(walk=walk, id=UUID(id_), pairs=int(pairs)) if walk in {_LINKS, _KEYS} else None
        except ValueError:
            return None


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """Which conflicts are asked for."""

    all_types: bool
    show_settled: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class _Candidate:
    pair: tuple[UUID, UUID]
    reason: str
    # Where to go on behind it.
    place: Place


class ConflictStore(Store):
    """Finds conflicts, and reads and writes what was said of them."""

    async def find_conflicts(
        self, tenant_id: UUID, wanted: Question, place: Place, *, at: datetime
    ) -> tuple[list[tuple[Conflict, Place]], Place | None]:
        """Look at some candidates from a place on; return the conflicts, each with where to go on behind it.

        Return as well where to go on behind all of them; None when there is nothing more.
        """
        async with self._database.tenant(tenant_id) as tx:
            walk = _walk_links if place.walk == _LINKS else _walk_keys
            candidates, after = await walk(tx, tenant_id, place, wanted)
            return await self._conflicts(tx, tenant_id, wanted, candidates, at=at), after

    async def _conflicts(
        self, tx: Transaction, tenant_id: UUID, wanted: Question, candidates: Sequence[_Candidate], *, at: datetime
    ) -> list[tuple[Conflict, Place]]:
        if not candidates:
            return []
        said = await _resolutions(tx, tenant_id, [candidate.pair for candidate in candidates])
        open_ = [
            candidate
            for candidate in candidates
            if wanted.show_settled or candidate.pair not in said or said[candidate.pair].status not in SETTLED
        ]
        found = await entries.read(tx, tenant_id, sorted({id_ for one in open_ for id_ in one.pair}))
        alive = [memory for memory in found.values() if _counts(memory, wanted, at)]
        shown = {memory.memory_id: memory for memory in await scored(tx, tenant_id, self._policies, alive, at=at)}
        return [
            (
                Conflict(
                    a=shown[candidate.pair[0]],
                    b=shown[candidate.pair[1]],
                    reason=candidate.reason,
                    resolution=said.get(candidate.pair),
                ),
                candidate.place,
            )
            for candidate in open_
            if all(id_ in shown and _is_sure(shown[id_]) for id_ in candidate.pair)
        ]

    async def resolve_conflict(
        self,
        tenant_id: UUID,
        once: Once,
        draft: ResolutionDraft,
        respond: Callable[[Resolution], Response],
        *,
        at: datetime,
        by: str,
    ) -> Response | bytes:
        """Say what became of a conflict, in place of what was said before; or return the request's first answer.

        Raises MemoryNotFound, CanonicalNotInPair, FieldInvalid and QuotaExceeded.
        """
        async with self._database.tenant(tenant_id) as tx:
            first = await self._requests.claim(tx, tenant_id, once)
            if first is not None:
                return first
            pair, canonical_id = await _named(tx, tenant_id, draft)
            # Whoever speaks of the same pair waits here.
            memories = await entries.locked_all(tx, tenant_id, pair)
            if not all(id_ in memories and memories[id_].is_active for id_ in pair):
                raise MemoryNotFound
            before = (await _resolutions(tx, tenant_id, [pair])).get(pair)
            last = 0 if before else await history.last_kept(tx, tenant_id, _KIND, curation.pair_key(*pair))
            after = draft.after(before, last, pair, canonical_id, (None, None), at=at, by=by)
            after, links = await _carried_out(tx, tenant_id, memories, before, after, at=at, by=by)
            if before is not None:
                await history.keep(tx, tenant_id, [_former(before, at)])
            await tx.execute(QUERIES["put_resolution"], tenant_id=tenant_id, **asdict(after))
            await history.record(tx, tenant_id, [_event(after)], at=at, by=by)
            response = respond(after)
            await self._requests.answer(tx, tenant_id, once, response)
            await self._quotas.charge(tx, tenant_id, {"links": links})
        return response

    async def list_resolutions(
        self, tenant_id: UUID, status: str | None, *, before: UUID | None, count: int
    ) -> list[Resolution]:
        """Read up to `count` resolutions that are older than `before`, newest first."""
        async with self._database.tenant(tenant_id) as tx:
            rows = await tx.rows(
                QUERIES["list_resolutions"], tenant_id=tenant_id, status=status, before_id=before or _LAST, count=count
            )
        return [Resolution(**dict(row)) for row in rows]


def _counts(memory: Memory, wanted: Question, at: datetime) -> bool:
    draft = memory.draft
    expired = draft.expire_time is not None and draft.expire_time <= at
    return memory.is_active and draft.archive_time is None and not expired and (wanted.all_types or draft.type == FACT)


def _is_sure(memory: Memory) -> bool:
    return memory.worth is not None and memory.worth.scores.confidence >= curation.CONFLICT_CONFIDENCE


def _sorted(one: UUID, other: UUID) -> tuple[UUID, UUID]:
    return (one, other) if one < other else (other, one)


async def _walk_links(
    tx: Transaction, tenant_id: UUID, place: Place, _wanted: Question
) -> tuple[list[_Candidate], Place | None]:
    rows = await tx.rows(QUERIES["walk_contradictions"], tenant_id=tenant_id, before_id=place.id, count=_LINKS_AT_ONCE)
    pairs = [(row["from_memory_id"], row["to_memory_id"]) for row in rows]
    # A pair that is linked in both directions is met at the link from the lower id.
    back = await _linked(tx, tenant_id, [(end, start) for start, end in pairs if start > end])
    found = [
        _Candidate(pair=_sorted(start, end), reason=CONTRADICTS, place=Place(walk=_LINKS, id=row["link_id"]))
        for row, (start, end) in zip(rows, pairs, strict=True)
        if start < end or (end, start) not in back
    ]
    if len(rows) < _LINKS_AT_ONCE:
        return found, Place(walk=_KEYS, id=_FIRST)
    return found, Place(walk=_LINKS, id=rows[-1]["link_id"])


async def _walk_keys(
    tx: Transaction, tenant_id: UUID, place: Place, wanted: Question
) -> tuple[list[_Candidate], Place | None]:
    rows = await tx.rows(
        QUERIES["walk_keys"],
        tenant_id=tenant_id,
        from_fingerprint=place.id,
        before_fingerprint=curation.FIRST_WITHOUT_KEY,
        count=_KEYS_AT_ONCE,
    )
    groups = [(key, list(group)) for key, group in groupby(rows, key=lambda row: row["fingerprint"])]
    after: Place | None = None
    if len(rows) == _KEYS_AT_ONCE:
        # The last group may go on behind what was read; one that fills all of it is cut off.
        cut = groups.pop() if len(groups) > 1 else None
        after = Place(walk=_KEYS, id=_next(groups[-1][0]) if cut is None else cut[0])
    found: list[_Candidate] = []
    for key, group in groups:
        if not wanted.all_types and group[0]["type"] != FACT:
            continue
        done = place.pairs if key == place.id else 0
        found += [
            _Candidate(pair=pair, reason=SAME_KEY, place=Place(walk=_KEYS, id=key, pairs=number))
            for number, pair in enumerate(_differing(group), start=1)
            if number > done
        ]
    # What a link says to be in conflict was met in the other walk.
    pairs = [pair for candidate in found for pair in (candidate.pair, candidate.pair[::-1])]
    linked = await _linked(tx, tenant_id, pairs)
    return [one for one in found if not {one.pair, one.pair[::-1]} & linked], after


def _next(id_: UUID) -> UUID:
    return UUID(int=id_.int + 1)


def _differing(group: Sequence[asyncpg.Record]) -> list[tuple[UUID, UUID]]:
    """Return the pairs of memories with one key that say different things."""
    return [
        _sorted(one["memory_id"], other["memory_id"])
        for one, other in combinations(group[:_MOST_OF_A_KEY], 2)
        if one["content_hash"] != other["content_hash"]
    ]


async def _linked(tx: Transaction, tenant_id: UUID, pairs: Sequence[tuple[UUID, UUID]]) -> set[tuple[UUID, UUID]]:
    if not pairs:
        return set()
    rows = await tx.rows(
        QUERIES["find_contradictions"],
        tenant_id=tenant_id,
        from_ids=[start for start, _ in pairs],
        to_ids=[end for _, end in pairs],
    )
    return {(row["from_memory_id"], row["to_memory_id"]) for row in rows}


async def _resolutions(
    tx: Transaction, tenant_id: UUID, pairs: Sequence[tuple[UUID, UUID]]
) -> dict[tuple[UUID, UUID], Resolution]:
    rows = await tx.rows(
        QUERIES["get_resolutions"],
        tenant_id=tenant_id,
        a_ids=[pair[0] for pair in pairs],
        b_ids=[pair[1] for pair in pairs],
    )
    return {(row["a_memory_id"], row["b_memory_id"]): Resolution(**dict(row)) for row in rows}


async def _named(tx: Transaction, tenant_id: UUID, draft: ResolutionDraft) -> tuple[tuple[UUID, UUID], UUID | None]:
    wanted = [draft.a_name, draft.b_name, *([draft.canonical_name] if draft.canonical_name else [])]
    found = await names.read(tx, QUERIES["find_active"], tenant_id, wanted)
    if not found.keys() >= {draft.a_name, draft.b_name}:
        raise MemoryNotFound
    one, other = found[draft.a_name]["memory_id"], found[draft.b_name]["memory_id"]
    if one == other:
        raise FieldInvalid(violations=[("b_memory_id", "names the same memory as a_memory_id")])
    canonical = None if draft.canonical_name is None else found.get(draft.canonical_name)
    if draft.canonical_name is not None and (canonical is None or canonical["memory_id"] not in {one, other}):
        raise CanonicalNotInPair
    return _sorted(one, other), None if canonical is None else canonical["memory_id"]


async def _carried_out(
    tx: Transaction,
    tenant_id: UUID,
    memories: Mapping[UUID, Memory],
    before: Resolution | None,
    after: Resolution,
    *,
    at: datetime,
    by: str,
) -> tuple[Resolution, int]:
    """Make the link and end the validity that follow from what is said, and undo those from before.

    Return the resolution with what it did, and how many links came, less those that went.
    """
    if before is not None and before.canonical_memory_id == after.canonical_memory_id:
        return replace(after, link_id=before.link_id, closed_time=before.closed_time), 0
    count = 0
    if before is not None and before.link_id is not None:
        count -= len(await edges.remove(tx, tenant_id, [before.link_id], at=at, by=by))
    if before is not None and before.closed_time is not None and before.other_memory_id is not None:
        reopened = memories[before.other_memory_id]
        if reopened.draft.valid_to_time == before.closed_time:
            await _end(tx, tenant_id, reopened, None, at=at, by=by)
    canonical_id, other_id = after.canonical_memory_id, after.other_memory_id
    if canonical_id is None or other_id is None:
        return after, count
    link = Link(
        link_id=new_id(at),
        from_memory_id=canonical_id,
        to_memory_id=other_id,
        relation="supersedes",
        label=None,
        weight=DEFAULT_WEIGHT,
        metadata=None,
        create_time=at,
        created_by=by,
        revision=1,
        update_time=at,
        updated_by=by,
    )
    made = await edges.insert(tx, tenant_id, [link], at=at, by=by)
    draft = memories[other_id].draft
    closed = None
    if draft.valid_to_time is None:
        closed = at if draft.valid_from_time is None else max(at, draft.valid_from_time)
        await _end(tx, tenant_id, memories[other_id], closed, at=at, by=by)
    return replace(after, link_id=link.link_id if made else None, closed_time=closed), count + len(made)


async def _end(
    tx: Transaction, tenant_id: UUID, memory: Memory, end: datetime | None, *, at: datetime, by: str
) -> None:
    draft = replace(memory.draft, valid_to_time=end)
    await entries.replace(tx, tenant_id, memory, memory.revised(draft, at=at, by=by), at=at)


def _former(before: Resolution, until: datetime) -> Former:
    canonical = before.canonical_memory_id
    said = {
        "status": before.status,
        "canonical_memory_id": None if canonical is None else str(canonical),
        "note": before.note,
    }
    return Former(
        kind=_KIND,
        item_id=curation.pair_key(before.a_memory_id, before.b_memory_id),
        revision=before.revision,
        state=json.dumps(said, ensure_ascii=False, separators=(",", ":")),
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
        entity_id=curation.pair_key(resolution.a_memory_id, resolution.b_memory_id),
        summary=f"conflict {resolution.status.replace('_', ' ')}",
        payload=payload,
    )
