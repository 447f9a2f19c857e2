"""The term cache: documents and postings in memory, of the tenants that search most.

The database says what has changed. The first statement of a search returns the documents of every transaction that was
open when the cached ones were read, or began later, and number and length of all documents. The search reads those
documents that it does not know. If the cache then has the same documents and the same totals as the statement, nothing
was deleted, and every word is found as in the database. Else the search reads the database, and the cache is compared
with it in the background.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import asyncpg

from skein_kit.telemetry import logs
from skein_kit.telemetry.metrics import TERM_CACHE_BYTES
from skein_recall.term_cache.store import TermCacheStore, document_of
from skein_recall.term_cache.table import TermTable
from skein_recall.vector_cache.store import TransactionHorizon, VectorCacheStore

log = logs.get("recall")
# A tenant is loaded after this many searches within this time.
_MIN_SEARCHES, _SEARCH_WINDOW_SECONDS = 2, 60.0
# Changed documents in one search: from the first number on the horizon is moved; beyond the second the database
# searches.
_REFRESH_FROM, MAX_CHANGED = 100, 500
# A table unused for this long is evicted. Before the second time it is not evicted for another.
_IDLE_SECONDS, _KEEP_SECONDS = 600.0, 60.0
# A table is loaded again at this age. At twice the age it is evicted.
_MAX_AGE_SECONDS = 1800.0
_HORIZON_TTL_SECONDS, _HORIZON_POLL_SECONDS = 5.0, 0.1
# Pause between two comparisons with the database, and after a load that failed or found no room.
_PAUSE_SECONDS, _BACKOFF_SECONDS = 1.0, 300.0
_LOAD_SECONDS = 120.0
# Tenants whose searches are counted.
_MAX_TENANTS = 10_000
# Memory of a document with its postings, about, to refuse a tenant before it is read.
_DOCUMENT_BYTES = 500


@dataclass(slots=True)
class _CacheEntry:
    """A tenant's searches, and its table once it is loaded. Times are of the cache's clock."""

    searches: int = 0
    window_start: float = 0.0
    last_used: float = 0.0
    next_refresh: float = 0.0
    table: TermTable | None = None


class TermCache:
    """The cached words of one process."""

    def __init__(
        self,
        store: TermCacheStore,
        horizons: VectorCacheStore,
        *,
        max_bytes: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Cache up to `max_bytes`; 0: nothing. `clock` is in seconds."""
        self._store = store
        self._horizons = horizons
        self._max_bytes = max_bytes
        self._clock = clock
        # The latest search is last.
        self._entries: OrderedDict[UUID, _CacheEntry] = OrderedDict()
        self._load_queue: asyncio.Queue[UUID] = asyncio.Queue()
        self._queued: set[UUID] = set()
        # The latest durable horizon, and when it was read.
        self._horizon: TransactionHorizon | None = None
        self._horizon_time = 0.0
        TERM_CACHE_BYTES.set_function(lambda: self.byte_size)

    @property
    def byte_size(self) -> int:
        """Memory of the tables in bytes."""
        return sum(entry.table.byte_size for entry in self._entries.values() if entry.table is not None)

    def table(self, tenant_id: UUID) -> TermTable | None:
        """Return a tenant's table for a search, which has to prove it; None when the tenant is not cached."""
        if not self._max_bytes:
            return None
        at = self._clock()
        entry = self._entries.setdefault(tenant_id, _CacheEntry(window_start=at))
        self._entries.move_to_end(tenant_id)
        entry.last_used = at
        if entry.table is None:
            self._count_search(tenant_id, entry, at)
        elif at - entry.table.read_time > 2 * _MAX_AGE_SECONDS:
            entry.table = None
        elif at - entry.table.read_time > _MAX_AGE_SECONDS or entry.table.is_worn:
            self._enqueue(tenant_id, entry, at)
        return entry.table

    def put_documents(self, table: TermTable, rows: Sequence[asyncpg.Record]) -> None:
        """Add changed documents, as `read_documents_with_postings` returns them."""
        for row in rows:
            counts = list(zip(row["frequencies"] or (), row["header_frequencies"] or (), strict=True))
            table.put(document_of(row), row["terms"] or (), counts)

    def is_proved(
        self,
        tenant_id: UUID,
        table: TermTable,
        server_start: datetime,
        changed: Mapping[UUID, int],
        totals: Mapping[str, tuple[int, int]],
    ) -> bool:
        """Return whether a table has what one statement saw: its changed documents and totals, on the same server.

        Otherwise the table is compared with the database soon. `changed` has the documents of the table's horizon and
        later, with their transactions; `totals` number and length of the documents of each kind.
        """
        entry, at = self._entries.get(tenant_id), self._clock()
        is_current = entry is not None and entry.table is table
        if server_start != table.horizon.server_start:
            if entry is not None and is_current:
                entry.table = None
            self._horizon = None
            return False
        is_same = len(changed) <= MAX_CHANGED and table.changed == changed and table.has_totals(totals)
        if entry is not None and is_current and (not is_same or len(changed) >= _REFRESH_FROM):
            self._enqueue(tenant_id, entry, at)
        return is_same

    def drop(self, tenant_id: UUID | None) -> None:
        """Evict a tenant, including one that is being loaded; None: every tenant."""
        for known_id in [known_id for known_id in self._entries if tenant_id in (None, known_id)]:
            del self._entries[known_id]

    async def run(self) -> None:
        """Load and compare queued tenants one at a time, and evict idle ones, until cancelled."""
        while True:
            try:
                async with asyncio.timeout(_IDLE_SECONDS / 10):
                    tenant_id = await self._load_queue.get()
            except TimeoutError:
                self._evict_idle()
                continue
            entry = self._entries.get(tenant_id)
            try:
                if entry is not None:
                    async with asyncio.timeout(_LOAD_SECONDS):
                        await self._refresh(tenant_id, entry)
            except Exception as error:  # noqa: BLE001 - the database serves this tenant, and others wait.
                log.warning("term_load_failed", error=type(error).__name__)
                if entry is not None:
                    entry.table = None
                    entry.next_refresh = self._clock() + _BACKOFF_SECONDS
            finally:
                # Requests during the load asked for this one.
                self._queued.discard(tenant_id)
            self._evict_idle()

    def _count_search(self, tenant_id: UUID, entry: _CacheEntry, at: float) -> None:
        if at - entry.window_start > _SEARCH_WINDOW_SECONDS:
            entry.window_start, entry.searches = at, 0
        entry.searches += 1
        if entry.searches >= _MIN_SEARCHES:
            self._enqueue(tenant_id, entry, at)
        while len(self._entries) > _MAX_TENANTS:
            self._entries.popitem(last=False)

    def _enqueue(self, tenant_id: UUID, entry: _CacheEntry, at: float) -> None:
        if tenant_id not in self._queued and at >= entry.next_refresh:
            self._queued.add(tenant_id)
            self._load_queue.put_nowait(tenant_id)

    async def _refresh(self, tenant_id: UUID, entry: _CacheEntry) -> None:
        """Compare a table with the database, or load all where there is none, or too much has changed."""
        table = entry.table
        is_fresh = table is not None and self._clock() - table.read_time <= _MAX_AGE_SECONDS and not table.is_worn
        if table is None or not is_fresh or not await self._compare(tenant_id, table):
            await self._load(tenant_id, entry)
        entry.next_refresh = max(entry.next_refresh, self._clock() + _PAUSE_SECONDS)

    async def _compare(self, tenant_id: UUID, table: TermTable) -> bool:
        """Bring a table up to date and move its horizon; return False if too much has changed."""
        horizon = await self._durable_horizon()
        if horizon.server_start != table.horizon.server_start:
            return False
        changed = await self._store.read_changed(tenant_id, table.horizon.transaction, 4 * MAX_CHANGED)
        if changed is None:
            return False
        unknown = [item_id for item_id, number in changed if table.changed.get(item_id) != number]
        for start in range(0, len(unknown), _REFRESH_FROM):
            batch = unknown[start : start + _REFRESH_FROM]
            self.put_documents(table, await self._store.read_with_postings(tenant_id, batch))
        table.remove_missing(await self._store.list_ids(tenant_id))
        table.advance(horizon)
        return True

    async def _load(self, tenant_id: UUID, entry: _CacheEntry) -> None:
        """Load a tenant, if there is room for it."""
        at = self._clock()
        max_count = self._max_bytes // _DOCUMENT_BYTES
        count = await self._store.count(tenant_id, max_count + 1)
        entry.next_refresh = at + _BACKOFF_SECONDS
        if not count or not self._evict_for(entry, count * _DOCUMENT_BYTES):
            entry.table = None
            return
        table = TermTable(await self._durable_horizon(), at)
        async for documents in self._store.read_documents(tenant_id):
            table.load_documents(documents)
        async for postings in self._store.read_postings(tenant_id):
            table.load_postings(postings)
        # Meanwhile the entry may have been dropped.
        if self._entries.get(tenant_id) is entry and self._evict_for(entry, table.byte_size):
            entry.table = table
            entry.next_refresh = 0.0

    async def _durable_horizon(self) -> TransactionHorizon:
        """Return a horizon, some seconds old at most, whose transaction numbers no crash can reuse."""
        began = self._clock()
        if self._horizon is None or began - self._horizon_time > _HORIZON_TTL_SECONDS:
            horizon = await self._horizons.read_horizon()
            while not (is_durable := await self._horizons.is_durable(horizon)):
                # None: another server answers, so that the horizon is worthless.
                horizon = await self._horizons.read_horizon() if is_durable is None else horizon
                await asyncio.sleep(_HORIZON_POLL_SECONDS)
            self._horizon, self._horizon_time = horizon, began
        return self._horizon

    def _evict_for(self, entry: _CacheEntry, size: int) -> bool:
        """Evict idle tenants until there is room for an entry of this size; return whether there is."""
        entry.table = None
        before = self._clock() - _KEEP_SECONDS
        for each in list(self._entries.values()):
            if self.byte_size + size <= self._max_bytes:
                break
            if each.last_used < before:
                each.table = None
        return self.byte_size + size <= self._max_bytes

    def _evict_idle(self) -> None:
        before = self._clock() - _IDLE_SECONDS
        while self._entries and next(iter(self._entries.values())).last_used < before:
            self._entries.popitem(last=False)
