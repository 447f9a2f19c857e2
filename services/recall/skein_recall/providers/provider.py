"""Who makes vectors: the model in this process, or an endpoint that speaks OpenAI's protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray


class TextRejected(Exception):
    """The model takes no such text: it is about that text, and others may be taken."""


class Provider(Protocol):
    """Computes vectors of one model, of unit length. Raises ModelUnavailable or ModelResponseInvalid."""

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One vector for each text, in order; raise TextRejected when one of them cannot be taken."""

    async def embed_query(self, text: str, *, scope: str, seconds: float) -> NDArray[np.float32]:
        """The vector of a query within so many seconds, remembered within its scope; read-only."""

    def drop(self, scope: str | None) -> None:
        """Forget the vectors of a scope's queries; None: of every scope's."""

    def chunks(self, text: str) -> list[str]:
        """The text itself when the model can read it whole, else overlapping pieces of it that the model can."""
