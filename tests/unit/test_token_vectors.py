"""Token vectors of the embedded model: their shape, in any batch the same, and the score of late interaction."""

from __future__ import annotations

import numpy as np
import pytest

from skein_recall.embedded_model.descriptions import MINILM
from skein_recall.embedded_model.encoder import Encoder
from skein_recall.embedded_model.token_vectors import TOKEN_DIMENSIONS, max_similarities, pack, unpack

TEXTS = ["Marta is allergic to peanuts.", "The ferry leaves on Saturday at nine.", "Nuts make Marta ill."]


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return Encoder.load(MINILM, threads=1)


def codes_of(encoder: Encoder, *texts: str) -> list[np.ndarray[tuple[int, ...], np.dtype[np.int8]]]:
    return encoder.vectors_and_tokens(encoder.tokens(texts))[1]


def test_each_token_but_the_special_ones_has_a_vector(encoder: Encoder) -> None:
    rows = encoder.tokens(TEXTS)

    vectors, codes = encoder.vectors_and_tokens(rows)

    assert [each.shape for each in codes] == [(len(row) - 2, TOKEN_DIMENSIONS) for row in rows]
    assert all(each.dtype == np.int8 for each in codes)
    np.testing.assert_array_equal(vectors, encoder.vectors(rows))


def test_a_text_has_the_same_token_vectors_in_any_batch(encoder: Encoder) -> None:
    together = codes_of(encoder, *TEXTS)

    for text, codes in zip(TEXTS, together, strict=True):
        (alone,) = codes_of(encoder, text)
        assert np.abs(alone.astype(int) - codes.astype(int)).max() <= 2


def test_stored_codes_take_one_byte_a_dimension_and_come_back(encoder: Encoder) -> None:
    (codes,) = codes_of(encoder, TEXTS[0])

    assert len(pack(codes)) == TOKEN_DIMENSIONS * len(codes)
    np.testing.assert_array_equal(unpack(pack(codes)), codes)
    with pytest.raises(ValueError, match="reshape"):
        unpack(b"x" * (TOKEN_DIMENSIONS + 1))


def test_the_text_that_answers_is_the_most_similar_one(encoder: Encoder) -> None:
    (query,) = codes_of(encoder, "What is Marta allergic to?")

    scores = max_similarities(query, np.ones(len(query)), codes_of(encoder, *TEXTS))

    assert scores.argmax() == 0
    assert scores.argmin() == 1
    assert ((scores >= 0) & (scores <= 1)).all()


def test_a_weight_counts_for_its_token_alone() -> None:
    axes = np.eye(TOKEN_DIMENSIONS, dtype=np.int8) * 127
    query, first, second = axes[:2], axes[:1], axes[1:2]

    scores = max_similarities(query, np.array([3.0, 1.0]), [first, second, query])

    np.testing.assert_allclose(scores, [0.75, 0.25, 1.0])


def test_an_item_without_tokens_has_no_score() -> None:
    axes = np.eye(TOKEN_DIMENSIONS, dtype=np.int8) * 127

    scores = max_similarities(axes[:1], np.ones(1), [axes[:0], axes[:1]])

    assert np.isnan(scores[0])
    assert scores[1] == pytest.approx(1.0)
