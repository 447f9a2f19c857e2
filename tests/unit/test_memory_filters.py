from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest
from fix_calls import stamp
from fix_catalogue import over
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.errors import FieldInvalid
from skein_kit.ids import id_time, min_id_at, new_id
from skein_memory.errors import SelectionEmpty
from skein_memory.listing.convert import list_filter, selection_filter
from skein_memory.listing.filter import AccessPath, Filter
from skein_memory.memories.model import MAX_AHEAD

NOW = datetime(2026, 5, 17, 12, tzinfo=UTC)
TIMES = st.datetimes(datetime(1970, 1, 1), NOW.replace(tzinfo=None), timezones=st.just(UTC))  # noqa: DTZ001 - see timezones.


def filter_of(start: datetime | None = None, end: datetime | None = None) -> Filter:
    filter_ = pb.MemoryFilter(
        start_time=None if start is None else stamp(start), end_time=None if end is None else stamp(end)
    )
    return list_filter(pb.ListMemoriesRequest(filter=filter_), UTC, at=NOW)


@given(times=st.lists(TIMES, max_size=20), start=st.none() | TIMES, end=st.none() | TIMES, after=st.none() | TIMES)
def test_spans_cover_all_that_may_pass_once_and_newest_first(
    times: list[datetime], start: datetime | None, end: datetime | None, after: datetime | None
) -> None:
    ids = {new_id(time): time for time in times}
    last = None if after is None else new_id(after)

    spans = list(filter_of(start, end).id_ranges(last, NOW))

    for upper, lower in pairwise(spans):
        assert upper[0] >= lower[1]
    for id_, time in ids.items():
        expected = (start is None or time >= start) and (end is None or time < end) and (last is None or id_ < last)
        holding = sum(from_id <= id_ < before_id for from_id, before_id in spans)
        assert holding <= 1
        assert holding or not expected


@given(times=st.lists(TIMES, max_size=20), start=st.none() | TIMES, end=st.none() | TIMES, after=st.none() | TIMES)
def test_spans_go_up_as_they_go_down(
    times: list[datetime], start: datetime | None, end: datetime | None, after: datetime | None
) -> None:
    ids = {new_id(time): time for time in times}
    last = None if after is None else new_id(after)

    spans = list(filter_of(start, end).id_ranges_ascending(last, NOW))

    for lower, upper in pairwise(spans):
        assert upper[0] >= lower[1]
    for id_, time in ids.items():
        expected = (start is None or time >= start) and (end is None or time < end) and (last is None or id_ > last)
        holding = sum(from_id <= id_ < before_id for from_id, before_id in spans)
        assert holding <= 1
        assert holding or not expected
        assert not holding or last is None or id_ > last


def test_after_the_last_id_of_all_there_is_nothing_upwards() -> None:
    assert list(filter_of().id_ranges_ascending(UUID(int=(1 << 128) - 1), NOW)) == []


def test_the_newest_months_are_asked_first() -> None:
    first, *_ = filter_of().id_ranges(None, NOW)

    assert id_time(first[0]) > NOW - timedelta(days=63)
    assert id_time(first[1]) >= NOW + MAX_AHEAD


def test_a_time_range_is_all_that_is_asked() -> None:
    start, end = NOW - timedelta(days=2), NOW - timedelta(days=1)

    spans = list(filter_of(start, end).id_ranges(None, NOW))

    assert spans == [(min_id_at(start), min_id_at(end + timedelta(milliseconds=1)))]


def test_a_range_that_ends_before_it_begins_asks_nothing() -> None:
    assert list(filter_of(NOW, NOW - timedelta(days=1)).id_ranges(None, NOW)) == []


def test_a_time_that_no_calendar_has_is_refused_by_its_name() -> None:
    filter_ = pb.MemoryFilter(start_time=Timestamp(seconds=1 << 40))

    with pytest.raises(FieldInvalid) as caught:
        list_filter(pb.ListMemoriesRequest(filter=filter_), UTC, at=NOW)

    assert caught.value.violations[0][0] == "filter.start_time"


LEADS: list[tuple[dict[str, Any], AccessPath]] = [
    ({}, AccessPath(kind="all")),
    ({"types": ["note"]}, AccessPath(kind="column", column="type", values=("note",))),
    ({"tags_any": ["c", "d"], "types": ["note"]}, AccessPath(kind="tags", values=("c", "d"))),
    ({"tags_all": ["a", "b"]}, AccessPath(kind="tags", values=("a",))),
    ({"where": 'tags:none("a")'}, AccessPath(kind="all")),
    ({"where": 'NOT key = "a"'}, AccessPath(kind="all")),
    ({"where": 'key = "a" OR key = "b"'}, AccessPath(kind="all")),
    (
        {"where": 'key IN ("A", "b")', "session_id": "s"},
        AccessPath(kind="properties", names=("key", "key", ""), values=("a", "b", "")),
    ),
    ({"where": 'key = "" AND source = "x"'}, AccessPath(kind="column", column="source", values=("x",))),
    ({"where": "user_id = ann"}, AccessPath(kind="column", column="subject_id", values=("ann",))),
    ({"where": "external_id = a AND key = b"}, AccessPath(kind="external_ids", values=("a",))),
    (
        {"where": "metadata.customer.id = 42"},
        AccessPath(kind="properties", names=("metadata.customer.id", ""), values=("42", "")),
    ),
    ({"where": "metadata.customer.id > 42"}, AccessPath(kind="all")),
    ({"where": 'metadata.customer.id = ""'}, AccessPath(kind="all")),
]


@over(("conditions", "lead"), LEADS)
def test_a_list_is_read_from_the_index_that_leads_to_the_fewest(conditions: dict[str, Any], lead: AccessPath) -> None:
    expected = list_filter(pb.ListMemoriesRequest(filter=pb.MemoryFilter(**conditions)), UTC, at=NOW)

    assert expected.access_path == lead


def test_reads_as_of_a_time_never_use_an_index_of_current_rows() -> None:
    request = pb.ListMemoriesRequest(filter=pb.MemoryFilter(where='key = "a"'), as_of_time=stamp(NOW))

    assert list_filter(request, UTC, at=NOW).access_path == AccessPath(kind="all")


def test_times_in_words_narrow_the_range_that_is_asked() -> None:
    filter_ = pb.MemoryFilter(where="create_time >= 2026-05-15 AND create_time < 2026-05-16T12:00:00Z")

    spans = list(list_filter(pb.ListMemoriesRequest(filter=filter_), UTC, at=NOW).id_ranges(None, NOW))

    start, end = datetime(2026, 5, 15, tzinfo=UTC), datetime(2026, 5, 16, 12, tzinfo=UTC)
    assert spans == [(min_id_at(start), min_id_at(end + timedelta(milliseconds=1)))]


def test_a_selection_of_nothing_is_refused() -> None:
    with pytest.raises(SelectionEmpty):
        selection_filter(pb.MemorySelection(filter=pb.MemoryFilter(where="  ")), UTC)
