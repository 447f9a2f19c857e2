"""Token vectors of the embedded model: their shape, in any batch the same, and the score of late interaction."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from skein_recall.embedded_model.descriptions import MINILM
from skein_recall.embedded_model.encoder import Encoder
from skein_recall.embedded_model.token_vectors import TOKEN_DIMENSIONS, max_similarities, pack, unpack
from skein_recall.search.late_interaction import token_weights
from skein_recall.search.query_terms import QueryTerms

TEXTS = ["Marta is allergic to peanuts.", "The ferry leaves on Saturday at nine.", "Nuts make Marta ill."]


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return Encoder.load(MINILM, threads=1)


def vectors_of(encoder: Encoder, *texts: str) -> list[NDArray[np.float32]]:
    return encoder.vectors_and_tokens(encoder.tokens(texts))[1]


def codes_of(encoder: Encoder, *texts: str) -> list[NDArray[np.int8]]:
    return [unpack(pack(vectors)) for vectors in vectors_of(encoder, *texts)]


def test_each_token_but_the_special_ones_has_a_vector_of_unit_length(encoder: Encoder) -> None:
    rows = encoder.tokens(TEXTS)

    vectors, tokens = encoder.vectors_and_tokens(rows)

    assert [each.shape for each in tokens] == [(len(row) - 2, TOKEN_DIMENSIONS) for row in rows]
    np.testing.assert_allclose(np.linalg.norm(np.concatenate(tokens), axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(vectors, encoder.vectors(rows))


def test_a_text_has_the_same_token_vectors_in_any_batch(encoder: Encoder) -> None:
    together = vectors_of(encoder, *TEXTS)

    for text, vectors in zip(TEXTS, together, strict=True):
        (alone,) = vectors_of(encoder, text)
        np.testing.assert_allclose(alone, vectors, atol=1e-5)


def test_stored_codes_take_one_byte_a_dimension(encoder: Encoder) -> None:
    (vectors,) = vectors_of(encoder, TEXTS[0])

    assert len(pack(vectors)) == TOKEN_DIMENSIONS * len(vectors)
    np.testing.assert_allclose(unpack(pack(vectors)) / 127, vectors, atol=0.5 / 127 + 1e-6)
    with pytest.raises(ValueError, match="reshape"):
        unpack(b"x" * (TOKEN_DIMENSIONS + 1))


def test_the_text_that_answers_is_the_most_similar_one(encoder: Encoder) -> None:
    (query,) = vectors_of(encoder, "What is Marta allergic to?")

    scores = max_similarities(query, np.ones(len(query)), codes_of(encoder, *TEXTS))

    assert scores.argmax() == 0
    assert scores.argmin() == 1
    assert ((scores >= 0) & (scores <= 1)).all()


def test_a_weight_counts_for_its_token_alone() -> None:
    axes = np.eye(TOKEN_DIMENSIONS, dtype=np.int8) * 127
    query, first, second = np.eye(2, TOKEN_DIMENSIONS, dtype=np.float32), axes[:1], axes[1:2]

    scores = max_similarities(query, np.array([3.0, 1.0]), [first, second, axes[:2]])

    np.testing.assert_allclose(scores, [0.75, 0.25, 1.0])


def test_an_item_without_tokens_has_no_score() -> None:
    axes = np.eye(TOKEN_DIMENSIONS, dtype=np.int8) * 127

    scores = max_similarities(np.eye(1, TOKEN_DIMENSIONS, dtype=np.float32), np.ones(1), [axes[:0], axes[:1]])

    assert np.isnan(scores[0])
    assert scores[1] == pytest.approx(1.0)


def test_an_item_has_the_same_score_in_any_company(encoder: Encoder) -> None:
    (query,), items = vectors_of(encoder, "What is Marta allergic to?"), codes_of(encoder, *TEXTS)
    weights = np.linspace(0.1, 3.0, len(query))

    together = max_similarities(query, weights, items)

    assert [max_similarities(query, weights, [item])[0] for item in items] == list(together)


def test_each_token_of_a_query_has_its_word(encoder: Encoder) -> None:
    words = encoder.words_of_tokens("Is Marta's antihistamine here?")

    assert len(words) == len(encoder.tokens(["Is Marta's antihistamine here?"])[0]) - 2
    assert words.count("antihistamine") > 1
    assert list(dict.fromkeys(words)) == ["is", "marta", "'", "s", "antihistamine", "here", "?"]


def test_a_token_counts_as_its_word_is_rare() -> None:
    text = "What is Marta allergic to?"
    terms = QueryTerms.of_counts({"marta": 900, "allerg": 2}, documents=1000, length=10_000)

    weights = token_weights(["what", "is", "marta", "allergic", "to", "?"], text, terms)

    assert list(weights[[0, 1, 4, 5]]) == [0.1] * 4
    assert 0.1 <= weights[2] < 0.2
    assert weights[3] > 5
