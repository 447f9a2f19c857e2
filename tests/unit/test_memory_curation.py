"""Rules of curation: what counts as the same, what decays, what a merge makes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from fix_catalogue import over

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.errors import ContentTooLong
from skein_memory.conflicts.model import pair_key
from skein_memory.curation import model as curation
from skein_memory.curation.model import DecayState
from skein_memory.errors import MergeTooLarge
from skein_memory.memories import convert as memories_convert
from skein_memory.memories.model import FIRST_WITHOUT_KEY, Memory, Scores
from skein_memory.overview.model import end_of_unit, tag_counts, truncate_time, urgency

AT = datetime(2026, 3, 5, 14, 30, tzinfo=UTC)
DAY = timedelta(days=1)


def memory(number: int = 1, **fields: Any) -> Memory:
    return Memory(
        memory_id=UUID(int=number),
        draft=memories_convert.draft(pb.Memory(**{"content": "x", **fields}), at=AT, max_content=100_000),
        revision=1,
        update_time=AT,
        record_time=AT,
        delete_time=None,
        created_by="a",
        updated_by="a",
    )


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return memory(**one).draft.fingerprint == memory(**other).draft.fingerprint


def test_memories_are_the_same_by_key_else_title_else_their_beginning() -> None:
    assert same({"key": "Home  Town", "content": "a"}, {"key": "home town", "content": "b", "title": "c"})
    assert same({"title": "A", "content": "a"}, {"title": " a ", "content": "b"})
    assert same({"content": "The  cat " + "x" * 200}, {"content": "the cat " + "x" * 200 + "y"})
    assert not same({"content": "a"}, {"content": "b"})
    assert not same({"key": "a"}, {"title": "a"})
    assert not same({"content": "a", "type": "fact"}, {"content": "a", "type": "note"})


def test_memories_with_a_key_lie_apart_from_those_without() -> None:
    keyed, other = memory(key="a").draft.fingerprint, memory(title="a").draft.fingerprint

    assert keyed < FIRST_WITHOUT_KEY <= other


@over(
    ("idle_days", "periods", "then"),
    [
        (29, 0, DecayState(since=AT, periods=0)),
        (30, 1, DecayState(since=AT + 30 * DAY, periods=1)),
        (89, 2, DecayState(since=AT + 60 * DAY, periods=2)),
        (90, 3, None),
        (4000, 3, None),
    ],
)
def test_idleness_decays_once_for_each_period_three_times_at_most(
    idle_days: int, periods: int, then: DecayState | None
) -> None:
    assert DecayState(since=AT, periods=0).due_periods(AT, AT + idle_days * DAY, 30) == (periods, then)


def test_decay_that_is_done_is_not_done_again() -> None:
    at = AT + 70 * DAY
    first, then = DecayState(since=AT, periods=0).due_periods(AT, at, 30)
    assert then is not None

    assert first == 2
    assert then.due_periods(AT, at, 30) == (0, then)
    assert then.due_periods(AT, at + 30 * DAY, 30) == (1, None)


def test_use_begins_idleness_anew() -> None:
    used = AT + 50 * DAY

    assert DecayState(since=AT, periods=2).due_periods(used, AT + 70 * DAY, 30) == (
        0,
        DecayState(since=used, periods=0),
    )
    assert DecayState(since=AT, periods=2).due_periods(used, AT + 80 * DAY, 30) == (
        1,
        DecayState(since=used + 30 * DAY, periods=1),
    )


def test_decay_is_no_update_and_stops_at_nothing() -> None:
    decayed = curation.decay(memory(confidence=0.5, importance=0.05), 2)

    assert [decayed.draft.confidence, decayed.draft.importance] == pytest.approx([0.48, 0])
    assert (decayed.revision, decayed.update_time, decayed.updated_by) == (2, AT, "a")


def test_the_most_important_is_kept_then_the_surest_then_the_oldest() -> None:
    group = [memory(3, importance=0.9, confidence=0.1), memory(2, importance=0.9), memory(1, importance=0.1)]

    assert curation.best_duplicate(group) is group[1]
    assert curation.best_duplicate([memory(2), memory(1)]).memory_id == UUID(int=1)


def test_a_merge_joins_contents_and_repeats_nothing() -> None:
    first = memory(1, content="tea at five", tags=["a"], confidence=0.2, importance=0.9)
    second = memory(2, content="tea", title="Tea", tags=["b"], confidence=0.8)
    third = memory(3, content="no sugar", tags=["a", "c"])

    merged = curation.merge([first, second, third], max_content=100, at=AT, by="b")

    draft = merged.draft
    assert (draft.content, draft.title, draft.tags) == ("tea at five\n\nno sugar", "Tea", ("a", "b", "c"))
    assert (draft.confidence, draft.importance) == (0.8, 0.9)
    assert (merged.memory_id, merged.revision, merged.updated_by) == (UUID(int=1), 2, "b")


def test_a_merge_that_says_too_much_is_refused() -> None:
    with pytest.raises(ContentTooLong):
        curation.merge([memory(1, content="a" * 60), memory(2, content="b" * 60)], max_content=100, at=AT, by="b")
    tags = [[f"{letter}{number}" for number in range(60)] for letter in "ab"]
    with pytest.raises(MergeTooLarge):
        curation.merge([memory(1, tags=tags[0]), memory(2, tags=tags[1])], max_content=100, at=AT, by="b")


def test_urgency_weighs_importance_doubt_age_and_solitude() -> None:
    scores = Scores(confidence=0.6, importance=0.8, formula="x", version=2)

    assert urgency(scores, stale_days=45, links=2) == pytest.approx(0.28 + 0.1 + 0.125 + 0.05)
    assert urgency(replace(scores, confidence=0, importance=1), stale_days=900, links=0) == pytest.approx(1)


def test_a_pair_has_one_name() -> None:
    one, other = UUID(int=1), UUID(int=2)

    assert pair_key(one, other) == pair_key(other, one) == f"{one}|{other}"


def test_spans_begin_on_the_hour_at_midnight_and_on_monday() -> None:
    assert truncate_time(AT, "hour") == datetime(2026, 3, 5, 14, tzinfo=UTC)
    assert truncate_time(AT, "day") == datetime(2026, 3, 5, tzinfo=UTC)
    assert truncate_time(AT, "week") == datetime(2026, 3, 2, tzinfo=UTC)
    assert truncate_time(AT, "month") == datetime(2026, 3, 1, tzinfo=UTC)
    assert end_of_unit(datetime(2026, 2, 1, tzinfo=UTC), "month") == datetime(2026, 3, 1, tzinfo=UTC)
    assert end_of_unit(datetime(2026, 12, 1, tzinfo=UTC), "month") == datetime(2027, 1, 1, tzinfo=UTC)
    assert end_of_unit(AT, "hour") == AT + timedelta(hours=1)


def test_tags_are_counted_alone_and_in_pairs() -> None:
    tags, pairs = tag_counts([["b", "a"], ["a", "b", "c"], ["a"]], top=2)

    assert tags == [("a", 3), ("b", 2)]
    assert pairs == [("a", "b", 2), ("a", "c", 1)]
