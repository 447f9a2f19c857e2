"""Recall watches itself: a share of the live searches is repeated exactly, in the background, and compared.

Only vectors and ids wait here, in memory, a bounded number of them. What is exported names paths, never tenants; those
that did worst stand in the log.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import asyncpg

from skein_kit.errors import RpcError
from skein_kit.telemetry import logs
from skein_kit.telemetry.metrics import RECALL_SAMPLED, RECALL_SHORTFALL, RECALL_UNSAMPLED

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    import numpy as np
    from numpy.typing import NDArray

    from skein_recall.models.model import EmbeddingModel
    from skein_recall.query.filter import Filter
    from skein_recall.store import Store

log = logs.get("recall")
# Searches that wait to be repeated; more are let go of, and counted.
WAITING = 64
# One exact search may take so long; after it a pause many times as long as it took, so that watching stays cheap.
_SECONDS = 10.0
_REST = 49.0
_LONGEST_REST = 60.0
# How often the tenants that did worst are named, and how many.
_TELL_SECONDS = 300.0
_TOLD = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """A search as it was served: the items nearest to the vector, in their order."""

    tenant_id: UUID
    model: EmbeddingModel
    vector: NDArray[np.float32]
    kinds: tuple[str, ...]
    filter: Filter
    path: str
    # How many were wanted, and what was found by the vector.
    limit: int
    nearest: tuple[UUID, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleResult:
    """How a search did."""

    # The share of the truly nearest that were found, 0 to 1.
    recall: float
    # Items that were not returned although they exist.
    shortfall: int

    @classmethod
    def of(cls, found: tuple[UUID, ...], nearest: dict[UUID, float], limit: int) -> SampleResult:
        """Compare what was found with the nearest, given with their cosines; one as near as the last counts as found.

        Vectors that are equal, or differ by less than half precision shows, have no order that a search could miss.
        """
        best = list(nearest)[:limit]
        if not best:
            return cls(recall=1.0, shortfall=0)
        least = nearest[best[-1]] - _NEAR
        good = sum(nearest.get(item_id, -2.0) >= least for item_id in found[:limit])
        return cls(recall=min(1.0, good / len(best)), shortfall=max(0, len(best) - len(found)))


# Half precision has 11 bits; a sum of products of unit vectors is right to about so much.
_NEAR = 0.002


class Sampler:
    """Repeats a share of the searches."""

    def __init__(self, store: Store, *, share: float, chance: Callable[[], float] = random.random) -> None:
        self._store = store
        self._share = share
        self._chance = chance
        self._waiting: asyncio.Queue[Sample] = asyncio.Queue(WAITING)
        self._missed: Counter[UUID] = Counter()

    def wants(self) -> bool:
        """Say whether the next search is to be repeated."""
        return self._share > 0 and self._chance() < self._share

    def take(self, sample: Sample) -> None:
        """Keep a search for later; when too many wait, it is let go of."""
        try:
            self._waiting.put_nowait(sample)
        except asyncio.QueueFull:
            RECALL_UNSAMPLED.inc()

    def drop(self, tenant_id: UUID | None) -> None:
        """Forget what waits of a tenant; None: of every tenant."""
        waiting = [self._waiting.get_nowait() for _ in range(self._waiting.qsize())]
        for sample in waiting:
            if tenant_id is not None and sample.tenant_id != tenant_id:
                self._waiting.put_nowait(sample)

    async def run(self) -> None:
        """Repeat what waits, one after another, until cancelled."""
        loop = asyncio.get_running_loop()
        told = loop.time()
        while True:
            sample = await self._waiting.get()
            started = loop.time()
            try:
                await self.judge(sample)
            except (RpcError, TimeoutError, asyncpg.UndefinedTableError) as error:
                # The database is away or busy, the model was dropped meanwhile; there are other searches.
                RECALL_UNSAMPLED.inc()
                log.warning("sample_not_judged", reason=type(error).__name__)
            if loop.time() - told > _TELL_SECONDS:
                told = loop.time()
                self._tell()
            await asyncio.sleep(min(_LONGEST_REST, (loop.time() - started) * _REST))

    async def judge(self, sample: Sample) -> SampleResult:
        """Repeat one search exactly, compare and count."""
        async with asyncio.timeout(_SECONDS), self._store.reading(sample.tenant_id, filtered=True) as reading:
            nearest = await reading.exactly_nearest(
                sample.model, sample.vector, sample.kinds, sample.filter, count=2 * sample.limit
            )
        verdict = SampleResult.of(sample.nearest, nearest, sample.limit)
        RECALL_SAMPLED.labels(sample.path).observe(verdict.recall)
        RECALL_SHORTFALL.labels(sample.path).inc(verdict.shortfall)
        if verdict.recall < 1:
            self._missed[sample.tenant_id] += 1
        return verdict

    def _tell(self) -> None:
        """Name the tenants whose searches missed most since the last time."""
        for tenant_id, searches in self._missed.most_common(_TOLD):
            log.warning("recall_missed", tenant_id=str(tenant_id), searches=searches)
        self._missed.clear()
