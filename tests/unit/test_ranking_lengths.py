"""Long texts in the ranking: messages of an assistant, and neighbours."""

from __future__ import annotations

from uuid import UUID

import pytest

from skein_recall.search.query_terms import TermStatistics
from skein_recall.search.ranking import Candidate, Candidates, RankedItem, rank

# A query of one term.
TERMS = TermStatistics(idf=(2.0,), mean_length=12.0)
MAX_BM25 = 4.4


def candidate(number: int, **fields: object) -> Candidate:
    values: dict[str, object] = {"similarity": 0.5, "bm25": 2.0, "frequencies": (1.0,), "length": 12} | fields
    return Candidate(item_id=UUID(int=number), kind="message", **values)  # type: ignore[arg-type]


def ranked(*candidates: Candidate) -> list[RankedItem]:
    return rank(Candidates.of(candidates), dense=True, max_bm25=MAX_BM25, limit=10, terms=TERMS)


def ids(items: list[RankedItem]) -> list[int]:
    return [item.item_id.int for item in items]


def test_a_long_message_of_an_assistant_comes_after_a_slightly_worse_one_of_a_person() -> None:
    answer = {"similarity": 0.55, "bm25": 2.2, "length": 200}

    beside_assistant = ranked(candidate(1), candidate(2, is_assistant=True, **answer))
    beside_person = ranked(candidate(1), candidate(2, **answer))

    assert ids(beside_assistant) == [1, 2]
    assert ids(beside_person) == [2, 1]


def test_a_short_message_of_an_assistant_counts_as_that_of_a_person() -> None:
    as_person, as_assistant = (ranked(candidate(1, is_assistant=flag))[0].score for flag in (False, True))

    assert as_assistant == as_person


def test_only_a_clearly_better_long_message_of_an_assistant_comes_first() -> None:
    answer = candidate(2, is_assistant=True, similarity=0.9, bm25=4.0, length=200)

    assert ids(ranked(candidate(1), answer)) == [2, 1]


def test_the_values_of_a_lowered_message_still_add_up_to_its_score() -> None:
    (item,) = ranked(candidate(1, is_assistant=True, length=200))

    assert item.score == pytest.approx(sum(part.weight * part.value for part in item.components))


def test_a_long_neighbour_does_not_drown_an_item() -> None:
    def words_beside(length: int) -> float:
        neighbour = candidate(2, previous=UUID(int=1), bm25=0.0, frequencies=(0.0,), length=length)
        first = next(item for item in ranked(candidate(1), neighbour) if item.item_id.int == 1)
        return next(part.raw for part in first.components if part.signal == "lexical")

    assert words_beside(300) == words_beside(30)
    assert words_beside(30) < words_beside(10)
