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
    """all-MiniLM-L6-v2, as `Provider` has it."""

    def __init__(self, embedder: LocalEmbedder) -> None:
        """Use an embedder that somebody else closes."""
        self._embedder = embedder

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One vector for each text, of what the model's window holds of it."""
        try:
            return await self._embedder.embed(texts)
        except (EmbedderBusy, EmbedderClosed):
            # Writers leave their items to the backlog.
            raise ServiceUnavailable(service="recall") from None

    async def embed_query(self, text: str, *, scope: str, seconds: float) -> NDArray[np.float32]:
        """The vector of a query; whoever asks sets the limit of time, because a run of the model cannot be ended."""
        return await self._embedder.embed_query(text, scope=scope)

    def drop(self, scope: str | None) -> None:
        """Forget the vectors of a scope's queries; None: of every scope's."""
        self._embedder.drop(scope)

    def chunks(self, text: str) -> list[str]:
        """The text itself, or pieces of it by the model's own tokens."""
        return self._embedder.chunks(text)
