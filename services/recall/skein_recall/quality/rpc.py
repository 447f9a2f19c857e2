"""The RPC that compares models, by the share of nearest items that they have in common on recent queries."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from skein.recall.v1 import recall_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.errors import FieldInvalid
from skein_recall.errors import ModelNotFound, ModelUnavailable
from skein_recall.models.model import EmbeddingModel, ModelRegistry
from skein_recall.models.store import translate_dropped
from skein_recall.providers.text_embedder import TextEmbedder
from skein_recall.quality.recent_queries import RecentQueries
from skein_recall.search.filter import Filter
from skein_recall.search.model import SearchOptions
from skein_recall.search.store import QueryStore

DEFAULT_LIMIT = 10
DEFAULT_SAMPLES = 20
# Share of a call's time that the comparison may take.
_SHARE_OF_TIME = 0.8
_KINDS = ("memory", "message")


class QualityHandlers:
    """The quality of a model's hits."""

    def __init__(self, comparer: ModelComparer) -> None:
        self._comparer = comparer

    async def CompareEmbeddingModels(
        self, request: pb.CompareEmbeddingModelsRequest, context: Context
    ) -> pb.CompareEmbeddingModelsResponse:
        comparison = _request(request)
        active, agreements, truncated = await self._comparer.compare(
            comparison, context.time_remaining() * _SHARE_OF_TIME
        )
        return _response(comparison, active, agreements, truncated=truncated)


def _request(request: pb.CompareEmbeddingModelsRequest) -> ComparisonRequest:
    """Read a request. Raises FieldInvalid for queries without a tenant."""
    if request.queries and not request.tenant_id:
        raise FieldInvalid(violations=[("tenant_id", "is required with queries: they are searched for in a tenant")])
    return ComparisonRequest(
        model=request.model,
        tenant_id=UUID(request.tenant_id) if request.tenant_id else None,
        queries=tuple(request.queries),
        limit=request.limit or DEFAULT_LIMIT,
        samples=request.samples or DEFAULT_SAMPLES,
    )


def _response(
    request: ComparisonRequest, active: EmbeddingModel, agreements: Iterable[ModelAgreement], *, truncated: bool
) -> pb.CompareEmbeddingModelsResponse:
    overall = ModelAgreement()
    response = pb.CompareEmbeddingModelsResponse(
        active_model=active.model, model=request.model, limit=request.limit, truncated=truncated
    )
    for agreement in agreements:
        overall.join(agreement)
        response.tenants.append(_agreement(agreement))
    response.overall.CopyFrom(_agreement(overall))
    return response


def _agreement(value: ModelAgreement) -> pb.ModelAgreement:
    return pb.ModelAgreement(
        tenant_id=str(value.tenant_id or ""),
        query_count=value.queries,
        agreement=value.mean,
        same_first_count=value.same_first,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparisonRequest:
    """The models, tenants and queries to compare."""

    # Compared with the active model.
    model: str
    # None: every tenant with recent queries.
    tenant_id: UUID | None
    # Empty: recent queries.
    queries: tuple[str, ...]
    # Nearest items per query.
    limit: int
    # Recent queries per tenant.
    samples: int


@dataclass(kw_only=True, slots=True)
class ModelAgreement:
    """The agreement of two models on queries of one tenant, or of all."""

    tenant_id: UUID | None = None
    queries: int = 0
    # Queries with the same nearest item.
    same_first: int = 0
    # Share of the first model's nearest items that the other one has too, 0 to 1, by query.
    shares: list[float] = field(default_factory=list)

    @property
    def mean(self) -> float:
        """The mean share; 1 when no query has items."""
        return sum(self.shares) / len(self.shares) if self.shares else 1.0

    def add(self, ours: Sequence[UUID], theirs: Sequence[UUID]) -> None:
        """Add the items of both models for a query, the nearest first."""
        self.queries += 1
        self.same_first += list(ours[:1]) == list(theirs[:1])
        if ours:
            self.shares.append(len({*ours} & {*theirs}) / len(ours))

    def join(self, other: ModelAgreement) -> None:
        """Add the queries of another agreement."""
        self.queries += other.queries
        self.same_first += other.same_first
        self.shares += other.shares


class ModelComparer:
    """Searches with two models at once."""

    def __init__(
        self, store: QueryStore, registry: ModelRegistry, embedder: TextEmbedder, recent: RecentQueries
    ) -> None:
        self._store = store
        self._registry = registry
        self._embedder = embedder
        self._recent = recent

    async def compare(
        self, request: ComparisonRequest, seconds: float
    ) -> tuple[EmbeddingModel, list[ModelAgreement], bool]:
        """Return the active model, the agreement by tenant, and whether the time ended before the queries did.

        Raises ModelNotFound and ModelUnavailable.
        """
        deadline = time.monotonic() + seconds
        models = await self._registry.models(request.tenant_id)
        active, other = models.active, models.get(request.model)
        for model in (active, other):
            if not model.can_embed:
                raise ModelNotFound(model=model.model)
        agreements: list[ModelAgreement] = []
        for tenant_id, queries in self._queries(request):
            agreement = ModelAgreement(tenant_id=tenant_id)
            agreements.append(agreement)
            for query in queries:
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    return active, agreements, True
                ours, theirs = await self._nearest(tenant_id, query, (active, other), request.limit, remaining)
                agreement.add(ours, theirs)
        return active, agreements, False

    def _queries(self, request: ComparisonRequest) -> Iterator[tuple[UUID, Sequence[str]]]:
        """Yield tenants with their queries."""
        if request.tenant_id is not None:
            yield request.tenant_id, request.queries or self._recent.queries(request.tenant_id, request.samples)
            return
        for tenant_id in self._recent.tenants():
            yield tenant_id, self._recent.queries(tenant_id, request.samples)

    async def _nearest(
        self, tenant_id: UUID, query: str, models: Sequence[EmbeddingModel], limit: int, seconds: float
    ) -> list[list[UUID]]:
        """Return each model's items nearest to a query over all dimensions, the nearest first."""
        vectors = []
        for model in models:
            embedding = await self._embedder.embed_query(model, query, tenant_id=tenant_id, seconds=seconds)
            if embedding is None:
                raise ModelUnavailable(model=model.model, cause="no answer")
            vectors.append(embedding.vector)
        nearest = []
        async with self._store.transaction(tenant_id, SearchOptions()) as tx:
            for model, vector in zip(models, vectors, strict=True):
                with translate_dropped(model):
                    nearest.append(list(await tx.nearest_exact(model, vector, _KINDS, Filter(), count=limit)))
        return nearest
