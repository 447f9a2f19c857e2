"""A term with other readings counts as one term, and its bound does not grow."""

from __future__ import annotations

import uuid

import numpy as np
import pytest

from skein_recall.search.query_terms import ItemMeasurements, QueryTerms, Term

COUNTS = {"gha": 3, "action": 40, "github": 90}
GHA = Term(term="gha", documents=3, idf=5.0).read_as([("github", "action")], COUNTS, 1000)


def query(*terms: Term) -> QueryTerms:
    return QueryTerms(terms=terms, mean_length=10.0, counts=COUNTS)


def bm25_of(terms: QueryTerms, counts: list[list[float]]) -> list[float]:
    """BM25 of items of ten stems each, by the counts of terms."""
    frequencies = terms.frequencies(np.array(counts, dtype=np.float64))
    none = np.zeros(len(counts), dtype=np.bool_)
    items = ItemMeasurements(
        item_ids=[uuid.uuid4() for _ in counts],
        kinds=["memory"] * len(counts),
        lengths=np.full(len(counts), 10.0),
        is_question=none,
        is_assistant=none,
        mentions_time=none,
        changed=none,
        frequencies=frequencies,
        header_frequencies=np.zeros_like(frequencies),
        corrected={},
        previous=np.full(len(counts), -1),
        pending_count=0,
    )
    return list(terms.bm25(items))


def test_a_term_with_readings_is_as_frequent_as_the_most_frequent_one() -> None:
    assert (GHA.documents, GHA.readings) == (40, (("github", "action"),))
    assert 3.1 < GHA.idf < 3.3


def test_a_name_occurs_as_often_as_the_rarest_of_its_words_and_all_forms_are_added() -> None:
    # Of gha, action and github.
    counts: list[list[float]] = [[1, 0, 0], [0, 1, 0], [0, 1, 3], [2, 1, 1], [0, 0, 0]]
    terms = query(GHA)

    bm25 = bm25_of(terms, counts)

    assert terms.frequencies(np.array(counts)).tolist() == [[1], [0], [1], [3], [0]]
    assert bm25[0] == bm25[2] < bm25[3] < terms.max_bm25
    assert (bm25[1], bm25[4]) == (0, 0)


def test_a_near_term_has_a_share_of_the_weight_and_the_bound_the_whole() -> None:
    typo = Term(term="ghb", documents=0, idf=7.0, factor=0.75).read_as([("gha",)], COUNTS, 1000)
    terms = QueryTerms(terms=(typo,), mean_length=10.0, counts={"ghb": 0, "gha": 3})
    exact = QueryTerms(terms=(Term(term="gha", documents=3, idf=typo.idf),), mean_length=10.0, counts={"gha": 3})

    assert typo.is_corrected
    assert bm25_of(terms, [[0, 2]]) == pytest.approx([0.75 * bm25_of(exact, [[2]])[0]])
    assert terms.max_bm25 == exact.max_bm25


def test_lists_are_read_by_the_weight_of_each_reading() -> None:
    assert query(GHA).index_weights([GHA]) == {
        "gha": GHA.idf,
        "github": pytest.approx(GHA.idf / 2),
        "action": pytest.approx(GHA.idf / 2),
    }
    assert query(GHA).rarest(10) == (GHA,)
