from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from skein_recall.held import Matrix
from skein_recall.store.holding import Chunks, Moment

MOMENT = Moment(horizon=1, position="0/0", server=datetime.now(UTC))


@given(
    # Few different ones, so that many are as near as others.
    cosines=st.lists(st.sampled_from([-0.5, 0.0, 0.25, 0.5, 0.75]), min_size=1, max_size=800),
    chunks_of_an_item=st.integers(1, 3),
    count=st.integers(1, 40),
)
def test_the_nearest_items_are_named_in_order_and_none_that_is_nearer_is_missing(
    cosines: list[float], chunks_of_an_item: int, count: int
) -> None:
    item_ids = [UUID(int=row // chunks_of_an_item) for row in range(len(cosines))]
    vectors = np.array([[cosine, 0.0] for cosine in cosines], dtype=np.float32)
    new = Chunks(item_ids=item_ids, are_messages=np.zeros(len(cosines), dtype=np.bool_), vectors=vectors)
    matrix = Matrix.empty(MOMENT, 0.0, rows=len(cosines), dimensions=2).with_those(new)
    assert matrix is not None

    named, least = matrix.nearest(matrix.compared(np.array([1, 0], dtype=np.float32), ("memory",)), count)

    best: dict[UUID, float] = {}
    for item_id, cosine in zip(item_ids, cosines, strict=True):
        best[item_id] = max(best.get(item_id, -1.0), cosine)
    found = [best[item_id] for item_id in named]
    assert len(named) == len(set(named)) <= count
    assert found == sorted(found, reverse=True)
    assert all(cosine <= least for item_id, cosine in best.items() if item_id not in named)
