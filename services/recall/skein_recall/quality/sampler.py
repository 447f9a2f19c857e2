"""Samples of live traffic, kept in memory: searches that are repeated exactly to measure recall, and recent queries.

Metrics have the search's path, never a tenant. The tenants whose searches missed most are logged.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

import asyncpg
import numpy as np
from numpy.typing import NDArray

from skein_kit.errors import RpcError
from skein_kit.telemetry import logs
from skein_kit.telemetry.metrics import RECALL_SAMPLED, RECALL_SHORTFALL, RECALL_UNSAMPLED
from skein_recall.models.model import EmbeddingModel
from skein_recall.search.filter import Filter
from skein_recall.search.model import SearchOptions
from skein_recall.search.store import QueryStore

log = logs.get("recall")
# The path of searches that approximate codes answer.
APPROXIMATE = "approximate"
# Samples in the queue; more are dropped and counted.
_MAX_SAMPLES = 64
# An exact search is ended after this time, where the shortlists were approximate after the second one: the tenant is
# large. The pause after it is many times as long as it took, to keep it cheap.
_TIMEOUT_SECONDS, _LARGE_TIMEOUT_SECONDS = 10.0, 30.0
_PAUSE_FACTOR = 49.0
_MAX_PAUSE_SECONDS = 60.0
# How often the tenants that missed most are logged, and how many of them.
_LOG_SECONDS = 300.0
_LOGGED_TENANTS = 5
# Half precision has 11 bits; a sum of products of unit vectors is exact to about this much.
_TOLERANCE = 0.002

MAX_TENANTS = 500
MAX_QUERIES = 64
# Longer texts are pasted documents, and would take much memory.
MAX_CHARACTERS = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """A search as it was served."""

    tenant_id: UUID
    model: EmbeddingModel
    # Float32 of the model's dimensions, of unit length.
    vector: NDArray[np.float32]
    kinds: tuple[str, ...]
    filter: Filter
    # How the vectors were searched.
    path: str
    limit: int
    # The items that the vector found, the nearest first.
    nearest: tuple[UUID, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleResult:
    """The quality of a search."""

    # Share of the true neighbours that were returned, 0 to 1.
    recall: float
    # Items that exist and were not returned.
    shortfall: int

    @classmethod
    def of(cls, served: tuple[UUID, ...], nearest: dict[UUID, float], limit: int) -> SampleResult:
        """Compare the served items with the true neighbours and their cosines.

        Items as near as the last true neighbour count as true. Vectors that are equal within half precision have no
        order that a search could miss.
        """
        best = list(nearest)[:limit]
        if not best:
            return cls(recall=1.0, shortfall=0)
        min_cosine = nearest[best[-1]] - _TOLERANCE
        hits = sum(nearest.get(item_id, -2.0) >= min_cosine for item_id in served[:limit])
        return cls(recall=min(1.0, hits / len(best)), shortfall=max(0, len(best) - len(served)))


class Sampler:
    """Repeats a share of the searches exactly, in the background."""

    def __init__(
        self,
        store: QueryStore,
        *,
        share: float,
        on_result: Callable[[UUID, EmbeddingModel, float], None] | None = None,
        random_source: Callable[[], float] = random.random,
    ) -> None:
        """Sample a `share` of the searches, 0 to 1; `random_source` returns numbers from 0 to 1.

        `on_result` gets the tenant, the model and the recall of each search on the path "approximate".
        """
        self._store = store
        self._on_result = on_result
        self._share = share
        self._random_source = random_source
        self._queue: asyncio.Queue[Sample] = asyncio.Queue(_MAX_SAMPLES)
        self._misses: Counter[UUID] = Counter()

    def should_sample(self) -> bool:
        """Return whether to sample the next search."""
        return self._share > 0 and self._random_source() < self._share

    def put(self, sample: Sample) -> None:
        """Queue a sample; drop it when the queue is full."""
        try:
            self._queue.put_nowait(sample)
        except asyncio.QueueFull:
            RECALL_UNSAMPLED.inc()

    def drop(self, tenant_id: UUID | None) -> None:
        """Remove the samples of a tenant; None: of every tenant."""
        samples = [self._queue.get_nowait() for _ in range(self._queue.qsize())]
        for sample in samples:
            if tenant_id is not None and sample.tenant_id != tenant_id:
                self._queue.put_nowait(sample)

    async def run(self) -> None:
        """Evaluate samples one after another, until cancelled."""
        loop = asyncio.get_running_loop()
        logged = loop.time()
        while True:
            sample = await self._queue.get()
            started = loop.time()
            try:
                await self.evaluate(sample)
            except (RpcError, TimeoutError, asyncpg.UndefinedTableError) as error:
                # The database is unavailable or busy, or the model was dropped; the next sample may work.
                RECALL_UNSAMPLED.inc()
                log.warning("sample_evaluation_failed", reason=type(error).__name__)
            if loop.time() - logged > _LOG_SECONDS:
                logged = loop.time()
                self._log_worst()
            await asyncio.sleep(min(_MAX_PAUSE_SECONDS, (loop.time() - started) * _PAUSE_FACTOR))

    async def evaluate(self, sample: Sample) -> SampleResult:
        """Repeat a search exactly, and measure the one that was served."""
        is_approximate = sample.path == APPROXIMATE
        async with (
            asyncio.timeout(_LARGE_TIMEOUT_SECONDS if is_approximate else _TIMEOUT_SECONDS),
            self._store.transaction(sample.tenant_id, SearchOptions(is_filtered=True)) as tx,
        ):
            nearest = await tx.nearest_exact(
                sample.model,
                sample.vector,
                sample.kinds,
                sample.filter,
                count=2 * sample.limit,
                by_index=is_approximate,
            )
        result = SampleResult.of(sample.nearest, nearest, sample.limit)
        RECALL_SAMPLED.labels(sample.path).observe(result.recall)
        RECALL_SHORTFALL.labels(sample.path).inc(result.shortfall)
        if self._on_result is not None and is_approximate:
            self._on_result(sample.tenant_id, sample.model, result.recall)
        if result.recall < 1:
            self._misses[sample.tenant_id] += 1
        return result

    def _log_worst(self) -> None:
        """Log the tenants whose searches missed most since the last time."""
        for tenant_id, searches in self._misses.most_common(_LOGGED_TENANTS):
            log.warning("neighbours_missed", tenant_id=str(tenant_id), searches=searches)
        self._misses.clear()


class RecentQueries:
    """The latest queries of the tenants that searched last, to compare models by. Never written down, never logged."""

    def __init__(self, *, max_tenants: int = MAX_TENANTS, max_queries: int = MAX_QUERIES) -> None:
        """Keep up to `max_queries` of each of up to `max_tenants`."""
        self._max_tenants = max_tenants
        self._max_queries = max_queries
        self._queries: OrderedDict[UUID, deque[str]] = OrderedDict()

    def add(self, tenant_id: UUID, text: str) -> None:
        """Add a query, unless it is kept already or longer than MAX_CHARACTERS."""
        if not 0 < len(text) <= MAX_CHARACTERS:
            return
        queries = self._queries.setdefault(tenant_id, deque(maxlen=self._max_queries))
        if text not in queries:
            queries.append(text)
        self._queries.move_to_end(tenant_id)
        if len(self._queries) > self._max_tenants:
            self._queries.popitem(last=False)

    def drop(self, tenant_id: UUID | None) -> None:
        """Remove the queries of a tenant; None: of every tenant."""
        if tenant_id is None:
            self._queries.clear()
        else:
            self._queries.pop(tenant_id, None)

    def tenants(self) -> list[UUID]:
        """Return the tenants, the one that searched last first."""
        return list(reversed(self._queries))

    def queries(self, tenant_id: UUID, count: int) -> list[str]:
        """Return up to `count` latest queries of a tenant."""
        return list(self._queries.get(tenant_id, ()))[-count:]
