"""The provider of each registered model: the embedded model, or an endpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_kit.errors import ServiceUnavailable
from skein_recall.embedded_model.embedder import EmbedderBusy, EmbedderClosed
from skein_recall.errors import ModelNotFound
from skein_recall.providers.openai import OpenAIProvider

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from skein_kit.outbound.fetch import SafeHttpClient
    from skein_recall.embedded_model.embedder import LocalEmbedder
    from skein_recall.models.model import EmbeddingModel
    from skein_recall.providers.api_keys import ApiKeys
    from skein_recall.providers.provider import Provider


class EmbeddedProvider:
    """all-MiniLM-L6-v2 as a `Provider`."""

    def __init__(self, embedder: LocalEmbedder) -> None:
        """Use an embedder; its owner closes it."""
        self._embedder = embedder

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return an array (texts, 384). Raises ServiceUnavailable when too many texts wait."""
        try:
            return await self._embedder.embed(texts)
        except (EmbedderBusy, EmbedderClosed):
            # Writers leave their items to the backlog.
            raise ServiceUnavailable(service="recall") from None

    async def embed_query(self, text: str, *, seconds: float) -> NDArray[np.float32]:
        """Return the vector (384,) of a query. The caller limits the time: a run of the model cannot be stopped."""
        vector: NDArray[np.float32] = (await self._embedder.embed([text]))[0]
        return vector

    def chunks(self, text: str) -> list[str]:
        """Cut a text into chunks by the model's own tokens."""
        return self._embedder.chunks(text)


class ProviderRegistry:
    """The providers of one process, each created on first use."""

    def __init__(self, embedded: EmbeddedProvider, outbound: SafeHttpClient, keys: ApiKeys) -> None:
        self._embedded = embedded
        self._outbound = outbound
        self._keys = keys
        self._endpoints: dict[str, tuple[EmbeddingModel, OpenAIProvider]] = {}

    def get(self, model: EmbeddingModel) -> Provider:
        """Return the provider of a model. Raises ModelNotFound when only callers have its vectors."""
        if not model.can_embed:
            raise ModelNotFound(model=model.model)
        if model.endpoint is None:
            return self._embedded
        cached = self._endpoints.get(model.model)
        # A dropped model's name may have been registered again.
        if cached is None or (cached[0].create_time, cached[0].endpoint) != (model.create_time, model.endpoint):
            provider = OpenAIProvider(model, model.endpoint, self._outbound, key=self._keys.get(model.model))
            cached = self._endpoints[model.model] = model, provider
        return cached[1]
