from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from skein_worker.rounds.tenant_visits import IdleBackoff


def asked_at(rests: IdleBackoff, until: int) -> list[int]:
    """Hold a round each two seconds in which one tenant has nothing to do; return when it was asked."""
    requests = []
    for at in range(0, until, 2):
        if rests.is_due("a", at):
            requests.append(at)
            rests.record_visit("a", at, active=False)
    return requests


def test_a_tenant_without_work_is_asked_less_and_less_often_down_to_the_longest_rest() -> None:
    assert asked_at(IdleBackoff(seconds=2.0, max_seconds=16.0), 70) == [0, 2, 6, 14, 30, 46, 62]


def test_a_tenant_with_work_is_asked_in_every_round_again() -> None:
    rests = IdleBackoff(seconds=2.0, max_seconds=60.0)
    asked_at(rests, 40)

    rests.record_visit("a", 40, active=True)

    assert rests.is_due("a", 40)
    rests.record_visit("a", 42, active=False)
    assert rests.is_due("a", 44)


def test_a_tenant_that_is_gone_and_comes_again_is_asked_at_once() -> None:
    rests = IdleBackoff(seconds=2.0, max_seconds=60.0)
    asked_at(rests, 40)

    rests.retain_only({"b"}, at=90)

    rests.record_visit("a", 90, active=False)
    assert rests.is_due("a", 92)


def test_a_tenant_that_is_not_listed_for_a_round_keeps_its_pause() -> None:
    rests = IdleBackoff(seconds=2.0, max_seconds=60.0)
    asked_at(rests, 40)

    rests.retain_only({"b"}, at=40)

    assert not rests.is_due("a", 40)


def test_no_tenant_rests_where_the_longest_rest_is_shorter_than_a_round() -> None:
    assert asked_at(IdleBackoff(seconds=2.0, max_seconds=1.0), 20) == list(range(0, 20, 2))


@given(st.lists(st.booleans(), max_size=50), st.floats(0.1, 100.0), st.floats(0.1, 1000.0))
def test_a_tenant_is_not_passed_over_for_longer_than_the_longest_pause(
    work: list[bool], seconds: float, longest: float
) -> None:
    rests, at = IdleBackoff(seconds=seconds, max_seconds=longest), 0.0

    for active in work:
        rests.record_visit("a", at, active=active)
        assert rests.is_due("a", at + longest)
        at += seconds
