"""The words of a query in texts: what is looked for, how much a text says of it, and which part says most."""

from __future__ import annotations

import time
from collections import Counter

import pytest
from fix_catalogue import over
from hypothesis import given
from hypothesis import strategies as st

from skein_gateway.recall.text_match import (
    ELLIPSIS,
    K1,
    MAX_TERMS,
    counts_of,
    excerpt,
    normalize,
    rank_texts,
    stem,
    term_coverage,
    terms_of,
)

TEXT = st.text(max_size=300)
SENTENCES = st.lists(
    st.text(st.sampled_from("abc def ghij"), min_size=1, max_size=60).map(lambda text: f"{text.strip() or 'x'}. "),
    max_size=30,
).map("".join)


@over(
    ("word", "stemmed"),
    [
        ("kettles", "kettle"),
        ("allergies", "allergy"),
        ("glass", "glass"),
        ("bus", "bus"),
        ("this", "thi"),
        ("gas", "gas"),
        ("käses", "käse"),
        ("茶", "茶"),
    ],
)
def test_plurals_lose_their_ending(word: str, stemmed: str) -> None:
    assert stem(word) == stemmed


def test_words_that_say_nothing_are_not_looked_for_unless_there_are_no_others() -> None:
    assert terms_of("What does Anna drink?") == {"anna", "drink"}
    assert terms_of("What is it?") == {"what", "is", "it"}
    assert terms_of("... !") == frozenset()


def test_the_beginning_of_a_long_query_is_searched() -> None:
    assert terms_of(" ".join(f"w{number}" for number in range(1000))) == {f"w{number}" for number in range(MAX_TERMS)}


def test_a_text_that_says_every_word_once_has_the_share_of_one_mention() -> None:
    terms = terms_of("green tea")

    assert term_coverage(terms, counts_of("Green TEAS, please", terms)) == pytest.approx(1 / (1 + K1))
    assert term_coverage(terms, counts_of("tea", terms)) == pytest.approx(1 / (1 + K1) / 2)
    assert term_coverage(terms, Counter()) == 0
    assert term_coverage(frozenset(), Counter()) == 0


@given(TEXT, TEXT)
def test_a_share_lies_between_0_and_1_and_grows_with_the_common_words(query: str, text: str) -> None:
    terms = terms_of(query)
    value, more = (
        term_coverage(terms, counts_of(text, terms)),
        term_coverage(terms, counts_of(f"{text} {query}", terms)),
    )

    assert 0 <= value <= more < 1 or not terms


def test_texts_are_ranked_by_their_share_and_then_by_their_id() -> None:
    texts = [("b", "tea"), ("d", "coffee"), ("a", "tea"), ("c", "green tea")]

    result = rank_texts(texts, terms_of("green tea"), 3)

    assert [(text_id, count) for text_id, _, count in result] == [("c", 2), ("a", 1), ("b", 1)]
    assert rank_texts(texts, terms_of("green tea"), 1) == result[:1]


def test_a_text_that_fits_is_shown_as_it_is() -> None:
    assert excerpt("One. Two.", 9, frozenset()) == "One. Two."


def test_the_part_of_a_long_text_with_the_words_is_shown_in_whole_sentences() -> None:
    text = "The weather was fine. " * 20 + 'He said: "Anna drinks tea." Nobody knew. ' + "It rained later. " * 20

    shown = excerpt(text, 120, terms_of("What does Anna drink?"))

    around = 'The weather was fine. He said: "Anna drinks tea." Nobody knew.' + " It rained later." * 3
    assert shown == f"{ELLIPSIS} {around} {ELLIPSIS}"


def test_the_end_of_a_text_has_no_dots_after_it() -> None:
    shown = excerpt("The weather was fine. " * 20 + "Anna drinks tea.", 100, terms_of("tea"))

    assert shown.endswith("Anna drinks tea.")


def test_without_words_the_beginning_is_shown() -> None:
    text = "\n".join(f"Line {number} of many." for number in range(30))

    assert excerpt(text, 100, frozenset()) == f"{text[:95].strip()} {ELLIPSIS}"


def test_a_sentence_that_is_too_long_is_cut_between_words() -> None:
    assert excerpt("word " * 100, 84, frozenset()) == f"{'word ' * 15}word {ELLIPSIS}"
    assert excerpt("x" * 500, 84, frozenset()) == f"{'x' * 80} {ELLIPSIS}"
    assert "Anna drinks tea" in excerpt("word " * 100 + "Anna drinks tea " + "word " * 100, 84, terms_of("tea"))


def test_a_tiny_budget_shows_nothing() -> None:
    assert excerpt("word " * 100, 79, frozenset()) == ""
    assert excerpt("word " * 100, -5, frozenset()) == ""


@given(SENTENCES, st.integers(0, 400), TEXT)
def test_an_excerpt_never_passes_its_room_and_holds_nothing_that_is_not_in_the_text(
    text: str, room: int, query: str
) -> None:
    shown = excerpt(text, room, terms_of(query))

    assert len(shown) <= room
    assert shown.replace(ELLIPSIS, "").strip() in text


def test_texts_are_compared_by_their_words() -> None:
    assert normalize(" Anna,  likes\ntea. ") == "Anna likes tea"
    assert (
        len({normalize(text) for text in ("is abC9", "is abc9", "is abc9!", "in /A/b", "in /a/b", "x = y", "x != y")})
        == 7
    )
    assert normalize(" 🙂 ") == "🙂"


@pytest.mark.system
def test_a_text_of_nothing_but_marks_is_little_more_work_than_any_other() -> None:
    def seconds(text: str) -> float:
        started = time.process_time()
        excerpt(text, 400, terms_of("tea kettle"))
        return time.process_time() - started

    ordinary, marks = "The kettle sings before the tea is made. " * 2500, ". " * 50_000

    assert min(seconds(marks) for _ in range(3)) < 6 * min(seconds(ordinary) for _ in range(3))
