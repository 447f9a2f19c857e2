"""How firmly memories are held: decay, forgetting, reinforcement, and the words of other systems."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skein.memory.v1 import memory_pb2
from skein_pc2.protocol.errors import RequestError
from skein_pc2.reasoning.records import convert as records
from skein_pc2.reasoning.records.strength import FORGOTTEN, MOST, NEW, PERIOD, Strength

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

values = st.floats(min_value=0, max_value=MOST)
spans = st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=3650))
strengths = st.builds(
    lambda value, idle, count: Strength(value=value, last_accessed=AT - idle, reinforcements=count),
    values,
    spans,
    st.integers(min_value=0, max_value=1000),
)


def test_a_tenth_is_lost_with_each_whole_day() -> None:
    strength = Strength(last_accessed=AT)

    assert strength.current(AT) == NEW
    assert strength.current(AT + PERIOD - timedelta(seconds=1)) == NEW
    assert strength.current(AT + PERIOD) == 0.9
    assert strength.current(AT + 2 * PERIOD) == pytest.approx(0.81)


def test_a_new_memory_is_forgotten_after_22_idle_days() -> None:
    strength = Strength(last_accessed=AT)

    assert not strength.is_forgotten(AT + timedelta(days=21))
    assert strength.is_forgotten(AT + timedelta(days=22))


def test_reinforcing_gives_a_fifth() -> None:
    assert Strength(last_accessed=AT).after_reinforcement(AT).value == 1.2


@given(strengths, spans)
def test_idleness_never_strengthens(strength: Strength, later: timedelta) -> None:
    assert 0 <= strength.current(AT + later) <= strength.current(AT) <= strength.value


@given(strengths, spans)
def test_use_ends_idleness_and_gives_nothing_back(strength: Strength, later: timedelta) -> None:
    used = strength.after_use(AT + later)

    assert used.current(AT + later) == strength.current(AT + later)
    assert used.idle_periods(AT + later) == 0
    assert used.decays == strength.decays + strength.idle_periods(AT + later)


@given(strengths)
def test_reinforcing_strengthens_up_to_the_most(strength: Strength) -> None:
    after = strength.after_reinforcement(AT)

    assert strength.current(AT) <= after.current(AT) <= MOST
    assert after.reinforcements == strength.reinforcements + 1


@given(st.floats(min_value=0.0001, max_value=MOST))
def test_whatever_is_left_can_be_brought_back(value: float) -> None:
    strength = Strength(value=value, last_accessed=AT)
    for _ in range(60):
        strength = strength.after_reinforcement(AT)

    assert not strength.is_forgotten(AT)
    assert strength.value == pytest.approx(MOST)


@given(strengths, strengths)
def test_another_systems_word_counts_unless_ours_is_newer(ours: Strength, theirs: Strength) -> None:
    after = ours.merged_with(theirs)

    if ours.last_accessed > theirs.last_accessed:
        assert after is None
    else:
        assert after is not None
        assert after.value == max(ours.value, theirs.value)
        assert after.last_accessed == theirs.last_accessed
        # Hearing it again changes nothing.
        assert after.merged_with(theirs) == after


@given(strengths)
def test_a_strength_is_read_from_metadata_as_it_was_written(strength: Strength) -> None:
    memory = memory_pb2.Memory()
    memory.metadata["room"] = "kitchen"
    records.set_strength(memory, strength)

    assert records.strength_of(memory, AT) == strength
    assert memory.metadata["room"] == "kitchen"


@pytest.mark.parametrize(
    "own",
    [
        {"strength": "much", "last_accessed": "never", "reinforcements": None},
        {"strength": True, "last_accessed": 5},
        {"strength": -1e300, "reinforcements": 1e300},
        {"strength": [1], "last_accessed": "2024-01-01"},
    ],
)
def test_whatever_stands_in_metadata_is_read_somehow(own: dict[str, Any]) -> None:
    memory = memory_pb2.Memory()
    memory.create_time.FromDatetime(AT)
    memory.metadata.update({"pc2": own})

    assert records.strength_of(memory, AT).current(AT) >= 0


def test_a_memory_without_a_strength_has_full_strength() -> None:
    memory = memory_pb2.Memory()
    memory.metadata["pc2"] = "a text"

    assert not records.is_own(memory)
    assert records.strength_of(memory, AT) == Strength(last_accessed=AT)


def test_no_other_system_knows_the_future() -> None:
    strength = records.given_strength({"strength": 1e300, "last_accessed": "2099-01-01T00:00:00Z"}, AT)

    assert (strength.value, strength.last_accessed) == (MOST, AT)
    assert records.given_strength({"strength": -1}, AT).value == 0
    assert records.given_strength({"strength": 10**400}, AT).value == MOST
    assert records.given_strength({}, AT) == Strength(last_accessed=AT)
    for wrong in ({"strength": "1"}, {"strength": True}, {"last_accessed": "soon"}):
        with pytest.raises(RequestError):
            records.given_strength(wrong, AT)


def test_the_threshold_itself_is_not_forgotten() -> None:
    assert not Strength(value=FORGOTTEN, last_accessed=AT).is_forgotten(AT)
