from __future__ import annotations

import math
import sys
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from skein_recall.vector_cache.codes import BitCodes, ExactCodes
from skein_recall.vector_cache.item_ids import IdIndex, pack_ids, to_uuids
from skein_recall.vector_cache.matrix import Shortlist, VectorMatrix
from skein_recall.vector_cache.quantization import cosines
from skein_recall.vector_cache.store import ChunkVectors, TransactionHorizon

MOMENT = TransactionHorizon(transaction=1, log_position="0/0", server_start=datetime.now(UTC))
KEY = (UUID(int=0), "embeddings", datetime.now(UTC))


def chunks(vectors: np.ndarray, *, of_an_item: int = 1, first: int = 0, are_messages: bool = False) -> ChunkVectors:
    """Return chunks of consecutive items."""
    return ChunkVectors(
        ids=pack_ids([UUID(int=(first + row) // of_an_item) for row in range(len(vectors))]),
        are_messages=np.full(len(vectors), are_messages),
        vectors=vectors.astype(np.float32),
    )


def grown(matrix: VectorMatrix, new: ChunkVectors, moment: TransactionHorizon | None = None) -> VectorMatrix:
    """Return a matrix with more chunks."""
    result = matrix.with_chunks(new, horizon=moment)
    assert result is not None
    return result


def matrix_of(new: ChunkVectors, *, rows: int | None = None) -> VectorMatrix:
    """Return a matrix of these chunks alone, with room for so many rows."""
    dimensions = new.vectors.shape[1]
    return grown(VectorMatrix.empty(MOMENT, 0.0, ExactCodes.empty(rows or len(new.ids), dimensions)), new)


def unit(vectors: np.ndarray) -> np.ndarray:
    """Return vectors at their length of one, in half precision as they are stored."""
    halves: np.ndarray = (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float16)
    return halves.astype(np.float32)


@given(
    # Few different ones, so that many are as near as others.
    cosines=st.lists(st.sampled_from([-0.5, 0.0, 0.25, 0.5, 0.75]), min_size=1, max_size=800),
    chunks_of_an_item=st.integers(1, 3),
    count=st.integers(1, 40),
)
def test_the_nearest_items_are_named_in_order_and_none_that_is_nearer_is_missing(
    cosines: list[float], chunks_of_an_item: int, count: int
) -> None:
    vectors = np.array([[cosine, 0.0] for cosine in cosines], dtype=np.float32)
    new = chunks(vectors, of_an_item=chunks_of_an_item)

    nearest = matrix_of(new).nearest(np.array([1, 0], dtype=np.float32), ("memory",), count)

    assert nearest is not None
    named, least = nearest
    best: dict[UUID, float] = {}
    for item_id, cosine in zip(to_uuids(new.ids), cosines, strict=True):
        best[item_id] = max(best.get(item_id, -1.0), cosine)
    results = [best[item_id] for item_id in named]
    assert len(named) == len(set(named)) <= count
    assert results == sorted(results, reverse=True)
    assert all(cosine <= least for item_id, cosine in best.items() if item_id not in named)


@given(
    seed=st.integers(0, 2**32 - 1),
    rows=st.integers(1, 400),
    dimensions=st.integers(1, 70),
    # How much the vectors differ: by little, and rounding puts many of them into another order.
    spread=st.sampled_from([0.001, 0.01, 0.1, 1.0, 10.0]),
    # One number of each is so much greater than the others, which are then rounded the more.
    outlier=st.sampled_from([0.0, 1.0, 30.0]),
    count=st.integers(1, 30),
)
def test_rounding_leaves_out_nothing_that_is_among_the_nearest(
    seed: int, rows: int, dimensions: int, spread: float, outlier: float, count: int
) -> None:
    drawn = np.random.default_rng(seed)
    middle = drawn.standard_normal(dimensions)
    middle[0] += outlier
    vectors, vector = (unit(middle + spread * drawn.standard_normal((each, dimensions)) + 1e-3) for each in (rows, 1))

    shortlist = Shortlist.of_matrix(KEY, matrix_of(chunks(vectors)), vector[0], ("memory",), count)

    assert shortlist is not None
    cosines = vectors.astype(np.float64) @ vector[0].astype(np.float64)
    best = np.sort(cosines)[::-1][: len(shortlist.item_ids)]
    assert len(shortlist.item_ids) == min(rows, count)
    # What both numbers of a dimension leave out decides between two that are as near; the bound includes it.
    np.testing.assert_allclose([cosines[each.int] for each in shortlist.item_ids], best, atol=2e-4)
    remaining = [cosines[row] for row in range(rows) if UUID(int=row) not in shortlist.item_ids]
    assert all(cosine <= shortlist.bound + 1e-5 for cosine in remaining)
    # That it is all is said of all alone; all may have been named without its being known.
    assert not (shortlist.has_every_item and remaining)


def test_a_vector_that_rounding_puts_last_is_found_where_it_is_the_nearest() -> None:
    """Everything is rounded the wrong way: down in the nearest one, up in the forty others."""
    vector = np.ones(64, dtype=np.float32)
    nearest, other = (np.full(64, 20 + part, dtype=np.float32) for part in (0.49, 0.51))
    nearest[0] = other[0] = 127
    nearest[63], other[63] = 23, 20
    vectors = np.stack([*[other] * 40, nearest]) / 127
    assert vectors[40] @ vector > vectors[0] @ vector
    assert np.rint(nearest) @ vector < np.rint(other) @ vector - 50

    result = matrix_of(chunks(vectors)).nearest(vector, ("memory",), 1)

    assert result is not None
    assert result[0] == [UUID(int=40)]


def test_a_vector_that_rounding_the_query_puts_last_is_found_where_it_is_the_nearest() -> None:
    """The vector's numbers are rounded down where the nearest one has something, and up where the forty others have."""
    vector = np.array([127, *[20.49] * 31, *[20.51] * 31, 1], dtype=np.float32)
    nearest, other = np.zeros((2, 64), dtype=np.float32)
    nearest[1:32], other[32:63] = 127, 127
    nearest[63] = 127
    vectors = np.stack([*[other] * 40, nearest]) / 127
    assert vectors[40] @ vector > vectors[0] @ vector
    assert nearest @ np.rint(vector) < other @ np.rint(vector)

    result = matrix_of(chunks(vectors)).nearest(vector, ("memory",), 1)

    assert result is not None
    assert result[0] == [UUID(int=40)]


def test_replaced_vectors_and_those_of_another_kind_do_not_count() -> None:
    vectors = unit(np.array([[1.0, 0.0], [0.9, 0.1], [0.8, 0.2], [0.7, 0.3]]))
    old = matrix_of(chunks(vectors[:2]), rows=10)
    with_messages = grown(old, chunks(vectors[2:3], first=2, are_messages=True))
    # The first item has another vector now.
    new = grown(with_messages, chunks(vectors[3:], first=0), MOMENT)

    def named(matrix: VectorMatrix, *kinds: str) -> list[tuple[int, float]]:
        shortlist = Shortlist.of_matrix(KEY, matrix, np.array([1, 0], dtype=np.float32), kinds, 10)
        assert shortlist is not None
        assert shortlist.has_every_item
        of_each = shortlist.similarities(shortlist.item_ids).tolist()
        return [(item_id.int, round(cosine, 3)) for item_id, cosine in zip(shortlist.item_ids, of_each, strict=True)]

    assert named(old, "memory") == [(0, 1.0), (1, 0.994)]
    assert named(new, "memory") == [(1, 0.994), (0, 0.919)]
    assert named(new, "message") == [(2, 0.97)]
    assert named(new, "memory", "message") == [(1, 0.994), (2, 0.97), (0, 0.919)]


@given(
    seed=st.integers(0, 2**32 - 1),
    rows=st.integers(1, 600),
    messages=st.sampled_from([0.0, 0.1, 0.99, 1.0]),
    hidden=st.sampled_from([0.0, 0.1, 0.99, 1.0]),
    kinds=st.sampled_from([("memory",), ("message",), ("memory", "message")]),
    count=st.integers(1, 30),
)
def test_the_nearest_are_those_of_the_rows_that_count(
    seed: int, rows: int, messages: float, hidden: float, kinds: tuple[str, ...], count: int
) -> None:
    drawn = np.random.default_rng(seed)
    vectors, vector = unit(drawn.standard_normal((rows, 12))), unit(drawn.standard_normal(12))
    are_messages, are_hidden = drawn.random(rows) < messages, drawn.random(rows) < hidden
    new = replace(chunks(vectors), are_messages=are_messages)
    matrix = matrix_of(new).without_rows(np.flatnonzero(are_hidden))

    result = matrix.nearest(vector, kinds, count)

    assert result is not None
    counting = ~are_hidden
    if len(kinds) == 1:
        counting &= are_messages == (kinds == ("message",))
    cosines = vectors @ vector
    nearest = [row for row in np.argsort(-cosines).tolist() if counting[row]]
    listed = [item_id.int for item_id in result[0]]
    assert set(listed) <= set(nearest)
    np.testing.assert_allclose(cosines[listed], cosines[nearest[:count]], atol=2e-4)
    remaining = cosines[[row for row in nearest if row not in listed]]
    assert result[1] >= remaining.max(initial=-2.0) - 1e-5


def test_a_rough_vector_is_found_among_smooth_ones_that_came_after_it() -> None:
    """How much rounding leaves out is each row's own, and an earlier matrix knows nothing of what came later."""
    vector = np.ones(64, dtype=np.float32)
    smooth, rough = np.zeros((40, 64), dtype=np.float32), np.full((1, 64), 20.49, dtype=np.float32)
    smooth[:, 0], smooth[:, 1:63], smooth[:, 63] = 127, 20, 40
    rough[:, 0] = 127
    assert (rough @ vector > smooth @ vector).all()
    assert (np.rint(rough) @ vector < np.rint(smooth) @ vector).all()
    before = matrix_of(chunks(rough / 127), rows=41)
    after = grown(before, chunks(smooth / 127, first=1))

    result, found_before = (matrix.nearest(vector, ("memory",), 1) for matrix in (after, before))

    assert result is not None
    assert result[0] == [UUID(int=0)]
    assert found_before is not None
    assert found_before[0] == [UUID(int=0)]
    assert found_before[1] == -2.0


def test_missing_items_have_no_cosine() -> None:
    vectors = unit(np.array([[1.0, 0.0], [0.0, 1.0]]))
    matrix = grown(matrix_of(chunks(vectors[:1]), rows=2), chunks(vectors[1:], first=1, are_messages=True))
    shortlist = Shortlist.of_matrix(KEY, matrix, np.array([1, 0], dtype=np.float32), ("memory",), 1)
    assert shortlist is not None

    actual_similarities = shortlist.similarities([UUID(int=1), UUID(int=7), UUID(int=0)])

    assert np.isnan(actual_similarities[:2]).all()
    assert actual_similarities[2] == 1.0


@given(
    seed=st.integers(0, 2**32 - 1), rows=st.integers(1, 300), dimensions=st.integers(1, 400), asked=st.integers(1, 300)
)
def test_a_cosine_is_the_same_to_the_bit_whether_it_is_cached_or_read(
    seed: int, rows: int, dimensions: int, asked: int
) -> None:
    random = np.random.default_rng(seed)
    vectors, vector = unit(random.normal(size=(rows, dimensions))), random.normal(size=dimensions).astype(np.float32)
    new = chunks(vectors)
    shortlist = Shortlist.of_matrix(KEY, matrix_of(new), vector, ("memory",), rows)
    assert shortlist is not None
    places = random.choice(rows, min(asked, rows), replace=False)

    read = cosines(vector, vectors[places])

    assert read.tolist() == shortlist.similarities(to_uuids(new.ids[places])).tolist()


def test_where_much_is_as_near_as_the_last_all_of_it_is_compared_unless_that_is_too_much() -> None:
    same = np.tile(unit(np.ones((1, 384))), (600, 1))
    vector = np.ones(384, dtype=np.float32) / np.sqrt(384).astype(np.float32)
    matrix = matrix_of(chunks(same))

    assert Shortlist.of_matrix(KEY, matrix, vector, ("memory",), 10, max_values=600 * 384 - 1) is None
    for most in (600 * 384, math.inf):
        shortlist = Shortlist.of_matrix(KEY, matrix, vector, ("memory",), 10, max_values=most)
        assert shortlist is not None
        assert len(shortlist.item_ids) == 10
        assert abs(shortlist.bound - 1.0) < 1e-3


def test_vectors_of_zeros_are_compared_as_well() -> None:
    vectors = np.zeros((40, 8), dtype=np.float32)
    vectors[7, 0] = 1.0

    shortlist = Shortlist.of_matrix(KEY, matrix_of(chunks(vectors)), vectors[7], ("memory",), 1)
    nothing = Shortlist.of_matrix(KEY, matrix_of(chunks(vectors)), vectors[0], ("memory",), 1)

    assert shortlist is not None
    assert shortlist.item_ids == [UUID(int=7)]
    assert nothing is not None
    assert 0.0 <= nothing.bound < 1e-3


def test_searches_leave_every_reference_of_none_to_its_owner() -> None:
    """A function of C that returns None uncounted ends the process after some ten thousand searches."""
    matrix = matrix_of(chunks(unit(np.eye(8))))
    vector = np.eye(1, 8, dtype=np.float32)[0]

    before = sys.getrefcount(None)
    for _ in range(500):
        matrix.nearest(vector, ("memory",), 1)

    assert sys.getrefcount(None) > before - 100


@given(ids=st.lists(st.integers(0, 2**128 - 1), max_size=60), parts=st.lists(st.integers(1, 20), max_size=10))
def test_each_row_of_an_item_is_found_whichever_came_first(ids: list[int], parts: list[int]) -> None:
    # Few upper halves, so that many ids have one in common.
    item_ids = [UUID(int=each % 3 << 64 | (each >> 64) % 7) for each in ids]
    packed, index, start = pack_ids(item_ids), IdIndex(), 0
    for part in [*parts, len(ids)]:
        index = index.with_rows(packed[start : start + part], start)
        start += part
    wanted = [*dict.fromkeys(item_ids), UUID(int=2**127)]

    positions, rows = index.find(packed, pack_ids(wanted))

    expected = {(wanted.index(item_id), row) for row, item_id in enumerate(item_ids)}
    assert sorted(zip(positions.tolist(), rows.tolist(), strict=True)) == sorted(expected)


def test_the_codes_of_deleted_items_are_erased_in_earlier_matrices_too() -> None:
    earlier = matrix_of(chunks(unit(np.eye(8)), of_an_item=2), rows=10)

    matrix = earlier.without_items_beyond(pack_ids([UUID(int=0), UUID(int=2)]), 7.0)

    kept = [0, 1, 4, 5]
    assert matrix.read_time == 7.0
    assert np.flatnonzero(~matrix.are_hidden[:8]).tolist() == kept
    assert isinstance(earlier.codes, ExactCodes)
    assert np.flatnonzero(earlier.codes.codes[:8].any(axis=1)).tolist() == kept
    nearest = matrix.nearest(np.ones(8, dtype=np.float32), ("memory",), 8)
    assert nearest is not None
    assert {item_id.int for item_id in nearest[0]} == {0, 2}


def test_approximate_codes_list_the_nearest_of_vectors_that_differ_in_meaning() -> None:
    drawn = np.random.default_rng(5)
    topics = drawn.standard_normal((40, 64))
    vectors = unit(topics[np.arange(2000) % 40] + 0.5 * drawn.standard_normal((2000, 64)))
    codes = BitCodes.empty(2000, vectors[:200], min_listed=60)
    new = replace(chunks(vectors), are_messages=np.arange(2000) % 3 == 0)
    matrix = VectorMatrix.empty(MOMENT, 0.0, codes).with_chunks(new)
    assert matrix is not None
    matrix = matrix.without_rows(np.arange(0, 2000, 7))

    shares = []
    for row in range(50):
        shortlist = Shortlist.of_matrix(KEY, matrix, vectors[row], ("memory",), 10)
        assert shortlist is not None
        assert not shortlist.has_every_item
        nearest = [at for at in np.argsort(-(vectors @ vectors[row])).tolist() if at % 3 and at % 7][:10]
        listed = {item_id.int for item_id in shortlist.item_ids}
        assert all(at % 3 and at % 7 for at in listed)
        shares.append(len(listed & set(nearest)) / 10)

    assert np.mean(shares) > 0.97
    # Cosines are unknown, and it is believed that the list has enough.
    assert shortlist is not None
    assert np.isnan(shortlist.similarities(shortlist.item_ids)).all()
    assert shortlist.is_complete([0.1] * 10, 10)
    assert not shortlist.is_complete([0.1] * 9, 10)
