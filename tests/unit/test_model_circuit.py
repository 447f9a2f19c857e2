"""An endpoint that fails is left alone, and tried again by one request at a time."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skein_recall.providers.circuit_breaker import (
    FIRST_PAUSE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    MOST_FAILURES,
    Circuit,
    State,
)


@dataclass
class Clock:
    at: float = 100.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def circuit(clock: Clock) -> Circuit:
    return Circuit(clock=clock, chance=lambda: 1.0)


def opened(circuit: Circuit) -> Circuit:
    for _ in range(MOST_FAILURES):
        assert circuit.passes()
        circuit.failed()
    return circuit


def test_it_opens_after_failures_in_a_row_only(circuit: Circuit) -> None:
    for _ in range(5 * MOST_FAILURES):
        circuit.failed()
        circuit.succeeded()

    assert circuit.state is State.CLOSED
    assert opened(circuit).state is State.OPEN
    assert not circuit.passes()


def test_after_the_pause_one_request_goes_and_no_other(circuit: Circuit, clock: Clock) -> None:
    opened(circuit)
    clock.at += FIRST_PAUSE_SECONDS

    assert [circuit.passes() for _ in range(3)] == [True, False, False]
    assert circuit.state is State.HALF_OPEN


def test_a_probe_that_succeeds_closes_it_and_one_that_fails_doubles_the_pause(circuit: Circuit, clock: Clock) -> None:
    opened(circuit)
    clock.at += FIRST_PAUSE_SECONDS
    assert circuit.passes()
    circuit.failed()
    clock.at += FIRST_PAUSE_SECONDS
    assert not circuit.passes()
    clock.at += FIRST_PAUSE_SECONDS
    assert circuit.passes()
    circuit.succeeded()

    assert circuit.state is State.CLOSED
    assert circuit.passes()


def test_a_probe_that_was_given_up_makes_room_for_another(circuit: Circuit, clock: Clock) -> None:
    opened(circuit)
    clock.at += FIRST_PAUSE_SECONDS
    assert circuit.passes()

    circuit.withdrawn()

    assert circuit.state is State.OPEN
    assert circuit.passes()


def test_failures_of_what_was_on_its_way_do_not_lengthen_the_pause(circuit: Circuit, clock: Clock) -> None:
    opened(circuit)
    for _ in range(10):
        circuit.failed()
    clock.at += FIRST_PAUSE_SECONDS

    assert circuit.passes()


def test_it_rests_as_long_as_it_is_asked_to_within_bounds(circuit: Circuit, clock: Clock) -> None:
    circuit.rests(7.0)
    clock.at += 6.9
    assert not circuit.passes()
    clock.at += 0.1
    assert circuit.passes()

    circuit.rests(1e9)
    clock.at += LONGEST_PAUSE_SECONDS
    assert circuit.passes()


@given(st.lists(st.sampled_from(["fail", "succeed", "withdraw", "wait", "rest"]), max_size=60))
def test_whatever_happens_a_request_goes_again_within_the_longest_pause(events: list[str]) -> None:
    clock = Clock()
    circuit = Circuit(clock=clock)
    for event in events:
        if event == "wait":
            clock.at += 0.7
        elif event == "rest":
            circuit.rests(1.5)
        elif circuit.passes():
            {"fail": circuit.failed, "succeed": circuit.succeeded, "withdraw": circuit.withdrawn}[event]()

    clock.at += LONGEST_PAUSE_SECONDS

    assert circuit.passes()
