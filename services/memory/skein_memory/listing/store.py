"""Lists of memories that match a filter, read in bounded batches, and memories as of a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING
from uuid import UUID

from skein_kit import filters
from skein_kit.admission.scan_budget import ScanBudget
from skein_kit.database.named_queries import with_condition
from skein_kit.database.tx_options import READ_ONLY
from skein_kit.filters import scan_cost
from skein_kit.filters.compiler import ENTRIES, VERSIONS, compile_to_sql
from skein_kit.ids import parse_id
from skein_memory.errors import MemoryNotFound, MemoryNotYetKnown
from skein_memory.links.model import Link
from skein_memory.listing.order import Order, PageCursor
from skein_memory.listing.ordered_scan import MAX_ROWS_SCANNED, OrderedIds, find_ordered
from skein_memory.memories import names
from skein_memory.memories import rows as memory_rows
from skein_memory.memories.rows import with_scores
from skein_memory.queries import QUERIES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from skein_kit.database.named_queries import Query
    from skein_kit.database.transactions import Database, Transaction
    from skein_kit.filters.compiler import FilterTable
    from skein_kit.filters.expression import Expression
    from skein_kit.policies.store import Policies
    from skein_memory.listing.filter import AccessPath, Filter
    from skein_memory.memories.model import Memory

# Memories that one statement scans.
_MAX_BATCH_SIZE = 1000
_GROWTH = 4
_LAST_REVISION = (1 << 63) - 1
_AFTER_ALL = UUID(int=(1 << 128) - 1)
# How the columns that lead are compared: the hash is no text.
_VALUES = {"content_hash": "decode(requested.value, 'hex')"}


@dataclass(frozen=True, kw_only=True, slots=True)
class MatchingIds:
    """Ids of memories that pass, newest first; `after` is the next cursor, None when there is nothing more."""

    memory_ids: list[UUID]
    after: UUID | None


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryPage:
    """The first memories of a page, the ids of its others, where each is, and where the next page goes on."""

    memories: list[Memory]
    rest: list[UUID]
    places: Mapping[str, PageCursor]
    after: PageCursor | None


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryVersion:
    """What a memory said until a time; None for what it says now."""

    memory: Memory
    until_time: datetime | None


class MemoryListStore:
    """Finds memories, and reads what they said before."""

    def __init__(self, database: Database, *, policies: Policies) -> None:
        self._database = database
        self._policies = policies

    async def list_memories(
        self, tenant_id: UUID, filter_: Filter, order: Order, *, after: PageCursor | None, count: int, batch_size: int,
        at: datetime,
    ) -> MemoryPage:  # fmt: skip
        """Find up to `count` memories that pass, in order, after the one at `after`; read the first `batch_size`."""
        async with self._database.transaction(tenant_id, READ_ONLY) as tx:
            if order.is_of_ids:
                last = after.memory_id if after else None
                found = await find(
                    tx, tenant_id, filter_, after=last, count=count, at=at, is_descending=order.is_descending
                )
                places = [PageCursor(memory_id=id_) for id_ in found.memory_ids]
                ordered = OrderedIds(places=places, after=PageCursor(memory_id=found.after) if found.after else None)
            else:
                ordered = await find_ordered(tx, tenant_id, filter_, order, after=after, count=count, at=at)
            memory_ids = [place.memory_id for place in ordered.places]
            first = await self._shown(tx, tenant_id, memory_ids[:batch_size], filter_.as_of_time, at=at)
        return MemoryPage(
            memories=first,
            rest=memory_ids[batch_size:],
            places={str(place.memory_id): place for place in ordered.places},
            after=ordered.after,
        )

    async def count_memories(self, tenant_id: UUID, filter_: Filter, *, at: datetime) -> int | None:
        """Count the memories that pass; None when that takes a scan of more than MAX_ROWS_SCANNED of them."""
        spans = list(filter_.id_ranges(None, at))
        if not spans:
            return 0
        async with self._database.transaction(tenant_id, READ_ONLY) as tx:
            if filter_.access_path.kind in {"ids", "external_ids"}:
                found = await find(tx, tenant_id, filter_, after=None, count=MAX_ROWS_SCANNED, at=at)
                return len(found.memory_ids)
            # The newest may well not be all, so there is no use in looking at them first.
            scan = _FilteredScan(tx, tenant_id, filter_, at)
            judged = await scan.read_range(filter_.access_path, spans[-1][0], spans[0][1], MAX_ROWS_SCANNED + 1)
        if len(judged) > MAX_ROWS_SCANNED or any(passes is None for _, passes in judged):
            return None
        return sum(passes is True for _, passes in judged)

    async def read_memories(
        self, tenant_id: UUID, memory_ids: Sequence[UUID], as_of_time: datetime | None, *, at: datetime
    ) -> list[Memory]:
        """Read memories in the order of their ids given, as they were at a time; what is gone is left out."""
        async with self._database.transaction(tenant_id, READ_ONLY) as tx:
            return await self._shown(tx, tenant_id, memory_ids, as_of_time, at=at)

    async def get_memory_as_of(self, tenant_id: UUID, name: str, as_of_time: datetime) -> Memory:
        """Read what a memory said at a time. Raises MemoryNotFound and MemoryNotYetKnown."""
        async with self._database.transaction(tenant_id) as tx:
            row = (await names.read_by_names(tx, QUERIES["find_first_known"], tenant_id, [name])).get(name)
            if row is None:
                raise MemoryNotFound
            if row["known_time"] > as_of_time:
                raise MemoryNotYetKnown(known_since=row["known_time"].isoformat())
            found = await read(tx, tenant_id, [row["memory_id"]], as_of_time)
        if not found or found[0].is_expired(as_of_time):
            raise MemoryNotFound
        return found[0]

    async def list_versions(
        self, tenant_id: UUID, name: str, *, before: int | None, count: int, at: datetime
    ) -> tuple[list[MemoryVersion], bool]:
        """Read up to `count` versions of a memory below the revision `before`, newest first, and one more to compare.

        Say also whether the last one read is the first that there is. Raises MemoryNotFound.
        """
        async with self._database.transaction(tenant_id) as tx:
            current = (await names.read_by_names(tx, QUERIES["get_memories"], tenant_id, [name])).get(name)
            if current is None or memory_rows.memory_of(current).is_expired(at):
                raise MemoryNotFound
            versions = await _versions(tx, tenant_id, current["memory_id"], before=before, count=count + 1)
        if before is None:
            versions.insert(0, MemoryVersion(memory=memory_rows.memory_of(current), until_time=None))
        return versions[: count + 1], len(versions) <= count

    async def _shown(
        self, tx: Transaction, tenant_id: UUID, memory_ids: Sequence[UUID], as_of_time: datetime | None, *, at: datetime
    ) -> list[Memory]:
        """Read memories, with their scores at the time `at` unless it is asked what they were."""
        memories = await read(tx, tenant_id, memory_ids, as_of_time)
        return memories if as_of_time else await with_scores(tx, tenant_id, self._policies, memories, at=at)

    async def links_of(self, tenant_id: UUID, memory: Memory, count: int) -> list[Link]:
        """Read up to `count` of the newest links of a memory, in both directions, to deleted memories as well."""
        async with self._database.transaction(tenant_id) as tx:
            rows = await tx.rows(
                QUERIES["list_links"],
                tenant_id=tenant_id,
                memory_id=memory.memory_id,
                before_id=_AFTER_ALL,
                outgoing=True,
                incoming=True,
                relations=None,
                min_weight=0.0,
                count=count,
            )
        return [Link(**dict(row)) for row in rows]

    async def versions_of(self, tenant_id: UUID, memory: Memory, count: int) -> tuple[list[MemoryVersion], bool]:
        """Read the newest earlier versions of a memory, and one more to compare; return whether that is all."""
        async with self._database.transaction(tenant_id) as tx:
            versions = await _versions(tx, tenant_id, memory.memory_id, before=None, count=count + 1)
        return versions, len(versions) <= count


async def _versions(
    tx: Transaction, tenant_id: UUID, memory_id: UUID, *, before: int | None, count: int
) -> list[MemoryVersion]:
    rows = await tx.rows(
        QUERIES["list_versions"],
        tenant_id=tenant_id,
        memory_id=memory_id,
        before_revision=_LAST_REVISION if before is None else before,
        count=count,
    )
    return [MemoryVersion(memory=memory_rows.memory_of(row), until_time=row["until_time"]) for row in rows]


async def find(
    tx: Transaction, tenant_id: UUID, filter_: Filter, *, after: UUID | None, count: int, at: datetime,
    is_descending: bool = True,
) -> MatchingIds:  # fmt: skip
    """Find up to `count` memories that pass after the one at `after`; scan MAX_ROWS_SCANNED of them at most.

    The newest come first; the oldest unless `is_descending`.
    """
    scan = _FilteredScan(tx, tenant_id, filter_, at, is_descending=is_descending)
    lead = filter_.access_path
    if lead.kind in {"ids", "external_ids"}:
        return await _among(scan, await _named(tx, tenant_id, lead), after=after, count=count)
    passing: list[UUID] = []
    remaining_rows, batch_size, last = MAX_ROWS_SCANNED, count + 1, after
    for since, until in filter_.id_ranges(after, at) if is_descending else filter_.id_ranges_ascending(after, at):
        from_id, before_id = since, until
        while True:
            batch_size = min(batch_size, remaining_rows, _MAX_BATCH_SIZE)
            judged = await scan.read_range(lead, from_id, before_id, batch_size)
            for memory_id, passes in judged:
                if passes is None or (passes and len(passing) == count):
                    return MatchingIds(memory_ids=passing, after=last)
                if passes:
                    passing.append(memory_id)
                last = memory_id
            remaining_rows -= max(1, len(judged))
            if remaining_rows <= 0 or scan.scans.is_spent:
                return MatchingIds(memory_ids=passing, after=last)
            if len(judged) < batch_size:
                break
            if is_descending:
                before_id = judged[-1][0]
            else:
                from_id = UUID(int=judged[-1][0].int + 1)
            batch_size *= _GROWTH
    return MatchingIds(memory_ids=passing, after=None)


async def filter_ids(
    tx: Transaction, tenant_id: UUID, filter_: Filter, memory_ids: Sequence[UUID], *, after: UUID | None, count: int,
    at: datetime,
) -> MatchingIds:  # fmt: skip
    """Find those of some memories that pass, newest first, after the one at `after`."""
    return await _among(_FilteredScan(tx, tenant_id, filter_, at), memory_ids, after=after, count=count)


async def read(
    tx: Transaction, tenant_id: UUID, memory_ids: Sequence[UUID], as_of_time: datetime | None
) -> list[Memory]:
    """Read memories in the order given, as they were at a time; what is gone is left out."""
    if not memory_ids:
        return []
    found = await memory_rows.read_memories(tx, tenant_id, memory_ids)
    if as_of_time is not None:
        rows = await tx.rows(
            QUERIES["versions_at"], tenant_id=tenant_id, memory_ids=list(memory_ids), as_of_time=as_of_time
        )
        found |= {row["memory_id"]: memory_rows.memory_of(row) for row in rows}
    return [found[id_] for id_ in memory_ids if id_ in found]


class _FilteredScan:
    """Looks at memories in turn and holds them against a filter."""

    def __init__(
        self, tx: Transaction, tenant_id: UUID, filter_: Filter, at: datetime, *, is_descending: bool = True
    ) -> None:
        self._tx = tx
        self._tenant_id = tenant_id
        self._as_of_time = filter_.as_of_time
        self._condition = filter_.condition(at)
        self.scans = scan_budget(tx, tenant_id, self._condition)
        self.is_descending = is_descending

    async def read_range(
        self, lead: AccessPath, from_id: UUID, before_id: UUID, count: int
    ) -> list[tuple[UUID, bool | None]]:
        """Return the first memories of a range of ids that a lead leads to, and whether each passes.

        None says that the call's budget did not reach a memory; nothing after it was scanned either.
        """
        values: dict[str, object] = {"from_id": from_id, "before_id": before_id, "count": count}
        if lead.kind in {"tags", "properties"}:
            values |= {"values": list(lead.values)}
            if lead.kind == "properties":
                values |= {"names": list(lead.names)}
            rows = await self._tx.rows(self._turned(QUERIES[_LED[lead.kind]]), tenant_id=self._tenant_id, **values)
            return await self.passing([row["memory_id"] for row in rows])
        query = QUERIES["scan_entries"]
        if lead.kind == "column":
            query = _by_column(lead.column)
            values |= {"values": list(lead.values)}
        judged = await self._judged(self._turned(query), ENTRIES, **values)
        return judged if self._as_of_time is None else await self._then(judged)

    def _turned(self, query: Query) -> Query:
        return query if self.is_descending else _upwards(query)

    async def passing(self, memory_ids: Sequence[UUID]) -> list[tuple[UUID, bool | None]]:
        """Return of memories in the walk's order whether each passes, as `look` does."""
        if not memory_ids:
            return []
        query = self._turned(QUERIES["scan_ids"])
        passes = dict(await self._judged(query, ENTRIES, memory_ids=list(memory_ids)))
        judged = [(memory_id, passes.get(memory_id, False)) for memory_id in memory_ids]
        return judged if self._as_of_time is None else await self._then(judged)

    async def _judged(self, query: Query, source: FilterTable, **values: object) -> list[tuple[UUID, bool | None]]:
        """Complete a query with the condition, run it within the call's budget, and return what it says of each."""
        condition = compile_to_sql(self._condition, source)
        scanned = scan_cost.scan_cost_sql(self._condition, source)
        if scanned:
            query = scan_cost.with_scan_budget(query, scanned)
            values |= {"scan_bytes": max(1, self.scans.remaining)}
        statement = self._tx.rows(
            with_condition(query, condition.text), tenant_id=self._tenant_id, **values, **condition.values
        )
        rows = await (self.scans.charged(statement) if scanned else statement)
        return [(row["memory_id"], row["passes"]) for row in rows]

    async def _then(self, now: Sequence[tuple[UUID, bool | None]]) -> list[tuple[UUID, bool | None]]:
        """Return of memories whether each passed at the time requested, where `now` says whether it passes today."""
        reached = [memory_id for memory_id, passes in now if passes is not None]
        query = self._turned(QUERIES["match_versions"])
        then = dict(await self._judged(query, VERSIONS, memory_ids=reached, as_of_time=self._as_of_time))
        passed = {memory_id: then.get(memory_id, passes) for memory_id, passes in now}
        known = await self._tx.rows(
            QUERIES["find_first_known"],
            tenant_id=self._tenant_id,
            memory_ids=[memory_id for memory_id, passes in passed.items() if passes],
        )
        was_known = {row["memory_id"] for row in known if row["known_time"] <= self._as_of_time}
        return [(id_, None if passes is None else id_ in was_known) for id_, passes in passed.items()]


