from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from fix_catalogue import over
from hypothesis import given
from hypothesis import strategies as st

from skein_kit import ids

# Hypothesis wants naive bounds and adds the time zone itself.
FIRST, LAST = (
    datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None),
    datetime(9999, 12, 31, tzinfo=UTC).replace(tzinfo=None),
)
TIMES = st.datetimes(min_value=FIRST, max_value=LAST, timezones=st.just(UTC))


@given(TIMES)
def test_an_id_remembers_its_time_to_the_millisecond(time: datetime) -> None:
    id_ = ids.new_id(time)

    assert (id_.version, id_.variant) == (7, "specified in RFC 4122")
    assert timedelta(0) <= time - ids.id_time(id_) < timedelta(milliseconds=1)


@given(TIMES, TIMES)
def test_ids_sort_by_time(one: datetime, other: datetime) -> None:
    earlier, later = sorted([one, other])

    assert ids.min_id_at(earlier) <= ids.new_id(earlier)
    if later - earlier >= timedelta(milliseconds=1):
        assert ids.new_id(earlier) < ids.min_id_at(later)


@given(TIMES, st.integers(min_value=0, max_value=200))
def test_ids_of_one_time_ascend(time: datetime, count: int) -> None:
    made = ids.new_ids(time, count)

    assert (len(set(made)), made) == (count, sorted(made))


@given(TIMES, st.integers(min_value=0, max_value=200))
def test_ids_that_follow_one_another_are_of_one_time(time: datetime, count: int) -> None:
    made = [UUID(text) for text in ids.sequential_id_texts(time, count)]

    assert [id_.int - made[0].int for id_ in made] == list(range(count))
    assert {id_.version for id_ in made} <= {7}
    assert {ids.id_time(id_) for id_ in made} <= {ids.id_time(ids.new_id(time))}


@given(TIMES, st.integers(min_value=0, max_value=100))
def test_months_add_up(time: datetime, count: int) -> None:
    month = ids.month_start(time.replace(year=min(time.year, 9980)))
    later = ids.add_months(month, count)

    assert (later.year - month.year) * 12 + later.month - month.month == count
    assert (later.day, later.hour, later.minute) == (1, 0, 0)


def test_a_time_before_1970_has_no_id() -> None:
    with pytest.raises(ValueError, match="1970"):
        ids.new_id(datetime(1969, 12, 31, tzinfo=UTC))


@over("text", ["", "mem-1", "{0192f3a4-0000-7000-8000-000000000000}", "0192f3a4000070008000000000000000"])
def test_only_a_canonical_uuid_is_an_id(text: str) -> None:
    assert ids.parse_id(text) is None
