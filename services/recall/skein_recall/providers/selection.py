"""Which provider makes the vectors of a registered model."""

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
    """The providers of one process, each made when it is wanted."""

    def __init__(self, embedded: EmbeddedProvider, outbound: SafeHttpClient, keys: ApiKeys) -> None:
        self._embedded = embedded
        self._outbound = outbound
        self._keys = keys
        self._endpoints: dict[str, tuple[EmbeddingModel, OpenAIProvider]] = {}

    def drop(self, scope: str | None) -> None:
        """Forget the vectors of a scope's queries; None: of every scope's."""
        self._embedded.drop(scope)
        for _, endpoint in self._endpoints.values():
            endpoint.drop(scope)

    def of(self, model: EmbeddingModel) -> Provider:
        """Return who makes a model's vectors; refuse with ModelNotFound when only callers have them."""
        if not model.embeds:
            raise ModelNotFound(model=model.model)
        if model.remote is None:
            return self._embedded
        known = self._endpoints.get(model.model)
        # A model that was dropped and registered again may be another one.
        if known is None or (known[0].create_time, known[0].remote) != (model.create_time, model.remote):
            key = self._keys.of(model.model)
            known = self._endpoints[model.model] = model, OpenAIProvider(model, model.remote, self._outbound, key=key)
        return known[1]
