"""The registered embedding models and which of them is active."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from skein.recall.v1 import recall_pb2 as pb
from skein_kit.errors import FieldInvalid
from skein_recall.embedder import Embedder
from skein_recall.errors import DimensionsMismatch, ModelNotFound

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

EMBEDDED = "embedded"
# What this process can embed with.
EMBEDDED_MODEL = Embedder.model.lower()


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbeddingModel:
    """A registered model; its vectors lie in the table `recall.<table_name>`."""

    model: str
    provider: str
    dimensions: int
    table_name: str
    active: bool
    create_time: datetime

    @property
    def embeds(self) -> bool:
        """Say whether this process can make its vectors."""
        return self.provider == EMBEDDED and self.model == EMBEDDED_MODEL

    def must_take(self, dimensions: int) -> None:
        """Refuse a vector of another length than the model's."""
        if dimensions != self.dimensions:
            raise DimensionsMismatch(expected=self.dimensions, given=dimensions)


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """A model to register."""

    model: str
    provider: str
    dimensions: int

    @classmethod
    def of(cls, asked: pb.EmbeddingModel) -> Self:
        """Check that whoever is to make the vectors can."""
        if asked.provider == EMBEDDED and asked.model != EMBEDDED_MODEL:
            what = f"this cluster embeds with {EMBEDDED_MODEL} alone; vectors of other models are given by the caller"
            raise FieldInvalid(violations=[("embedding_model.provider", what)])
        if asked.provider == EMBEDDED and asked.dimensions != Embedder.dimensions:
            what = f"{EMBEDDED_MODEL} has {Embedder.dimensions}"
            raise FieldInvalid(violations=[("embedding_model.dimensions", what)])
        return cls(model=asked.model, provider=asked.provider, dimensions=asked.dimensions)


class Registry:
    """The active model, believed for some seconds."""

    def __init__(self, read: Callable[[], Awaitable[EmbeddingModel | None]], *, seconds: float) -> None:
        self._read = read
        self._seconds = seconds
        self._active: EmbeddingModel | None = None
        self._until = 0.0

    async def active(self) -> EmbeddingModel:
        """Return the model that is searched and whose vectors are made; refuse when there is none."""
        if self._active is None or time.monotonic() >= self._until:
            self._active = await self._read()
            self._until = time.monotonic() + self._seconds
        if self._active is None:
            raise ModelNotFound
        return self._active
