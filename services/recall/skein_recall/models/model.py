"""Registered embedding models: which one is active, which ones are followed, and what computes their vectors."""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Self
from uuid import UUID

from skein_kit.errors import DimensionsMismatch
from skein_kit.text.unicode_form import plain_form
from skein_recall.embedded_model.descriptions import EMBEDDED_MODELS, MINILM
from skein_recall.embedded_model.scripts import readable_share
from skein_recall.errors import ModelNotFound
from skein_recall.models.similarity_scale import COSINE_SCALE, SimilarityScale

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    import asyncpg

EMBEDDED = "embedded"
OPENAI = "openai"
# The embedded model that a new cluster uses, for which the ranking is calibrated.
EMBEDDED_MODEL = MINILM.name
# Stands for all tenants in `followed_tenant_ids`.
EVERY_TENANT = UUID(int=0)
ENDPOINT_FIELDS = ("endpoint", "remote_model", "batch_size", "timeout_seconds", "window_characters")


class Purpose(Enum):
    """What a text is embedded for. Some models have a prefix for each."""

    QUERY = auto()
    PASSAGE = auto()


@dataclass(frozen=True, kw_only=True, slots=True)
class EndpointConfig:
    """Where and how an endpoint computes a model's vectors."""

    # "https://host/v1"; requests go to its "/embeddings".
    endpoint: str
    # The endpoint's name of the model.
    remote_model: str
    # Texts per request.
    batch_size: int
    timeout_seconds: float
    # The model reads at least this many characters of a text; longer texts are cut into chunks.
    window_characters: int


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbeddingModel:
    """A registered model; its vectors are rows of the table `recall.<table_name>`."""

    model: str
    provider: str
    dimensions: int
    table_name: str
    active: bool
    create_time: datetime
    endpoint: EndpointConfig | None = None
    # Put before each query and each stored text.
    query_prefix: str = ""
    passage_prefix: str = ""
    # None until the first reindex measures it.
    similarity_scale: SimilarityScale | None = None
    # Tenants whose new documents also get this model's vectors, or EVERY_TENANT.
    followed_tenant_ids: frozenset[UUID] = frozenset()

    @classmethod
    def of_row(cls, row: asyncpg.Record) -> Self:
        values = dict(row)
        endpoint = {name: values.pop(name) for name in ENDPOINT_FIELDS}
        floor, ceiling = values.pop("similarity_floor"), values.pop("similarity_ceiling")
        return cls(
            followed_tenant_ids=frozenset(values.pop("followed")),
            endpoint=None if endpoint["endpoint"] is None else EndpointConfig(**endpoint),
            similarity_scale=None if floor is None else SimilarityScale(floor, ceiling),
            **values,
        )

    @property
    def can_embed(self) -> bool:
        """Whether this cluster can compute the model's vectors."""
        return self.endpoint is not None or (self.provider == EMBEDDED and self.model in EMBEDDED_MODELS)

    @property
    def has_tokens(self) -> bool:
        """Whether the model has vectors of tokens."""
        return self.provider == EMBEDDED and self.model in EMBEDDED_MODELS and EMBEDDED_MODELS[self.model].has_tokens

    @property
    def is_calibrated(self) -> bool:
        """Whether the relevance of hits is known: its coefficients were fitted to one model's cosines."""
        return self.provider == EMBEDDED and self.model == EMBEDDED_MODEL

    @property
    def ranking_scale(self) -> SimilarityScale:
        """The scale of its cosines in a ranking."""
        return self.similarity_scale or COSINE_SCALE

    def prefixed(self, text: str, purpose: Purpose) -> str:
        """Return a text as the model reads it: in one form of Unicode, behind the prefix of its purpose."""
        return (self.query_prefix if purpose is Purpose.QUERY else self.passage_prefix) + plain_form(text)

    def readable_share(self, text: str) -> float:
        """Return the share of a text, 0 to 1, in scripts that the model was trained on; 1 for a model of others."""
        return readable_share(text) if self.provider == EMBEDDED else 1.0

    def is_followed_in(self, tenant_id: UUID) -> bool:
        """Return whether a tenant's new documents get this model's vectors although another model is active."""
        return self.can_embed and not self.active and not self.followed_tenant_ids.isdisjoint((tenant_id, EVERY_TENANT))

    def check_dimensions(self, dimensions: int) -> None:
        """Raise DimensionsMismatch for a vector that has another length than the model's."""
        if dimensions != self.dimensions:
            raise DimensionsMismatch(expected=self.dimensions, actual=dimensions)


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelDraft:
    """A model to register."""

    model: str
    provider: str
    dimensions: int
    endpoint: EndpointConfig | None = None
    query_prefix: str = ""
    passage_prefix: str = ""
    # None: the first reindex measures it.
    similarity_scale: SimilarityScale | None = None


@dataclass(frozen=True, slots=True)
class ModelSnapshot:
    """The registry at one moment. A call uses one snapshot, so that its query and the index are of one model."""

    by_name: Mapping[str, EmbeddingModel]

    @classmethod
    def of(cls, models: Iterable[EmbeddingModel]) -> Self:
        """Index models by name."""
        return cls({model.model: model for model in models})

    @property
    def active(self) -> EmbeddingModel:
        """The model that is searched. Raises ModelNotFound."""
        for model in self.by_name.values():
            if model.active:
                return model
        raise ModelNotFound

    def get(self, name: str) -> EmbeddingModel:
        """Return a model by name; the empty name means the active model. Raises ModelNotFound."""
        if not name:
            return self.active
        if name not in self.by_name:
            raise ModelNotFound(model=name)
        return self.by_name[name]

    def followed_in(self, tenant_id: UUID) -> list[EmbeddingModel]:
        """Return the models beside the active one whose vectors a tenant's new documents get."""
        return [model for model in self.by_name.values() if model.is_followed_in(tenant_id)]


class ModelRegistry:
    """The registered models, cached for some seconds."""

    def __init__(
        self,
        read: Callable[[], Awaitable[Sequence[EmbeddingModel]]],
        read_active_as_of: Callable[[datetime], Awaitable[EmbeddingModel]],
        *,
        seconds: float,
    ) -> None:
        """Read all models with `read`, at most every `seconds`; with `read_active_as_of` the active one of a time."""
        self._read = read
        self._read_active_as_of = read_active_as_of
        self._seconds = seconds
        self._snapshot: ModelSnapshot | None = None
        self._expires = 0.0

    async def models(self) -> ModelSnapshot:
        """Return the registry, at most `seconds` old."""
        if self._snapshot is None or time.monotonic() >= self._expires:
            # The age counts from before the read.
            expires = time.monotonic() + self._seconds
            self._snapshot = ModelSnapshot.of(await self._read())
            self._expires = expires
        return self._snapshot

    async def active(self, as_of_time: datetime | None = None) -> EmbeddingModel:
        """Return the model that is searched, or was at a time. Raises ModelNotFound and ModelDroppedSince."""
        return (await self.models()).active if as_of_time is None else await self._read_active_as_of(as_of_time)

    def invalidate(self) -> None:
        """Read the models again on next use, because this process changed them."""
        self._snapshot = None
