"""Vectors of a text's tokens, and how well a query's tokens find their like in them (late interaction). Pure.

The last hidden states of the encoder, without [CLS] and [SEP], are scaled to unit length, projected to 32 dimensions
and scaled again; each dimension is a whole number of one byte. The score is that of ColBERT (Khattab and Zaharia,
2020), with a weight for each token of the query: the sum over its tokens of the greatest cosine with a token of the
item.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Self

import numpy as np
import simsimd
from numpy.typing import NDArray

TOKEN_DIMENSIONS: Final = 32
# The greatest int8 whose negative is an int8 as well.
_MAX_CODE: Final = 127
# Written by tests/bench/token_projection.py: float16 (1 + TOKEN_DIMENSIONS, 384), the mean and the axes.
PROJECTION_FILE: Final = Path(__file__).with_name("token-projection.npy")


@dataclass(frozen=True, slots=True)
class Projection:
    """The axes along which token vectors differ most, and their mean."""

    # float32 (384,) and (TOKEN_DIMENSIONS, 384).
    mean: NDArray[np.float32]
    axes: NDArray[np.float32]

    @classmethod
    def fit(cls, vectors: NDArray[np.float32]) -> Self:
        """Fit to unit vectors of tokens (n, 384) by their principal components."""
        mean = vectors.mean(axis=0)
        centred = vectors - mean
        _, axes = np.linalg.eigh(centred.T @ centred)
        return cls(mean, np.ascontiguousarray(axes[:, ::-1][:, :TOKEN_DIMENSIONS].T))

    @classmethod
    def load(cls) -> Self:
        """Read the projection of the embedded model."""
        return cls.of_rows(np.load(PROJECTION_FILE, allow_pickle=False))

    @classmethod
    def of_rows(cls, rows: NDArray[np.float16]) -> Self:
        """Return the projection of the rows of its file."""
        values = rows.astype(np.float32)
        return cls(values[0], np.ascontiguousarray(values[1:]))

    @property
    def rows(self) -> NDArray[np.float16]:
        """The rows of its file."""
        return np.concatenate([self.mean[np.newaxis], self.axes]).astype(np.float16)

    def vectors(self, states: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the unit vectors (n, TOKEN_DIMENSIONS) of hidden states (n, 384)."""
        return _unit(_products(_unit(states) - self.mean, self.axes).astype(np.float32))


@dataclass(frozen=True, slots=True, eq=False)
class QueryTokens:
    """The tokens of a query."""

    # float32 (tokens, TOKEN_DIMENSIONS), of unit length: not rounded, so that a replay has the same to 0.00001.
    vectors: NDArray[np.float32]
    # The word of each, in lower case.
    words: Sequence[str]


@cache
def projection() -> Projection:
    """Return the projection of the embedded model, which is read once."""
    return Projection.load()


def pack(vectors: NDArray[np.float32]) -> bytes:
    """Return the codes in which unit vectors (n, TOKEN_DIMENSIONS) of a text are stored: 32 bytes for each token."""
    return np.rint(vectors * _MAX_CODE).astype(np.int8).tobytes()


def unpack(packed: bytes) -> NDArray[np.int8]:
    """Return the codes (n, TOKEN_DIMENSIONS) of stored bytes. Raises ValueError for another length."""
    return np.frombuffer(packed, dtype=np.int8).reshape(-1, TOKEN_DIMENSIONS)


def max_similarities(
    query: NDArray[np.float32], weights: NDArray[np.float64], items: Sequence[NDArray[np.int8]]
) -> NDArray[np.float64]:
    """Return the score (n,) of each item, from 0 to 1; NaN for an item without tokens.

    `query` has unit vectors (q, TOKEN_DIMENSIONS), and `weights` (q,) are those of its tokens, above 0. The codes of
    the items are compared in one product of matrices.
    """
    scores = np.full(len(items), np.nan)
    lengths = np.array([len(item) for item in items], dtype=np.intp)
    filled = np.flatnonzero(lengths).tolist()
    if not filled or not len(query):
        return scores
    tokens = np.concatenate([items[index] for index in filled])
    cosines = _products(query, tokens.astype(np.float32)) / _lengths(tokens)
    starts = np.concatenate([[0], np.cumsum(lengths[filled])[:-1]])
    best = np.maximum.reduceat(cosines, starts, axis=1)
    # Added up in the order of the tokens, as a product of matrices would not for any number of items.
    scores[filled] = np.clip(((weights / weights.sum())[:, np.newaxis] * best).sum(axis=0), 0.0, 1.0)
    return scores


def _products(rows: NDArray[np.float32], others: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the dot products (rows, others), each the same in any company.

    The threads of numpy's product of matrices would wait for one another on a busy machine, at ten times the processor
    time.
    """
    products = np.asarray(simsimd.cdist(rows, others, metric="dot", out_dtype="float64"))
    return products.reshape(len(rows), len(others))


def _lengths(rows: NDArray[np.int8]) -> NDArray[np.float64]:
    """Return the lengths of rows; 1 for zeros."""
    lengths = np.sqrt(np.asarray(simsimd.dot(rows, rows), dtype=np.float64).reshape(len(rows)))
    return np.where(lengths > 0, lengths, 1.0)


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale rows to unit length; zeros stay."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    scaled: NDArray[np.float32] = (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    return scaled
