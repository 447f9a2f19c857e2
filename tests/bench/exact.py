"""What the nearest neighbours really are, and how many of them an answer holds. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from bench.population import Block, Question
    from numpy.typing import NDArray

WANTED = 10
# Two similarities that differ by less are equal: a question rounded to half precision sees them the other way round.
_EQUAL = 1e-4


@dataclass(frozen=True, kw_only=True, slots=True)
class Truth:
    """The nearest of a tenant's entries."""

    # How many there are to return: 10, or fewer where fewer pass.
    count: int
    # Those, and whatever is as near as the last of them.
    ids: frozenset[UUID]

    def recall(self, found: Collection[UUID]) -> float:
        """Return the share of the nearest that was found; 1 when there is nothing to find."""
        return min(len(self.ids.intersection(found)) / self.count, 1.0) if self.count else 1.0

    def is_short(self, found: Collection[UUID]) -> bool:
        """Say whether fewer came back than there are."""
        return len(found) < self.count


def truth(question: Question, kept: Block, *, filter_name: str = "") -> Truth:
    """Return the nearest of the tenant's entries that pass a filter of population, by cosine."""
    allowed = np.arange(len(kept.tenants))
    if filter_name:
        allowed = np.flatnonzero(question.passing(kept, filter_name))
    vectors = kept.vectors[allowed].astype(np.float32)
    places = nearest(vectors, question.vector, WANTED)
    ids = frozenset(UUID(bytes=kept.ids[allowed[place]].tobytes()) for place in places)
    return Truth(count=min(WANTED, len(allowed)), ids=ids)


def nearest(vectors: NDArray[np.float32], query: NDArray[np.float32], count: int) -> list[int]:
    """Return the places of the `count` vectors with the largest cosine, and of all that tie with the last of them."""
    if not len(vectors):
        return []
    similarities = (vectors @ query) / np.linalg.norm(vectors, axis=1)
    similarities /= np.linalg.norm(query)
    last = np.sort(similarities)[-min(count, len(vectors))]
    return [int(place) for place in np.flatnonzero(similarities >= last - _EQUAL)]


def mean(values: Sequence[float]) -> float:
    """Return the mean; 0 of none."""
    return sum(values) / len(values) if values else 0.0
