"""Embedding models: protobuf to model and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.recall.v1 import recall_pb2 as pb
from skein_kit.errors import FieldInvalid
from skein_kit.outbound.fetch import OutboundError
from skein_kit.rpc.well_known_types import to_timestamp
from skein_recall.embedded_model.descriptions import DIMENSIONS
from skein_recall.models.model import EMBEDDED, EMBEDDED_MODEL, ENDPOINT_FIELDS, OPENAI, EndpointConfig, ModelDraft

if TYPE_CHECKING:
    from skein_kit.outbound.fetch import SafeHttpClient
    from skein_recall.models.model import EmbeddingModel

DEFAULT_BATCH_SIZE = 32
DEFAULT_TIMEOUT_SECONDS = 10.0
DEFAULT_WINDOW_CHARACTERS = 2000


def draft(message: pb.EmbeddingModel, outbound: SafeHttpClient) -> ModelDraft:
    """Read a model to register. Raises FieldInvalid when its provider cannot compute its vectors."""
    if message.provider == EMBEDDED and message.model != EMBEDDED_MODEL:
        what = f"{EMBEDDED_MODEL} is the only embedded model; use the provider {OPENAI} or caller for others"
        raise FieldInvalid(violations=[("embedding_model.provider", what)])
    if message.provider == EMBEDDED and message.dimensions != DIMENSIONS:
        what = f"{EMBEDDED_MODEL} has {DIMENSIONS}"
        raise FieldInvalid(violations=[("embedding_model.dimensions", what)])
    endpoint = _endpoint(message, outbound) if message.provider == OPENAI else None
    if endpoint is None and any(getattr(message, name) for name in ENDPOINT_FIELDS):
        what = f"only a model whose provider is {OPENAI} has an endpoint"
        raise FieldInvalid(violations=[("embedding_model.endpoint", what)])
    return ModelDraft(model=message.model, provider=message.provider, dimensions=message.dimensions, endpoint=endpoint)


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


def embedding_model(model: EmbeddingModel, *, show_endpoint: bool = True) -> pb.EmbeddingModel:
    """Convert a registered model. Only operators see its endpoint."""
    message = pb.EmbeddingModel(
        model=model.model,
        provider=model.provider,
        dimensions=model.dimensions,
        active=model.active,
        create_time=to_timestamp(model.create_time),
        followed=bool(model.followed_tenant_ids) and not model.active,
    )
    if show_endpoint and model.endpoint is not None:
        for name in ENDPOINT_FIELDS:
            setattr(message, name, getattr(model.endpoint, name))
    return message
