"""A tenant's vectors side by side, and which of them stand nearest to another.

Each vector is there twice: as the database has it, and rounded to whole numbers of a byte. All are compared by the
whole numbers, a quarter of the memory to go through, and how far that can be off is known from what rounding left out.
Only what may be among the nearest by that, some dozens, is compared as it is. So the nearest are those that comparing
everything would have found.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
import simsimd

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from numpy.typing import NDArray

    from skein_recall.vector_cache.store import ChunkVectors, TransactionHorizon

    # A tenant, and a model: its table, and when that was made, for one of the same name may come after it.
    Key = tuple[UUID, str, datetime]

# How far two ways of adding up a cosine may be apart.
_ROUNDING = 1e-5
_BYTES_OF_A_ROW = 330
# Chunks that are looked at for each item wanted.
_CHUNKS_OF_AN_ITEM = 2
# Each so many-th cosine tells how great the greatest are.
_STEP = 16
# Of more than this share of all rows, all are compared: that is less work than to gather them.
_MOST_GATHERED = 0.25
# The greatest whole number of a byte that has its like below zero.
_MOST = 127
# In an answer: less than any cosine.
_NONE = -2.0
# What stands for the cosine of a row that does not count; and the least that any other number can be.
_HIDDEN, _LEAST_NUMBER = -np.inf, float(np.finfo(np.float32).min)


class QuantizedVectors(NamedTuple):
    """Vectors as whole numbers: each is about its row of `numbers` times its step."""

    numbers: NDArray[np.int8]
    steps: NDArray[np.float32]
    # How long what rounding left out of each is.
    rests: NDArray[np.float32]
    # How long the longest of them is.
    length: float

    @classmethod
    def of(cls, vectors: NDArray[np.float32]) -> Self:
        """Round vectors, a row each."""
        steps = (np.abs(vectors).max(axis=1) / _MOST).astype(np.float32)
        numbers = np.rint(vectors / np.where(steps > 0, steps, 1)[:, np.newaxis])
        rounded = numbers * steps[:, np.newaxis]
        rest = vectors - rounded
        return cls(
            numbers=numbers.astype(np.int8),
            steps=steps,
            rests=np.sqrt(np.vecdot(rest, rest)),
            length=math.sqrt(np.vecdot(rounded, rounded).max(initial=0)),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class VectorMatrix:
    """Some tenant's chunks as they were at a moment: the first `count` rows, but for those that were replaced since.

    Rows after them are free: a later matrix has its own there, and shares the others.
    """

    moment: TransactionHorizon
    read_time: float
    count: int
    item_ids: list[UUID]
    # The rows of each item, those of later matrices among them.
    rows_of: dict[UUID, list[int]]
    are_messages: NDArray[np.bool_]
    are_replaced: NDArray[np.bool_]
    vectors: NDArray[np.float32]
    # The same rounded, as `QuantizedVectors` has them; `length` is that of the longest.
    numbers: NDArray[np.int8]
    steps: NDArray[np.float32]
    rests: NDArray[np.float32]
    length: float = 0.0

    @classmethod
    def empty(cls, moment: TransactionHorizon, read_time: float, *, rows: int, dimensions: int) -> VectorMatrix:
        """Make one with room for so many rows."""
        return cls(
            moment=moment,
            read_time=read_time,
            count=0,
            item_ids=[],
            rows_of={},
            are_messages=np.zeros(rows, dtype=np.bool_),
            are_replaced=np.zeros(rows, dtype=np.bool_),
            vectors=np.empty((rows, dimensions), dtype=np.float32),
            numbers=np.empty((rows, dimensions), dtype=np.int8),
            steps=np.empty(rows, dtype=np.float32),
            rests=np.empty(rows, dtype=np.float32),
        )

    @property
    def size(self) -> int:
        """How many bytes it takes, about."""
        return size_of(*self.vectors.shape)

    def cosines(self, vector: NDArray[np.float32], places: NDArray[np.intp]) -> NDArray[np.float32]:
        """Return the cosines of the rows at some places and a vector."""
        # (A product with `@` would use every core, and wait for each.)
        cosines: NDArray[np.float32]
        if len(places) > _MOST_GATHERED * self.count:
            cosines = np.vecdot(self.vectors[: self.count], vector)[places]
        else:
            cosines = np.vecdot(self.vectors.take(places, axis=0), vector)
        return cosines

    def counts(self, places: NDArray[np.intp] | slice, kinds: Sequence[str]) -> NDArray[np.bool_]:
        """Say of the rows at some places whether they count: were not replaced, and are of one of the kinds."""
        counting = ~self.are_replaced[places]
        if len(kinds) == 1:
            counting &= self.are_messages[places] == (kinds[0] == "message")
        return counting

    def nearest(
        self, vector: NDArray[np.float32], kinds: Sequence[str], count: int, *, most: float = math.inf
    ) -> tuple[list[UUID], float] | None:
        """Return up to `count` items, the nearest first, and a cosine that no other item passes.

        None when more than so many numbers would have to be compared as they are, because too much is about as near.
        """
        rows = min(_CHUNKS_OF_AN_ITEM * count, self.count)
        places = self._candidates(vector, kinds, rows)
        if places.size * vector.size > most:
            return None
        cosines = self.cosines(vector, places)
        order = np.argsort(-cosines, kind="stable")[:rows]
        item_ids: dict[UUID, None] = {}
        least = _NONE
        for place, cosine in zip(places[order].tolist(), cosines[order].tolist(), strict=True):
            if len(item_ids) == count:
                return list(item_ids), cosine
            item_ids[self.item_ids[place]] = None
            least = cosine
        is_all = len(order) < rows or rows == self.count
        return list(item_ids), _NONE if is_all else least

    def with_those(
        self, new: ChunkVectors, rounded: QuantizedVectors, *, moment: TransactionHorizon | None = None
    ) -> VectorMatrix | None:
        """Return it with chunks that came, which may be there already; None when there is no room for them.

        `rounded` are their vectors.
        """
        end = self.count + len(new.item_ids)
        if end > len(self.vectors):
            return None
        came = set(new.item_ids)
        replaced = self.are_replaced
        if moment is not None:
            replaced = replaced.copy()
            replaced[: self.count] |= np.fromiter((each in came for each in self.item_ids), np.bool_, self.count)
        # Who reads the matrix before this one looks at none of these rows.
        self.vectors[self.count : end] = new.vectors
        self.numbers[self.count : end] = rounded.numbers
        self.steps[self.count : end] = rounded.steps
        self.rests[self.count : end] = rounded.rests
        self.are_messages[self.count : end] = new.are_messages
        self.item_ids.extend(new.item_ids)
        for row, item_id in enumerate(new.item_ids, start=self.count):
            self.rows_of.setdefault(item_id, []).append(row)
        return replace(
            self,
            moment=moment or self.moment,
            count=end,
            are_replaced=replaced,
            length=max(self.length, rounded.length),
        )

    def _candidates(self, vector: NDArray[np.float32], kinds: Sequence[str], count: int) -> NDArray[np.intp]:
        """Return the places of all rows that may be among the `count` nearest, by what is rounded.

        With v and w for what is compared, v' and w' for those rounded: v w - v' w' = v' (w - w') + (v - v') w, and a
        product is at most that of the lengths (Cauchy and Schwarz). So each cosine is known but for a margin, and who
        may have a greater one than the `count`-th of the least that they can be is among the nearest, perhaps.
        """
        # As `QuantizedVectors` does it, for a single vector in a third of the time.
        step = float(np.abs(vector).max()) / _MOST or 1.0
        numbers = np.rint(vector / step)
        rest = vector - numbers * step
        products = np.empty((1, self.count), dtype=np.float32)
        asked = numbers.astype(np.int8)[np.newaxis]
        simsimd.cdist(asked, self.numbers[: self.count], metric="dot", out=products, out_dtype="float32")
        cosines: NDArray[np.float32] = products[0]
        cosines *= self.steps[: self.count]
        cosines *= step
        if len(kinds) == 1 or self.are_replaced[: self.count].any():
            cosines[~self.counts(slice(self.count), kinds)] = _HIDDEN
        margins = self.rests[: self.count] * math.sqrt(vector.dot(vector))
        margins += self.length * math.sqrt(rest.dot(rest)) + _ROUNDING
        least = _greatest(cosines - margins, count)
        cosines += margins
        return np.flatnonzero(cosines >= max(least, _LEAST_NUMBER))


@dataclass(frozen=True, kw_only=True, slots=True)
class Shortlist:
    """The items that may be nearest to a vector, by what is held of a tenant."""

    key: Key
    matrix: VectorMatrix
    kinds: tuple[str, ...]
    # As the database compares it: in half precision.
    vector: NDArray[np.float32]
    item_ids: Sequence[UUID]
    # No other item that was there at the moment has a greater cosine.
    least: float

    @classmethod
    def of_matrix(
        cls,
        key: Key,
        matrix: VectorMatrix,
        vector: NDArray[np.float32],
        kinds: tuple[str, ...],
        count: int,
        most: float = math.inf,
    ) -> Self | None:
        """Name up to `count` items, the nearest to a vector first; None as `nearest` says."""
        vector = vector.astype(np.float16).astype(np.float32)
        nearest = matrix.nearest(vector, kinds, count, most=most)
        if nearest is None:
            return None
        item_ids, least = nearest
        return cls(key=key, matrix=matrix, kinds=kinds, vector=vector, item_ids=item_ids, least=least)

    @property
    def moment(self) -> TransactionHorizon:
        """When what is held was all that there was."""
        return self.matrix.moment

    @property
    def is_all(self) -> bool:
        """Say whether it names every item."""
        return self.least == _NONE

    def of(self, item_ids: Sequence[UUID]) -> NDArray[np.float64]:
        """Return the cosine of the vector and each item's best chunk as it was; NaN for those not among them."""
        nothing: Sequence[int] = ()
        rows_of, count = self.matrix.rows_of, self.matrix.count
        pairs = [(item, row) for item, one in enumerate(item_ids) for row in rows_of.get(one, nothing) if row < count]
        items, places = np.array(pairs, dtype=np.intp).reshape(-1, 2).T
        counting = self.matrix.counts(places, self.kinds)
        found = np.full(len(item_ids), np.nan)
        np.fmax.at(found, items[counting], self.matrix.cosines(self.vector, places[counting]))
        return found

    def proves(self, cosines: Sequence[float], depth: int) -> bool:
        """Say whether the `depth` nearest of all items are among those with these cosines, given in order."""
        return self.is_all or (len(cosines) >= depth and cosines[depth - 1] >= self.least + _ROUNDING)


def size_of(rows: int, dimensions: int) -> int:
    """Return how many bytes so many vectors take, with all that is kept of each."""
    return rows * (5 * dimensions + _BYTES_OF_A_ROW)


def _greatest(numbers: NDArray[np.float32], count: int) -> float:
    """Return the `count`-th greatest number.

    A few of the numbers tell about how great those are, so that only what is as great is put in order.
    """
    few = numbers[::_STEP]
    wanted = min(len(few), 2 * count // _STEP + _STEP)
    great = numbers[numbers >= np.partition(few, len(few) - wanted)[len(few) - wanted]]
    if len(great) < count:
        great = numbers
    found: float = np.partition(great, len(great) - count)[len(great) - count].item()
    return found
