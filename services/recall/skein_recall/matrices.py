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

    from skein_recall.store.holding import Chunks, Moment

    # A tenant, and a model: its table, and when that was made, for one of the same name may come after it.
    Key = tuple[UUID, str, datetime]

# How far two ways of adding up a cosine may be apart.
_ROUNDING = 1e-5
_BYTES_OF_A_ROW = 330
# Chunks that are looked at for each item wanted.
_CHUNKS_OF_AN_ITEM = 2
# Each so many-th cosine tells how great the greatest are.
_STEP = 16
# So many numbers of those that may be nearest are compared as they are, in a millisecond or two.
_MOST_NUMBERS = 2_000_000
# The greatest whole number of a byte that has its like below zero.
_MOST = 127
# Less than any cosine: of an answer; and of rows that do not count, which are less than any number.
_NONE = -2.0
_HIDDEN, _LEAST_NUMBER = -np.inf, np.finfo(np.float32).min


class Rounded(NamedTuple):
    """Vectors as whole numbers: each is about its row of `numbers` times its step."""

    numbers: NDArray[np.int8]
    steps: NDArray[np.float32]
    # How long the longest of them is, and the longest of what rounding left out of one.
    length: float
    rest: float

    @classmethod
    def of(cls, vectors: NDArray[np.float32]) -> Self:
        """Round vectors, a row each."""
        steps = (np.abs(vectors).max(axis=1) / _MOST).astype(np.float32)
        numbers = np.rint(vectors / np.where(steps > 0, steps, 1)[:, np.newaxis])
        rounded = numbers * steps[:, np.newaxis]
        length, rest = (math.sqrt(np.vecdot(each, each).max(initial=0)) for each in (rounded, vectors - rounded))
        return cls(numbers.astype(np.int8), steps, length, rest)


@dataclass(frozen=True, kw_only=True, slots=True)
class Matrix:
    """Some tenant's chunks as they were at a moment: the first `count` rows, but for those that were replaced since.

    Rows after them are free: a later matrix has its own there, and shares the others.
    """

    moment: Moment
    read_time: float
    count: int
    item_ids: list[UUID]
    # The rows of each item, those of later matrices among them.
    rows_of: dict[UUID, list[int]]
    are_messages: NDArray[np.bool_]
    are_replaced: NDArray[np.bool_]
    vectors: NDArray[np.float32]
    # The same rounded, as `Rounded` has them.
    numbers: NDArray[np.int8]
    steps: NDArray[np.float32]
    length: float = 0.0
    rest: float = 0.0

    @classmethod
    def empty(cls, moment: Moment, read_time: float, *, rows: int, dimensions: int) -> Matrix:
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
        )

    @property
    def size(self) -> int:
        """How many bytes it takes, about."""
        return size_of(*self.vectors.shape)

    def cosines(self, vector: NDArray[np.float32], rows: NDArray[np.intp]) -> NDArray[np.float32]:
        """Return the cosines of rows and a vector."""
        # (A product with `@` would use every core, and wait for each.)
        cosines: NDArray[np.float32] = np.vecdot(self.vectors.take(rows, axis=0), vector)
        return cosines

    def counts(self, rows: NDArray[np.intp] | slice, kinds: Sequence[str]) -> NDArray[np.bool_]:
        """Say which rows count: those that were not replaced, and are of one of the kinds."""
        counting = ~self.are_replaced[rows]
        if len(kinds) == 1:
            counting &= self.are_messages[rows] == (kinds[0] == "message")
        return counting

    def nearest(self, vector: NDArray[np.float32], kinds: Sequence[str], count: int) -> tuple[list[UUID], float] | None:
        """Return up to `count` items, the nearest first, and a cosine that no other item passes.

        None when too many are about as near as the last of them.
        """
        rows = min(_CHUNKS_OF_AN_ITEM * count, self.count)
        cosines, margin = self._rounded_cosines(vector, kinds)
        # One that is less by twice as much as each may be off is less indeed.
        places = _greatest(cosines, rows, 2 * margin)
        if places.size * vector.size > _MOST_NUMBERS:
            return None
        cosines = self.cosines(vector, places)
        order = np.argsort(-cosines, kind="stable")[:rows]
        item_ids: dict[UUID, None] = {}
        least = _NONE
        for row, cosine in zip(places[order].tolist(), cosines[order].tolist(), strict=True):
            if len(item_ids) == count:
                return list(item_ids), cosine
            item_ids[self.item_ids[row]] = None
            least = cosine
        is_all = len(order) < rows or rows == self.count
        return list(item_ids), _NONE if is_all else least

    def with_those(self, new: Chunks, *, moment: Moment | None = None) -> Matrix | None:
        """Return it with chunks that came, which may be there already; None when there is no room for them."""
        end = self.count + len(new.item_ids)
        if end > len(self.vectors):
            return None
        came = set(new.item_ids)
        replaced = self.are_replaced
        if moment is not None:
            replaced = replaced.copy()
            replaced[: self.count] |= np.fromiter((each in came for each in self.item_ids), np.bool_, self.count)
        rounded = Rounded.of(new.vectors)
        # Who reads the matrix before this one looks at none of these rows.
        self.vectors[self.count : end] = new.vectors
        self.numbers[self.count : end] = rounded.numbers
        self.steps[self.count : end] = rounded.steps
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
            rest=max(self.rest, rounded.rest),
        )

    def _rounded_cosines(self, vector: NDArray[np.float32], kinds: Sequence[str]) -> tuple[NDArray[np.float32], float]:
        """Return about the cosine of each row and a vector, and how far it may be off; of rows that do not count none.

        With v and w for what is compared, v' and w' for those rounded: v w - v' w' = v' (w - w') + (v - v') w, and a
        product is at most that of the lengths (Cauchy and Schwarz).
        """
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
        return cosines, self.length * math.sqrt(rest.dot(rest)) + self.rest * math.sqrt(vector.dot(vector)) + _ROUNDING


