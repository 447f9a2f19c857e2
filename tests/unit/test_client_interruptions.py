"""How long the client's streams try to go on."""

from __future__ import annotations

import grpc
import pytest

from skein_client.errors import DeadlineExceeded, SkeinError, Unavailable
from skein_client.retry import RetryPolicy, StreamReconnects


class Clock:
    """Moves by as much as is waited."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def lost() -> SkeinError:
    return Unavailable("gone", status=grpc.StatusCode.UNAVAILABLE)


def test_a_stream_goes_on_through_a_restart_that_takes_longer_than_a_few_attempts() -> None:
    clock = Clock()
    interruptions = StreamReconnects(RetryPolicy(), lambda: 1.0, clock)

    while clock.now < 60.0:
        clock.now += interruptions.pause_after(lost())

    assert clock.now < 70.0


def test_a_stream_goes_on_when_the_cluster_ran_out_of_time_with_it() -> None:
    late = DeadlineExceeded("late", status=grpc.StatusCode.DEADLINE_EXCEEDED)

    assert StreamReconnects(RetryPolicy(), lambda: 1.0, Clock()).pause_after(late) > 0


def test_a_stream_gives_up_after_its_time() -> None:
    clock = Clock()
    interruptions = StreamReconnects(RetryPolicy(stream_seconds=10.0), lambda: 1.0, clock)

    def wait() -> None:
        while True:
            clock.now += interruptions.pause_after(lost())

    with pytest.raises(Unavailable):
        wait()
    assert 10.0 <= clock.now <= 15.0


def test_a_received_message_restarts_the_retry_time() -> None:
    clock = Clock()
    interruptions = StreamReconnects(RetryPolicy(stream_seconds=10.0), lambda: 1.0, clock)

    for _ in range(5):
        interruptions.pause_after(lost())
        clock.now += 8.0
        interruptions.reset()

    assert interruptions.pause_after(lost()) > 0


def test_without_retries_a_stream_is_not_begun_again() -> None:
    with pytest.raises(Unavailable):
        StreamReconnects(RetryPolicy(attempts=1), lambda: 1.0, Clock()).pause_after(lost())


def test_a_stream_may_be_begun_again_very_often() -> None:
    clock = Clock()
    interruptions = StreamReconnects(RetryPolicy(max_pause_seconds=0.1), lambda: 1.0, clock)

    def wait() -> None:
        while True:
            clock.now += interruptions.pause_after(lost())

    with pytest.raises(Unavailable):
        wait()
    assert clock.now == pytest.approx(300.0, abs=1.0)