def scan_budget(tx: Transaction, tenant_id: UUID, condition: Expression | None) -> ScanBudget:
    """Return what a call's condition may scan. Raises ReadTooCostly when that is all of what the tenant has left."""
    if scan_cost.scan_cost_sql(condition, ENTRIES):
        return tx.database.scans.begin(tenant_id)
    return ScanBudget(tx.database.scans, tenant_id)


async def matching_ids(
    tx: Transaction, tenant_id: UUID, condition: Expression | None, memory_ids: Sequence[UUID]
) -> set[UUID]:
    """Return those of some memories that pass a condition as they are now."""
    sql = filters.compile_to_sql(condition, ENTRIES)
    query = with_condition(QUERIES["match_entries"], sql.text)
    rows = await tx.rows(query, tenant_id=tenant_id, memory_ids=list(memory_ids), **sql.values)
    return {row["memory_id"] for row in rows}


async def _among(scan: _FilteredScan, memory_ids: Sequence[UUID], *, after: UUID | None, count: int) -> MatchingIds:
    down = scan.is_descending
    remaining_ids = {id_ for id_ in memory_ids if after is None or (id_ < after if down else id_ > after)}
    filter_ = sorted(remaining_ids, reverse=down)
    found: list[UUID] = []
    last = after
    for memory_id, passes in await scan.passing(filter_):
        if passes is None or (passes and len(found) == count):
            return MatchingIds(memory_ids=found, after=last)
        if passes:
            found.append(memory_id)
        last = memory_id
    return MatchingIds(memory_ids=found, after=None)


async def _named(tx: Transaction, tenant_id: UUID, lead: AccessPath) -> list[UUID]:
    if lead.kind == "ids":
        return [id_ for value in lead.values if (id_ := parse_id(value)) is not None]
    rows = await tx.rows(QUERIES["find_external_ids"], tenant_id=tenant_id, external_ids=list(lead.values))
    return [row["memory_id"] for row in rows]


_LED = {"tags": "scan_by_tag", "properties": "scan_by_property"}


@lru_cache(maxsize=64)
def _upwards(query: Query) -> Query:
    """Return a walk in the other direction: the same indexes are read from their other end."""
    return replace(query, text=query.text.replace("memory_id DESC", "memory_id"))


@lru_cache(maxsize=32)
def _by_column(column: str) -> Query:
    query = QUERIES["scan_by_column"]
    value = _VALUES.get(column, "requested.value")
    return replace(query, text=query.text.replace("{column}", column).replace("{value}", value))
