"""The gateway's limiter against an allowance that the test plays."""

from __future__ import annotations

import asyncio
import math
import uuid
from collections import Counter
from dataclasses import dataclass, field, replace

import pytest
from fix_catalogue import over
from fix_metrics import sample
from google.protobuf.duration_pb2 import Duration

from skein.tenancy.v1 import limits_pb2 as pb
from skein_gateway.rate_limits import LeasedBucket, RateLimiter
from skein_kit.calls.call import Call, current_call
from skein_kit.errors import RateLimited, ServiceUnavailable
from skein_kit.identity.identity_token import Caller
from skein_kit.identity.permissions import OPERATOR

CALLER = Caller(principal="api_key:1", tenant_id=uuid.uuid4(), permissions=frozenset({"memory.read"}))


@dataclass
class Tenancy:
    """Grants calls out of two buckets that do not fill again."""

    tenant: int = 10**9
    caller: int = 10**9
    most: int = 10**9
    retry_seconds: int = 30
    away: bool = False
    requests: list[pb.AcquireRateLimitRequest] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)

    async def ask(self, request: pb.AcquireRateLimitRequest) -> pb.AcquireRateLimitResponse:
        self.requests.append(request)
        call = current_call()
        self.tokens.append("" if call is None else call.identity_token)
        await asyncio.sleep(0)
        if self.away:
            raise ServiceUnavailable
        of_tenant = min(self.tenant, self.most, request.tenant_tokens)
        of_caller = min(self.caller, self.most, request.caller_tokens)
        self.tenant -= of_tenant
        self.caller -= of_caller
        exhausted = "" if self.caller else "caller_requests_per_minute"
        return pb.AcquireRateLimitResponse(
            tenant_tokens=of_tenant,
            caller_tokens=of_caller,
            lifetime=Duration(seconds=5),
            exhausted_limit=exhausted if self.tenant else "requests_per_minute",
            retry_delay=Duration(seconds=self.retry_seconds),
            tenant_rate=1000,
            caller_rate=500,
        )


def call_of(caller: Caller | None) -> Call:
    call = Call(path="/x", metadata={}, deadline=None, peer="")
    call.caller = caller
    call.identity_token = "signed"
    return call


async def admitted(limiter: RateLimiter, count: int, caller: Caller = CALLER) -> int:
    """Make calls at once and return how many were let through."""
    answers = await asyncio.gather(*(limiter.admit(call_of(caller)) for _ in range(count)), return_exceptions=True)
    kinds = Counter(type(answer) for answer in answers)
    assert kinds.keys() <= {type(None), RateLimited}
    return kinds[type(None)]


async def test_a_busy_caller_costs_few_questions() -> None:
    tenancy = Tenancy()

    async with RateLimiter(tenancy.ask) as limiter:
        for _ in range(1000):
            await limiter.admit(call_of(CALLER))
            await asyncio.sleep(0)

    assert len(tenancy.requests) <= 10
    assert set(tenancy.tokens) == {"signed"}


@over(("rate", "requested"), [(500.0, 60), (100.0, 12), (60.0, 5), (40.0, 4), (1.0, 1), (math.inf, 60)])
def test_a_slow_caller_fills_up_to_more_where_that_is_little_of_the_allowance(rate: float, requested: int) -> None:
    bucket = LeasedBucket()
    assert bucket.lease_size(0.0, 1) == 8

    bucket.add_lease(8, rate=rate, expire_time=5.0, now=0.0)
    for _ in range(4):
        bucket.spend()

    assert bucket.lease_size(1.0, 0) == requested


@over(("spent", "now", "requested"), [(3, 1.0, 3), (0, 4.5, 1), (8, 5.0, 8), (3, 5.0, 8)])
def test_lapsed_or_unspent_tokens_do_not_enlarge_the_lease(spent: int, now: float, requested: int) -> None:
    bucket = LeasedBucket()
    bucket.add_lease(8, rate=500.0, expire_time=5.0, now=0.0)

    for _ in range(spent):
        bucket.spend()

    assert bucket.lease_size(now, 1) == requested


