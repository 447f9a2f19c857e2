"""An endpoint that fails is left alone, and tried again by one request at a time."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skein_kit.language_model.circuit_breaker import (
    FIRST_PAUSE_SECONDS,
    MAX_FAILURES,
    MAX_PAUSE_SECONDS,
    CircuitBreaker,
    CircuitState,
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
def circuit(clock: Clock) -> CircuitBreaker:
    return CircuitBreaker(clock=clock, random_source=lambda: 1.0)


def opened(circuit: CircuitBreaker) -> CircuitBreaker:
    for _ in range(MAX_FAILURES):
        assert circuit.allow_request()
        circuit.on_failure()
    return circuit


def test_it_opens_after_failures_in_a_row_only(circuit: CircuitBreaker) -> None:
    for _ in range(5 * MAX_FAILURES):
        circuit.on_failure()
        circuit.on_success()

    assert circuit.state is CircuitState.CLOSED
    assert opened(circuit).state is CircuitState.OPEN
    assert not circuit.allow_request()


def test_after_the_pause_one_request_goes_and_no_other(circuit: CircuitBreaker, clock: Clock) -> None:
    opened(circuit)
    clock.at += FIRST_PAUSE_SECONDS

    assert [circuit.allow_request() for _ in range(3)] == [True, False, False]
    assert circuit.state is CircuitState.HALF_OPEN


def test_a_probe_that_succeeds_closes_it_and_one_that_fails_doubles_the_pause(
    circuit: CircuitBreaker, clock: Clock
) -> None:
    opened(circuit)
    clock.at += FIRST_PAUSE_SECONDS
    assert circuit.allow_request()
    circuit.on_failure()
    clock.at += FIRST_PAUSE_SECONDS
    assert not circuit.allow_request()
    clock.at += FIRST_PAUSE_SECONDS
    assert circuit.allow_request()
    circuit.on_success()

    assert circuit.state is CircuitState.CLOSED
    assert circuit.allow_request()


def test_a_probe_that_was_given_up_makes_room_for_another(circuit: CircuitBreaker, clock: Clock) -> None:
    opened(circuit)
    clock.at += FIRST_PAUSE_SECONDS
    assert circuit.allow_request()

    circuit.on_cancelled()

    assert circuit.state is CircuitState.OPEN
    assert circuit.allow_request()


def test_failures_of_what_was_on_its_way_do_not_lengthen_the_pause(circuit: CircuitBreaker, clock: Clock) -> None:
    opened(circuit)
    for _ in range(10):
        circuit.on_failure()
    clock.at += FIRST_PAUSE_SECONDS

    assert circuit.allow_request()


def test_it_rests_as_long_as_it_is_asked_to_within_bounds(circuit: CircuitBreaker, clock: Clock) -> None:
    circuit.open_for(7.0)
    clock.at += 6.9
    assert not circuit.allow_request()
    clock.at += 0.1
    assert circuit.allow_request()

    circuit.open_for(1e9)
    clock.at += MAX_PAUSE_SECONDS
    assert circuit.allow_request()


@given(st.lists(st.sampled_from(["fail", "succeed", "withdraw", "wait", "rest"]), max_size=60))
def test_whatever_happens_a_request_goes_again_within_the_longest_pause(events: list[str]) -> None:
    clock = Clock()
    circuit = CircuitBreaker(clock=clock)
    for event in events:
        if event == "wait":
            clock.at += 0.7
        elif event == "rest":
            circuit.open_for(1.5)
        elif circuit.allow_request():
            {"fail": circuit.on_failure, "succeed": circuit.on_success, "withdraw": circuit.on_cancelled}[event]()

    clock.at += MAX_PAUSE_SECONDS

    assert circuit.allow_request()
