"""The RPC that compares models: parse, one call, reply."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from skein.recall.v1 import recall_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.errors import FieldInvalid
from skein_recall.models.model import EmbeddingModel
from skein_recall.quality.comparison import ComparisonRequest, ModelAgreement, ModelComparer

DEFAULT_LIMIT = 10
DEFAULT_SAMPLES = 20
# Share of a call's time that the comparison may take.
_SHARE_OF_TIME = 0.8


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
