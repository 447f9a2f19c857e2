"""The vector cache: vectors in memory, of the tenants that search most.

The cache proposes and the database decides. A search gets a shortlist of the nearest cached items. The database
compares them again, as the tenant, together with all items written since. So deleted, changed and foreign items are not
found, and new ones are. A vector never changes: an item that gets other vectors loses the old ones, and the writing
transaction shows the new ones. If the shortlist proves that no other item can be nearer, the result is exact. If not,
the index is scanned as without a cache.

A tenant with many chunks is promoted to approximate codes, whose shortlists are longer and believed. A probe while they
load counts what these miss. Where it is too much, the tenant is demoted to exact codes, or the index if these find no
room, and promoted again later.

Candidates of other signals are compared here as well, if the database says that nothing of them was written since. If
that happens between the shortlist and the search's first statement, the result is that of the first statement.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

import asyncpg
import numpy as np
from numpy.typing import NDArray

from skein_kit.telemetry import logs
from skein_kit.telemetry.metrics import (
    VECTOR_CACHE_BYTES,
    VECTOR_CACHE_DEMOTIONS,
    VECTOR_CACHE_LOADS,
    VECTOR_CACHE_TENANTS,
)
from skein_recall.models.model import EmbeddingModel
from skein_recall.vector_cache.codes import BitCodes, ExactCodes
from skein_recall.vector_cache.item_ids import to_uuids
from skein_recall.vector_cache.matrix import Shortlist, VectorMatrix, byte_size
from skein_recall.vector_cache.store import ChunkVectors, TransactionHorizon, VectorCacheStore

if TYPE_CHECKING:
    from skein_recall.vector_cache.matrix import CacheKey


# Vectors of a probe, and the neighbours of each.
_QUERIES, _NEIGHBOURS = 48, 10
# Length of the difference from a loaded vector: a question is about as far from its answer, with a cosine of 0.7.
_NOISE = 1.0
# Items that the database compares at least, tried in this order. A thousand cost it 5 to 20 ms.
LISTED_ITEMS = (250, 500, 1000, 2000)
_KINDS = ("memory", "message")


class RecallProbe:
    """Finds the true neighbours of a few vectors while all others are loaded."""

    def __init__(self, sample: NDArray[np.float32]) -> None:
        """Probe with vectors like some of a sample (n, dimensions)."""
        source = np.random.default_rng(len(sample))
        chosen = sample[source.choice(len(sample), min(_QUERIES, len(sample)), replace=False)]
        noise = source.standard_normal(chosen.shape, dtype=np.float32)
        queries = chosen + noise * np.float32(_NOISE / np.sqrt(sample.shape[1]))
        self._queries = (queries / np.linalg.norm(queries, axis=1, keepdims=True)).astype(np.float32)
        self._cosines = np.empty((len(queries), 0), dtype=np.float32)
        self._ids = np.empty((len(queries), 0, 2), dtype=np.uint64)

    def add(self, chunks: ChunkVectors) -> None:
        """Compare more chunks."""
        # One at a time: the operator `@` would use every core.
        cosines = np.stack([np.vecdot(chunks.vectors, query) for query in self._queries])
        ids = np.broadcast_to(chunks.ids, (len(cosines), *chunks.ids.shape))
        cosines, ids = np.concatenate([self._cosines, cosines], axis=1), np.concatenate([self._ids, ids], axis=1)
        nearest = np.argsort(-cosines, axis=1, kind="stable")[:, :_NEIGHBOURS]
        self._cosines = np.take_along_axis(cosines, nearest, axis=1)
        self._ids = np.take_along_axis(ids, nearest[:, :, np.newaxis], axis=1)

    def tune(self, matrix: VectorMatrix, min_recall: float) -> VectorMatrix | None:
        """Return a matrix of approximate codes that lists enough items for a recall; None where too many were needed.

        Recall is the share of the true neighbours that are listed, 0 to 1.
        """
        codes = matrix.codes
        if not isinstance(codes, BitCodes):
            return matrix
        for count in LISTED_ITEMS:
            tuned = replace(matrix, codes=replace(codes, min_listed=count))
            if self._recall(tuned, count) >= min_recall:
                return tuned
        return None

    def _recall(self, matrix: VectorMatrix, count: int) -> float:
        shares = []
        for query, ids in zip(self._queries, self._ids, strict=True):
            nearest = matrix.nearest(query, _KINDS, count)
            true_ids = set(to_uuids(ids))
            shares.append(len(true_ids & set(nearest[0])) / len(true_ids) if nearest else 0.0)
        return sum(shares) / len(shares)


log = logs.get("recall")
# A tenant's vectors are loaded after this many searches within this time.
_MIN_SEARCHES, _SEARCH_WINDOW_SECONDS = 2, 60.0
# The index is as fast for a tenant with fewer chunks; approximate codes are faster for one with more than so many.
MIN_CHUNKS, MAX_EXACT_CHUNKS = 100, 250_000
# Share of the true neighbours that approximate codes must find; below it a tenant is demoted.
MIN_RECALL = 0.98
# Pause of approximate codes after a demotion: it doubles up to the second value.
_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 3600.0, 86_400.0
_FORM_NAMES: dict[type[ExactCodes | BitCodes], str] = {ExactCodes: "exact", BitCodes: "approximate"}
# New vectors in one search, from which on they are loaded, and as many as are read at most before all are loaded again.
_REFRESH_FROM, _MAX_REFRESHED = 250, 20_000
# Free rows of a matrix: a share of its rows, and a number.
_SPARE_SHARE, _SPARE_ROWS = 0.125, 512
# Vectors unused for this long are evicted. Before the second time they are not evicted for others, so that two tenants
# do not evict each other in turns.
IDLE_SECONDS, _KEEP_SECONDS = 600.0, 60.0
# At this age the ids are read again, and the vectors of deleted items erased; at twice the age all are evicted. All are
# loaded again where more than this share of the rows is hidden.
MAX_AGE_SECONDS, _MAX_HIDDEN_SHARE = 1800.0, 0.2
# Age of a horizon; with a new one for each tenant, each would wait until the log is on disk, up to a second.
_HORIZON_TTL_SECONDS, _HORIZON_POLL_SECONDS = 5.0, 0.1
# Pause between full loads of a tenant. It doubles up to the second value, until a refresh succeeds.
_FIRST_BACKOFF_SECONDS, _MAX_BACKOFF_SECONDS = 60.0, 3600.0
# Time limit of a load, plus a second for each so many rows.
_LOAD_SECONDS, _ROWS_PER_SECOND = 60.0, 2000
# Tenants whose searches are counted.
_MAX_TENANTS = 10_000
# Up to this many quantized numbers, and exact ones, are compared on the event loop, in about two milliseconds. More are
# compared in a thread. For fewer that would be slower: a thread waits for the interpreter several times.
_MAX_QUANTIZED_ON_LOOP, _MAX_EXACT_ON_LOOP = 30_000_000, 1_000_000


@dataclass(slots=True)
class _CacheEntry:
    """A tenant's searches with one model, and its vectors once they are loaded. Times are of the cache's clock."""

    model: EmbeddingModel
    # Searches since the window began.
    searches: int = 0
    window_start: float = 0.0
    last_used: float = 0.0
    matrix: VectorMatrix | None = None
    # Earliest times of the next refresh and the next full load, and the pause after that.
    next_refresh: float = 0.0
    next_full_load: float = 0.0
    backoff: float = _FIRST_BACKOFF_SECONDS
    # The earliest time of the next approximate codes, and the pause after the next demotion.
    next_approximate: float = 0.0
    pause: float = _FIRST_PAUSE_SECONDS

    def demote(self, at: float) -> None:
        """Use no approximate codes for some time, each time longer."""
        VECTOR_CACHE_DEMOTIONS.inc()
        self.next_approximate = at + self.pause
        self.pause = min(2 * self.pause, _MAX_PAUSE_SECONDS)

    def back_off(self, at: float) -> None:
        """Load nothing for some time, each time longer."""
        self.next_refresh = self.next_full_load = at + self.backoff
        self.backoff = min(2 * self.backoff, _MAX_BACKOFF_SECONDS)


class VectorCache:
    """The cached vectors of one process."""

    def __init__(
        self,
        store: VectorCacheStore,
        *,
        max_bytes: int,
        min_chunks: int = MIN_CHUNKS,
        max_exact_chunks: int = MAX_EXACT_CHUNKS,
        min_recall: float = MIN_RECALL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Cache up to `max_bytes` of vectors, including those being loaded; 0: none. `clock` is in seconds.

        Tenants with more than `max_exact_chunks` have approximate codes if these find the share `min_recall`.
        """
        self._store = store
        self._max_bytes = max_bytes
        self._min_chunks = max(1, min_chunks)
        self._max_exact_chunks = max_exact_chunks
        self._min_recall = min_recall
        self._clock = clock
        # The latest search is last.
        self._entries: OrderedDict[CacheKey, _CacheEntry] = OrderedDict()
        self._bytes = 0
        self._load_queue: asyncio.Queue[CacheKey] = asyncio.Queue()
        self._queued: set[CacheKey] = set()
        # The latest durable horizon, and when it was read.
        self._horizon: TransactionHorizon | None = None
        self._horizon_time = 0.0
        VECTOR_CACHE_BYTES.set_function(lambda: self.byte_size)
        for form, name in _FORM_NAMES.items():
            VECTOR_CACHE_TENANTS.labels(name).set_function(partial(self.count_tenants, form))

    def count_tenants(self, form: type[ExactCodes | BitCodes]) -> int:
        """Return how many tenants have vectors with codes of a form."""
        return sum(
            entry.matrix is not None and isinstance(entry.matrix.codes, form) for entry in self._entries.values()
        )

    @property
    def byte_size(self) -> int:
        """Memory of the cached vectors in bytes."""
        return self._bytes

    def count_cached(self, tenant_id: UUID, model: EmbeddingModel) -> int:
        """Count a search of a tenant, which may be cached for it; return its number of cached chunks, 0 for none."""
        _, entry = self._searched(tenant_id, model)
        return 0 if entry is None or entry.matrix is None else entry.matrix.count

    async def shortlist(
        self,
        tenant_id: UUID,
        model: EmbeddingModel,
        vector: NDArray[np.float32],
        kinds: tuple[str, ...],
        count: int,
        among: NDArray[np.uint64] | None = None,
    ) -> Shortlist | None:
        """Return about the `count` items nearest to a vector (dimensions,); None when the tenant is not cached.

        With `among` (n, 2), the nearest of the items with these ids.
        """
        key, entry = self._searched(tenant_id, model)
        if entry is None or entry.matrix is None:
            return None
        matrix = entry.matrix
        numbers = matrix.codes.dimensions * (matrix.count if among is None else len(among))
        limit = _MAX_QUANTIZED_ON_LOOP if among is None else _MAX_EXACT_ON_LOOP
        if numbers <= limit and matrix.codes.is_exact:
            shortlist = Shortlist.of_matrix(
                key, matrix, vector, kinds, count, among=among, max_values=_MAX_EXACT_ON_LOOP
            )
            if shortlist is not None:
                return shortlist
        return await asyncio.to_thread(Shortlist.of_matrix, key, matrix, vector, kinds, count, among=among)

    def accept_rows(self, shortlist: Shortlist, rows: Sequence[asyncpg.Record | Mapping[str, object]]) -> bool:
        """Return whether the database's rows for a shortlist are complete; update the cache by what they show."""
        entry = self._entries.get(shortlist.key)
        new = sum(row["is_new"] is True for row in rows)
        is_same_server = rows[0]["server"] == shortlist.horizon.server_start
        if entry is not None and entry.matrix is not None and entry.matrix.horizon is shortlist.horizon:
            at = self._clock()
            if not is_same_server:
                self._evict(entry)
                entry.back_off(at)
                self._horizon = None
            elif new >= _REFRESH_FROM:
                self._enqueue(shortlist.key, entry, at)
        return is_same_server and new < shortlist.max_new

    def drop(self, tenant_id: UUID | None) -> None:
        """Evict a tenant, including vectors being loaded; None: every tenant."""
        for key in [key for key in self._entries if tenant_id in (None, key[0])]:
            self._evict(self._entries.pop(key))

    async def run(self) -> None:
        """Load queued tenants one at a time, and evict idle ones, until cancelled."""
        while True:
            try:
                async with asyncio.timeout(_LOAD_SECONDS):
                    key = await self._load_queue.get()
            except TimeoutError:
                self._evict_idle()
                continue
            entry = self._entries.get(key)
            try:
                if entry is not None:
                    await self._refresh(key, entry)
            except Exception as error:  # noqa: BLE001 - the index serves this tenant, and others wait.
                log.warning("vector_load_failed", error=type(error).__name__)
                if entry is not None:
                    self._evict(entry)
                    entry.back_off(self._clock())
            finally:
                # Requests during the load asked for this one.
                self._queued.discard(key)
            self._evict_idle()

    def _searched(self, tenant_id: UUID, model: EmbeddingModel) -> tuple[CacheKey, _CacheEntry | None]:
        """Return the entry of a tenant that is searched; None where nothing is cached."""
        key, at = (tenant_id, model.table_name, model.create_time), self._clock()
        if not self._max_bytes:
            return key, None
        entry = self._entries.setdefault(key, _CacheEntry(model, window_start=at))
        self._entries.move_to_end(key)
        entry.last_used = at
        age = 0.0 if entry.matrix is None else at - entry.matrix.read_time
        if age > 2 * MAX_AGE_SECONDS:
            self._evict(entry)
        if entry.matrix is None:
            self._count_search(key, entry, at)
        elif age > MAX_AGE_SECONDS:
            self._enqueue(key, entry, at)
        return key, entry

    def _count_search(self, key: CacheKey, entry: _CacheEntry, at: float) -> None:
        if at - entry.window_start > _SEARCH_WINDOW_SECONDS:
            entry.window_start, entry.searches = at, 0
        entry.searches += 1
        if entry.searches >= _MIN_SEARCHES:
            self._enqueue(key, entry, at)
        while len(self._entries) > _MAX_TENANTS:
            _, oldest = self._entries.popitem(last=False)
            self._evict(oldest)

    def _enqueue(self, key: CacheKey, entry: _CacheEntry, at: float) -> None:
        if key not in self._queued and at >= entry.next_refresh:
            self._queued.add(key)
            self._load_queue.put_nowait(key)

    async def _refresh(self, key: CacheKey, entry: _CacheEntry) -> None:
        """Load new vectors and erase those of deleted items; load all where none are cached or too many changed."""
        began, cached = self._clock(), entry.matrix
        if cached is not None:
            matrix = await self._updated(key, entry, cached, may_load=began >= entry.next_full_load)
            if matrix is not None:
                if entry.matrix is cached and self._entries.get(key) is entry:
                    entry.matrix = matrix
                entry.next_refresh, entry.backoff = self._clock() + _HORIZON_TTL_SECONDS, _FIRST_BACKOFF_SECONDS
                return
            if began < entry.next_full_load:
                self._evict(entry)
                entry.next_refresh = entry.next_full_load
                return
        await self._load(key, entry)

    async def _updated(
        self, key: CacheKey, entry: _CacheEntry, cached: VectorMatrix, *, may_load: bool
    ) -> VectorMatrix | None:
        """Return a matrix with what was written since; None when all must be loaded, which `may_load` allows."""
        async with asyncio.timeout(_LOAD_SECONDS):
            horizon = await self._durable_horizon()
            new = await self._store.read_since(key[0], entry.model, cached.horizon, _MAX_REFRESHED)
        if new is None or horizon.server_start != cached.horizon.server_start:
            return None
        matrix = await asyncio.to_thread(cached.with_chunks, new, horizon=horizon)
        at = self._clock()
        if matrix is not None and at - cached.read_time > MAX_AGE_SECONDS:
            async with asyncio.timeout(_LOAD_SECONDS + matrix.count / _ROWS_PER_SECOND):
                ids = await self._store.read_items(key[0], entry.model)
            matrix = await asyncio.to_thread(matrix.without_items_beyond, ids, at)
        if matrix is None or not may_load:
            return matrix
        is_sparse = matrix.hidden_count > _MAX_HIDDEN_SHARE * matrix.count
        is_promoted = matrix.codes.is_exact and self._forms(entry, matrix.count)[:1] == [BitCodes]
        return None if is_sparse or is_promoted else matrix

    async def _load(self, key: CacheKey, entry: _CacheEntry) -> None:
        """Load all vectors of a tenant, if there are enough of them and room for them."""
        dimensions = entry.model.dimensions
        max_count = self._max_bytes // byte_size(1, dimensions, BitCodes) + 1
        count = await self._store.count(key[0], entry.model, max_count)
        rows = count + int(count * _SPARE_SHARE) + _SPARE_ROWS
        matrix: VectorMatrix | None = None
        for form in self._forms(entry, count):
            size = byte_size(rows, dimensions, form)
            if not self._evict_for(entry, size):
                continue
            self._bytes += size
            try:
                async with asyncio.timeout(_LOAD_SECONDS + rows / _ROWS_PER_SECOND):
                    matrix = await self._read(key[0], entry.model, rows, form)
            finally:
                self._bytes -= size
            if matrix is not None:
                break
            if form is BitCodes:
                entry.demote(self._clock())
        entry.back_off(self._clock())
        self._evict(entry)
        # Meanwhile the entry may have been dropped.
        if matrix is not None and self._entries.get(key) is entry:
            entry.matrix = matrix
            self._bytes += matrix.byte_size
            entry.next_refresh = self._clock() + _HORIZON_TTL_SECONDS
            VECTOR_CACHE_LOADS.labels(_FORM_NAMES[type(matrix.codes)]).inc()

    def _forms(self, entry: _CacheEntry, count: int) -> list[type[ExactCodes | BitCodes]]:
        """Return the forms of codes that suit a tenant with so many chunks, the best first."""
        if count < self._min_chunks:
            return []
        if self._clock() < entry.next_approximate or self._min_recall > 1:
            return [ExactCodes]
        return [BitCodes, ExactCodes] if count > self._max_exact_chunks else [ExactCodes, BitCodes]

    async def _read(
        self, tenant_id: UUID, model: EmbeddingModel, rows: int, form: type[ExactCodes | BitCodes]
    ) -> VectorMatrix | None:
        """Read all vectors of a tenant into a matrix with so many rows.

        None when there are none, more than that, or approximate codes would find too little.
        """
        horizon, at = await self._durable_horizon(), self._clock()
        matrix: VectorMatrix | None = None
        probe: RecallProbe | None = None
        async for chunks in self._store.read_all(tenant_id, model):
            if matrix is None:
                codes: ExactCodes | BitCodes
                if form is BitCodes:
                    probe = await asyncio.to_thread(RecallProbe, chunks.vectors)
                    codes = await asyncio.to_thread(BitCodes.empty, rows, chunks.vectors, LISTED_ITEMS[0])
                else:
                    codes = ExactCodes.empty(rows, model.dimensions)
                matrix = VectorMatrix.empty(horizon, at, codes)
            matrix = await asyncio.to_thread(matrix.with_chunks, chunks)
            if matrix is None:
                return None
            if probe is not None:
                await asyncio.to_thread(probe.add, chunks)
        if matrix is not None and probe is not None:
            # Halfway to all, because real questions may find a little less than those of the probe.
            return await asyncio.to_thread(probe.tune, matrix, (1 + self._min_recall) / 2)
        return matrix

    async def _durable_horizon(self) -> TransactionHorizon:
        """Return a horizon, some seconds old at most, whose transaction numbers no crash can reuse."""
        began = self._clock()
        if self._horizon is None or began - self._horizon_time > _HORIZON_TTL_SECONDS:
            horizon = await self._store.read_horizon()
            while not (is_durable := await self._store.is_durable(horizon)):
                # None: another server answers, so that the horizon is worthless.
                horizon = await self._store.read_horizon() if is_durable is None else horizon
                await asyncio.sleep(_HORIZON_POLL_SECONDS)
            self._horizon, self._horizon_time = horizon, began
        return self._horizon

    def _evict_for(self, entry: _CacheEntry, size: int) -> bool:
        """Evict idle tenants until there is room for an entry of this size; return whether there is.

        If that is not enough, none is evicted except the entry itself.
        """
        if self._bytes + size > self._max_bytes:
            self._evict(entry)
        before = self._clock() - _KEEP_SECONDS
        idle = [each for each in self._entries.values() if each.matrix is not None and each.last_used < before]
        excess = self._bytes + size - self._max_bytes
        if excess > sum(each.matrix.byte_size for each in idle if each.matrix is not None):
            return False
        # The longest idle one goes first.
        for each in idle:
            if self._bytes + size <= self._max_bytes:
                break
            self._evict(each)
        return True

    def _evict(self, entry: _CacheEntry) -> None:
        if entry.matrix is not None:
            self._bytes -= entry.matrix.byte_size
            entry.matrix = None

    def _evict_idle(self) -> None:
        before = self._clock() - IDLE_SECONDS
        while self._entries:
            key, entry = next(iter(self._entries.items()))
            if entry.last_used >= before:
                return
            self._evict(entry)
            del self._entries[key]
