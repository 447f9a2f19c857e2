from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, fields, replace
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

import pytest
from fix_catalogue import over
from hypothesis import assume, given
from hypothesis import strategies as st

from skein_kit.dates.dates import DateRange
from skein_recall.models.similarity_scale import SimilarityScale
from skein_recall.search import ranking
from skein_recall.search.cues import QueryCues
from skein_recall.search.query_terms import TermStatistics
from skein_recall.search.ranking import Candidate, Candidates, RankedItem
from skein_recall.search.weights import Fusion, Weights

TERMS = TermStatistics(idf=(3.0, 2.0, 1.0), mean_length=10.0)
# BM25's bound for these terms.
BOUND = 2.2 * 6
NOON = datetime(2023, 5, 7, 12, tzinfo=UTC)
IN_MAY = QueryCues(dates=(DateRange(first=date(2023, 5, 1), last=date(2023, 5, 31)),))


def rank(candidates: Iterable[Candidate], **options: Any) -> list[RankedItem]:
    return ranking.rank(Candidates.of(candidates), **options)


def candidate(number: int, similarity: float | None = None, bm25: float = 0.0) -> Candidate:
    return Candidate(item_id=UUID(int=number), kind="memory", similarity=similarity, bm25=bm25)


def turn(number: int, *, after: int | None = None, **fields: object) -> Candidate:
    """One of a conversation, with every measure there can be."""
    plain = Candidate(
        item_id=UUID(int=number),
        kind="message",
        similarity=0.2,
        bm25=0.0,
        frequencies=(0.0, 0.0, 0.0),
        length=10,
        previous=None if after is None else UUID(int=after),
        create_time=NOON,
    )
    return plain._replace(**fields)  # type: ignore[arg-type]  # the fields of a candidate


def parts(ranked: RankedItem) -> dict[str, float]:
    return {part.signal: part.value for part in ranked.components}


def scores(best: list[RankedItem]) -> dict[int, float]:
    return {ranked.item_id.int: ranked.score for ranked in best}


def test_distrust_lowers_a_score_in_proportion() -> None:
    (best,) = rank([candidate(1, 0.9)], dense=True, max_bm25=0, limit=1)

    demoted = best.demote(0.2)

    assert demoted.score == pytest.approx(best.score * 0.4)
    assert parts(demoted)["trust"] == pytest.approx(best.score * -0.6)


def in_order(best: list[RankedItem]) -> list[int]:
    return [ranked.item_id.int for ranked in best]


CANDIDATES = st.lists(
    st.builds(
        candidate,
        st.integers(min_value=0, max_value=2**64),
        similarity=st.none() | st.floats(min_value=-1, max_value=1),
        bm25=st.floats(min_value=0, max_value=20),
    ),
    unique_by=lambda value: value.item_id,
    max_size=30,
)
TURNS = st.lists(
    st.builds(
        turn,
        st.integers(min_value=0, max_value=40),
        after=st.none() | st.integers(min_value=0, max_value=40),
        similarity=st.none() | st.floats(min_value=-1, max_value=1),
        bm25=st.floats(min_value=0, max_value=20),
        frequencies=st.just(()) | st.tuples(*(st.integers(min_value=0, max_value=4).map(float),) * 3),
        length=st.integers(min_value=0, max_value=500),
        is_question=st.booleans(),
        mentions_time=st.booleans(),
        create_time=st.none() | st.datetimes(timezones=st.just(UTC)),
        eligible=st.booleans(),
    ),
    unique_by=lambda value: value.item_id,
    max_size=30,
)
CUES = st.builds(QueryCues, asks_for_time=st.booleans(), dates=st.sampled_from([(), IN_MAY.dates]))
WEIGHTS = st.builds(
    Weights, **{name: st.just(0.0) | st.floats(min_value=0.01, max_value=10) for name in asdict(Weights())}
)
FUSIONS: st.SearchStrategy[Fusion] = st.sampled_from(["scores", "rrf"])


