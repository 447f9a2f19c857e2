"""The codes of a matrix's vectors, exact and approximate, and the rows that are nearest by them. Pure.

Exact codes are two int8 numbers per dimension (`quantization`). The first ones of all rows are compared, which reads
half of the memory; the residuals of quantization bound the error. Only rows that may be among the nearest within that
bound, some dozens, are compared by both numbers.

Approximate codes are three bits per dimension: whether the number is above the median, the lower fifth and the upper
fifth of a sample. The number of bits that differ orders the rows. The first bit of all rows is compared, and the others
of some thousand rows. A matrix of them takes a fifth of the memory, and a comparison of all rows a fifth of the time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self

import numpy as np
import simsimd
from numpy.typing import NDArray

from skein_recall.vector_cache.quantization import QuantizedQuery, QuantizedVectors

# One in so many numbers is sampled to estimate the greatest ones.
_SAMPLE_STEP = 16
# With more than this share of all rows, all are compared, which is faster than gathering them.
_MAX_GATHERED_SHARE = 0.25
# The cosine of a hidden row, and the least finite number.
_HIDDEN, _MIN_FLOAT32 = -np.inf, float(np.finfo(np.float32).min)
# Shares of the sampled numbers below each threshold of a bit. The first bit is compared of all rows.
_QUANTILES = (0.5, 0.2, 0.8)
# Rows whose further bits are compared: so many for each one wanted, and so many at least.
_ROWS_PER_WANTED, _MIN_ROWS = 8, 8000


class RankedRows(NamedTuple):
    """The rows nearest to a vector, the nearest first."""

    # Integers (n,).
    rows: NDArray[np.integer]
    # Float32 (n,): the cosines, or numbers in their order.
    cosines: NDArray[np.float32]
    # By how much the cosines may differ from the true ones.
    margin: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ExactCodes:
    """Codes that prove which rows are the nearest. Later codes share these arrays."""

    # As in `QuantizedVectors`, for all rows.
    codes: NDArray[np.int8]
    fine_codes: NDArray[np.int8]
    scales: NDArray[np.float32]
    residual_norms: NDArray[np.float32]
    max_norm: float = 0.0
    max_fine_residual: float = 0.0

    is_exact: ClassVar = True

    @classmethod
    def empty(cls, rows: int, dimensions: int) -> Self:
        """Return codes with room for so many rows."""
        return cls(
            codes=np.empty((rows, dimensions), dtype=np.int8),
            fine_codes=np.empty((rows, dimensions), dtype=np.int8),
            scales=np.empty(rows, dtype=np.float32),
            residual_norms=np.empty(rows, dtype=np.float32),
        )

    @staticmethod
    def row_bytes(dimensions: int) -> int:
        """Return the memory in bytes of a row."""
        return 2 * dimensions + 8

    @property
    def dimensions(self) -> int:
        """Numbers of a vector."""
        dimensions: int = self.codes.shape[1]
        return dimensions

    @property
    def capacity(self) -> int:
        """Rows that there is room for."""
        return len(self.codes)

    def listed_items(self, count: int) -> int:
        """Return how many items the database shall compare to find the `count` nearest."""
        return count

    def with_vectors(self, start: int, vectors: NDArray[np.float32]) -> Self:
        """Return codes with vectors (n, dimensions) from a row on, which no reader of these codes uses."""
        quantized, end = QuantizedVectors.of(vectors), start + len(vectors)
        self.codes[start:end] = quantized.codes
        self.fine_codes[start:end] = quantized.fine_codes
        self.scales[start:end] = quantized.scales
        self.residual_norms[start:end] = quantized.residual_norms
        return replace(
            self,
            max_norm=max(self.max_norm, quantized.max_norm),
            max_fine_residual=max(self.max_fine_residual, quantized.max_fine_residual),
        )

    def erase(self, rows: NDArray[np.integer]) -> None:
        """Forget the vectors of some rows."""
        for array in (self.codes, self.fine_codes, self.scales):
            array[rows] = 0

    def cosines(self, query: QuantizedQuery, rows: NDArray[np.integer], count: int) -> NDArray[np.float32]:
        """Return the cosines (len(rows),) of some of the first `count` rows, to within `query.fine_margin`."""
        if len(rows) > _MAX_GATHERED_SHARE * count:
            return query.fine_products(self.codes[:count], self.fine_codes[:count], self.scales[:count]).take(rows)
        codes, fine_codes = self.codes.take(rows, axis=0), self.fine_codes.take(rows, axis=0)
        return query.fine_products(codes, fine_codes, self.scales.take(rows))

    def nearest(
        self,
        vector: NDArray[np.float32],
        rows: NDArray[np.integer] | slice,
        hidden: NDArray[np.bool_] | None,
        wanted: int,
        *,
        count: int,
        max_values: float,
    ) -> RankedRows | None:
        """Return the `wanted` nearest of some of the first `count` rows, except those `hidden`, and some more.

        None when more than `max_values` numbers would have to be compared exactly, because too many are about as near.
        """
        query = QuantizedQuery.of(vector)
        places = self._candidates(query, rows, hidden, wanted)
        if places.size * vector.size > max_values:
            return None
        candidates = places if isinstance(rows, slice) else rows[places]
        cosines = self.cosines(query, candidates, count)
        order = np.argsort(-cosines, kind="stable")[:wanted]
        return RankedRows(candidates[order], cosines[order], query.fine_margin(self.max_norm, self.max_fine_residual))

    def _candidates(
        self,
        query: QuantizedQuery,
        rows: NDArray[np.integer] | slice,
        hidden: NDArray[np.bool_] | None,
        wanted: int,
    ) -> NDArray[np.intp]:
        """Return the positions of all rows that may be among the `wanted` nearest, by their first codes.

        Each cosine is known within a margin. The candidates are the rows whose greatest possible cosine reaches the
        `wanted`-th greatest of the least possible ones.
        """
        cosines = query.products(self.codes[rows], self.scales[rows])
        if hidden is not None:
            cosines[hidden] = _HIDDEN
        margins = query.margins(self.residual_norms[rows], self.max_norm)
        threshold = _kth_greatest(cosines - margins, wanted)
        cosines += margins
        return np.flatnonzero(cosines >= max(threshold, _MIN_FLOAT32))


@dataclass(frozen=True, kw_only=True, slots=True)
class BitCodes:
    """Codes of three bits per dimension, which propose rows. Later codes share these arrays."""

    # float32 (3, dimensions): each bit says that the number is greater.
    thresholds: NDArray[np.float32]
    # uint8 (rows, bytes of a bit of each dimension), and (rows, twice as many).
    first_bits: NDArray[np.uint8]
    further_bits: NDArray[np.uint8]
    # Items that the database compares at least.
    min_listed: int

    is_exact: ClassVar = False

    @classmethod
    def empty(cls, rows: int, sample: NDArray[np.float32], min_listed: int) -> Self:
        """Return codes with room for so many rows, of vectors like a sample (n, dimensions)."""
        width = -(-sample.shape[1] // 8)
        return cls(
            thresholds=np.quantile(sample, _QUANTILES, axis=0).astype(np.float32),
            first_bits=np.empty((rows, width), dtype=np.uint8),
            further_bits=np.empty((rows, 2 * width), dtype=np.uint8),
            min_listed=min_listed,
        )

    @staticmethod
    def row_bytes(dimensions: int) -> int:
        """Return the memory in bytes of a row."""
        return 3 * -(-dimensions // 8)

    @property
    def dimensions(self) -> int:
        """Numbers of a vector."""
        dimensions: int = self.thresholds.shape[1]
        return dimensions

    @property
    def capacity(self) -> int:
        """Rows that there is room for."""
        return len(self.first_bits)

    def listed_items(self, count: int) -> int:
        """Return how many items the database shall compare to find the `count` nearest."""
        return max(self.min_listed, 2 * count)

    def with_vectors(self, start: int, vectors: NDArray[np.float32]) -> Self:
        """Return codes with vectors (n, dimensions) from a row on, which no reader of these codes uses."""
        end = start + len(vectors)
        self.first_bits[start:end], self.further_bits[start:end] = self._bits(vectors)
        return self

    def erase(self, rows: NDArray[np.integer]) -> None:
        """Forget the vectors of some rows."""
        self.first_bits[rows] = self.further_bits[rows] = 0

    def nearest(
        self,
        vector: NDArray[np.float32],
        rows: NDArray[np.integer] | slice,
        hidden: NDArray[np.bool_] | None,
        wanted: int,
        *,
        count: int,
        max_values: float,
    ) -> RankedRows | None:
        """Return about the `wanted` nearest of some rows, except those `hidden`."""
        first, further = self._bits(vector[np.newaxis])
        distances = _different_bits(first, self.first_bits[rows])
        np.negative(distances, out=distances)
        if hidden is not None:
            distances[hidden] = _HIDDEN
        least = _kth_greatest(distances, min(len(distances), max(_MIN_ROWS, _ROWS_PER_WANTED * wanted)))
        places = np.flatnonzero(distances >= max(least, _MIN_FLOAT32))
        candidates = places if isinstance(rows, slice) else rows[places]
        negative_distances = distances[places] - _different_bits(further, self.further_bits.take(candidates, axis=0))
        order = np.argsort(-negative_distances, kind="stable")[:wanted]
        return RankedRows(candidates[order], negative_distances[order], 0.0)

    def _bits(self, vectors: NDArray[np.float32]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Return the first bits and the further bits of vectors (n, dimensions), a row each."""
        first, second, third = (np.packbits(vectors > threshold, axis=1) for threshold in self.thresholds)
        return first, np.concatenate([second, third], axis=1)


def _different_bits(bits: NDArray[np.uint8], rows: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return how many bits (n,) of a row (1, bytes) differ from others (n, bytes)."""
    if not len(rows):
        return np.empty(0, dtype=np.float32)
    # As in `quantization`, the result has no place given.
    distances: NDArray[np.float32] = np.asarray(
        simsimd.cdist(bits, rows, metric="hamming", dtype="bin8", out_dtype="float32")
    )[0]
    return distances


def _kth_greatest(numbers: NDArray[np.float32], k: int) -> float:
    """Return the k-th greatest number. A sample estimates it first, so that few numbers are partitioned."""
    sample = numbers[::_SAMPLE_STEP]
    position = len(sample) - min(len(sample), 2 * k // _SAMPLE_STEP + _SAMPLE_STEP)
    great = numbers[numbers >= np.partition(sample, position)[position]]
    if len(great) < k:
        great = numbers
    kth: float = np.partition(great, len(great) - k)[len(great) - k].item()
    return kth
