"""The range of a model's cosines is measured so that its medians rank as those of the default model."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skein_recall.embedded_model.descriptions import E5_SMALL, MINILM, MULTILINGUAL, EncoderDescription
from skein_recall.embedded_model.encoder import Encoder
from skein_recall.models.similarity_scale import (
    ANSWER_MEDIAN,
    COSINE_SCALE,
    PAIRS,
    UNRELATED_MEDIAN,
    measured_scale,
    medians,
)


def rotated(cosine: float, dimensions: int) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """Vectors of which each has this cosine with the unit vector of its own number, and 0 with all others."""
    vectors = np.zeros((dimensions, 2 * dimensions), dtype=np.float32)
    for number in range(dimensions):
        vectors[number, number], vectors[number, dimensions + number] = cosine, (1 - cosine**2) ** 0.5
    return vectors


@pytest.mark.system
@pytest.mark.parametrize("description", [MINILM, E5_SMALL, MULTILINGUAL], ids=lambda each: each.name)
def test_the_scale_of_an_embedded_model_is_what_measuring_it_gives(description: EncoderDescription) -> None:
    model = Encoder.load(description, threads=1)
    questions, answers = (
        np.concatenate([model.vectors(model.tokens([prefix + text])) for text in texts])
        for prefix, texts in zip(
            (description.query_prefix, description.passage_prefix), zip(*PAIRS, strict=True), strict=True
        )
    )

    assert measured_scale(questions, answers) == pytest.approx(description.similarity_scale, abs=0.01)


@given(st.floats(0.05, 0.99))
def test_the_medians_of_a_measured_model_land_where_the_default_model_has_them(cosine: float) -> None:
    questions, answers = np.eye(8, 16, dtype=np.float32), rotated(cosine, 8)

    scale = measured_scale(questions, answers)

    unrelated, answer = medians(questions, answers)
    assert (unrelated, answer) == pytest.approx((0.0, cosine), abs=1e-6)
    assert scale.scaled(unrelated) == pytest.approx(UNRELATED_MEDIAN)
    assert scale.scaled(answer) == pytest.approx(ANSWER_MEDIAN)


def test_a_model_that_tells_no_answer_from_another_text_keeps_its_cosines() -> None:
    assert measured_scale(np.eye(8, 16, dtype=np.float32), rotated(0.01, 8)) == COSINE_SCALE


@given(st.floats(-1, 1))
def test_cosines_of_the_default_model_do_not_change_by_one_bit(cosine: float) -> None:
    assert COSINE_SCALE.scaled(cosine) == cosine
    assert COSINE_SCALE.scaled(np.array([cosine])).tobytes() == np.array([cosine]).tobytes()


def test_every_text_of_the_list_is_another_one() -> None:
    texts = [text for pair in PAIRS for text in pair]

    assert len(set(texts)) == len(texts) == 48
