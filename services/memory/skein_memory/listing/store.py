"""Lists of memories that match a filter, read in bounded batches, and memories as of a time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from functools import lru_cache
from uuid import UUID

from skein_kit import filters
from skein_kit.admission.scan_budget import ScanBudget
from skein_kit.database.named_queries import Query, with_condition
from skein_kit.database.transactions import Database, Transaction
from skein_kit.database.tx_options import READ_ONLY
from skein_kit.filters import scan_cost
from skein_kit.filters.compiler import ENTRIES, VERSIONS, FilterTable, compile_to_sql
from skein_kit.filters.expression import Expression
from skein_kit.ids import now, parse_id
from skein_kit.policies.days import zone_of_days
from skein_kit.policies.store import PolicyCache
from skein_memory.errors import MemoryNotFound, MemoryNotYetKnown
from skein_memory.links.model import Link
from skein_memory.listing.filter import AccessPath, Filter
from skein_memory.listing.order import Order, PageCursor
from skein_memory.listing.ordered_scan import MAX_ROWS_SCANNED, OrderedIds, find_ordered
from skein_memory.memories import names, oldest
from skein_memory.memories import rows as memory_rows
from skein_memory.memories.model import Memory
from skein_memory.memories.rows import with_scores
from skein_memory.queries import QUERIES

# Memories that one statement scans.
_MAX_BATCH_SIZE = 1000
_GROWTH = 4
_LAST_REVISION = (1 << 63) - 1
_AFTER_ALL = UUID(int=(1 << 128) - 1)
# SQL of the values of columns that are not text.
_VALUES = {"content_hash": "decode(requested.value, 'hex')"}


@dataclass(frozen=True, kw_only=True, slots=True)
class MatchingIds:
    """Ids of matching memories, newest first; `after` is the next cursor, None at the end."""

    memory_ids: list[UUID]
    after: UUID | None


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryPage:
    """The first memories of a page, the ids of the rest, a cursor for each, and the next cursor."""

    memories: list[Memory]
    remaining_ids: list[UUID]
    cursors: Mapping[str, PageCursor]
    after: PageCursor | None


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryVersion:
    """A version of a memory, and the time until which it was current; None: it still is."""

    memory: Memory
    until_time: datetime | None


class MemoryListStore:
    """Finds memories, and reads their earlier versions."""

    def __init__(self, database: Database, *, policies: PolicyCache) -> None:
        self._database = database
        self._policies = policies

    async def zone_of_days(self, tenant_id: UUID, where: str, person_id: str) -> tzinfo:
        """Return the zone of the days that a condition names, which may be about one person."""
        return await zone_of_days(self._database, tenant_id, where, person_id)

    async def list_memories(
        self, tenant_id: UUID, filter_: Filter, order: Order, *, after: PageCursor | None, count: int, batch_size: int,
        at: datetime,
    ) -> MemoryPage:  # fmt: skip
        """Find up to `count` matching memories in order after `after`; read the first `batch_size`."""
        async with self._database.transaction(tenant_id, READ_ONLY) as tx:
            if order.is_of_ids:
                last = after.memory_id if after else None
                matching = await find(
                    tx, tenant_id, filter_, after=last, count=count, at=at, is_descending=order.is_descending
                )
                cursors = [PageCursor(memory_id=id_) for id_ in matching.memory_ids]
                ordered = OrderedIds(
                    cursors=cursors, after=PageCursor(memory_id=matching.after) if matching.after else None
                )
            else:
                ordered = await find_ordered(tx, tenant_id, filter_, order, after=after, count=count, at=at)
            memory_ids = [cursor.memory_id for cursor in ordered.cursors]
            first = await self._read_scored(tx, tenant_id, memory_ids[:batch_size], filter_.as_of_time, at=at)
        return MemoryPage(
            memories=first,
            remaining_ids=memory_ids[batch_size:],
            cursors={str(cursor.memory_id): cursor for cursor in ordered.cursors},
            after=ordered.after,
        )

    async def count_memories(self, tenant_id: UUID, filter_: Filter, *, at: datetime) -> int | None:
        """Count the matching memories; None when that takes a scan of more than MAX_ROWS_SCANNED."""
        spans = list(filter_.id_ranges(None, at))
        if not spans:
            return 0
        async with self._database.transaction(tenant_id, READ_ONLY) as tx:
            if filter_.access_path.kind in {"ids", "external_ids"}:
                matching = await find(tx, tenant_id, filter_, after=None, count=MAX_ROWS_SCANNED, at=at)
                return len(matching.memory_ids)
            # All ranges are read at once: the newest alone rarely give the count.
            scan = _FilteredScan(tx, tenant_id, filter_, at)
            bound = await oldest.first_month(tx, tenant_id)
            from_id = spans[-1][0] if bound is None else max(spans[-1][0], bound)
            results = await scan.read_range(filter_.access_path, from_id, spans[0][1], MAX_ROWS_SCANNED + 1)
        if len(results) > MAX_ROWS_SCANNED or any(is_match is None for _, is_match in results):
            return None
        return sum(is_match is True for _, is_match in results)

    async def read_memories(
        self, tenant_id: UUID, memory_ids: Sequence[UUID], as_of_time: datetime | None, *, at: datetime
    ) -> list[Memory]:
        """Read memories of a time, in the order of `memory_ids`; missing ones are left out."""
        async with self._database.transaction(tenant_id, READ_ONLY) as tx:
            return await self._read_scored(tx, tenant_id, memory_ids, as_of_time, at=at)

    async def get_memory_as_of(self, tenant_id: UUID, name: str, as_of_time: datetime) -> Memory:
        """Read the version of a memory at a time. Raises MemoryNotFound and MemoryNotYetKnown."""
        async with self._database.transaction(tenant_id) as tx:
            row = (await names.read_by_names(tx, QUERIES["find_first_known"], tenant_id, [name])).get(name)
            if row is None:
                raise MemoryNotFound
            if row["known_time"] > as_of_time:
                raise MemoryNotYetKnown(known_since=row["known_time"].isoformat())
            memories = await read(tx, tenant_id, [row["memory_id"]], as_of_time)
        if not memories or memories[0].is_expired(as_of_time):
            raise MemoryNotFound
        return memories[0]

    async def list_versions(
        self, tenant_id: UUID, name: str, *, before: int | None, count: int, at: datetime
    ) -> tuple[list[MemoryVersion], bool]:
        """Read up to `count` versions of a memory below the revision `before`, newest first, and one more to compare.

        Return also whether the last one read is the oldest. Raises MemoryNotFound.
        """
        async with self._database.transaction(tenant_id) as tx:
            current = (await names.read_by_names(tx, QUERIES["get_memories"], tenant_id, [name])).get(name)
            if current is None or memory_rows.memory_of(current).is_expired(at):
                raise MemoryNotFound
            versions = await _versions(tx, tenant_id, current["memory_id"], before=before, count=count + 1)
        if before is None:
            versions.insert(0, MemoryVersion(memory=memory_rows.memory_of(current), until_time=None))
        return versions[: count + 1], len(versions) <= count

    async def _read_scored(
        self, tx: Transaction, tenant_id: UUID, memory_ids: Sequence[UUID], as_of_time: datetime | None, *, at: datetime
    ) -> list[Memory]:
        """Read memories, with their scores at the time `at` unless `as_of_time` is set."""
        memories = await read(tx, tenant_id, memory_ids, as_of_time)
        return memories if as_of_time else await with_scores(tx, tenant_id, self._policies, memories, at=at)

    async def links_of(self, tenant_id: UUID, memory: Memory, count: int) -> list[Link]:
        """Read up to `count` of the newest links of a memory, in both directions, to deleted memories as well.

        Links to expired memories, and to those of another agent than that of the credential, are left out.
        """
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
            ends = {row[column] for row in rows for column in ("from_memory_id", "to_memory_id")}
            hidden_ids = await names.find_hidden(tx, tenant_id, ends, at=now())
        links = [Link(**dict(row)) for row in rows]
        return [link for link in links if hidden_ids.isdisjoint((link.from_memory_id, link.to_memory_id))]

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
    """Find up to `count` matching memories after `after`; scan at most MAX_ROWS_SCANNED.

    The newest come first; the oldest unless `is_descending`.
    """
    scan = _FilteredScan(tx, tenant_id, filter_, at, is_descending=is_descending)
    path = filter_.access_path
    if path.kind in {"ids", "external_ids"}:
        return await _filter_ids(scan, await _read_named_ids(tx, tenant_id, path), after=after, count=count)
    matches: list[UUID] = []
    remaining_rows, batch_size, last = MAX_ROWS_SCANNED, count + 1, after
    async for since, until in _id_ranges(tx, tenant_id, filter_, after, at, is_descending=is_descending):
        from_id, before_id = since, until
        while True:
            batch_size = min(batch_size, remaining_rows, _MAX_BATCH_SIZE)
            results = await scan.read_range(path, from_id, before_id, batch_size)
            for memory_id, is_match in results:
                if is_match is None or (is_match and len(matches) == count):
                    return MatchingIds(memory_ids=matches, after=last)
                if is_match:
                    matches.append(memory_id)
                last = memory_id
            remaining_rows -= max(1, len(results))
            if remaining_rows <= 0 or scan.scans.is_exhausted:
                return MatchingIds(memory_ids=matches, after=last)
            if len(results) < batch_size:
                break
            if is_descending:
                before_id = results[-1][0]
            else:
                from_id = UUID(int=results[-1][0].int + 1)
            batch_size *= _GROWTH
    return MatchingIds(memory_ids=matches, after=None)


async def _id_ranges(
    tx: Transaction, tenant_id: UUID, filter_: Filter, after: UUID | None, at: datetime, *, is_descending: bool
) -> AsyncIterator[tuple[UUID, UUID]]:
    """Yield the ranges of ids to scan, without the months before the tenant's oldest memory."""
    bound: UUID | None = None
    ranges = filter_.id_ranges(after, at) if is_descending else filter_.id_ranges_ascending(after, at)
    for number, (since, until) in enumerate(ranges):
        # The newest months hold a page of most tenants.
        if bound is None and (number or not is_descending):
            bound = await oldest.first_month(tx, tenant_id)
        from_id = since if bound is None else max(since, bound)
        if from_id < until:
            yield from_id, until


