"""Vectors as whole numbers of one byte, and how far the products of these are from those of the vectors. Pure.

A vector is stored as two numbers per dimension: the first has its value in 127ths of the greatest one, the second the
remainder in 254ths of that step. The first alone gives a cosine to about 0.01, both to about 0.0001.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
import simsimd
from numpy.typing import NDArray

# The greatest int8 whose negative is an int8 as well.
_MAX_CODE = 127
# Fine steps of one step: the remainder, half a step at most, is at most _MAX_CODE of them.
_FINE_STEPS = 2 * _MAX_CODE
# Rounding error of a product between two orders of summation.
ROUNDING_ERROR = 1e-5


@dataclass(frozen=True, kw_only=True, slots=True)
class QuantizedVectors:
    """n vectors: each is about its row of `codes` plus a 254th of its row of `fine_codes`, times its scale."""

    # int8 (n, dimensions) each.
    codes: NDArray[np.int8]
    fine_codes: NDArray[np.int8]
    # float32 (n,).
    scales: NDArray[np.float32]
    # float32 (n,): lengths of the differences of the original vectors and those of `codes` alone.
    residual_norms: NDArray[np.float32]
    # Length of the longest vector of `codes` alone, and of the longest difference that `fine_codes` leave.
    max_norm: float
    max_fine_residual: float

    @classmethod
    def of(cls, vectors: NDArray[np.float32]) -> Self:
        """Quantize vectors (n, dimensions)."""
        scales = (np.abs(vectors).max(axis=1, initial=0) / _MAX_CODE).astype(np.float32)
        steps = np.where(scales > 0, scales, 1)[:, np.newaxis]
        scaled = vectors / steps
        codes = np.rint(scaled)
        scaled -= codes
        # In steps, so that the lengths are those of the vectors times the scales.
        residual_norms = np.sqrt(np.vecdot(scaled, scaled)) * scales
        norms = np.sqrt(np.vecdot(codes, codes)) * scales
        scaled *= _FINE_STEPS
        fine_codes = np.rint(scaled)
        scaled -= fine_codes
        fine_residuals = np.sqrt(np.vecdot(scaled, scaled)) * scales / _FINE_STEPS
        return cls(
            codes=codes.astype(np.int8),
            fine_codes=fine_codes.astype(np.int8),
            scales=scales,
            residual_norms=residual_norms.astype(np.float32),
            max_norm=float(norms.max(initial=0)),
            max_fine_residual=float(fine_residuals.max(initial=0)),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class QuantizedQuery:
    """A vector (dimensions,) that others are compared with."""

    # int8 (1, dimensions) each.
    codes: NDArray[np.int8]
    fine_codes: NDArray[np.int8]
    scale: float
    # Length of the vector, and of what `codes` and `fine_codes` leave of it.
    norm: float
    residual_norm: float
    fine_residual: float

    @classmethod
    def of(cls, vector: NDArray[np.float32]) -> Self:
        """Quantize a vector."""
        # As in `QuantizedVectors.of`, three times as fast for a single vector.
        scale = float(np.abs(vector).max()) / _MAX_CODE or 1.0
        scaled = vector / np.float32(scale)
        codes = np.rint(scaled)
        residual = scaled - codes
        fine_codes = np.rint(residual * _FINE_STEPS)
        fine_residual = residual - fine_codes / _FINE_STEPS
        return cls(
            codes=codes.astype(np.int8)[np.newaxis],
            fine_codes=fine_codes.astype(np.int8)[np.newaxis],
            scale=scale,
            norm=_norm(vector),
            residual_norm=_norm(residual) * scale,
            fine_residual=_norm(fine_residual) * scale,
        )

    def products(self, codes: NDArray[np.int8], scales: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the products (n,) with vectors by their codes (n, dimensions) alone."""
        products = _integer_products(self.codes, codes)
        products *= scales
        products *= self.scale
        return products

    def fine_products(
        self, codes: NDArray[np.int8], fine_codes: NDArray[np.int8], scales: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Return the products (n,) with vectors by their codes and fine codes (n, dimensions)."""
        # In float64, so that equal vectors have equal products.
        mixed = _integer_products(self.fine_codes, codes) + _integer_products(self.codes, fine_codes).astype(float)
        products = _integer_products(self.codes, codes) + mixed / _FINE_STEPS
        products += _integer_products(self.fine_codes, fine_codes) / _FINE_STEPS**2
        cosines: NDArray[np.float32] = (products * (scales * self.scale)).astype(np.float32)
        return cosines

    def margins(self, residual_norms: NDArray[np.float32], max_norm: float) -> NDArray[np.float32]:
        """Return by how much `products` may differ (n,) from the products of the vectors themselves.

        For vectors v and w with quantized v' and w', v w - v' w' = v' (w - w') + (v - v') w. Each product is at most
        that of the lengths (Cauchy-Schwarz).
        """
        margins: NDArray[np.float32] = residual_norms * np.float32(self.norm)
        margins += np.float32(max_norm * self.residual_norm + ROUNDING_ERROR)
        return margins

    def fine_margin(self, max_norm: float, max_fine_residual: float) -> float:
        """Return by how much `fine_products` may differ from the products of the vectors themselves."""
        return (max_norm + max_fine_residual) * self.fine_residual + max_fine_residual * self.norm + ROUNDING_ERROR


def cosines(vector: NDArray[np.float32], vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the cosines (n,) of a vector (dimensions,) and others (n, dimensions), all of unit length.

    To the bit those of the vector cache: the vector is rounded to half precision, and all are quantized.
    """
    quantized = QuantizedVectors.of(vectors)
    query = QuantizedQuery.of(to_half_precision(vector))
    return query.fine_products(quantized.codes, quantized.fine_codes, quantized.scales)


def to_half_precision(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """Round a vector as the database does, whose vectors have half precision."""
    return vector.astype(np.float16).astype(np.float32)


def _integer_products(code: NDArray[np.int8], codes: NDArray[np.int8]) -> NDArray[np.float32]:
    """Return the products (n,) of a code (1, dimensions) and others (n, dimensions).

    The function is not told where to put them: then it would return None without counting that reference, and the
    process would end after some ten thousand searches.
    """
    if not len(codes):
        return np.empty(0, dtype=np.float32)
    products: NDArray[np.float32] = np.asarray(simsimd.cdist(code, codes, metric="dot", out_dtype="float32"))[0]
    return products


def _norm(vector: NDArray[np.float32]) -> float:
    return math.sqrt(vector.dot(vector))
