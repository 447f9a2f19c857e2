"""The formulas of scores: bounded, rounded, explained whole, and monotone where they should be."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from fix_catalogue import over
from hypothesis import given
from hypothesis import strategies as st

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.text.source_keys import source_key
from skein_memory.memories import convert as memories_convert
from skein_memory.memories.model import Memory
from skein_memory.scoring.model import (
    CERTAINTY_WORDS,
    DYNAMIC,
    HEDGING_WORDS,
    IMPORTANCE_WORDS,
    WEIGHTED,
    ScoreInputs,
    count_terms,
    explain,
    scores_of,
)

AT = datetime(2026, 3, 1, tzinfo=UTC)
RELATIONS = ("supports", "contradicts", "causes", "example_of", "supersedes", "related")
FORMULAS = st.sampled_from(["dynamic", "weighted"])
UNIT = st.floats(0, 1, allow_nan=False)
COUNTS = st.dictionaries(st.sampled_from(RELATIONS), st.integers(0, 25))
WORDS = st.lists(
    st.sampled_from([*CERTAINTY_WORDS, *HEDGING_WORDS, *IMPORTANCE_WORDS, "tea", "und", "identity"]), max_size=40
)


def memory(**fields: Any) -> Memory:
    days = fields.pop("days", 0.0)
    draft = memories_convert.draft(pb.Memory(**{"content": "x", **fields}), at=AT, max_content=100_000)
    changed = AT - timedelta(days=days)
    return Memory(
        memory_id=UUID(int=1),
        draft=replace(draft, create_time=changed),
        revision=1,
        update_time=changed,
        record_time=changed,
        delete_time=None,
        created_by="a",
        updated_by="a",
    )


@st.composite
def memories(draw: st.DrawFn) -> Memory:
    return memory(
        content=" ".join(["x", *draw(WORDS)]) * draw(st.integers(1, 4)),
        type=draw(st.sampled_from(["note", "fact", "journal", "episodic"])),
        source=draw(st.sampled_from(["", "api log", "rumor", "a friend", "official guess"])),
        confidence=draw(UNIT),
        importance=draw(UNIT),
        days=draw(st.floats(0, 4000)),
    )


@st.composite
def read_subgraph(draw: st.DrawFn) -> ScoreInputs:
    incoming, outgoing = draw(COUNTS), draw(COUNTS)
    read = draw(st.none() | st.floats(0, 4000))
    return ScoreInputs(
        incoming=incoming,
        outgoing=outgoing,
        links=min(50, sum(incoming.values()) + sum(outgoing.values())),
        trust=draw(st.none() | UNIT),
        access_count=draw(st.integers(0, 10_000)) if read is not None else 0,
        last_access_time=None if read is None else AT - timedelta(days=read),
    )


def more(counts: Any, relation: str) -> dict[str, int]:
    return {**counts, relation: counts.get(relation, 0) + 1}


def base(one: Memory, **values: float) -> Memory:
    return replace(one, draft=replace(one.draft, **values))  # type: ignore[arg-type]  # Scores are numbers.


@given(memories(), read_subgraph(), FORMULAS)
def test_scores_lie_between_nothing_and_one_and_have_three_decimals(
    one: Memory, around: ScoreInputs, formula: str
) -> None:
    result = scores_of(one, around, formula=formula, at=AT)

    for value in (result.confidence, result.importance):
        assert 0 <= value <= 1
        assert value == round(value, 3)


@pytest.mark.system
@given(memories(), read_subgraph(), FORMULAS)
def test_the_terms_add_up_to_the_scores_and_each_has_a_name_of_its_own(
    one: Memory, around: ScoreInputs, formula: str
) -> None:
    result = explain(one, around, formula=formula, at=AT)

    assert result.scores == scores_of(one, around, formula=formula, at=AT)
    for terms, score in ((result.confidence, result.scores.confidence), (result.importance, result.scores.importance)):
        assert math.isclose(math.fsum(term.value for term in terms), score, abs_tol=0.000_500_1)
        assert len({term.name for term in terms}) == len(terms)


@pytest.mark.system
@given(memories(), read_subgraph(), st.sampled_from(["supports", "example_of"]), FORMULAS)
def test_more_support_never_lowers_confidence(one: Memory, around: ScoreInputs, relation: str, formula: str) -> None:
    richer = replace(around, incoming=more(around.incoming, relation), links=around.links + 1)

    before, after = (scores_of(one, each, formula=formula, at=AT) for each in (around, richer))

    assert after.confidence >= before.confidence
    assert after.importance >= before.importance


@pytest.mark.system
@given(memories(), read_subgraph(), st.sampled_from(["incoming", "outgoing"]), FORMULAS)
def test_more_contradiction_never_raises_a_score(one: Memory, around: ScoreInputs, side: str, formula: str) -> None:
    worse = (
        replace(around, incoming=more(around.incoming, "contradicts"))
        if side == "incoming"
        else replace(around, outgoing=more(around.outgoing, "contradicts"))
    )

    before, after = (scores_of(one, each, formula=formula, at=AT) for each in (around, worse))

    assert after.confidence <= before.confidence
    assert after.importance <= before.importance


@given(memories(), read_subgraph(), UNIT, FORMULAS)
def test_a_higher_base_never_lowers_a_score(one: Memory, around: ScoreInputs, other: float, formula: str) -> None:
    draft = one.draft
    higher = base(one, confidence=max(other, draft.confidence), importance=max(other, draft.importance))

    before, after = (scores_of(each, around, formula=formula, at=AT) for each in (one, higher))

    assert after.confidence >= before.confidence
    assert after.importance >= before.importance


@pytest.mark.system
@given(memories(), read_subgraph(), UNIT, UNIT)
def test_more_trust_never_lowers_a_score(one: Memory, around: ScoreInputs, first: float, second: float) -> None:
    low, high = sorted((first, second))

    before, after = (scores_of(one, replace(around, trust=trust), formula="dynamic", at=AT) for trust in (low, high))

    assert after.confidence >= before.confidence
    assert after.importance >= before.importance


@pytest.mark.system
@given(memories(), read_subgraph(), st.integers(1, 1000), FORMULAS)
def test_more_use_never_lowers_a_score(one: Memory, around: ScoreInputs, count: int, formula: str) -> None:
    used = replace(around, access_count=around.access_count + count)

    before, after = (scores_of(one, each, formula=formula, at=AT) for each in (around, used))

    assert after.confidence >= before.confidence
    assert after.importance >= before.importance


@pytest.mark.system
@given(memories(), read_subgraph(), st.floats(0, 4000), FORMULAS)
def test_time_alone_never_raises_a_score(one: Memory, around: ScoreInputs, days: float, formula: str) -> None:
    before, after = (scores_of(one, around, formula=formula, at=at) for at in (AT, AT + timedelta(days=days)))

    assert after.confidence <= before.confidence
    assert after.importance <= before.importance


def test_a_plain_fact_scores_as_the_formula_says() -> None:
    one = memory(type="fact", content="confirmed by measured id", source="api log", confidence=0.5, importance=0.4)
    around = ScoreInputs(
        incoming={"supports": 2, "contradicts": 1}, outgoing={"causes": 1}, links=4, trust=0.75, access_count=3,
        last_access_time=AT - timedelta(days=1),
    )  # fmt: skip

    result = explain(one, around, formula="dynamic", at=AT)

    confidence = {term.name: term.value for term in result.confidence}
    importance = {term.name: term.value for term in result.importance}
    link, usage = math.log(5) * 0.06, math.log(4) * 0.05
    assert confidence == pytest.approx(
        {
            "base": 0.5, "source_bonus": 0.09, "source_trust": 0.1, "certainty": 0.12, "type": 0.08, "supports": 0.1,
            "usage": 0.25 * usage, "link": 0.35 * link, "example": 0, "contradicts": -0.09, "hedge": 0,
            "source_penalty": 0, "stale": 0,
        }
    )  # fmt: skip
    assert importance == pytest.approx(
        {
            "base": 0.4, "keywords": 0, "source_trust": 0.035, "depth": 0, "type": 0.02, "link": link, "causes": 0.04,
            "example": 0, "supersede": 0, "usage": usage, "recall": 0.08, "recency": 0.12, "contradicts": -0.0225,
        }
    )  # fmt: skip
    assert (result.scores.formula, result.scores.version) == (DYNAMIC, 2)


@over(
    ("content", "depth"),
    [
        ("x" * 80, 0.0),
        # Spaces are characters: (290 - 80) / 420 * 0.08.
        ("word " * 57 + "words", 0.04),
        ("x" * 500, 0.08),
        ("x" * 5000, 0.08),
    ],
)
def test_depth_counts_the_characters_of_the_content_beyond_80(content: str, depth: float) -> None:
    one = memory(content=content, title="a title that does not count", tags=("nor", "tags"))

    terms = {term.name: term.value for term in explain(one, ScoreInputs(), formula="dynamic", at=AT).importance}

    assert terms["depth"] == pytest.approx(depth)


def test_the_terms_of_words_links_and_age_end_where_the_formula_ends_them() -> None:
    one = memory(
        content="goal strategy deadline todo must critical; maybe might perhaps probably",
        type="journal",
        source="rumor",
        confidence=0.9,
        importance=0.2,
        days=730,
    )
    around = ScoreInputs(
        incoming={"supports": 9, "example_of": 9, "contradicts": 9}, outgoing={"causes": 9, "supersedes": 9}, links=30,
        trust=0.0, access_count=1000,
    )  # fmt: skip

    result = explain(one, around, formula="dynamic", at=AT)

    confidence = {term.name: term.value for term in result.confidence if term.name != "bounds"}
    importance = {term.name: term.value for term in result.importance if term.name != "bounds"}
    assert confidence == pytest.approx(
        {
            "base": 0.9, "source_bonus": 0.04, "source_trust": -0.2, "certainty": 0, "type": -0.06, "supports": 0.22,
            "usage": 0.25 * 0.16, "link": 0.35 * 0.18, "example": 0.25 * 0.08, "contradicts": -0.28, "hedge": -0.2,
            "source_penalty": -0.07, "stale": -0.2,
        }
    )  # fmt: skip
    assert importance == pytest.approx(
        {
            "base": 0.2, "keywords": 0.24, "source_trust": -0.07, "depth": 0, "type": 0.01, "link": 0.18,
            "causes": 0.14, "example": 0.08, "supersede": 0.08, "usage": 0.16, "recall": 0, "recency": -0.18,
            "contradicts": -0.07,
        }
    )  # fmt: skip
    # 0.273 and 0.77 by hand.
    assert (result.scores.confidence, result.scores.importance) == (0.273, 0.77)


@over(("days", "recency"), [(0, 0.12), (3, 0.07), (14, 0.03), (60, 0), (425, -0.18), (4000, -0.18)])
def test_importance_fades_by_steps_and_then_slowly(days: int, recency: float) -> None:
    terms = {term.name: term.value for term in explain(memory(days=days), ScoreInputs(), formula="", at=AT).importance}

    assert terms["recency"] == pytest.approx(recency)


def test_the_weighted_formula_reads_metadata_and_is_neutral_without() -> None:
    one = memory(importance=1.0)

    plain = {term.name: term.value for term in explain(one, ScoreInputs(), formula="weighted", at=AT).importance}
    with_metadata = replace(
        one,
        draft=replace(one.draft, metadata='{"relevance": 0.2, "emotional": 1, "context": 7, "interaction": true}'),
    )
    given_ = {
        term.name: term.value for term in explain(with_metadata, ScoreInputs(), formula="weighted", at=AT).importance
    }

    assert plain == pytest.approx(
        {"recency": 0.25, "frequency": 0, "relevance": 0.25, "emotional": 0.075, "context": 0.05, "interaction": 0.025}
    )
    # What is no number of 0 to 1 does not count.
    assert given_ == pytest.approx({**plain, "relevance": 0.05, "emotional": 0.15})
    assert scores_of(one, ScoreInputs(), formula="weighted", at=AT).formula == WEIGHTED


@over(("importance", "rate"), [(1.0, 0.01), (0.7, 0.02), (0.4, 0.05), (0.1, 0.1)])
def test_important_memories_decay_more_slowly(importance: float, rate: float) -> None:
    one = memory(importance=importance, days=1)

    terms = {term.name: term.value for term in explain(one, ScoreInputs(), formula="weighted", at=AT).importance}

    assert terms["recency"] == pytest.approx(0.25 * math.exp(-24 * rate))


def test_a_hundred_uses_a_day_are_as_frequent_as_can_be() -> None:
    around = ScoreInputs(access_count=100, last_access_time=AT)

    terms = {term.name: term.value for term in explain(memory(), around, formula="weighted", at=AT).importance}

    assert terms["frequency"] == pytest.approx(0.2)


def test_hits_are_whole_words_each_once() -> None:
    assert count_terms("He did it; ID: 7, id 8", ("id",)) == 1
    assert count_terms("I think, perhaps", ("i think", "perhaps", "guess")) == 2
    assert count_terms("launch_plan", ("launch", "plan")) == 2
    assert count_terms("", ("id",)) == 0


def test_sources_are_compared_by_words_of_160_characters_at_most() -> None:
    assert source_key("  Big   LOG ") == "big log"
    assert source_key(None) == ""
    assert len(source_key("x" * 500)) == 160