async def filter_ids(
    tx: Transaction, tenant_id: UUID, filter_: Filter, memory_ids: Sequence[UUID], *, after: UUID | None, count: int,
    at: datetime,
) -> MatchingIds:  # fmt: skip
    """Find the matching ones of some memories, newest first, after `after`."""
    return await _filter_ids(_FilteredScan(tx, tenant_id, filter_, at), memory_ids, after=after, count=count)


async def read(
    tx: Transaction, tenant_id: UUID, memory_ids: Sequence[UUID], as_of_time: datetime | None
) -> list[Memory]:
    """Read memories of a time, in the order of `memory_ids`; missing ones are left out."""
    if not memory_ids:
        return []
    memories = await memory_rows.read_memories(tx, tenant_id, memory_ids)
    if as_of_time is not None:
        # The version of then may be purged.
        memories = {id_: memory for id_, memory in memories.items() if memory.record_time <= as_of_time}
        rows = await tx.rows(
            QUERIES["versions_at"], tenant_id=tenant_id, memory_ids=list(memory_ids), as_of_time=as_of_time
        )
        memories |= {row["memory_id"]: memory_rows.memory_of(row) for row in rows}
    return [memories[id_] for id_ in memory_ids if id_ in memories]


class _FilteredScan:
    """Scans memories and checks them against a filter."""

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
        self, path: AccessPath, from_id: UUID, before_id: UUID, count: int
    ) -> list[tuple[UUID, bool | None]]:
        """Return the first memories of a range of ids by an access path, and whether each matches.

        None: the budget of the call ended before this memory, and so before all after it.
        """
        values: dict[str, object] = {"from_id": from_id, "before_id": before_id, "count": count}
        if path.kind in {"tags", "properties"}:
            values |= {"values": list(path.values)}
            if path.kind == "properties":
                values |= {"names": list(path.names)}
            rows = await self._tx.rows(
                self._in_direction(QUERIES[_PATH_QUERIES[path.kind]]), tenant_id=self._tenant_id, **values
            )
            return await self.check_ids([row["memory_id"] for row in rows])
        query = QUERIES["scan_memories"]
        if path.kind == "column":
            query = _by_column(path.column)
            values |= {"values": list(path.values)}
        results = await self._check(self._in_direction(query), ENTRIES, **values)
        return results if self._as_of_time is None else await self._check_versions(results)

    def _in_direction(self, query: Query) -> Query:
        return query if self.is_descending else _ascending(query)

    async def check_ids(self, memory_ids: Sequence[UUID]) -> list[tuple[UUID, bool | None]]:
        """Return whether each memory matches, in the order of the scan, as `read_range` does."""
        if not memory_ids:
            return []
        query = self._in_direction(QUERIES["scan_ids"])
        is_match_by_id = dict(await self._check(query, ENTRIES, memory_ids=list(memory_ids)))
        results = [(memory_id, is_match_by_id.get(memory_id, False)) for memory_id in memory_ids]
        return results if self._as_of_time is None else await self._check_versions(results)

    async def _check(self, query: Query, source: FilterTable, **values: object) -> list[tuple[UUID, bool | None]]:
        """Run a query with the condition within the call's budget; return whether each memory matches."""
        condition = compile_to_sql(self._condition, source)
        cost_sql = scan_cost.scan_cost_sql(self._condition, source)
        if cost_sql:
            query = scan_cost.with_scan_budget(query, cost_sql)
            values |= {"scan_bytes": max(1, self.scans.remaining)}
        statement = self._tx.rows(
            with_condition(query, condition.text), tenant_id=self._tenant_id, **values, **condition.values
        )
        rows = await (self.scans.run_and_charge(statement) if cost_sql else statement)
        return [(row["memory_id"], row["passes"]) for row in rows]

    async def _check_versions(
        self, current_results: Sequence[tuple[UUID, bool | None]]
    ) -> list[tuple[UUID, bool | None]]:
        """Return whether each memory matched at the requested time; `current_results` say whether it matches now."""
        checked_ids = [memory_id for memory_id, is_match in current_results if is_match is not None]
        query = self._in_direction(QUERIES["match_versions"])
        version_matches = dict(await self._check(query, VERSIONS, memory_ids=checked_ids, as_of_time=self._as_of_time))
        results = {memory_id: version_matches.get(memory_id, is_match) for memory_id, is_match in current_results}
        first_known = await self._tx.rows(
            QUERIES["find_first_known"],
            tenant_id=self._tenant_id,
            memory_ids=[memory_id for memory_id, is_match in results.items() if is_match],
        )
        known_ids = {row["memory_id"] for row in first_known if row["known_time"] <= self._as_of_time}
        return [(id_, None if is_match is None else id_ in known_ids) for id_, is_match in results.items()]


