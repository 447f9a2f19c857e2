"""Which provider computes the vectors of a registered model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_recall.errors import ModelNotFound
from skein_recall.providers.openai import OpenAIProvider

if TYPE_CHECKING:
    from skein_kit.outbound.fetch import SafeHttpClient
    from skein_recall.models.model import EmbeddingModel
    from skein_recall.providers.api_keys import ApiKeys
    from skein_recall.providers.embedded import EmbeddedProvider
    from skein_recall.providers.provider import Provider


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