@given(
    candidates=TURNS,
    dense=st.booleans(),
    max_bm25=st.just(0.0) | st.floats(min_value=0.1, max_value=40),
    limit=st.integers(min_value=1, max_value=20),
    terms=st.sampled_from([None, TERMS]),
    cues=CUES,
    weights=WEIGHTS,
    fusion=FUSIONS,
)
def test_a_score_is_the_sum_of_its_components_and_lies_between_0_and_1(
    *,
    candidates: list[Candidate],
    dense: bool,
    max_bm25: float,
    limit: int,
    terms: TermStatistics | None,
    cues: QueryCues,
    weights: Weights,
    fusion: Fusion,
) -> None:
    best = rank(
        candidates,
        dense=dense,
        max_bm25=max_bm25,
        limit=limit,
        terms=terms,
        cues=cues,
        weights=weights,
        fusion=fusion,
    )

    assert len(best) == min(limit, sum(one.eligible for one in candidates))
    for ranked in best:
        assert 0 <= ranked.score <= 1 + 1e-9
        assert ranked.score == pytest.approx(sum(part.weight * part.value for part in ranked.components))
        assert all(0 <= part.value <= 1 for part in ranked.components)
        if dense or max_bm25 > 0:
            assert sum(part.weight for part in ranked.components) == pytest.approx(1)
    assert [ranked.score for ranked in best] == sorted((ranked.score for ranked in best), reverse=True)


@pytest.mark.system
@given(TURNS, st.randoms(use_true_random=False), FUSIONS)
def test_the_order_does_not_depend_on_how_the_candidates_came(
    candidates: list[Candidate], random: object, fusion: Fusion
) -> None:
    shuffled = list(candidates)
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis's own Random

    first = rank(candidates, dense=True, max_bm25=BOUND, limit=5, terms=TERMS, cues=IN_MAY, fusion=fusion)
    again = rank(shuffled, dense=True, max_bm25=BOUND, limit=5, terms=TERMS, cues=IN_MAY, fusion=fusion)

    assert again == first
    assert [one.components for one in again] == [one.components for one in first]


@pytest.mark.system
@given(TURNS, st.data(), st.floats(min_value=0, max_value=1))
def test_a_greater_similarity_never_lowers_a_score(
    candidates: list[Candidate], data: st.DataObject, more: float
) -> None:
    known = [one for one in candidates if one.similarity is not None and one.eligible]
    assume(known)
    one = data.draw(st.sampled_from(known))
    nearer = one._replace(similarity=min(1.0, (one.similarity or 0.0) + more))

    before = rank(candidates, dense=True, max_bm25=BOUND, limit=50, terms=TERMS)
    others = [other for other in candidates if other is not one]
    after = rank([*others, nearer], dense=True, max_bm25=BOUND, limit=50, terms=TERMS)

    assert scores(after)[one.item_id.int] >= scores(before)[one.item_id.int] - 1e-12


@given(CANDIDATES, st.data(), st.floats(min_value=0, max_value=10), st.sampled_from([None, TERMS]))
def test_a_greater_bm25_never_lowers_a_score(
    candidates: list[Candidate], data: st.DataObject, more: float, terms: TermStatistics | None
) -> None:
    assume(candidates)
    one = data.draw(st.sampled_from(candidates))
    others = [other for other in candidates if other is not one]

    before = rank(candidates, dense=True, max_bm25=BOUND, limit=50, terms=terms)
    after = rank([*others, one._replace(bm25=one.bm25 + more)], dense=True, max_bm25=BOUND, limit=50, terms=terms)

    assert scores(after)[one.item_id.int] >= scores(before)[one.item_id.int] - 1e-12


@pytest.mark.system
@given(TURNS, st.data())
def test_saying_a_term_once_more_never_lowers_a_score(candidates: list[Candidate], data: st.DataObject) -> None:
    telling = [one for one in candidates if one.frequencies and one.previous is not None and one.eligible]
    assume(telling)
    one = data.draw(st.sampled_from(telling))
    often = one._replace(frequencies=[1 + frequency for frequency in one.frequencies])
    others = [other for other in candidates if other is not one]

    before = rank(candidates, dense=True, max_bm25=BOUND, limit=50, terms=TERMS)
    after = rank([*others, often], dense=True, max_bm25=BOUND, limit=50, terms=TERMS)

    assert scores(after)[one.item_id.int] >= scores(before)[one.item_id.int] - 1e-12