@over(
    ("spent", "now", "is_low"),
    [
        # 10 a second: 15 left last for more than a second, 5 for half of one, and 2 are too few at any pace.
        (35, 3.5, False),
        (44, 3.9, False),
        (46, 3.9, True),
        (48, 3.9, True),
        # 100 a second: half of it is left, for half a second.
        (24, 0.25, False),
        (25, 0.25, True),
        # It lapses soon.
        (5, 3.9, False),
        (5, 4.0, True),
    ],
)
def test_the_next_lease_is_asked_for_before_this_one_is_over(spent: int, now: float, *, is_low: bool) -> None:
    bucket = LeasedBucket()
    bucket.add_lease(50, rate=500.0, expire_time=5.0, now=0.0)

    for _ in range(spent):
        bucket.spend()

    assert bucket.should_lease_early(now) is is_low


def test_much_that_is_not_spent_lapses() -> None:
    bucket = LeasedBucket()
    bucket.add_lease(600, rate=500.0, expire_time=5.0, now=0.0)

    for _ in range(400):
        bucket.spend()

    assert not bucket.should_lease_early(4.9)


def test_lapsed_tokens_let_no_call_pass() -> None:
    bucket = LeasedBucket()
    bucket.add_lease(600, rate=500.0, expire_time=5.0, now=0.0)

    assert [bucket.can_spend(now) for now in (4.9, 5.0)] == [True, False]


@pytest.mark.parametrize("gap", [0.1, 0.4, 0.9])
async def test_an_occasional_caller_waits_for_the_first_lease_only(gap: float, monkeypatch: pytest.MonkeyPatch) -> None:
    tenancy, loop = Tenancy(), asyncio.get_running_loop()
    began, result = loop.time(), 0.0
    monkeypatch.setattr(loop, "time", lambda: began + result, raising=False)

    async with RateLimiter(tenancy.ask) as limiter:
        for _ in range(round(40 / gap)):
            calling = asyncio.create_task(limiter.admit(call_of(CALLER)))
            await asyncio.sleep(0)
            assert result == 0.0 or calling.done()
            await calling
            for _ in range(5):
                await asyncio.sleep(0)
            result += gap

    # Forty seconds, and leases of five, the last second of which is left.
    assert len(tenancy.requests) <= 12


async def test_an_allowance_so_small_is_not_leased_because_another_is_low() -> None:
    tenancy = Tenancy(tenant=2)

    async with RateLimiter(tenancy.ask) as limiter:
        tenants, callers = limiter._buckets_of(CALLER)
        now = asyncio.get_running_loop().time()
        tenants.add_lease(1, rate=1000.0, expire_time=now + 5, now=now)
        callers.add_lease(8, rate=500.0, expire_time=now + 0.5, now=now)
        await limiter.admit(call_of(CALLER))
        for _ in range(5):
            await asyncio.sleep(0)

    # Of the caller's, which lapses soon, there is more; of the tenant's two none was taken without a caller.
    assert [(requests.tenant_tokens, requests.caller_tokens > 0) for requests in tenancy.requests] == [(0, True)]


async def test_a_crowd_of_calls_passes_up_to_the_caller_s_allowance() -> None:
    tenancy = Tenancy(caller=40)

    async with RateLimiter(tenancy.ask) as limiter:
        assert await admitted(limiter, 100) == 40


@over("most", [1, 7, 1000])
async def test_two_gateways_share_the_tenants_allowance(most: int) -> None:
    tenancy = Tenancy(tenant=50, most=most)

    async with RateLimiter(tenancy.ask) as one, RateLimiter(tenancy.ask) as other:
        result = await asyncio.gather(*(admitted(limiter, 60) for limiter in (one, other)))

    assert sum(result) <= 50
    assert tenancy.tenant == 0


