"""Positions in the event log, and filters of its changes."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from fix_catalogue import over
from hypothesis import given
from hypothesis import strategies as st

from skein_kit.errors import FieldInvalid
from skein_memory.errors import PositionInvalid
from skein_memory.events.model import (
    START,
    Change,
    EventFilter,
    Position,
    last_position_before,
    time_of_next_record,
)

positions = st.builds(Position, st.integers(min_value=0, max_value=2**63 - 1), st.uuids())


def change(event_type: str, entity_type: str, entity_id: str) -> Change:
    return Change(
        position=START,
        event_type=event_type,
        entity_type=entity_type,
        entity_id=entity_id,
        summary="",
        payload=None,
        principal="",
        create_time=datetime(2026, 1, 1, tzinfo=UTC),
    )


@given(position=positions)
def test_a_position_survives_being_written(position: Position) -> None:
    assert Position.of(str(position)) == position


@given(text=st.text(max_size=64))
def test_any_text_is_a_position_or_refused(text: str) -> None:
    with suppress(PositionInvalid):
        assert str(Position.of(text)) == text


@given(position=positions, horizon=st.integers(min_value=1, max_value=2**63 - 1))
def test_the_place_before_a_horizon_is_after_all_that_came_before_it_and_nothing_else(
    position: Position, horizon: int
) -> None:
    assert (position <= last_position_before(horizon)) == (position.transaction < horizon)
    assert position >= START


@over(
    ("event_filter", "has"),
    [
        (EventFilter(), True),
        (EventFilter(event_types=frozenset({"memory_created", "memory_updated"})), True),
        (EventFilter(event_types=frozenset({"memory_updated"})), False),
        (EventFilter(entity_type="memory", entity_id="x"), True),
        (EventFilter(entity_type="link"), False),
        (EventFilter(entity_id="y"), False),
    ],
)
def test_a_change_is_wanted_when_all_that_is_asked_for_fits(event_filter: EventFilter, *, has: bool) -> None:
    assert event_filter.matches(change("memory_created", "memory", "x")) is has
    assert event_filter.is_empty == (event_filter == EventFilter())


def test_each_type_that_is_none_is_named() -> None:
    with pytest.raises(FieldInvalid) as caught:
        EventFilter.of(["memory_created", "nonsense", ""])

    assert [field for field, _ in caught.value.violations] == ["filter.event_types[1]", "filter.event_types[2]"]


def test_the_beginning_is_before_every_change() -> None:
    assert Position(0, UUID(int=1)) > START


def test_a_version_of_a_later_call_is_kept_and_one_of_the_same_call_is_not() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    later = at + timedelta(seconds=1)

    assert time_of_next_record(later, at) == later + timedelta(microseconds=1)
    assert time_of_next_record(at, at) == at
    assert time_of_next_record(at, later) == later