@pytest.mark.system
@given(CANDIDATES, CUES, WEIGHTS)
def test_a_query_by_vector_alone_is_ranked_by_the_cosine(
    candidates: list[Candidate], cues: QueryCues, weights: Weights
) -> None:
    best = rank(candidates, dense=True, max_bm25=0, limit=30, terms=TERMS, cues=cues, weights=weights)

    assert all(list(parts(ranked)) == ["dense"] for ranked in best)
    assert [ranked.score for ranked in best] == [max(0.0, ranked.similarity or 0.0) for ranked in best]


def test_equal_scores_are_ordered_by_id() -> None:
    best = rank([candidate(n, similarity=0.5) for n in (3, 1, 2)], dense=True, max_bm25=0, limit=3)

    assert in_order(best) == [1, 2, 3]


def test_nothing_found_is_nothing_ranked() -> None:
    assert rank([], dense=True, max_bm25=BOUND, limit=3, terms=TERMS, cues=IN_MAY) == []
    assert rank([], dense=True, max_bm25=BOUND, limit=3, fusion="rrf") == []


def test_a_score_does_not_depend_on_candidates_that_are_no_neighbours() -> None:
    one = turn(1, similarity=0.4, bm25=3)
    others = [turn(n, similarity=0.01 * n, bm25=0.1 * n) for n in range(2, 9)]

    (alone,) = rank([one], dense=True, max_bm25=BOUND, limit=1, terms=TERMS)
    among = rank([one, *others], dense=True, max_bm25=BOUND, limit=9, terms=TERMS)

    assert scores(among)[1] == alone.score


def test_only_signals_that_the_query_asks_have_a_part_and_the_others_make_room() -> None:
    def shares(**options: object) -> dict[str, float]:
        arguments = {"dense": True, "max_bm25": BOUND, "limit": 1, "terms": TERMS} | options
        (best,) = rank([turn(1)], **arguments)
        return {part.signal: part.weight for part in best.components}

    # Nothing compares tokens here.
    default = {signal: weight for signal, weight in asdict(Weights()).items() if signal != "tokens"}
    everything = shares(cues=replace(IN_MAY, asks_for_time=True))

    assert everything.keys() == default.keys()
    assert everything == pytest.approx({name: weight / sum(default.values()) for name, weight in default.items()})
    assert default.keys() - shares().keys() == {"time", "date"}
    assert default.keys() - shares(dense=False).keys() == {"time", "date", "dense", "context"}
    assert shares(terms=None).keys() == {"dense", "lexical"}
    assert shares(dense=False, terms=None) == {"lexical": 1}
    assert shares(dense=False, max_bm25=0) == {}


def test_a_weight_of_0_switches_a_signal_off() -> None:
    weights = Weights(dense=0, context=0)

    best = rank([candidate(1, 0.9, 1.0), candidate(2, 0.1, 2.0)], dense=True, max_bm25=BOUND, limit=2, weights=weights)

    assert in_order(best) == [2, 1]
    assert parts(best[0]).keys() == {"lexical"}


def test_all_signals_count_the_same_when_every_one_is_switched_off() -> None:
    nothing = Weights(**{field.name: 0.0 for field in fields(Weights)})

    (best,) = rank([candidate(1, 0.5, 1.0)], dense=True, max_bm25=BOUND, limit=1, weights=nothing)

    assert [part.weight for part in best.components] == [0.5, 0.5]


@over("weight", [-0.1, float("inf"), float("nan")])
def test_a_weight_is_a_number_that_is_not_negative(weight: float) -> None:
    with pytest.raises(ValueError, match="weight"):
        Weights(reply=weight)


def test_a_turn_without_neighbours_is_scored_alone() -> None:
    (best,) = rank(
        [turn(1, similarity=0.4, bm25=3.3, frequencies=(1.0, 1.0, 0.0))],
        dense=True,
        max_bm25=BOUND,
        limit=1,
        terms=TERMS,
    )

    assert parts(best)["lexical"] == 3.3 / BOUND
    assert parts(best)["context"] == parts(best)["dense"]


