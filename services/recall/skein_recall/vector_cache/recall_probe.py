"""A probe of approximate codes: vectors like those of a tenant, with their true neighbours among all loaded ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from skein_recall.vector_cache.codes import BitCodes
from skein_recall.vector_cache.item_ids import to_uuids
from skein_recall.vector_cache.matrix import VectorMatrix
from skein_recall.vector_cache.store import ChunkVectors

# Vectors of a probe, and the neighbours of each.
_QUERIES, _NEIGHBOURS = 48, 10
# Length of the difference from a loaded vector: a question is about as far from its answer, with a cosine of 0.7.
_NOISE = 1.0
# Items that the database compares at least, tried in this order. A thousand cost it 5 to 20 ms.
LISTED_ITEMS = (250, 500, 1000, 2000)
_KINDS = ("memory", "message")


class RecallProbe:
    """Finds the true neighbours of a few vectors while all others are loaded."""

    def __init__(self, sample: NDArray[np.float32]) -> None:
        """Probe with vectors like some of a sample (n, dimensions)."""
        source = np.random.default_rng(len(sample))
        chosen = sample[source.choice(len(sample), min(_QUERIES, len(sample)), replace=False)]
        noise = source.standard_normal(chosen.shape, dtype=np.float32)
        queries = chosen + noise * np.float32(_NOISE / np.sqrt(sample.shape[1]))
        self._queries = (queries / np.linalg.norm(queries, axis=1, keepdims=True)).astype(np.float32)
        self._cosines = np.empty((len(queries), 0), dtype=np.float32)
        self._ids = np.empty((len(queries), 0, 2), dtype=np.uint64)

    def add(self, chunks: ChunkVectors) -> None:
        """Compare more chunks."""
        # One at a time: the operator `@` would use every core.
        cosines = np.stack([np.vecdot(chunks.vectors, query) for query in self._queries])
        ids = np.broadcast_to(chunks.ids, (len(cosines), *chunks.ids.shape))
        cosines, ids = np.concatenate([self._cosines, cosines], axis=1), np.concatenate([self._ids, ids], axis=1)
        nearest = np.argsort(-cosines, axis=1, kind="stable")[:, :_NEIGHBOURS]
        self._cosines = np.take_along_axis(cosines, nearest, axis=1)
        self._ids = np.take_along_axis(ids, nearest[:, :, np.newaxis], axis=1)

    def tune(self, matrix: VectorMatrix, min_recall: float) -> VectorMatrix | None:
        """Return a matrix of approximate codes that lists enough items for a recall; None where too many were needed.

        Recall is the share of the true neighbours that are listed, 0 to 1.
        """
        codes = matrix.codes
        if not isinstance(codes, BitCodes):
            return matrix
        for count in LISTED_ITEMS:
            tuned = replace(matrix, codes=replace(codes, min_listed=count))
            if self._recall(tuned, count) >= min_recall:
                return tuned
        return None

    def _recall(self, matrix: VectorMatrix, count: int) -> float:
        shares = []
        for query, ids in zip(self._queries, self._ids, strict=True):
            nearest = matrix.nearest(query, _KINDS, count)
            true_ids = set(to_uuids(ids))
            shares.append(len(true_ids & set(nearest[0])) / len(true_ids) if nearest else 0.0)
        return sum(shares) / len(shares)
