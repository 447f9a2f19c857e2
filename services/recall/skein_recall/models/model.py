"""Registered embedding models: which one is active, which ones are followed, and what computes their vectors."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum, auto
from typing import Protocol, Self
from uuid import UUID

import asyncpg

from skein_kit.errors import DimensionsMismatch
from skein_kit.text.unicode_form import plain_form
from skein_recall.embedded_model.descriptions import EMBEDDED_MODELS, MINILM, EncoderDescription, readable_share
from skein_recall.errors import ModelNotFound
from skein_recall.models.similarity_scale import COSINE_SCALE, SimilarityScale

EMBEDDED = "embedded"
OPENAI = "openai"
# The embedded model that a new cluster uses, to which the weights of the ranking were fitted.
EMBEDDED_MODEL = MINILM.name
# Stands for all tenants in `followed_tenant_ids`.
EVERY_TENANT = UUID(int=0)
MAX_CACHED_CHOICES = 10_000
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
    # Tenants that chose no model search it.
    active: bool
    create_time: datetime
    # Tenants may choose it; since when some may have.
    is_offered: bool = False
    offer_time: datetime | None = None
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
        return self.endpoint is not None or self._description is not None

    @property
    def has_tokens(self) -> bool:
        """Whether the model has vectors of tokens."""
        return self._description is not None and self._description.has_tokens

    @property
    def calibrated_name(self) -> str:
        """The name by which coefficients of relevance are found: empty unless it is embedded and on its own scale."""
        description = self._description
        if description is None or self.ranking_scale != description.similarity_scale:
            return ""
        return description.name

    @property
    def _description(self) -> EncoderDescription | None:
        return EMBEDDED_MODELS.get(self.model) if self.provider == EMBEDDED else None

    @property
    def ranking_scale(self) -> SimilarityScale:
        """The scale of its cosines in a ranking."""
        return self.similarity_scale or COSINE_SCALE

    def prefixed(self, text: str, purpose: Purpose) -> str:
        """Return a text as the model reads it: in one form of Unicode, behind the prefix of its purpose."""
        return (self.query_prefix if purpose is Purpose.QUERY else self.passage_prefix) + plain_form(text)

    def readable_share(self, text: str) -> float:
        """Return the share of a text, 0 to 1, in scripts that the model was trained on; 1 for a model of others."""
        return 1.0 if self._description is None else readable_share(text, self._description.letters)

    def is_followed_in(self, tenant_id: UUID) -> bool:
        """Return whether a reindex has this model's vectors of a tenant's new documents, if it searches another one.

        A tenant that chose another model than the active one does not get vectors of this one for all tenants' sake.
        """
        if not self.can_embed:
            return False
        of_all = EVERY_TENANT in self.followed_tenant_ids and not self.active
        return of_all or tenant_id in self.followed_tenant_ids

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


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelChoice:
    """The model that a tenant searches because it chose it, and the one before."""

    # None: the one that is active in the cluster.
    model: str | None = None
    # Searched until some seconds ago: other processes may not know yet. None after that.
    former_model: str | None = None


@dataclass(frozen=True, slots=True)
class ModelSnapshot:
    """The registry at one moment, for one tenant or for those that chose no model.

    A call uses one snapshot, so that its query and the index are of one model.
    """

    by_name: Mapping[str, EmbeddingModel]
    choice: ModelChoice = ModelChoice()

    @classmethod
    def of(cls, models: Iterable[EmbeddingModel]) -> Self:
        """Index models by name."""
        return cls({model.model: model for model in models})

    @property
    def active(self) -> EmbeddingModel:
        """The model that is searched. Raises ModelNotFound."""
        chosen = self.choice.model
        if chosen is not None and chosen in self.by_name:
            return self.by_name[chosen]
        for model in self.by_name.values():
            if model.active:
                return model
        raise ModelNotFound

    @property
    def has_choices(self) -> bool:
        """Whether some tenants may have chosen a model."""
        return any(model.offer_time is not None for model in self.by_name.values())

    def get(self, name: str) -> EmbeddingModel:
        """Return a model by name; the empty name means the active model. Raises ModelNotFound."""
        if not name:
            return self.active
        if name not in self.by_name:
            raise ModelNotFound(model=name)
        return self.by_name[name]

    def followed_in(self, tenant_id: UUID) -> list[EmbeddingModel]:
        """Return the models beside the active one whose vectors a tenant's new documents get."""
        active = self.active
        return [
            model
            for model in self.by_name.values()
            if model != active
            and (model.is_followed_in(tenant_id) or (model.model == self.choice.former_model and model.can_embed))
        ]


class ModelRegistry:
    """The registered models and the choices of tenants, each cached for some seconds."""

    def __init__(self, store: ModelReader, *, seconds: float) -> None:
        """Read at most every `seconds`, and a tenant's choice only while models are offered, or were."""
        self._store = store
        self._seconds = seconds
        self._snapshot: ModelSnapshot | None = None
        self._expires = 0.0
        # By tenant, with the end of its validity, the latest read last.
        self._choices: OrderedDict[UUID, tuple[ModelChoice, float]] = OrderedDict()

    async def models(self, tenant_id: UUID | None = None) -> ModelSnapshot:
        """Return the registry, at most `seconds` old, as it is for a tenant; None: for those that chose no model."""
        if self._snapshot is None or time.monotonic() >= self._expires:
            # The age counts from before the read.
            expires = time.monotonic() + self._seconds
            self._snapshot = ModelSnapshot.of(await self._store.list_models())
            self._expires = expires
        snapshot = self._snapshot
        if tenant_id is None or not snapshot.has_choices:
            return snapshot
        return replace(snapshot, choice=await self._choice(tenant_id))

    async def fresh_models(self, tenant_id: UUID | None) -> ModelSnapshot:
        """Return the registry as it is for a tenant, without the cache."""
        snapshot = ModelSnapshot.of(await self._store.list_models())
        if tenant_id is None or not snapshot.has_choices:
            return snapshot
        return replace(snapshot, choice=await self._store.read_choice(tenant_id))

    async def active(self, tenant_id: UUID | None, as_of_time: datetime | None = None) -> EmbeddingModel:
        """Return the model that a tenant searches, or searched at a time.

        Raises ModelNotFound and ModelDroppedSince.
        """
        if as_of_time is not None:
            return await self._store.active_as_of(as_of_time, tenant_id)
        return (await self.models(tenant_id)).active

    def invalidate(self) -> None:
        """Read the models again on next use, because this process changed them."""
        self._snapshot = None
        self._choices.clear()

    async def _choice(self, tenant_id: UUID) -> ModelChoice:
        choice, until = self._choices.get(tenant_id, (ModelChoice(), 0.0))
        if time.monotonic() < until:
            return choice
        until = time.monotonic() + self._seconds
        choice = await self._store.read_choice(tenant_id)
        self._choices[tenant_id] = choice, until
        self._choices.move_to_end(tenant_id)
        if len(self._choices) > MAX_CACHED_CHOICES:
            self._choices.popitem(last=False)
        return choice


class ModelReader(Protocol):
    """Reads the registry."""

    async def list_models(self) -> Sequence[EmbeddingModel]:
        """Return every registered model."""

    async def read_choice(self, tenant_id: UUID) -> ModelChoice:
        """Return what a tenant searches."""

    async def active_as_of(self, at: datetime, tenant_id: UUID | None) -> EmbeddingModel:
        """Return the model that was searched at a time. Raises ModelNotFound and ModelDroppedSince."""
