"""Neighbours in the ranking: of a chat of people as many as have some words, of other items two on each side."""

from __future__ import annotations

from uuid import UUID

import pytest

from skein_recall.models.similarity_scale import COSINE_SCALE
from skein_recall.search.cues import QueryCues
from skein_recall.search.query_terms import TermStatistics
from skein_recall.search.ranking import Candidate, Candidates, Ranking
from skein_recall.search.weights import DEFAULT_WEIGHTS

# A query of one term.
TERMS = TermStatistics(idf=(2.0,), mean_length=12.0)
MAX_BM25 = 4.4


def chat(*lengths: int, assistant: int | None = None, kind: str = "message") -> Candidates:
    """Turns of some lengths in stems, of which the last one alone has the word of the query."""
    return Candidates.of(
        Candidate(
            item_id=UUID(int=number),
            kind=kind,
            similarity=None,
            bm25=2.0 if number == len(lengths) else 0.0,
            frequencies=(1.0 if number == len(lengths) else 0.0,),
            length=length,
            previous=UUID(int=number - 1) if number > 1 else None,
            is_assistant=number == assistant,
        )
        for number, length in enumerate(lengths, start=1)
    )


def words(candidates: Candidates, *, by_words: bool = True) -> list[float]:
    """Return BM25 of each turn with its neighbours, in order."""
    ranking = Ranking(
        candidates,
        dense=False,
        max_bm25=MAX_BM25,
        terms=TERMS,
        cues=QueryCues(),
        weights=DEFAULT_WEIGHTS,
        fusion="scores",
        scale=COSINE_SCALE,
        by_words=by_words,
    )
    items = sorted(ranking.best(10, min_similarity=0.0), key=lambda item: item.item_id)
    return [next(part.raw for part in item.components if part.signal == "lexical") for item in items]


def test_short_turns_of_people_are_read_with_four_on_each_side() -> None:
    far, fourth, third, *_ = words(chat(5, 5, 5, 5, 5, 5))

    assert far == 0 < fourth < third


def test_long_turns_of_people_are_read_with_fewer() -> None:
    assert [value > 0 for value in words(chat(30, 30, 30, 30, 30))] == [False, False, True, True, True]
    assert [value > 0 for value in words(chat(60, 60, 60, 60, 60))] == [False, False, False, True, True]


def test_the_nearest_turn_counts_however_long_it_is() -> None:
    assert words(chat(900, 900))[0] > 0


@pytest.mark.parametrize(
    ("candidates", "by_words"),
    [
        (chat(5, 5, 5, 5, 5, assistant=4), True),
        (chat(5, 5, 5, 5, 5, assistant=1), True),
        (chat(5, 5, 5, 5, 5, kind="memory"), True),
        (chat(5, 5, 5, 5, 5), False),
    ],
    ids=["beside an assistant", "near an assistant", "memories", "a former formula"],
)
def test_other_items_are_read_with_two_on_each_side(candidates: Candidates, *, by_words: bool) -> None:
    assert [value > 0 for value in words(candidates, by_words=by_words)] == [False, False, True, True, True]


def test_an_assistant_far_away_changes_nothing() -> None:
    with_assistant, among_people = (words(chat(5, 5, 5, 5, 5, 5, 5, 5, assistant=number)) for number in (1, None))

    assert with_assistant[5:] == among_people[5:]
