"""The rules of jobs: grants within the limits, what unused items return, and the expected end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from skein_kit.jobs.model import Grant, Job, JobKind, JobState, Progress

START = datetime(2026, 5, 4, 12, tzinfo=UTC)
MIDNIGHT = datetime(2026, 5, 5, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def job(rate: float | None = None, ceiling: int | None = None) -> Job:
    return Job.create(JobKind.DECAY, START).limited(rate, ceiling, START)


def test_a_job_without_limits_gets_all_items() -> None:
    grant, _ = Job.create(JobKind.DECAY, START).grant(500, START)

    assert (grant.count, grant.retry_seconds) == (500, 0)


def test_a_rate_grants_the_items_of_ten_seconds_at_once_and_then_by_the_clock() -> None:
    first, limited = job(rate=2.0).grant(500, START)
    none, limited = limited.grant(500, START)
    later, _ = limited.grant(500, after(3))

    assert [each.count for each in (first, none, later)] == [20, 0, 6]
    assert [first.retry_seconds, none.retry_seconds] == [10, 10]


def test_a_grant_of_a_part_names_the_time_after_which_the_rest_is_granted() -> None:
    grant, limited = job(rate=2.0).grant(25, START)

    rest, _ = limited.grant(5, after(grant.retry_seconds))

    assert (grant.count, grant.retry_seconds, rest.count) == (20, 2.5, 5)


def test_a_rate_below_one_item_in_ten_seconds_grants_single_items() -> None:
    first, limited = job(rate=0.01).grant(5, START)
    early, limited = limited.grant(5, after(99))
    late, _ = limited.grant(5, after(100))

    assert [each.count for each in (first, early, late)] == [1, 0, 1]


def test_items_that_were_granted_and_not_used_are_free_again() -> None:
    grant, limited = job(rate=1.0, ceiling=10).grant(8, START)
    settled = limited.settle(grant, Progress(done_count=3, has_more=True), START)

    again, _ = settled.grant(10, START)

    assert settled.cost_of_day(START) == 3
    assert again.count == 7


def test_a_failed_batch_gives_back_its_items_and_their_cost() -> None:
    grant, limited = job(rate=1.0, ceiling=100).grant(8, START, item_cost=10)

    released = limited.release(grant, START)

    assert (limited.cost_of_day(START), released.cost_of_day(START)) == (80, 0)
    assert released.grant(10, START, item_cost=10)[0].count == 10


def test_a_batch_of_yesterday_that_fails_gives_back_nothing_of_today() -> None:
    grant, limited = job(ceiling=100).grant(8, START, item_cost=10)
    _, today = limited.grant(3, MIDNIGHT, item_cost=10)

    assert today.release(grant, MIDNIGHT).cost_of_day(MIDNIGHT) == 30


def test_a_batch_larger_than_its_grant_makes_later_ones_wait() -> None:
    grant, limited = job(rate=1.0).grant(10, START)
    settled = limited.settle(grant, Progress(done_count=30, has_more=True), START)

    early, _ = settled.grant(1, after(20))
    late, _ = settled.grant(1, after(21))

    assert (early.count, late.count) == (0, 1)


def test_one_token_grants_a_batch_that_ignores_the_burst_within_the_ceiling() -> None:
    grant, limited = job(rate=0.1).grant(50, START, ignores_burst=True)
    early, _ = limited.grant(50, after(499), ignores_burst=True)
    late, _ = limited.grant(50, after(500), ignores_burst=True)
    within_ceiling, _ = job(rate=0.1, ceiling=30).grant(50, START, ignores_burst=True)

    assert [each.count for each in (grant, early, late, within_ceiling)] == [50, 0, 50, 30]
    assert (grant.retry_seconds, early.retry_seconds > 0) == (0, True)


def test_a_ceiling_holds_until_midnight() -> None:
    first, limited = job(ceiling=5).grant(8, START)
    limited = limited.settle(first, Progress(done_count=5, has_more=True), START)
    none, _ = limited.grant(8, MIDNIGHT - timedelta(seconds=1))
    next_day, _ = limited.grant(8, MIDNIGHT)

    assert [each.count for each in (first, none, next_day)] == [5, 0, 5]
    assert none.state is JobState.CEILING_REACHED
    assert limited.state(START) is JobState.CEILING_REACHED
    assert limited.state(MIDNIGHT) is JobState.RUNNING


def test_a_ceiling_of_tokens_refuses_an_item_that_it_cannot_pay() -> None:
    limited = job(ceiling=100)

    grant, limited = limited.grant(1, START, item_cost=60)
    refused, _ = limited.grant(1, START, item_cost=60)

    assert (grant.count, refused.count, refused.state) == (1, 0, JobState.CEILING_REACHED)


def test_a_paused_job_gets_nothing_and_keeps_what_it_did() -> None:
    running = job().settle(
        Grant(kind=JobKind.DECAY, count=5), Progress(done_count=5, remaining_count=7, has_more=True), START
    )

    paused = running.paused("account:a", START)
    grant, _ = paused.grant(5, after(10))
    resumed = paused.resumed().settle(
        Grant(kind=JobKind.DECAY, count=2), Progress(done_count=2, has_more=True), after(20)
    )

    assert (grant.count, grant.state, paused.state(START)) == (0, JobState.PAUSED, JobState.PAUSED)
    assert paused.paused("account:b", after(1)) == paused
    assert (resumed.done_count, resumed.remaining_count, resumed.run_start_time) == (7, 5, START)


def test_a_run_begins_after_the_last_one_ended() -> None:
    ended = job().settle(Grant(kind=JobKind.DECAY, count=5), Progress(done_count=4), START)
    next_run = ended.settle(Grant(kind=JobKind.DECAY, count=5), Progress(done_count=1, has_more=True), after(60))

    assert (ended.state(START), ended.done_count, ended.remaining_count) == (JobState.IDLE, 4, 0)
    assert (next_run.done_count, next_run.run_start_time) == (1, after(60))


def test_the_end_is_expected_at_the_recent_rate() -> None:
    running = job()
    for second in range(0, 600, 10):
        running = running.settle(
            Grant(kind=JobKind.DECAY, count=20),
            Progress(done_count=20, remaining_count=1200 - 2 * second, has_more=True),
            after(second),
        )

    end = running.expected_end(after(590), counts_items=True)

    assert running.remaining_count == 20
    assert 1.9 < running.rate(after(590)) < 2.1
    assert end is not None
    assert abs((end - after(600)).total_seconds()) < 1


def test_a_ceiling_moves_the_expected_end_to_a_later_day() -> None:
    running = job(ceiling=100).settle(
        Grant(kind=JobKind.DECAY, count=60, is_reserved=False),
        Progress(done_count=60, remaining_count=240, has_more=True),
        START,
    )

    end = running.expected_end(START, counts_items=True)

    # 40 today, 100 on each of two days; the first item of a job has a low rate.
    assert end is not None
    assert MIDNIGHT + timedelta(days=2) <= end < MIDNIGHT + timedelta(days=3)


def test_the_end_of_a_paused_or_unmeasured_job_is_unknown() -> None:
    running = job().settle(Grant(kind=JobKind.DECAY, count=5), Progress(done_count=5, has_more=True), START)

    assert running.expected_end(START, counts_items=True) is None
    assert job().expected_end(START, counts_items=True) is None
