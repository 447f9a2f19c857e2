from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skein_memory.graph.model import Candidate, compare, suggest

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
TAGS = st.lists(st.sampled_from(["a", "b", "c", "d", "e"]), unique=True)
TEXTS = st.text(alphabet="kettle pot", max_size=40)


def alike(**fields: Any) -> Candidate:
    values: dict[str, Any] = {
        "memory_id": uuid.uuid4(),
        "type": "note",
        "title": None,
        "content": "the kettle is red",
        "source": None,
        "create_time": NOON,
        "tags": ("kitchen",),
    }
    return Candidate(**{**values, **fields})


ALIKE = st.builds(
    alike,
    content=TEXTS,
    tags=TAGS,
    source=st.sampled_from([None, "log", "chat"]),
    type=st.sampled_from(["note", "fact"]),
    create_time=st.datetimes(min_value=datetime(2020, 1, 1), max_value=datetime(2030, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 - hypothesis adds the zone.
)


def test_each_part_says_what_two_memories_share() -> None:
    one = alike(tags=("a", "b", "z"), source="log", content="the red kettle", title="Kettle")
    other = alike(tags=("a", "b"), source="log", content="the blue kettle", create_time=NOON - timedelta(days=15))

    result = compare(one, other)

    assert result.shared_tags == ("a", "b")
    assert result.tag_score == pytest.approx(0.45 * 2 / 3)
    assert result.word_score == pytest.approx(0.35 * 2 / 4)
    assert (result.source_score, result.type_score) == (0.1, 0.05)
    assert result.time_score == pytest.approx(0.025)
    assert result.score == pytest.approx(0.3 + 0.175 + 0.1 + 0.025 + 0.05)


def test_sources_that_are_unknown_are_not_the_same() -> None:
    assert compare(alike(), alike()).source_score == 0


def test_only_what_shares_a_tag_and_scores_enough_is_suggested_best_first() -> None:
    memory = alike(tags=("a", "b", "c"))
    twin, cousin = alike(tags=("a", "b", "c")), alike(tags=("a",), content="something else")
    stranger = alike(tags=("x",))

    result = suggest(memory, [cousin, stranger, twin], min_score=0.25, count=5)

    assert [suggestion.memory for suggestion in result] == [twin, cousin]
    assert suggest(memory, [cousin, stranger, twin], min_score=0.5, count=5) == result[:1]
    assert suggest(memory, [cousin, twin], min_score=0.0, count=1) == result[:1]


@given(one=ALIKE, other=ALIKE)
def test_the_score_is_bounded_symmetric_and_the_sum_of_its_parts(one: Candidate, other: Candidate) -> None:
    there, back = compare(one, other), compare(other, one)
    parts = (there.tag_score, there.word_score, there.source_score, there.time_score, there.type_score)

    assert 0 <= there.score <= 1
    assert all(part >= 0 for part in parts)
    assert there.score == pytest.approx(sum(parts), abs=1e-6)
    assert there.score == back.score


@given(one=ALIKE, other=ALIKE, tag=st.sampled_from(["a", "b", "c", "d", "e"]))
def test_one_more_shared_tag_never_makes_them_less_alike(one: Candidate, other: Candidate, tag: str) -> None:
    more = [alike(content=each.content, tags=tuple({*each.tags, tag}), create_time=NOON) for each in (one, other)]
    same = [alike(content=each.content, tags=each.tags, create_time=NOON) for each in (one, other)]

    assert compare(*more).score >= compare(*same).score
