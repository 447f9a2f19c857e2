"""Vectors of texts and of items: bounded in time, timed, traced. Holds no database connection."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from skein_kit.telemetry import logs
from skein_kit.telemetry.metrics import EMBEDDER_TEXTS, EMBEDDER_TIME, TRACING
from skein_recall.errors import ModelResponseInvalid, ModelUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from uuid import UUID

    from numpy.typing import NDArray

    from skein_recall.models.model import EmbeddingModel
    from skein_recall.providers.provider import Provider
    from skein_recall.providers.selection import ProviderRegistry

log = logs.get("recall")
# Shorter texts are cut in less time than a thread takes to answer.
LONG_CHARACTERS = 4000
# What is left of a call's time for the search itself.
_SHARE_OF_TIME = 0.5


@dataclass(frozen=True, slots=True)
class IndexItem:
    """An item whose vectors are to be made from its text at one revision."""

    item_id: UUID
    revision: int
    text: str


@dataclass(frozen=True, slots=True)
class ChunkedItems:
    """Items whose texts are cut into what a model reads; a blank text has no chunk."""

    items: Sequence[IndexItem]
    chunks: list[list[str]]

    @property
    def count(self) -> int:
        """Return how many texts go to the model."""
        return sum(map(len, self.chunks))


class TextEmbedder:
    """Makes vectors with every model that this cluster can embed with."""

    def __init__(self, providers: ProviderRegistry, *, query_seconds: float) -> None:
        self._providers = providers
        self._query_seconds = query_seconds

    async def of_query(
        self, model: EmbeddingModel, text: str, *, tenant_id: UUID, seconds: float
    ) -> NDArray[np.float32] | None:
        """The vector of a query, or None when the model fails or is late.

        It gets no more than half of the `seconds` that the call has left.
        """
        limit = min(self._query_seconds, seconds * _SHARE_OF_TIME)
        try:
            with _span(1):
                async with asyncio.timeout(limit):
                    provider = self._providers.of(model)
                    return await provider.embed_query(text, scope=str(tenant_id), seconds=limit)
        except (ModelUnavailable, ModelResponseInvalid):
            # Its provider has said so.
            return None
        except Exception as error:  # noqa: BLE001 - whatever it is, words alone still find something.
            log.warning("embedder_did_not_answer", error=type(error).__name__)
            return None

    def drop(self, tenant_id: UUID | None) -> None:
        """Forget the vectors of a tenant's queries; None: of every tenant's."""
        self._providers.drop(None if tenant_id is None else str(tenant_id))

    async def of_texts(self, model: EmbeddingModel, texts: Sequence[str]) -> NDArray[np.float32]:
        """One vector for each text, of what the model's window holds of it."""
        with _span(len(texts)):
            return await self._providers.of(model).embed(texts)

    async def of_items(self, model: EmbeddingModel, items: Sequence[IndexItem]) -> dict[UUID, NDArray[np.float32]]:
        """The vectors of each item, one for each chunk of its text; none for a blank text."""
        return await self.of_cut(model, await self.cut(model, items))

    async def cut(self, model: EmbeddingModel, items: Sequence[IndexItem]) -> ChunkedItems:
        """Cut the items' texts into what the model reads."""
        provider = self._providers.of(model)
        if sum(len(item.text) for item in items) > LONG_CHARACTERS:
            return ChunkedItems(items, await asyncio.to_thread(_chunks, provider, items))
        return ChunkedItems(items, _chunks(provider, items))

    async def of_cut(self, model: EmbeddingModel, cut: ChunkedItems) -> dict[UUID, NDArray[np.float32]]:
        """The vectors of items that are cut."""
        if not cut.items:
            return {}
        made = await self.of_texts(model, [chunk for parts in cut.chunks for chunk in parts])
        ends = np.cumsum([len(parts) for parts in cut.chunks])[:-1]
        return {item.item_id: vectors for item, vectors in zip(cut.items, np.split(made, ends), strict=True)}


def _chunks(provider: Provider, items: Sequence[IndexItem]) -> list[list[str]]:
    return [provider.chunks(item.text) if item.text.strip() else [] for item in items]


def observe_batch(texts: int, seconds: float) -> None:
    """Count a batch of the model; called on its own thread."""
    EMBEDDER_TEXTS.inc(texts)
    EMBEDDER_TIME.observe(seconds)


@contextmanager
def _span(texts: int) -> Iterator[None]:
    if not TRACING.on:
        yield
        return
    with TRACING.tracer.start_as_current_span(
        "embed",
        attributes={"skein.texts": texts},
        # The words of an error may quote the text.
        record_exception=False,
        set_status_on_exception=False,
    ):
        yield