@dataclass(frozen=True, kw_only=True, slots=True)
class Shortlist:
    """The items that may be nearest to a vector, by what is held of a tenant."""

    key: Key
    matrix: Matrix
    kinds: tuple[str, ...]
    # As the database compares it: in half precision.
    vector: NDArray[np.float32]
    item_ids: Sequence[UUID]
    # No other item that was there at the moment has a greater cosine.
    least: float

    @classmethod
    def of_matrix(
        cls, key: Key, matrix: Matrix, vector: NDArray[np.float32], kinds: tuple[str, ...], count: int
    ) -> Self | None:
        """Name up to `count` items, the nearest to a vector first; None where that is no less work than the index's."""
        vector = vector.astype(np.float16).astype(np.float32)
        nearest = matrix.nearest(vector, kinds, count)
        if nearest is None:
            return None
        item_ids, least = nearest
        return cls(key=key, matrix=matrix, kinds=kinds, vector=vector, item_ids=item_ids, least=least)

    @property
    def moment(self) -> Moment:
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
        pairs = [(place, row) for place, one in enumerate(item_ids) for row in rows_of.get(one, nothing) if row < count]
        places, rows = np.array(pairs, dtype=np.intp).reshape(-1, 2).T
        counting = self.matrix.counts(rows, self.kinds)
        found = np.full(len(item_ids), np.nan)
        np.fmax.at(found, places[counting], self.matrix.cosines(self.vector, rows[counting]))
        return found

    def proves(self, cosines: Sequence[float], depth: int) -> bool:
        """Say whether the `depth` nearest of all items are among those with these cosines, given in order."""
        return self.is_all or (len(cosines) >= depth and cosines[depth - 1] >= self.least + _ROUNDING)


def size_of(rows: int, dimensions: int) -> int:
    """Return how many bytes so many vectors take, with all that is kept of each."""
    return rows * (5 * dimensions + _BYTES_OF_A_ROW)


def _greatest(numbers: NDArray[np.float32], count: int, margin: float) -> NDArray[np.intp]:
    """Return the places of the `count` greatest numbers, and of those that are less by up to a margin; none hidden.

    A few of the numbers tell about how great those are, so that only what is as great is put in order.
    """
    few = numbers[::_STEP]
    wanted = min(len(few), 2 * count // _STEP + _STEP)
    great = numbers[numbers >= np.partition(few, len(few) - wanted)[len(few) - wanted]]
    if len(great) < count:
        great = numbers
    least = np.partition(great, len(great) - count)[len(great) - count].item()
    return np.flatnonzero(numbers >= max(least - margin, _LEAST_NUMBER))
