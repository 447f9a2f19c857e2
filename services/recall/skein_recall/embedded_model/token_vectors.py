"""Vectors of a text's tokens, and how well a query's tokens find their like in them (late interaction). Pure.

The last hidden states of the encoder, without [CLS] and [SEP], are scaled to unit length, projected to 32 dimensions
and scaled again; each dimension is a whole number of one byte. The score is that of ColBERT (Khattab and Zaharia,
2020), with a weight for each token of the query: the sum over its tokens of the greatest cosine with a token of the
item.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

TOKEN_DIMENSIONS: Final = 32
# The greatest int8 whose negative is an int8 as well.
_MAX_CODE: Final = 127
# Written by tests/bench/token_projection.py: float16 (1 + TOKEN_DIMENSIONS, 384), the mean and the axes.
PROJECTION_FILE: Final = Path(__file__).with_name("token-projection.npy")


@dataclass(frozen=True, slots=True)
class Projection:
    """The axes along which token vectors differ most, and their mean."""

    # float32 (384,) and (384, TOKEN_DIMENSIONS).
    mean: NDArray[np.float32]
    axes: NDArray[np.float32]

    @classmethod
    def fit(cls, vectors: NDArray[np.float32]) -> Self:
        """Fit to unit vectors of tokens (n, 384) by their principal components."""
        mean = vectors.mean(axis=0)
        centred = vectors - mean
        _, axes = np.linalg.eigh(centred.T @ centred)
        return cls(mean, np.ascontiguousarray(axes[:, ::-1][:, :TOKEN_DIMENSIONS]))

    @classmethod
    def load(cls) -> Self:
        """Read the projection of the embedded model."""
        return cls.of_rows(np.load(PROJECTION_FILE, allow_pickle=False))

    @classmethod
    def of_rows(cls, rows: NDArray[np.float16]) -> Self:
        """Return the projection of the rows of its file."""
        values = rows.astype(np.float32)
        return cls(values[0], np.ascontiguousarray(values[1:].T))

    @property
    def rows(self) -> NDArray[np.float16]:
        """The rows of its file."""
        return np.concatenate([self.mean[np.newaxis], self.axes.T]).astype(np.float16)

    def codes(self, states: NDArray[np.float32]) -> NDArray[np.int8]:
        """Return the codes (n, TOKEN_DIMENSIONS) of hidden states (n, 384)."""
        projected: NDArray[np.float32] = ((_unit(states) - self.mean) @ self.axes).astype(np.float32)
        return np.rint(_unit(projected) * _MAX_CODE).astype(np.int8)


@cache
def projection() -> Projection:
    """Return the projection of the embedded model, which is read once."""
    return Projection.load()


def pack(codes: NDArray[np.int8]) -> bytes:
    """Return the bytes in which the codes of a text (n, TOKEN_DIMENSIONS) are stored: 32 for each token."""
    return codes.tobytes()


def unpack(packed: bytes) -> NDArray[np.int8]:
    """Return the codes (n, TOKEN_DIMENSIONS) of stored bytes. Raises ValueError for another length."""
    return np.frombuffer(packed, dtype=np.int8).reshape(-1, TOKEN_DIMENSIONS)


def max_similarities(
    query: NDArray[np.int8], weights: NDArray[np.float64], items: Sequence[NDArray[np.int8]]
) -> NDArray[np.float64]:
    """Return the score (n,) of each item, from 0 to 1; NaN for an item without tokens.

    `query` has codes (q, TOKEN_DIMENSIONS), and `weights` (q,) are those of its tokens, above 0. The items' tokens are
    compared in one product of matrices.
    """
    scores = np.full(len(items), np.nan)
    lengths = np.array([len(item) for item in items], dtype=np.intp)
    filled = np.flatnonzero(lengths).tolist()
    if not filled or not len(query):
        return scores
    tokens = _unit(np.concatenate([items[index] for index in filled]).astype(np.float32))
    cosines = _unit(query.astype(np.float32)) @ tokens.T
    starts = np.concatenate([[0], np.cumsum(lengths[filled])[:-1]])
    best = np.maximum.reduceat(cosines, starts, axis=1)
    scores[filled] = np.clip((weights / weights.sum()) @ best, 0.0, 1.0)
    return scores


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale rows to unit length; zeros stay."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    scaled: NDArray[np.float32] = (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    return scaled
