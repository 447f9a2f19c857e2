"""The interface of providers, which compute a model's vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray


class TextRejected(Exception):
    """The model does not accept this text; it may accept others."""


class Provider(Protocol):
    """Computes float32 vectors of unit length for one model. Raises ModelUnavailable and ModelResponseInvalid.

    Texts to embed have the model's prefix; chunks leave room for it.
    """

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return an array (texts, dimensions). Raises TextRejected when one of the texts is not accepted."""

    async def embed_query(self, text: str, *, seconds: float) -> NDArray[np.float32]:
        """Return the vector (dimensions,) of a query, within so many seconds where the provider can stop."""

    def chunks(self, text: str) -> list[str]:
        """Cut a text into overlapping chunks that the model reads whole; a short text is one chunk."""
