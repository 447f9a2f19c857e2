"""What a search found, with what was measured of it, before it is ranked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from numpy.typing import NDArray


class Candidate(NamedTuple):
    """An item that a signal found, or a neighbour of one, with what was measured of it."""

    item_id: UUID
    kind: str
    # Cosine of the query and the best chunk; None without a vector on either side.
    similarity: float | None
    # 0 when no term of the query occurs.
    bm25: float = 0.0
    # How often each of the query's terms occurs, in the order of Terms; empty when that was not read.
    frequencies: Sequence[float] = ()
    # In stems.
    length: int = 0
    # The item right before it in its session; None when there is none, or none is known.
    previous: UUID | None = None
    # The text ends with a question; it tells of a time.
    asks: bool = False
    tells_time: bool = False
    create_time: datetime | None = None
    # False for what only lends its neighbours context, because a filter excludes it.
    eligible: bool = True


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Candidates:
    """The same of many, column by column, in order of their ids: a search has hundreds."""

    item_ids: Sequence[UUID]
    kinds: Sequence[str]
    # NaN without one.
    similarities: NDArray[np.float64]
    bm25: NDArray[np.float64]
    # A row for each of them and a column for each of the query's terms; zeros where that was not read.
    frequencies: NDArray[np.float64]
    are_read: NDArray[np.bool_]
    lengths: NDArray[np.float64]
    previous: Mapping[UUID, UUID]
    asks: NDArray[np.bool_]
    tells_time: NDArray[np.bool_]
    # Empty where nobody needs them.
    create_times: Sequence[datetime | None]
    eligible: NDArray[np.bool_]

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.item_ids)

    @classmethod
    def of(cls, candidates: Iterable[Candidate]) -> Self:
        """Put candidates in order, and side by side."""
        given = sorted(candidates, key=attrgetter("item_id"))
        terms = max((len(one.frequencies) for one in given), default=0)
        nothing = (0.0,) * terms
        return cls(
            item_ids=[one.item_id for one in given],
            kinds=[one.kind for one in given],
            similarities=np.array([math.nan if one.similarity is None else one.similarity for one in given]),
            bm25=np.array([one.bm25 for one in given], dtype=np.float64),
            frequencies=np.array([tuple(one.frequencies) or nothing for one in given]).reshape(len(given), terms),
            are_read=np.array([bool(one.frequencies) for one in given], dtype=np.bool_),
            lengths=np.array([one.length for one in given], dtype=np.float64),
            previous={one.item_id: one.previous for one in given if one.previous is not None},
            asks=np.array([one.asks for one in given], dtype=np.bool_),
            tells_time=np.array([one.tells_time for one in given], dtype=np.bool_),
            create_times=[one.create_time for one in given],
            eligible=np.array([one.eligible for one in given], dtype=np.bool_),
        )
