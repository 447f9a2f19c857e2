"""The estimate of tokens, against the counts of four vocabularies that models publish."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from skein_kit.text.token_estimate import estimate_tokens, token_units, tokens_of_units

GOLDEN = Path(__file__).parents[1] / "golden"
TEXTS = tomllib.loads((GOLDEN / "token_texts.toml").read_text("utf-8"))
# By text and vocabulary, from tests/tools/token_counts.py.
COUNTS = json.loads((GOLDEN / "token_counts.json").read_text("utf-8"))
PROSE = (
    "english",
    "german",
    "spanish",
    "french",
    "russian",
    "chinese",
    "japanese",
    "korean",
    "arabic",
    "hindi",
    "thai",
)
CHARACTERS = st.sampled_from("abzAZ09 _.-\n\té ñßłЖяى𝛼하ก漢の🙂") | st.characters(exclude_categories=["Cs"])


def ratio(name: str) -> float:
    """Return the estimate of a text as a share of the highest count."""
    return float(estimate_tokens(TEXTS[name]) / max(COUNTS[name].values()))


def test_the_estimate_of_prose_is_near_the_highest_count() -> None:
    off = {name: ratio(name) for name in PROSE if not 0.97 <= ratio(name) <= 1.15}

    assert off == {}


def test_the_estimate_of_no_class_is_far_below_the_highest_count() -> None:
    assert COUNTS.keys() == TEXTS.keys()
    assert {name: ratio(name) for name in TEXTS if not 0.9 <= ratio(name) <= 1.3} == {}


def test_no_text_has_no_tokens_and_a_token_is_rounded_up() -> None:
    assert [estimate_tokens(text) for text in ("", " ", "a", "漢")] == [0, 0, 1, 2]
    assert [tokens_of_units(units) for units in (0, 1, 100, 101)] == [0, 1, 1, 2]


@given(st.text(CHARACTERS, max_size=60), st.text(CHARACTERS, max_size=60))
def test_lines_together_have_no_more_units_than_apart(first: str, second: str) -> None:
    assert token_units(f"{first}\n{second}") == token_units(f"{first}\n") + token_units(second)


@given(st.text(st.sampled_from("abzAZ09 _.-\n\t~"), max_size=60))
def test_ascii_has_the_same_units_beside_another_script(text: str) -> None:
    assert token_units(f"{text}\n漢") == token_units(text) + token_units("\n漢")
