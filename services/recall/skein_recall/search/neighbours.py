"""The neighbours of items in their sessions, and how much the words of each count. No database, no clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    # One neighbour of each of n items: float64 (n + 1,), its weight, and intp (n + 1,), its row, n where it is missing.
    Neighbours: TypeAlias = tuple[NDArray[np.float64], NDArray[np.intp]]

# Neighbours are read so far before and after; of a formula of the versions before.
REACH: Final = 4
FORMER_REACH: Final = 2
# Weights by count of the words of the neighbours on each side, the nearest first; the item itself has 1.
_WEIGHTS: Final = (0.5, 0.25)
# Weight of an item and all its neighbours together.
WINDOW: Final = 1 + 2 * sum(_WEIGHTS)
# By words, neighbours count while fewer stems than this stand between them and the item. The weight falls with these.
_STEMS: Final = 50


class Items(Protocol):
    """Messages and memories of sessions, column by column, as `Candidates` has them."""

    @property
    def kinds(self) -> Sequence[str]: ...
    @property
    def lengths(self) -> NDArray[np.float64]: ...
    @property
    def previous(self) -> NDArray[np.intp]: ...
    @property
    def is_assistant(self) -> NDArray[np.bool_]: ...
    def __len__(self) -> int: ...


def adjacent(candidates: Items) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows of the items right before and right after each of n: two arrays (n + 1,), n for none."""
    missing, previous = len(candidates), candidates.previous
    before = np.append(np.where(previous < 0, missing, previous), missing)
    after = np.full(missing + 1, missing)
    rows = np.flatnonzero(previous >= 0)
    # Of several items with the same previous one, the last follows it.
    after[previous[rows]] = rows
    return before, after


def weighted(
    candidates: Items, before: NDArray[np.intp], after: NDArray[np.intp], *, by_words: bool
) -> Sequence[Neighbours]:
    """Return the neighbours of each item with their weights.

    Two on each side count. `by_words`: of a message among people, up to four that have about as many words together, so
    that short turns are read with more of their chat than long ones. Beside an assistant's long answers, that would
    leave out what was said before them.
    """
    missing = len(candidates)
    is_among_people = np.zeros(missing + 1, dtype=np.bool_)
    if by_words:
        is_among_people[:missing] = [kind == "message" for kind in candidates.kinds]
        is_among_people &= ~_has_assistant(candidates, before, after)
    found: list[Neighbours] = []
    if not is_among_people[:missing].all():
        for step in (before, after):
            rows = np.where(is_among_people, missing, step)
            for weight in _WEIGHTS:
                found.append((np.full(missing + 1, weight), rows))
                rows = step[rows]
    if is_among_people.any():
        lengths = np.append(candidates.lengths, 0.0)
        for step in (before, after):
            rows, between = np.where(is_among_people, step, missing), np.zeros(missing + 1)
            for _ in range(REACH):
                rows = np.where(between < _STEMS, rows, missing)
                found.append((_WEIGHTS[0] * np.exp(-between / _STEMS), rows))
                between = between + lengths[rows]
                rows = step[rows]
    return found


def _has_assistant(candidates: Items, before: NDArray[np.intp], after: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return whether each item, or one of its neighbours, is a message of an assistant: bool (n + 1,)."""
    is_assistant = np.append(candidates.is_assistant, False)
    found = is_assistant.copy()
    for step in (before, after):
        rows = step
        for _ in range(REACH):
            found |= is_assistant[rows]
            rows = step[rows]
    return found
