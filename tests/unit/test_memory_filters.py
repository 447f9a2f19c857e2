from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.errors import FieldInvalid
from skein_kit.ids import first_id, new_id, time_of
from skein_memory.filters import Filter
from skein_memory.memories import MAX_AHEAD

NOW = datetime(2026, 5, 17, 12, tzinfo=UTC)
TIMES = st.datetimes(datetime(1970, 1, 1), NOW.replace(tzinfo=None), timezones=st.just(UTC))  # noqa: DTZ001 - see timezones.


def stamp(time: datetime) -> Timestamp:
    result = Timestamp()
    result.FromDatetime(time)
    return result


def filter_of(start: datetime | None = None, end: datetime | None = None) -> Filter:
    asked = pb.MemoryFilter(
        start_time=None if start is None else stamp(start), end_time=None if end is None else stamp(end)
    )
    return Filter.of(pb.ListMemoriesRequest(filter=asked))


@given(times=st.lists(TIMES, max_size=20), start=st.none() | TIMES, end=st.none() | TIMES, after=st.none() | TIMES)
def test_spans_cover_all_that_may_pass_once_and_newest_first(
    times: list[datetime], start: datetime | None, end: datetime | None, after: datetime | None
) -> None:
    ids = {new_id(time): time for time in times}
    last = None if after is None else new_id(after)

    spans = list(filter_of(start, end).spans(last, NOW))

    for upper, lower in pairwise(spans):
        assert upper[0] >= lower[1]
    for id_, time in ids.items():
        wanted = (start is None or time >= start) and (end is None or time < end) and (last is None or id_ < last)
        holding = sum(from_id <= id_ < before_id for from_id, before_id in spans)
        assert holding <= 1
        assert holding or not wanted


def test_the_newest_months_are_asked_first() -> None:
    first, *_ = filter_of().spans(None, NOW)

    assert time_of(first[0]) > NOW - timedelta(days=63)
    assert time_of(first[1]) >= NOW + MAX_AHEAD


def test_a_time_range_is_all_that_is_asked() -> None:
    start, end = NOW - timedelta(days=2), NOW - timedelta(days=1)

    spans = list(filter_of(start, end).spans(None, NOW))

    assert spans == [(first_id(start), first_id(end + timedelta(milliseconds=1)))]


def test_a_range_that_ends_before_it_begins_asks_nothing() -> None:
    assert list(filter_of(NOW, NOW - timedelta(days=1)).spans(None, NOW)) == []


def test_a_time_that_no_calendar_has_is_refused_by_its_name() -> None:
    asked = pb.MemoryFilter(start_time=Timestamp(seconds=1 << 40))

    with pytest.raises(FieldInvalid) as caught:
        Filter.of(pb.ListMemoriesRequest(filter=asked))

    assert caught.value.violations[0][0] == "filter.start_time"


@pytest.mark.parametrize(
    ("conditions", "tags", "one_is_enough"),
    [
        ({}, [], True),
        ({"tags_any": ["c", "d"]}, ["c", "d"], True),
        ({"tags_all": ["b", "b"]}, ["b"], True),
        ({"tags_all": ["b", "a"]}, ["a", "b"], False),
        ({"tags_all": ["b"], "tags_any": ["b", "c"]}, ["b", "c"], False),
    ],
)
def test_a_filter_knows_whether_one_tag_is_enough(
    conditions: dict[str, Any], tags: list[str], *, one_is_enough: bool
) -> None:
    wanted = Filter.of(pb.ListMemoriesRequest(filter=pb.MemoryFilter(**conditions)))

    assert (wanted.tags, wanted.one_tag_is_enough) == (tags, one_is_enough)
