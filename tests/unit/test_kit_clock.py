from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skein_kit.clock import Clock
from skein_kit.ids import new_id

HOUR = 3600.0


@dataclass
class JumpingClock:
    """A clock on the wall that jumps, and one that does not."""

    wall: float = 1_800_000_000.0
    ticks: float = 100.0
    clock: Clock = field(init=False)

    def __post_init__(self) -> None:
        self.clock = Clock(lambda: self.wall, lambda: self.ticks)

    def wait(self, seconds: float) -> None:
        self.wall += seconds
        self.ticks += seconds


@pytest.fixture
def machine() -> JumpingClock:
    return JumpingClock()


def test_it_tells_what_the_machine_s_clock_tells(machine: JumpingClock) -> None:
    machine.wait(5.0)

    assert machine.clock.seconds() == machine.wall


def test_set_forwards_it_follows_at_once(machine: JumpingClock) -> None:
    machine.wall += HOUR

    assert machine.clock.seconds() == machine.wall


def test_set_back_it_goes_on_slowly_until_the_machine_s_clock_has_caught_up(machine: JumpingClock) -> None:
    before = machine.clock.seconds()
    machine.wall -= HOUR

    machine.wait(60.0)
    soon = machine.clock.seconds()
    machine.wait(2 * HOUR)

    assert soon == before + 30.0
    assert machine.clock.seconds() == machine.wall


@pytest.mark.system
@given(st.lists(st.tuples(st.floats(0.0, 10.0), st.floats(-HOUR, HOUR)), max_size=30))
def test_ids_ascend_whatever_the_machine_s_clock_does(steps: list[tuple[float, float]]) -> None:
    machine = JumpingClock()
    made = []

    for waits, jump in steps:
        machine.wait(waits + 0.01)
        machine.wall += jump
        made.append(new_id(machine.clock.now()))

    assert made == sorted(made)
