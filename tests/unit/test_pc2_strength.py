"""Strength of memories: decay, reinforcement, and another system's values."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fix_catalogue import over
from hypothesis import given
from hypothesis import strategies as st

from skein.memory.v1 import memory_pb2
from skein_pc2.protocol.errors import RequestError
from skein_pc2.reasoning.records import convert as records
from skein_pc2.reasoning.records.strength import DECAY_PERIOD, FORGOTTEN_STRENGTH, MAX_STRENGTH, NEW_STRENGTH, Strength

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

values = st.floats(min_value=0, max_value=MAX_STRENGTH)
spans = st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=3650))
strengths = st.builds(
    lambda value, idle, count: Strength(value=value, last_accessed=AT - idle, reinforcements=count),
    values,
    spans,
    st.integers(min_value=0, max_value=1000),
)


def test_a_strength_falls_by_a_tenth_each_day() -> None:
    strength = Strength(last_accessed=AT)

    assert strength.value_at(AT) == NEW_STRENGTH
    assert strength.value_at(AT + DECAY_PERIOD - timedelta(seconds=1)) == NEW_STRENGTH
    assert strength.value_at(AT + DECAY_PERIOD) == 0.9
    assert strength.value_at(AT + 2 * DECAY_PERIOD) == pytest.approx(0.81)


def test_a_new_memory_is_forgotten_after_22_idle_days() -> None:
    strength = Strength(last_accessed=AT)

    assert not strength.is_forgotten(AT + timedelta(days=21))
    assert strength.is_forgotten(AT + timedelta(days=22))


def test_reinforcement_adds_a_fifth() -> None:
    assert Strength(last_accessed=AT).after_reinforcement(AT).value == 1.2


@given(strengths, spans)
def test_idleness_never_strengthens(strength: Strength, later: timedelta) -> None:
    assert 0 <= strength.value_at(AT + later) <= strength.value_at(AT) <= strength.value


@given(strengths, spans)
def test_a_use_ends_idle_time_and_does_not_raise_the_strength(strength: Strength, later: timedelta) -> None:
    used = strength.after_use(AT + later)

    assert used.value_at(AT + later) == strength.value_at(AT + later)
    assert used.idle_periods(AT + later) == 0
    assert used.decays == strength.decays + strength.idle_periods(AT + later)


@given(strengths)
def test_reinforcement_raises_a_strength_up_to_the_maximum(strength: Strength) -> None:
    after = strength.after_reinforcement(AT)

    assert strength.value_at(AT) <= after.value_at(AT) <= MAX_STRENGTH
    assert after.reinforcements == strength.reinforcements + 1


@given(st.floats(min_value=0.0001, max_value=MAX_STRENGTH))
def test_a_forgotten_memory_can_be_reinforced(value: float) -> None:
    strength = Strength(value=value, last_accessed=AT)
    for _ in range(60):
        strength = strength.after_reinforcement(AT)

    assert not strength.is_forgotten(AT)
    assert strength.value == pytest.approx(MAX_STRENGTH)


@given(strengths, strengths)
def test_another_systems_strength_is_merged_unless_ours_is_newer(ours: Strength, theirs: Strength) -> None:
    after = ours.merge(theirs)

    if ours.last_accessed > theirs.last_accessed:
        assert after is None
    else:
        assert after is not None
        assert after.value == max(ours.value, theirs.value)
        assert after.last_accessed == theirs.last_accessed
        # Hearing it again changes nothing.
        assert after.merge(theirs) == after


@given(strengths)
def test_a_strength_is_read_from_metadata_as_it_was_written(strength: Strength) -> None:
    memory = memory_pb2.Memory()
    memory.metadata["room"] = "kitchen"
    records.set_strength(memory, strength)

    assert records.strength_of(memory, AT) == strength
    assert memory.metadata["room"] == "kitchen"


@over(
    "own",
    [
        {"strength": "much", "last_accessed": "never", "reinforcements": None},
        {"strength": True, "last_accessed": 5},
        {"strength": -1e300, "reinforcements": 1e300},
        {"strength": [1], "last_accessed": "2024-01-01"},
    ],
)
def test_any_metadata_is_read_as_a_strength(own: dict[str, Any]) -> None:
    memory = memory_pb2.Memory()
    memory.create_time.FromDatetime(AT)
    memory.metadata.update({"pc2": own})

    assert records.strength_of(memory, AT).value_at(AT) >= 0


def test_a_memory_without_a_strength_counts_as_new() -> None:
    memory = memory_pb2.Memory()
    memory.metadata["pc2"] = "a text"

    assert not records.has_strength(memory)
    assert records.strength_of(memory, AT) == Strength(last_accessed=AT)


def test_times_and_strengths_of_another_system_are_bounded() -> None:
    parsed = records.parse_strength({"strength": 1e300, "last_accessed": "2099-01-01T00:00:00Z"}, AT)

    assert (parsed.value, parsed.last_accessed) == (MAX_STRENGTH, AT)
    assert records.parse_strength({"strength": -1}, AT).value == 0
    assert records.parse_strength({"strength": 10**400}, AT).value == MAX_STRENGTH
    assert records.parse_strength({}, AT) == Strength(last_accessed=AT)
    for wrong in ({"strength": "1"}, {"strength": True}, {"last_accessed": "soon"}):
        with pytest.raises(RequestError):
            records.parse_strength(wrong, AT)


def test_the_threshold_itself_is_not_forgotten() -> None:
    assert not Strength(value=FORGOTTEN_STRENGTH, last_accessed=AT).is_forgotten(AT)
