"""The number of calls worked on at once follows how long they wait for what they share."""

from __future__ import annotations

from skein_kit.admission.adaptive_limit import WINDOW_SECONDS, AdaptiveLimit

TARGET = 0.01


def limit(least: int = 8, most: int = 100) -> AdaptiveLimit:
    return AdaptiveLimit(minimum=least, maximum=most, target_seconds=TARGET)


def windows(
    limit: AdaptiveLimit, *delays: float, is_limiting: bool = True, start: float = 0.0, count: int = 1
) -> float:
    """Let windows pass in each of which these delays were seen; return the time after them."""
    at = start
    for _ in range(count):
        at += WINDOW_SECONDS * 1.01
        for delay in delays:
            limit.observe_delay("event loop", delay)
        limit.update(at, is_limiting=is_limiting)
    return at


def test_it_grows_while_calls_wait_for_it_and_nothing_is_delayed() -> None:
    result = limit()
    before = result.value

    windows(result, *[0.0] * 5, count=10)

    assert result.value >= before + 10


def test_it_does_not_grow_while_no_call_waits_for_it() -> None:
    result = limit()
    before = result.value

    windows(result, *[0.0] * 5, is_limiting=False, count=100)

    assert result.value == before


def test_it_shrinks_the_faster_the_longer_the_delay_and_by_half_at_most() -> None:
    slightly, badly = limit(least=4, most=1000), limit(least=4, most=1000)
    for match in (slightly, badly):
        windows(match, *[0.0] * 5, count=100)
    before = slightly.value

    windows(slightly, *[1.5 * TARGET] * 5, start=1000.0)
    windows(badly, *[100 * TARGET] * 5, start=1000.0)

    assert before / 2 - 1 <= badly.value < slightly.value < before


def test_it_stays_between_its_bounds() -> None:
    result = limit(least=8, most=20)

    at = windows(result, *[0.0] * 5, count=200)
    highest = result.value
    windows(result, *[1.0] * 5, start=at, count=200)

    assert highest == 20
    assert result.value == 8


def test_one_late_moment_among_many_changes_nothing() -> None:
    result = limit()
    before = result.value

    windows(result, 0.0, 0.0, 0.0, 0.0, 5.0, is_limiting=False, count=10)

    assert result.value == before


def test_a_few_samples_say_nothing() -> None:
    result = limit()
    before = result.value

    windows(result, 5.0, 5.0)

    assert result.value == before


def test_it_grows_as_well_when_few_calls_come_and_all_of_them_have_to_wait() -> None:
    result = limit()
    before = result.value

    windows(result, 0.0, count=40)

    assert result.value >= before + 8


def test_the_most_delayed_resource_counts() -> None:
    result = limit()
    before = result.value
    for _ in range(5):
        result.observe_delay("event loop", 0.0)
        result.observe_delay("database connections", 5 * TARGET)

    result.update(1.0, is_limiting=True)

    assert result.value < before