async def test_a_refusal_says_which_limit_it_was_and_when_to_come_back() -> None:
    tenancy = Tenancy(caller=0)

    async with RateLimiter(tenancy.ask) as limiter:
        with pytest.raises(RateLimited) as refused:
            await limiter.admit(call_of(CALLER))
        for _ in range(20):
            with pytest.raises(RateLimited):
                await limiter.admit(call_of(CALLER))

    assert refused.value.metadata["kind"] == "caller_requests_per_minute"
    assert refused.value.retry_after == pytest.approx(30, abs=1)
    # Who is known to have nothing left costs no further questions.
    assert len(tenancy.requests) == 1


async def test_one_caller_does_not_use_up_what_is_anothers() -> None:
    tenancy = Tenancy(caller=1)
    other = replace(CALLER, principal="api_key:2")

    async with RateLimiter(tenancy.ask) as limiter:
        assert await admitted(limiter, 5) == 1
        tenancy.caller = 3
        assert await admitted(limiter, 5, other) == 3


async def test_an_account_without_a_tenant_has_an_allowance_of_its_own() -> None:
    tenancy = Tenancy()

    async with RateLimiter(tenancy.ask) as limiter:
        await limiter.admit(call_of(replace(CALLER, tenant_id=None)))

    assert [(requests.tenant_tokens, requests.caller_tokens > 0) for requests in tenancy.requests] == [(0, True)]


async def test_everybody_passes_while_tenancy_does_not_answer() -> None:
    tenancy = Tenancy(away=True)

    async with RateLimiter(tenancy.ask) as limiter:
        assert await admitted(limiter, 100) == 100
        assert await admitted(limiter, 100) == 100

    assert len(tenancy.requests) == 1


async def test_every_decision_is_counted() -> None:
    before = decisions()
    async with RateLimiter(Tenancy(caller=2).ask) as limiter:
        await admitted(limiter, 5)
    async with RateLimiter(Tenancy(away=True).ask) as limiter:
        await admitted(limiter, 4)

    assert decisions() - before == Counter(allowed=2, refused=3, unchecked=4)


def decisions() -> Counter[str]:
    name = "skein_gateway_rate_limit_decisions_total"
    results = {each: sample(name, decision=each) for each in ("allowed", "refused", "unchecked")}
    return Counter({each: int(count or 0) for each, count in results.items()})


@over("caller", [None, replace(CALLER, permissions=frozenset({OPERATOR}))])
async def test_operators_and_calls_without_identity_need_no_lease(caller: Caller | None) -> None:
    tenancy = Tenancy(caller=0)

    async with RateLimiter(tenancy.ask) as limiter:
        await limiter.admit(call_of(caller))

    assert tenancy.requests == []


async def test_a_small_allowance_is_not_leased_ahead() -> None:
    """What a slow caller's lease loses when it lapses would be a large part of it."""
    tenancy = Tenancy(most=1)

    async with RateLimiter(tenancy.ask) as limiter:
        for _ in range(5):
            await limiter.admit(call_of(CALLER))
            for _ in range(5):
                await asyncio.sleep(0)

    assert len(tenancy.requests) == 5


async def test_a_cancelled_call_does_not_delay_others() -> None:
    answer_allowed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    tenancy = Tenancy()

    async def ask(request: pb.AcquireRateLimitRequest) -> pb.AcquireRateLimitResponse:
        await answer_allowed
        return await tenancy.ask(request)

    async with RateLimiter(ask) as limiter:
        first, second = (asyncio.create_task(limiter.admit(call_of(CALLER))) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        answer_allowed.set_result(None)
        await second

    assert first.cancelled()


async def test_memory_is_bounded() -> None:
    tenancy = Tenancy()

    async with RateLimiter(tenancy.ask, max_buckets=10) as limiter:
        for number in range(100):
            await limiter.admit(call_of(replace(CALLER, principal=f"api_key:{number}")))

        assert len(limiter._buckets) <= 10
