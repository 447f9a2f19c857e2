"""The registered embedding models: which is in force, which follow it, who makes their vectors."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self
from uuid import UUID

from skein.recall.v1 import recall_pb2 as pb
from skein_kit.errors import DimensionsMismatch, FieldInvalid
from skein_kit.outbound.fetch import OutboundError
from skein_recall.embedded_model.embedder import LocalEmbedder
from skein_recall.errors import ModelNotFound

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from datetime import datetime

    import asyncpg

    from skein_kit.outbound.fetch import SafeHttpClient

EMBEDDED = "embedded"
OPENAI = "openai"
CALLER = "caller"
# What this process can embed with.
EMBEDDED_MODEL = LocalEmbedder.model.lower()
# Stands for all tenants among those that a model is followed in.
EVERY_TENANT = UUID(int=0)
DEFAULT_BATCH = 32
DEFAULT_TIMEOUT_SECONDS = 10.0
DEFAULT_WINDOW_CHARACTERS = 2000
_REMOTE_FIELDS = ("endpoint", "remote_model", "batch_size", "timeout_seconds", "window_characters")


@dataclass(frozen=True, kw_only=True, slots=True)
class EndpointConfig:
    """Where and how an endpoint makes a model's vectors."""

    # "https://host/v1", to which "/embeddings" is added.
    endpoint: str
    # What the endpoint calls the model.
    remote_model: str
    # Texts of one request.
    batch_size: int
    timeout_seconds: float
    # Characters that the model surely reads of one text; longer ones are cut.
    window_characters: int


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbeddingModel:
    """A registered model; its vectors lie in the table `recall.<table_name>`."""

    model: str
    provider: str
    dimensions: int
    table_name: str
    active: bool
    create_time: datetime
    remote: EndpointConfig | None = None
    # The tenants in which whatever is written gets this model's vectors too, or EVERY_TENANT.
    followed: frozenset[UUID] = frozenset()

    @classmethod
    def of_row(cls, row: asyncpg.Record) -> Self:
        """Read a row of the registry."""
        values = dict(row)
        remote = {name: values.pop(name) for name in _REMOTE_FIELDS}
        values["followed"] = frozenset(values["followed"])
        return cls(**values, remote=None if remote["endpoint"] is None else EndpointConfig(**remote))

    @property
    def embeds(self) -> bool:
        """Say whether this cluster can make its vectors."""
        return self.remote is not None or (self.provider == EMBEDDED and self.model == EMBEDDED_MODEL)

    def follows(self, tenant_id: UUID) -> bool:
        """Say whether this cluster makes its vectors of what a tenant writes, though it is not in force."""
        return self.embeds and not self.active and not self.followed.isdisjoint((tenant_id, EVERY_TENANT))

    def must_take(self, dimensions: int) -> None:
        """Refuse a vector of another length than the model's."""
        if dimensions != self.dimensions:
            raise DimensionsMismatch(expected=self.dimensions, given=dimensions)


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelDraft:
    """A model to register."""

    model: str
    provider: str
    dimensions: int
    remote: EndpointConfig | None = None

    @classmethod
    def of(cls, asked: pb.EmbeddingModel, outbound: SafeHttpClient) -> Self:
        """Check that whoever is to make the vectors can."""
        if asked.provider == EMBEDDED and asked.model != EMBEDDED_MODEL:
            what = f"this cluster embeds with {EMBEDDED_MODEL} alone; others are made by an endpoint or by the caller"
            raise FieldInvalid(violations=[("embedding_model.provider", what)])
        if asked.provider == EMBEDDED and asked.dimensions != LocalEmbedder.dimensions:
            what = f"{EMBEDDED_MODEL} has {LocalEmbedder.dimensions}"
            raise FieldInvalid(violations=[("embedding_model.dimensions", what)])
        remote = _remote(asked, outbound) if asked.provider == OPENAI else None
        if remote is None and any(getattr(asked, name) for name in _REMOTE_FIELDS):
            what = f"only a model whose provider is {OPENAI} has an endpoint"
            raise FieldInvalid(violations=[("embedding_model.endpoint", what)])
        return cls(model=asked.model, provider=asked.provider, dimensions=asked.dimensions, remote=remote)


def _remote(asked: pb.EmbeddingModel, outbound: SafeHttpClient) -> EndpointConfig:
    endpoint = asked.endpoint.rstrip("/")
    try:
        # After a query nothing can be added.
        outbound.must_take("" if "?" in endpoint else f"{endpoint}/embeddings")
    except OutboundError:
        what = "must be an https URL without a query, or one that SKEIN_OUTBOUND_ALLOW names"
        raise FieldInvalid(violations=[("embedding_model.endpoint", what)]) from None
    return EndpointConfig(
        endpoint=endpoint,
        remote_model=asked.remote_model or asked.model,
        batch_size=asked.batch_size or DEFAULT_BATCH,
        timeout_seconds=asked.timeout_seconds or DEFAULT_TIMEOUT_SECONDS,
        window_characters=asked.window_characters or DEFAULT_WINDOW_CHARACTERS,
    )


@dataclass(frozen=True, slots=True)
class ModelSnapshot:
    """The registry at one moment. Whoever answers a call looks once, so that query and index are of one model."""

    every: Mapping[str, EmbeddingModel]

    @property
    def active(self) -> EmbeddingModel:
        """Return the model that is searched; refuse when there is none."""
        for model in self.every.values():
            if model.active:
                return model
        raise ModelNotFound

    def named(self, model: str) -> EmbeddingModel:
        """Return a model by its name, the one in force for none; refuse when there is none."""
        if not model:
            return self.active
        if model not in self.every:
            raise ModelNotFound(model=model)
        return self.every[model]

    def following(self, tenant_id: UUID) -> list[EmbeddingModel]:
        """Return the models beside the one in force that get vectors of what a tenant writes."""
        return [model for model in self.every.values() if model.follows(tenant_id)]


class ModelRegistry:
    """The registered models, believed for some seconds."""

    def __init__(self, read: Callable[[], Awaitable[Sequence[EmbeddingModel]]], *, seconds: float) -> None:
        self._read = read
        self._seconds = seconds
        self._models: ModelSnapshot | None = None
        self._until = 0.0

    async def models(self) -> ModelSnapshot:
        """Return the registry, as it was some seconds ago at most."""
        if self._models is None or time.monotonic() >= self._until:
            # Counted from before it is read.
            until = time.monotonic() + self._seconds
            self._models = ModelSnapshot({model.model: model for model in await self._read()})
            self._until = until
        return self._models

    async def active(self) -> EmbeddingModel:
        """Return the model that is searched; refuse when there is none."""
        return (await self.models()).active

    def forget(self) -> None:
        """Read it again before it is believed: it was changed here."""
        self._models = None
