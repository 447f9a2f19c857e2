"""The interface of providers, which compute a model's vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from skein_recall.embedded_model.token_vectors import QueryTokens


@dataclass(frozen=True, slots=True, eq=False)
class QueryEmbedding:
    """What a model makes of a query."""

    # float32 (dimensions,), of unit length.
    vector: NDArray[np.float32]
    # None where the model has no vectors of tokens, or they are left out.
    tokens: QueryTokens | None = None


class TextRejected(Exception):
    """The model does not accept this text; it may accept others."""


class Provider(Protocol):
    """Computes float32 vectors of unit length for one model. Raises ModelUnavailable and ModelResponseInvalid.

    Texts to embed have the model's prefix; chunks leave room for it.
    """

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return an array (texts, dimensions). Raises TextRejected when one of the texts is not accepted."""

    async def embed_with_tokens(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], Sequence[bytes] | None]:
        """Embed as `embed` does; return the packed codes of each text's tokens, where there are any, as well."""

    async def embed_query(self, text: str, *, seconds: float) -> QueryEmbedding:
        """Embed a query, within so many seconds where the provider can stop."""

    def chunks(self, text: str) -> list[str]:
        """Cut a text into overlapping chunks that the model reads whole; a short text is one chunk."""
