"""Two models beside one another: how many of the nearest items they have in common, on queries that people asked."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self
from uuid import UUID

from skein.recall.v1 import recall_pb2 as pb
from skein_kit.errors import FieldInvalid
from skein_recall.errors import ModelNotFound, ModelUnavailable
from skein_recall.query.filter import Filter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from skein_recall.models.model import EmbeddingModel, ModelRegistry
    from skein_recall.providers.text_embedder import TextEmbedder
    from skein_recall.quality.recent_queries import RecentQueries
    from skein_recall.query.store import QueryTransaction
    from skein_recall.store import Store

DEFAULT_LIMIT = 10
DEFAULT_SAMPLES = 20
KINDS = ("memory", "message")


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparisonRequest:
    """What is to be compared."""

    model: str
    # None: every tenant that asked lately.
    tenant_id: UUID | None
    queries: tuple[str, ...]
    limit: int
    samples: int

    @classmethod
    def of(cls, request: pb.CompareModelsRequest) -> Self:
        """Read a request."""
        if request.queries and not request.tenant_id:
            raise FieldInvalid(violations=[("tenant_id", "is needed with queries: they are searched for in a tenant")])
        return cls(
            model=request.model,
            tenant_id=UUID(request.tenant_id) if request.tenant_id else None,
            queries=tuple(request.queries),
            limit=request.limit or DEFAULT_LIMIT,
            samples=request.samples or DEFAULT_SAMPLES,
        )


@dataclass(kw_only=True, slots=True)
class ModelAgreement:
    """How far two models agree."""

    tenant_id: UUID | None = None
    queries: int = 0
    same_first: int = 0
    # Shares of the one's nearest items that the other has among its own, one for each query.
    shares: list[float] = field(default_factory=list)

    @property
    def mean(self) -> float:
        """Return the mean share; 1 when there was nothing to find."""
        return sum(self.shares) / len(self.shares) if self.shares else 1.0

    def add(self, ours: Sequence[UUID], theirs: Sequence[UUID]) -> None:
        """Take in what both found for a query, the nearest first."""
        self.queries += 1
        self.same_first += list(ours[:1]) == list(theirs[:1])
        if ours:
            self.shares.append(len({*ours} & {*theirs}) / len(ours))

    def join(self, other: ModelAgreement) -> None:
        """Take in another one's queries."""
        self.queries += other.queries
        self.same_first += other.same_first
        self.shares += other.shares


class ModelComparer:
    """Searches with two models at once."""

    def __init__(self, store: Store, registry: ModelRegistry, vectors: TextEmbedder, recent: RecentQueries) -> None:
        """Take the queries from what is `recent` here."""
        self._store = store
        self._registry = registry
        self._vectors = vectors
        self._recent = recent

    async def compare(
        self, asked: ComparisonRequest, seconds: float
    ) -> tuple[EmbeddingModel, list[ModelAgreement], bool]:
        """Return the model in force, the agreement of each tenant, and whether time ran out before the queries."""
        ends = time.monotonic() + seconds
        models = await self._registry.models()
        active, other = models.active, models.named(asked.model)
        for model in (active, other):
            if not model.embeds:
                raise ModelNotFound(model=model.model)
        found: list[ModelAgreement] = []
        for tenant_id, queries in self._samples(asked):
            agreement = ModelAgreement(tenant_id=tenant_id)
            found.append(agreement)
            for query in queries:
                left = ends - time.monotonic()
                if left <= 0:
                    return active, found, True
                await self._search(agreement, tenant_id, query, (active, other), asked.limit, left)
        return active, found, False

    def _samples(self, asked: ComparisonRequest) -> Iterator[tuple[UUID, Sequence[str]]]:
        if asked.tenant_id is not None:
            yield asked.tenant_id, asked.queries or self._recent.of(asked.tenant_id, asked.samples)
            return
        for tenant_id in self._recent.tenants():
            yield tenant_id, self._recent.of(tenant_id, asked.samples)

    async def _search(
        self,
        agreement: ModelAgreement,
        tenant_id: UUID,
        query: str,
        models: tuple[EmbeddingModel, EmbeddingModel],
        limit: int,
        seconds: float,
    ) -> None:
        pairs = []
        for model in models:
            vector = await self._vectors.of_query(model, query, tenant_id=tenant_id, seconds=seconds)
            if vector is None:
                raise ModelUnavailable(model=model.model, why="no answer")
            pairs.append((model, vector))
        async with self._store.reading(tenant_id, filtered=False) as reading:
            ours, theirs = [await nearest(reading, model, vector, limit) for model, vector in pairs]
        agreement.add(ours, theirs)


async def nearest(
    reading: QueryTransaction, model: EmbeddingModel, vector: NDArray[np.float32], limit: int
) -> list[UUID]:
    """Return the items nearest to a vector over all its dimensions, the nearest first."""
    return list(await reading.exactly_nearest(model, vector, KINDS, Filter(), count=limit))
