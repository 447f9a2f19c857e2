"""Ids of items as arrays of numbers, and an index that finds the rows of an id. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

# A later part of an index is merged with the one before it unless that one is so many times as long.
_MIN_LENGTH_RATIO = 4


def pack_ids(item_ids: Sequence[UUID]) -> NDArray[np.uint64]:
    """Return ids as numbers (n, 2): the upper and the lower half of each."""
    return unpack_ids(b"".join([item_id.bytes for item_id in item_ids]))


def unpack_ids(ids: bytes) -> NDArray[np.uint64]:
    """Return ids of 16 bytes each as numbers (n, 2)."""
    return np.frombuffer(ids, dtype=">u8").reshape(-1, 2).astype(np.uint64)


def to_uuids(ids: NDArray[np.uint64]) -> list[UUID]:
    """Return numbers (n, 2) as ids."""
    return [UUID(int=high << 64 | low) for high, low in ids.tolist()]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Part:
    """The upper halves of some rows' ids in ascending order, and the rows."""

    # uint64 (n,).
    highs: NDArray[np.uint64]
    # int32 (n,).
    rows: NDArray[np.int32]

    @classmethod
    def of(cls, highs: NDArray[np.uint64], rows: NDArray[np.int32]) -> Self:
        # A stable sort merges sorted runs in linear time.
        order = np.argsort(highs, kind="stable")
        return cls(highs=highs[order], rows=rows[order])


@dataclass(frozen=True, slots=True)
class IdIndex:
    """Finds the rows of items. It never changes: an index with more rows is another one."""

    _parts: tuple[_Part, ...] = ()

    def with_rows(self, ids: NDArray[np.uint64], first_row: int) -> IdIndex:
        """Return an index with more rows, from `first_row` on, of these ids (n, 2)."""
        if not len(ids):
            return self
        rows = np.arange(first_row, first_row + len(ids), dtype=np.int32)
        parts, new = list(self._parts), _Part.of(np.ascontiguousarray(ids[:, 0]), rows)
        while parts and len(parts[-1].rows) < _MIN_LENGTH_RATIO * len(new.rows):
            last = parts.pop()
            new = _Part.of(np.concatenate([last.highs, new.highs]), np.concatenate([last.rows, new.rows]))
        return IdIndex((*parts, new))

    def find(self, ids: NDArray[np.uint64], wanted: NDArray[np.uint64]) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
        """Return the pairs (positions, rows) of each of the `wanted` ids (n, 2) and its rows, in no order.

        `ids` (rows, 2) are the ids of all rows of the index. An unknown id has no pair.
        """
        highs = np.ascontiguousarray(wanted[:, 0])
        position_parts, row_parts = [np.empty(0, dtype=np.intp)], [np.empty(0, dtype=np.int32)]
        for part in self._parts:
            first = np.searchsorted(part.highs, highs, side="left")
            counts = np.searchsorted(part.highs, highs, side="right") - first
            positions = np.repeat(np.arange(len(highs)), counts)
            # The n-th pair of a position is n places after its first one.
            places = np.arange(len(positions)) - np.repeat(np.cumsum(counts) - counts, counts)
            rows = part.rows[np.repeat(first, counts) + places]
            # Two ids may have the upper half in common.
            are_same = ids[rows, 1] == wanted[positions, 1]
            position_parts.append(positions[are_same])
            row_parts.append(rows[are_same])
        return np.concatenate(position_parts), np.concatenate(row_parts)