def test_words_that_neighbours_say_count_less_the_farther_they_stand() -> None:
    conversation = [turn(1, frequencies=(1.0, 1.0, 1.0)), *(turn(n, after=n - 1) for n in (2, 3, 4, 5, 6))]

    best = rank(conversation, dense=True, max_bm25=BOUND, limit=9, terms=TERMS)

    lexical = {ranked.item_id.int: parts(ranked)["lexical"] for ranked in best}
    assert lexical[1] > lexical[2] > lexical[3] > lexical[4] > lexical[5] > lexical[6] == 0


def test_words_before_and_after_count_together_with_an_items_own() -> None:
    question = turn(1, frequencies=(1.0, 0.0, 0.0))
    reply = turn(2, after=1, frequencies=(0.0, 1.0, 0.0), bm25=2.0)
    added = turn(3, after=2, frequencies=(0.0, 0.0, 1.0))

    best = rank([question, reply, added], dense=True, max_bm25=BOUND, limit=3, terms=TERMS)

    # BM25 of half an occurrence of the first and the third, one of the second, in 20 of 25 words.
    free = 0.9 * (0.25 + 0.75 * 20 / 25)
    expected = 1.9 * ((3 + 1) * 0.5 / (0.5 + free) + 2 * 1 / (1 + free))
    (middle,) = [ranked for ranked in best if ranked.item_id == reply.item_id]
    assert {part.signal: part.raw for part in middle.components}["lexical"] == pytest.approx(expected)


def test_context_is_the_mean_cosine_of_those_around_that_have_one() -> None:
    conversation = [turn(1, similarity=0.2), turn(2, after=1, similarity=None), turn(3, after=2, similarity=0.6)]

    best = rank(conversation, dense=True, max_bm25=BOUND, limit=3, terms=TERMS)

    assert [parts(ranked)["context"] for ranked in best] == pytest.approx([0.4] * 3)


def test_a_turn_after_a_matching_question_is_likely_its_answer() -> None:
    conversation = [
        turn(1, is_question=True, similarity=0.9, bm25=6.6),
        turn(2, after=1),
        turn(3, similarity=0.9, bm25=6.6),
        turn(4, after=3),
    ]

    best = rank(conversation, dense=True, max_bm25=BOUND, limit=4, terms=TERMS)

    reply = {ranked.item_id.int: parts(ranked)["reply"] for ranked in best}
    # Words count twice what meaning does.
    assert reply == pytest.approx({1: 0, 2: (2 * 0.5 + 0.9) / 3, 3: 0, 4: 0})


def test_a_question_and_a_phrase_count_less_than_what_says_something() -> None:
    best = rank(
        [turn(1, is_question=True), turn(2, length=2), turn(3, length=30)],
        dense=True,
        max_bm25=BOUND,
        limit=3,
        terms=TERMS,
    )

    assert in_order(best)[0] == 3
    assert {ranked.item_id.int: parts(ranked)["statement"] for ranked in best} == {1: 0, 2: 1, 3: 1}


def test_a_question_about_a_time_prefers_turns_that_mention_one() -> None:
    turns = [turn(1), turn(2, mentions_time=True)]

    ranked = rank(turns, dense=True, max_bm25=BOUND, limit=2, terms=TERMS, cues=QueryCues(asks_for_time=True))
    otherwise = rank(turns, dense=True, max_bm25=BOUND, limit=2, terms=TERMS)

    assert in_order(ranked) == [2, 1]
    assert in_order(otherwise) == [1, 2]


def test_a_query_with_a_date_prefers_items_created_near_it() -> None:
    days = {1: datetime(2023, 6, 14, 9, tzinfo=UTC), 2: NOON, 3: datetime(2023, 6, 7, 9, tzinfo=UTC), 4: None}

    best = rank(
        [turn(n, create_time=at) for n, at in days.items()],
        dense=True,
        max_bm25=BOUND,
        limit=4,
        terms=TERMS,
        cues=IN_MAY,
    )

    assert in_order(best) == [2, 3, 1, 4]
    assert [parts(ranked)["date"] for ranked in best] == pytest.approx([1, 1 / 2, 1 / 3, 0])


