"""The limit of attempts on a database without services: bursts, windows, and which errors count as failures."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from fix_database import TestDatabase

from skein_auth.attempts.limiter import AttemptLimiter, limits, subject_at_network
from skein_auth.attempts.store import AttemptStore
from skein_auth.errors import ApiKeyNotFound, TooManyAttempts
from skein_auth.queries import QUERIES
from skein_auth.settings import AuthSettings
from skein_kit.database.transactions import Database
from skein_kit.errors import CredentialInvalid, DatabaseUnavailable

MAX_ATTEMPTS = 10
SIGN_IN = ("sign_in", subject_at_network("ada@example.org", "192.0.2.1"))
WINDOW = 900


@dataclass
class Clock:
    time: datetime = field(default_factory=lambda: datetime(2026, 1, 1, tzinfo=UTC))

    def __call__(self) -> datetime:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def pool(database: TestDatabase) -> AsyncIterator[Database]:
    async with Database.open(database.url, service="auth", size=8, timeout=30.0) as opened:
        yield opened


@pytest.fixture
def attempts(pool: Database, clock: Clock) -> AttemptLimiter:
    return AttemptLimiter(AttemptStore(pool), limits(AuthSettings()), clock)


def wrong() -> None:
    raise CredentialInvalid


async def fails(attempts: AttemptLimiter, *subjects: tuple[str, str]) -> str:
    """Try something that is wrong and say how that was answered."""
    try:
        async with attempts.limit_failures(*subjects):
            wrong()
    except TooManyAttempts:
        return "too many"
    except CredentialInvalid:
        pass
    return "wrong"


async def succeeds(attempts: AttemptLimiter, *subjects: tuple[str, str]) -> str:
    try:
        async with attempts.limit_failures(*subjects):
            return "right"
    except TooManyAttempts:
        return "too many"


async def test_the_eleventh_failure_within_the_window_is_refused_before_any_work(
    attempts: AttemptLimiter, clock: Clock
) -> None:
    subjects = (SIGN_IN, ("identity", "192.0.2.1"))
    assert [await fails(attempts, *subjects) for _ in range(MAX_ATTEMPTS)] == ["wrong"] * MAX_ATTEMPTS
    clock.time += timedelta(seconds=60)
    worked = False

    with pytest.raises(TooManyAttempts) as refused:
        async with attempts.limit_failures(SIGN_IN, ("identity", "198.51.100.7")):
            worked = True

    assert not worked
    assert refused.value.retry_after == WINDOW - 60
    assert refused.value.metadata["kind"] == "sign_in"


async def test_the_window_ends(attempts: AttemptLimiter, clock: Clock) -> None:
    subject = ("client", "the client")
    for _ in range(MAX_ATTEMPTS):
        await fails(attempts, subject)
    assert await succeeds(attempts, subject) == "too many"

    clock.time += timedelta(seconds=WINDOW)

    assert await succeeds(attempts, subject) == "right"


@pytest.mark.system
async def test_success_never_counts(attempts: AttemptLimiter) -> None:
    subject = ("second_factor", "a@example.org")

    assert {await succeeds(attempts, subject) for _ in range(3 * MAX_ATTEMPTS)} == {"right"}
    assert await fails(attempts, subject) == "wrong"


async def test_a_subject_that_has_failed_too_often_does_not_charge_the_others(attempts: AttemptLimiter) -> None:
    for _ in range(MAX_ATTEMPTS):
        await fails(attempts, ("identity", "192.0.2.1"))

    for _ in range(MAX_ATTEMPTS):
        assert await fails(attempts, ("second_factor", "b@example.org"), ("identity", "192.0.2.1")) == "too many"

    assert await succeeds(attempts, ("second_factor", "b@example.org"), ("identity", "192.0.2.2")) == "right"


@pytest.mark.system
async def test_a_burst_of_wrong_tries_is_limited_to_ten(pool: Database) -> None:
    """By two replicas at once, in the two orders that could make them wait for each other."""
    replicas = [AttemptLimiter(AttemptStore(pool), limits(AuthSettings())) for _ in range(2)]
    pair = (("second_factor", "c@example.org"), ("identity", "192.0.2.3"))
    tried = 0

    async def try_it(number: int) -> str:
        nonlocal tried
        try:
            async with replicas[number % 2].limit_failures(*pair[:: 1 if number % 3 else -1]):
                tried += 1
                await asyncio.sleep(0)
                wrong()
        except TooManyAttempts:
            return "too many"
        except CredentialInvalid:
            pass
        return "wrong"

    answers = Counter(await asyncio.gather(*(try_it(number) for number in range(100))))

    assert tried == MAX_ATTEMPTS
    assert answers == {"wrong": MAX_ATTEMPTS, "too many": 100 - MAX_ATTEMPTS}


@pytest.mark.system
async def test_a_burst_of_right_tries_from_one_address_waits_its_turn(pool: Database) -> None:
    attempts = AttemptLimiter(AttemptStore(pool), limits(AuthSettings()))
    at_once = most = 0

    async def sign_in(number: int) -> str:
        nonlocal at_once, most
        async with attempts.limit_failures(("second_factor", f"{number}@example.org"), ("identity", "192.0.2.4")):
            at_once += 1
            most = max(most, at_once)
            await asyncio.sleep(0)
            at_once -= 1
        return "right"

    answers = await asyncio.gather(*(sign_in(number) for number in range(60)))

    assert set(answers) == {"right"}
    assert most <= MAX_ATTEMPTS


@pytest.mark.parametrize("error", [DatabaseUnavailable(), RuntimeError("a bug"), asyncio.CancelledError()])
async def test_errors_that_the_caller_did_not_cause_do_not_count(
    attempts: AttemptLimiter, error: BaseException
) -> None:
    subject = ("second_factor", "d@example.org")
    for _ in range(2 * MAX_ATTEMPTS):
        with pytest.raises(type(error)):
            async with attempts.limit_failures(subject):
                raise error

    assert await succeeds(attempts, subject) == "right"


async def test_a_refusal_counts_whatever_was_guessed(attempts: AttemptLimiter) -> None:
    for _ in range(MAX_ATTEMPTS):
        with pytest.raises(ApiKeyNotFound):
            async with attempts.limit_failures(("identity", "192.0.2.5")):
                raise ApiKeyNotFound

    assert await succeeds(attempts, ("identity", "192.0.2.5")) == "too many"


async def test_calls_of_no_address_are_not_limited_by_address(attempts: AttemptLimiter) -> None:
    answers = {await fails(attempts, ("identity", "")) for _ in range(2 * MAX_ATTEMPTS)}

    assert answers == {"wrong"}


@pytest.mark.parametrize(
    ("one", "other", "is_shared"),
    [
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("::ffff:192.0.2.6", "192.0.2.6", True),
        ("fe80::1%eth0", "fe80::2", True),
        ("192.0.2.6", "192.0.2.7", False),
    ],
)
async def test_an_ipv6_customer_is_one_address(
    attempts: AttemptLimiter, one: str, other: str, *, is_shared: bool
) -> None:
    for _ in range(MAX_ATTEMPTS):
        await fails(attempts, ("identity", one), ("sign_in", subject_at_network("a@example.org", one)))

    expected = "too many" if is_shared else "right"
    assert await succeeds(attempts, ("identity", other)) == expected
    assert await succeeds(attempts, ("sign_in", subject_at_network("a@example.org", other))) == expected
    assert await succeeds(attempts, ("sign_in", subject_at_network("b@example.org", one))) == "right"


async def test_names_of_refused_clients_differ_by_letter_case(attempts: AttemptLimiter) -> None:
    for _ in range(MAX_ATTEMPTS):
        await attempts.charge("refused_client", "App")

    with pytest.raises(TooManyAttempts):
        await attempts.charge("refused_client", "App")
    await attempts.charge("refused_client", "app")


async def test_sign_ups_count_whether_they_succeed_or_not(attempts: AttemptLimiter, clock: Clock) -> None:
    for _ in range(MAX_ATTEMPTS):
        await attempts.charge("sign_up", "192.0.2.8")

    with pytest.raises(TooManyAttempts) as refused:
        await attempts.charge("sign_up", "192.0.2.8")
    assert refused.value.retry_after == 3600
    await attempts.charge("registration", "192.0.2.8")
    await attempts.charge("sign_up", "192.0.2.9")
    clock.time += timedelta(hours=1)
    await attempts.charge("sign_up", "192.0.2.8")


@pytest.mark.system
async def test_concurrent_sign_ups_pass_up_to_the_limit(attempts: AttemptLimiter) -> None:
    answers = await asyncio.gather(
        *(attempts.charge("sign_up", "192.0.2.10") for _ in range(50)), return_exceptions=True
    )

    assert answers.count(None) == MAX_ATTEMPTS


async def test_no_subject_is_readable_and_old_windows_are_removed(
    attempts: AttemptLimiter, pool: Database, database: TestDatabase, clock: Clock
) -> None:
    await fails(attempts, ("second_factor", "e@example.org"), ("identity", "192.0.2.11"))
    async with database.superuser() as connection:
        stored = await connection.fetch("SELECT * FROM auth.attempts")
    assert len(stored) == 2
    assert "example" not in str(stored)

    async with pool.global_transaction() as tx:
        removed = await tx.execute(QUERIES["delete_expired_attempts"], at=clock.time + timedelta(hours=1))

    assert removed == 2
