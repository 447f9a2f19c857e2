"""The model in this process as a provider."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_kit.errors import ServiceUnavailable
from skein_recall.embedded_model.embedder import EmbedderBusy, EmbedderClosed

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from skein_recall.embedded_model.embedder import LocalEmbedder


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