def test_an_ineligible_turn_lends_context_and_is_no_hit() -> None:
    conversation = [turn(1, frequencies=(1.0, 1.0, 1.0), eligible=False), turn(2, after=1), turn(3)]

    best = rank(conversation, dense=True, max_bm25=BOUND, limit=3, terms=TERMS)

    assert in_order(best) == [2, 3]


def test_ranks_are_fused_as_shares_of_being_first() -> None:
    best = rank(
        [candidate(1, 0.9), candidate(2, 0.5, 9.0), candidate(3, bm25=4.0)],
        dense=True,
        max_bm25=BOUND,
        limit=3,
        fusion="rrf",
    )

    assert scores(best) == pytest.approx({2: (61 / 62 + 1) / 2, 1: 1 / 2, 3: 61 / 62 / 2})
    assert in_order(best) == [2, 1, 3]


def test_places_are_counted_per_signal_among_what_it_found() -> None:
    best = rank(
        [candidate(1, similarity=0.9), candidate(2, bm25=4), candidate(3, similarity=0.2, bm25=9)],
        dense=True,
        max_bm25=10,
        limit=3,
    )

    places = {ranked.item_id.int: {part.signal: part.rank for part in ranked.components} for ranked in best}
    assert places == {
        1: {"dense": 1, "lexical": 0},
        2: {"dense": 0, "lexical": 2},
        3: {"dense": 2, "lexical": 1},
    }


def test_min_similarity_leaves_out_what_is_below_and_what_has_no_vector() -> None:
    given_ = [candidate(1, similarity=0.5), candidate(2, similarity=0.49, bm25=9), candidate(3, bm25=9)]

    best = rank(given_, dense=True, max_bm25=10, limit=3, min_similarity=0.5)

    assert in_order(best) == [1]


def test_an_item_without_a_vector_never_comes_first_for_that() -> None:
    best = rank([candidate(1), candidate(2, similarity=0.01)], dense=True, max_bm25=0, limit=2)

    assert in_order(best) == [2, 1]


def test_vectors_that_point_away_from_the_query_are_ordered_by_distance() -> None:
    away = [Candidate(item_id=UUID(int=n), kind="memory", similarity=-n / 10, bm25=0.0) for n in (3, 1, 2)]

    ranked = rank(away, dense=True, max_bm25=0.0, limit=3)

    assert [one.item_id.int for one in ranked] == [1, 2, 3]


@given(
    near=st.dictionaries(
        st.integers(0, 30).map(lambda number: UUID(int=number)),
        st.tuples(st.sampled_from(["memory", "message"]), st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])),
    ),
    limit=st.integers(1, 10),
    least=st.sampled_from([0.0, 0.5]),
)
def test_by_the_cosine_alone_the_order_is_that_of_all_signals_with_one(
    near: dict[UUID, tuple[str, float]], limit: int, least: float
) -> None:
    candidates = [Candidate(item_id=item_id, kind=kind, similarity=cosine) for item_id, (kind, cosine) in near.items()]

    result = ranking.rank_by_similarity(near, limit=limit, min_similarity=least)

    expected = rank(candidates, dense=True, max_bm25=0.0, limit=limit, min_similarity=least)
    assert result == expected
    assert [one.components for one in result] == [one.components for one in expected]


def test_an_opposite_vector_scores_nothing_and_is_ordered_by_its_cosine() -> None:
    near = {UUID(int=number): ("memory", -number / 10) for number in (3, 1, 2)}

    result = ranking.rank_by_similarity(near, limit=3)

    assert [(one.item_id.int, one.score, one.similarity) for one in result] == [
        (1, 0, -0.1),
        (2, 0, -0.2),
        (3, 0, -0.3),
    ]


