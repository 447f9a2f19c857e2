"""Embedding models: protobuf to model and back."""

from __future__ import annotations

from skein.recall.v1 import recall_pb2 as pb
from skein_kit.errors import FieldInvalid
from skein_kit.outbound.fetch import OutboundError, SafeHttpClient
from skein_kit.rpc.well_known_types import to_timestamp
from skein_recall.embedded_model.descriptions import DIMENSIONS, EMBEDDED_MODELS
from skein_recall.embedded_model.weights import WeightsUnavailable
from skein_recall.errors import ModelNotInstalled
from skein_recall.models.model import EMBEDDED, ENDPOINT_FIELDS, OPENAI, EmbeddingModel, EndpointConfig, ModelDraft
from skein_recall.models.similarity_scale import COSINE_SCALE, SimilarityScale

DEFAULT_BATCH_SIZE = 32
DEFAULT_TIMEOUT_SECONDS = 10.0
DEFAULT_WINDOW_CHARACTERS = 2000
_NO_ENDPOINT = f"only a model whose provider is {OPENAI} has an endpoint"


def draft(message: pb.EmbeddingModel, outbound: SafeHttpClient) -> ModelDraft:
    """Read a model to register.

    Raises FieldInvalid when its provider cannot compute its vectors, and ModelNotInstalled.
    """
    if message.provider == EMBEDDED:
        return _embedded_draft(message)
    endpoint = _endpoint(message, outbound) if message.provider == OPENAI else None
    if endpoint is None and any(getattr(message, name) for name in ENDPOINT_FIELDS):
        raise FieldInvalid(violations=[("embedding_model.endpoint", _NO_ENDPOINT)])
    if endpoint is None and (message.query_prefix or message.passage_prefix):
        what = "only a model whose vectors this cluster computes has prefixes"
        raise FieldInvalid(violations=[("embedding_model.query_prefix", what)])
    return ModelDraft(
        model=message.model,
        provider=message.provider,
        dimensions=message.dimensions,
        endpoint=endpoint,
        query_prefix=message.query_prefix,
        passage_prefix=message.passage_prefix,
        similarity_scale=_scale(message, default=COSINE_SCALE if endpoint is None else None),
    )


def _embedded_draft(message: pb.EmbeddingModel) -> ModelDraft:
    """Read an embedded model; what the request leaves out is as the model's authors describe it."""
    description = EMBEDDED_MODELS.get(message.model)
    if description is None:
        what = f"{' and '.join(EMBEDDED_MODELS)} are embedded; use the provider {OPENAI} or caller for others"
        raise FieldInvalid(violations=[("embedding_model.provider", what)])
    if message.dimensions != DIMENSIONS:
        raise FieldInvalid(violations=[("embedding_model.dimensions", f"{message.model} has {DIMENSIONS}")])
    if any(getattr(message, name) for name in ENDPOINT_FIELDS):
        raise FieldInvalid(violations=[("embedding_model.endpoint", _NO_ENDPOINT)])
    try:
        description.weights_file.find()
    except WeightsUnavailable:
        raise ModelNotInstalled(model=message.model, requirement=description.weights_file.requirement) from None
    return ModelDraft(
        model=message.model,
        provider=EMBEDDED,
        dimensions=DIMENSIONS,
        query_prefix=message.query_prefix or description.query_prefix,
        passage_prefix=message.passage_prefix or description.passage_prefix,
        similarity_scale=_scale(message, default=description.similarity_scale),
    )


def _scale(message: pb.EmbeddingModel, *, default: SimilarityScale | None) -> SimilarityScale | None:
    """Read the scale of the model's cosines. Raises FieldInvalid for one end alone, or ends in the wrong order."""
    ends = [name for name in ("similarity_floor", "similarity_ceiling") if message.HasField(name)]
    if not ends:
        return default
    scale = SimilarityScale(message.similarity_floor, message.similarity_ceiling)
    if len(ends) == 1 or scale.floor >= scale.ceiling:
        what = "needs a similarity_ceiling above it, and the ceiling a floor"
        raise FieldInvalid(violations=[("embedding_model.similarity_floor", what)])
    return scale


def _endpoint(message: pb.EmbeddingModel, outbound: SafeHttpClient) -> EndpointConfig:
    endpoint = message.endpoint.rstrip("/")
    try:
        # A path cannot be appended to a URL with a query.
        outbound.require_allowed_url("" if "?" in endpoint else f"{endpoint}/embeddings")
    except OutboundError:
        what = "must be an https URL without a query, or one that SKEIN_OUTBOUND_ALLOW names"
        raise FieldInvalid(violations=[("embedding_model.endpoint", what)]) from None
    return EndpointConfig(
        endpoint=endpoint,
        remote_model=message.remote_model or message.model,
        batch_size=message.batch_size or DEFAULT_BATCH_SIZE,
        timeout_seconds=message.timeout_seconds or DEFAULT_TIMEOUT_SECONDS,
        window_characters=message.window_characters or DEFAULT_WINDOW_CHARACTERS,
    )


def embedding_model(
    model: EmbeddingModel, *, show_endpoint: bool = True, active: EmbeddingModel | None = None
) -> pb.EmbeddingModel:
    """Convert a registered model. Only operators see its endpoint. `active` is the one that the caller searches."""
    is_active = model.active if active is None else model == active
    message = pb.EmbeddingModel(
        model=model.model,
        provider=model.provider,
        dimensions=model.dimensions,
        active=is_active,
        create_time=to_timestamp(model.create_time),
        followed=bool(model.followed_tenant_ids) and not is_active,
        offered=model.is_offered,
        query_prefix=model.query_prefix,
        passage_prefix=model.passage_prefix,
    )
    if model.similarity_scale is not None:
        message.similarity_floor, message.similarity_ceiling = model.similarity_scale
    if show_endpoint and model.endpoint is not None:
        for name in ENDPOINT_FIELDS:
            setattr(message, name, getattr(model.endpoint, name))
    return message
