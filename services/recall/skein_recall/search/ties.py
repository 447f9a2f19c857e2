"""Orders that do not depend on rounding: the vector cache and the database round cosines of equal texts differently.

Numbers that differ from the next one by no more than ROUNDING are equal here, so answers as of a time have the order of
those that were given then.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from numpy.typing import NDArray

ROUNDING = 1e-6


def order_rows(rows: NDArray[np.intp], *numbers: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return rows by descending numbers, the first of which count most; equal ones by row.

    Each of `numbers` has one for every row there is.
    """
    ordered = rows[np.lexsort([-each[rows] for each in reversed(numbers)])]
    is_apart = np.zeros(len(ordered), dtype=np.bool_)
    for each in numbers:
        is_apart[1:] |= np.abs(np.diff(each[ordered])) > ROUNDING
    return ordered[np.lexsort((ordered, np.cumsum(is_apart)))]


def order_by_cosine(items: Iterable[tuple[UUID, tuple[str, float]]]) -> list[tuple[UUID, str, float, float]]:
    """Return the id, kind and cosine of items, nearest first, equal ones by id; and the least cosine so far."""
    keyed: list[tuple[int, UUID, str, float]] = []
    number, previous = 0, 1.0
    for negative, item_id, kind in sorted((-cosine, item_id, kind) for item_id, (kind, cosine) in items):
        number += negative + previous > ROUNDING
        previous = -negative
        keyed.append((number, item_id, kind, -negative))
    keyed.sort()
    least = accumulate((cosine for _, _, _, cosine in keyed), min)
    return [(item_id, kind, cosine, low) for (_, item_id, kind, cosine), low in zip(keyed, least, strict=True)]