def test_by_words_alone_the_score_is_a_share_of_the_bound_and_ties_go_by_id() -> None:
    bm25s = {4: BOUND / 4, 2: BOUND / 2, 1: BOUND / 4, 3: 2 * BOUND}
    matches = {UUID(int=number): ("memory", bm25) for number, bm25 in bm25s.items()}

    result = ranking.rank_by_terms(matches, max_bm25=BOUND, limit=3)

    assert [(one.item_id.int, one.score) for one in result] == [(3, 1.0), (2, 0.5), (1, 0.25)]
    assert [one.components for one in result] == [
        (("lexical", 2 * BOUND, 1.0, 1.0, 1),),
        (("lexical", BOUND / 2, 0.5, 1.0, 2),),
        (("lexical", BOUND / 4, 0.25, 1.0, 3),),
    ]
    assert {(one.has_words, one.similarity) for one in result} == {(True, None)}


def test_a_hit_has_words_when_it_contains_a_term_itself_and_none_without_terms() -> None:
    turns = [turn(1), turn(2, after=1, bm25=2.0, frequencies=(1.0, 0.0, 0.0))]

    with_terms = rank(turns, dense=True, max_bm25=BOUND, limit=5, terms=TERMS)
    without = rank(turns, dense=True, max_bm25=0.0, limit=5)

    assert {one.item_id.int: one.has_words for one in with_terms} == {1: False, 2: True}
    assert {one.has_words for one in without} == {None}


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=5))
def test_without_a_scale_meaning_counts_as_its_cosine_to_the_last_bit(cosines: list[float]) -> None:
    given_ = [turn(number, similarity=cosine) for number, cosine in enumerate(cosines, start=1)]

    plain = rank(given_, dense=True, max_bm25=BOUND, limit=9, terms=TERMS)
    scaled = rank(given_, dense=True, max_bm25=BOUND, limit=9, terms=TERMS, scale=SimilarityScale(0.0, 1.0))

    assert [parts(ranked)["dense"] for ranked in plain] == [
        min(1.0, max(0.0, cosines[ranked.item_id.int - 1])) for ranked in plain
    ]
    assert [(ranked.item_id, ranked.score, ranked.components) for ranked in plain] == [
        (ranked.item_id, ranked.score, ranked.components) for ranked in scaled
    ]


def test_a_scale_spreads_cosines_of_items_and_neighbours_and_changes_no_similarity() -> None:
    given_ = [turn(1, similarity=0.75), turn(2, after=1, similarity=0.85), turn(3, similarity=0.7)]

    best = {
        ranked.item_id.int: ranked
        for ranked in rank(given_, dense=True, max_bm25=BOUND, limit=3, terms=TERMS, scale=SimilarityScale(0.75, 0.95))
    }

    assert {number: parts(ranked)["dense"] for number, ranked in best.items()} == pytest.approx({1: 0, 2: 0.5, 3: 0})
    assert {number: parts(ranked)["context"] for number, ranked in best.items()} == pytest.approx(
        {1: 0.25, 2: 0.25, 3: 0}
    )
    assert {number: ranked.similarity for number, ranked in best.items()} == {1: 0.75, 2: 0.85, 3: 0.7}
    assert [part.raw for part in best[2].components if part.signal == "dense"] == [0.85]


def test_an_item_without_a_vector_means_nothing_whatever_the_scale() -> None:
    (best,) = rank([turn(1, similarity=None)], dense=True, max_bm25=BOUND, limit=1, scale=SimilarityScale(-0.5, 1.0))

    assert parts(best)["dense"] == 0


def test_the_least_similarity_is_a_plain_cosine() -> None:
    given_ = [candidate(1, 0.8), candidate(2, 0.9)]

    best = rank(given_, dense=True, max_bm25=10, limit=2, min_similarity=0.85, scale=SimilarityScale(0.75, 0.95))

    assert in_order(best) == [2]


def test_the_neighbours_that_are_read_are_those_of_items_near_by_the_scale() -> None:
    one, two = UUID(int=1), UUID(int=2)

    def centres(scale: SimilarityScale) -> list[UUID]:
        return ranking.select_centres([one, two], {one: 0.84, two: 0.75}, {two: 1.0}, 10.0, count=1, scale=scale)

    assert centres(SimilarityScale()) == [two]
    assert centres(SimilarityScale(0.75, 0.95)) == [one]