def scan_budget(tx: Transaction, tenant_id: UUID, condition: Expression | None) -> ScanBudget:
    """Return the scan budget of a call. Raises ReadTooCostly when the tenant has none left."""
    if scan_cost.scan_cost_sql(condition, ENTRIES):
        return tx.database.scan_buckets.begin(tenant_id)
    return ScanBudget(tx.database.scan_buckets, tenant_id)


async def matching_ids(
    tx: Transaction, tenant_id: UUID, condition: Expression | None, memory_ids: Sequence[UUID]
) -> set[UUID]:
    """Return those of some memories that pass a condition as they are now."""
    sql = filters.compile_to_sql(condition, ENTRIES)
    query = with_condition(QUERIES["match_memories"], sql.text)
    rows = await tx.rows(query, tenant_id=tenant_id, memory_ids=list(memory_ids), **sql.values)
    return {row["memory_id"] for row in rows}


async def _filter_ids(
    scan: _FilteredScan, memory_ids: Sequence[UUID], *, after: UUID | None, count: int
) -> MatchingIds:
    is_descending = scan.is_descending
    remaining_ids = {id_ for id_ in memory_ids if after is None or (id_ < after if is_descending else id_ > after)}
    ordered_ids = sorted(remaining_ids, reverse=is_descending)
    matches: list[UUID] = []
    last = after
    for memory_id, is_match in await scan.check_ids(ordered_ids):
        if is_match is None or (is_match and len(matches) == count):
            return MatchingIds(memory_ids=matches, after=last)
        if is_match:
            matches.append(memory_id)
        last = memory_id
    return MatchingIds(memory_ids=matches, after=None)


async def _read_named_ids(tx: Transaction, tenant_id: UUID, path: AccessPath) -> list[UUID]:
    if path.kind == "ids":
        return [id_ for value in path.values if (id_ := parse_id(value)) is not None]
    rows = await tx.rows(QUERIES["find_external_ids"], tenant_id=tenant_id, external_ids=list(path.values))
    return [row["memory_id"] for row in rows]


_PATH_QUERIES = {"tags": "scan_by_tag", "properties": "scan_by_property"}


@lru_cache(maxsize=64)
def _ascending(query: Query) -> Query:
    """Return the scan in the other direction: the same index is read from its other end."""
    return replace(query, text=query.text.replace("memory_id DESC", "memory_id"))


@lru_cache(maxsize=32)
def _by_column(column: str) -> Query:
    query = QUERIES["scan_by_column"]
    value = _VALUES.get(column, "requested.value")
    return replace(query, text=query.text.replace("{column}", column).replace("{value}", value))
