"""Rate limits: spends leases of token buckets that all gateways share.

tenancy keeps a bucket for each tenant and each caller. A gateway leases about one second's worth of tokens and spends
them locally. So a busy caller costs one RPC a second and never waits for it. Only a first call, or a call beyond the
lease, waits. Unspent tokens expire. While tenancy is unavailable all calls pass: limits must not stop the cluster.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from prometheus_client import Counter

from skein.tenancy.v1 import limits_pb2 as pb
from skein_kit.calls.call import Call, as_current_call
from skein_kit.errors import RateLimited
from skein_kit.identity.permissions import OPERATOR, SYSTEM
from skein_kit.telemetry import logs

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from uuid import UUID

    from skein_kit.identity.identity_token import Caller

    AcquireLease = Callable[[pb.AcquireRateLimitRequest], Awaitable[pb.AcquireRateLimitResponse]]

LIMITED = Counter("skein_gateway_rate_limited_calls_total", "Calls refused by a rate limit, by its name.", ["kind"])
LEASE_FAILURES = Counter(
    "skein_gateway_rate_limit_lease_failures_total",
    "Leases of tokens that tenancy did not grant; meanwhile no rate limit is enforced.",
)
DECISIONS = Counter(
    "skein_gateway_rate_limit_decisions_total",
    "Calls by the decision of the rate limits: allowed, refused, unchecked (tenancy granted no lease, calls pass).",
    ["decision"],
)
_ALLOWED, _REFUSED, _UNCHECKED = (DECISIONS.labels(each) for each in ("allowed", "refused", "unchecked"))
# Most buckets, of tenants and callers, in a gateway.
MAX_BUCKETS = 20_000
# Timeout of a lease; after a failure all calls pass for as long.
ANSWER_SECONDS = 1.0
# Shortest pause before the next lease of an exhausted bucket.
_MIN_RETRY_SECONDS = 0.1
# Least tokens to fill a bucket to; up to _SMALL_LEASE, worth _SMALL_LEASE_SECONDS of its rate, once half of a lease was
# spent.
_MIN_LEASE = 8
_SMALL_LEASE, _SMALL_LEASE_SECONDS = 64, 0.16
# The next lease starts when the remaining tokens last less than _LOW_SECONDS. It starts at the earliest with _LOW_SHARE
# of the lease left, at the latest with _LOW_COUNT tokens. With few tokens, it also starts _RENEW_SECONDS before expiry.
_LOW_SECONDS, _LOW_SHARE, _LOW_COUNT = 0.5, 0.5, 2
_RENEW_SECONDS = 1.0
# Shortest time over which the rate of calls is measured.
_MIN_MEASURED_SECONDS = 0.05
# Tokens to lease per second's worth of calls.
_LEASE_AHEAD_FACTOR = 1.5
_MAX_LEASE = 100_000
_UNLIMITED = frozenset({OPERATOR, SYSTEM})
_CALLERS = "caller_requests_per_minute"
_PATH = "/skein.tenancy.v1.TenancyInternalService/AcquireRateLimit"

log = logs.get("gateway")


@dataclass(kw_only=True, slots=True)
class LeasedBucket:
    """The leased tokens of one bucket. All times are the event loop's, in seconds."""

    remaining: int = 0
    expire_time: float = 0.0
    # Tokens at the last lease, its time, and the tokens spent since.
    full_count: int = 0
    lease_time: float = 0.0
    spent_count: int = 0
    # Rate of the bucket in tenancy, in calls a second.
    rate: float = math.inf
    # Until then the bucket is known to be exhausted, by the limit of this kind.
    exhausted_until: float = 0.0
    kind: str = ""
    # Until then all calls pass, because tenancy is unavailable.
    unlimited_until: float = 0.0

    def can_spend(self, now: float) -> bool:
        """Tell whether a call may pass; drops expired tokens."""
        if now >= self.expire_time:
            self.remaining = 0
        return self.remaining > 0 or now < self.unlimited_until

    def spend(self) -> None:
        """Spend a token."""
        self.remaining = max(0, self.remaining - 1)
        self.spent_count += 1

    def is_low(self, now: float) -> bool:
        """Tell whether more tokens are needed soon and a lease may succeed."""
        if now < self.exhausted_until or now < self.unlimited_until:
            return False
        if self.remaining <= _LOW_COUNT:
            return True
        if now >= self.expire_time - _RENEW_SECONDS:
            return self.remaining <= max(_SMALL_LEASE, self._calls_per_second(now) * _LEASE_AHEAD_FACTOR)
        # Most calls end here.
        return (
            self.remaining <= self.full_count * _LOW_SHARE
            and self.remaining <= self._calls_per_second(now) * _LOW_SECONDS
        )

    def should_lease_early(self, now: float) -> bool:
        """Tell whether to lease before a call has to wait. Tiny buckets never do, so their tokens do not expire."""
        return self.full_count >= _MIN_LEASE and self.is_low(now)

    def lease_size(self, now: float, waiting_count: int) -> int:
        """Return the tokens to lease: at least for the waiting_count calls, else for the next second."""
        maximum = max(1.0, min(self.rate, _MAX_LEASE))
        minimum, remaining = _MIN_LEASE, self.remaining
        if now >= self.expire_time:
            remaining = 0
        elif 2 * self.spent_count >= self.full_count:
            # Half of the last lease was spent, so little of a larger one would expire.
            minimum = max(_MIN_LEASE, int(min(_SMALL_LEASE, self.rate * _SMALL_LEASE_SECONDS)))
        expected = math.ceil(self._calls_per_second(now) * _LEASE_AHEAD_FACTOR)
        return int(min(maximum, max(waiting_count, 1, max(minimum, expected) - remaining)))

    def _calls_per_second(self, now: float) -> float:
        """Return the rate at which the lease is spent."""
        return self.spent_count / max(now - self.lease_time, _MIN_MEASURED_SECONDS)

    def add_lease(self, count: int, *, rate: float, expire_time: float, now: float) -> None:
        """Add `count` tokens. Drops older tokens when they expired or the rate fell."""
        if now >= self.expire_time or rate < self.rate:
            self.remaining = 0
        self.remaining += count
        self.full_count, self.lease_time, self.spent_count = self.remaining, now, 0
        self.rate, self.expire_time = rate, expire_time


class RateLimiter:
    """Admits calls while both their tenant's and their caller's buckets have tokens."""

    def __init__(self, acquire: AcquireLease, *, max_buckets: int = MAX_BUCKETS) -> None:
        """Lease with `acquire`, under the identity of the current call."""
        self._acquire = acquire
        self._max_buckets = max_buckets
        # By tenant and principal; a tenant's bucket has an empty principal.
        self._buckets: OrderedDict[tuple[UUID | None, str], LeasedBucket] = OrderedDict()
        # One running lease for each caller, and the number of calls that wait for it.
        self._lease_tasks: dict[tuple[UUID | None, str], asyncio.Task[None]] = {}
        self._waiting: dict[tuple[UUID | None, str], int] = {}

    async def __aenter__(self) -> Self:
        """Limit until the block ends."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Cancel the running leases."""
        tasks = [*self._lease_tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def admit(self, call: Call) -> None:
        """Admit a call or raise RateLimited. Calls without an identity have other limits."""
        caller = call.caller
        if caller is None or not caller.permissions.isdisjoint(_UNLIMITED):
            return
        loop = asyncio.get_running_loop()
        key = (caller.tenant_id, caller.principal)
        while True:
            now = loop.time()
            buckets = self._buckets_of(caller)
            exhausted = [bucket for bucket in buckets if not bucket.can_spend(now)]
            if not exhausted:
                break
            for bucket in exhausted:
                if now < bucket.exhausted_until:
                    LIMITED.labels(bucket.kind).inc()
                    _REFUSED.inc()
                    raise RateLimited(retry_after=bucket.exhausted_until - now, kind=bucket.kind)
            self._waiting[key] = self._waiting.get(key, 0) + 1
            try:
                # asyncio.wait does not cancel the task, so a cancelled caller leaves it to the others.
                await asyncio.wait({self._lease_task(call, caller)})
            finally:
                self._waiting[key] -= 1
                if not self._waiting[key]:
                    del self._waiting[key]
        (_ALLOWED if all(bucket.remaining for bucket in buckets) else _UNCHECKED).inc()
        for bucket in buckets:
            bucket.spend()
        if any(bucket.should_lease_early(now) for bucket in buckets):
            self._lease_task(call, caller)

    def _buckets_of(self, caller: Caller) -> list[LeasedBucket]:
        """Return the caller's bucket, preceded by its tenant's."""
        keys = [(caller.tenant_id, caller.principal)]
        if caller.tenant_id is not None:
            keys.insert(0, (caller.tenant_id, ""))
        buckets = []
        for key in keys:
            bucket = self._buckets.get(key)
            if bucket is None:
                bucket = self._buckets[key] = LeasedBucket()
            self._buckets.move_to_end(key)
            buckets.append(bucket)
        while len(self._buckets) > self._max_buckets:
            self._buckets.popitem(last=False)
        return buckets

    def _lease_task(self, call: Call, caller: Caller) -> asyncio.Task[None]:
        """Return the caller's running lease, or start one."""
        key = (caller.tenant_id, caller.principal)
        task = self._lease_tasks.get(key)
        if task is None:
            # An empty context: the lease has its own deadline and outlives the call.
            task = asyncio.create_task(self._lease(call.identity_token, caller), context=contextvars.Context())
            self._lease_tasks[key] = task
            task.add_done_callback(lambda _: self._lease_tasks.pop(key, None))
        return task

    async def _lease(self, token: str, caller: Caller) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        buckets = self._buckets_of(caller)
        waiting_count = self._waiting.get((caller.tenant_id, caller.principal), 0)
        counts = [
            bucket.lease_size(now, waiting_count)
            if bucket.should_lease_early(now) or (waiting_count and not bucket.can_spend(now))
            else 0
            for bucket in buckets
        ]
        if not any(counts):
            return
        request = pb.AcquireRateLimitRequest(
            tenant_tokens=counts[0] if len(buckets) > 1 else 0, caller_tokens=counts[-1]
        )
        call = Call(path=_PATH, metadata={}, deadline=now + ANSWER_SECONDS, peer="gateway")
        call.identity_token = token
        try:
            with as_current_call(call):
                async with asyncio.timeout_at(call.deadline):
                    response = await self._acquire(request)
        except Exception as error:  # noqa: BLE001 - any failure means that tenancy is unavailable.
            LEASE_FAILURES.inc()
            log.warning("rate_limit_lease_failed", error=type(error).__name__)
            for bucket in buckets:
                bucket.unlimited_until = loop.time() + ANSWER_SECONDS
            return
        self._add_leases(buckets, response, loop.time())

    def _add_leases(self, buckets: list[LeasedBucket], response: pb.AcquireRateLimitResponse, now: float) -> None:
        counts = [response.tenant_tokens, response.caller_tokens][-len(buckets) :]
        rates = [response.tenant_rate, response.caller_rate][-len(buckets) :]
        expire_time = now + response.lifetime.ToTimedelta().total_seconds()
        for bucket, count, rate in zip(buckets, counts, rates, strict=True):
            if count:
                bucket.add_lease(count, rate=rate, expire_time=expire_time, now=now)
        if response.exhausted_limit:
            bucket = buckets[-1] if response.exhausted_limit == _CALLERS else buckets[0]
            delay = response.retry_delay.ToTimedelta().total_seconds()
            bucket.exhausted_until, bucket.kind = now + max(delay, _MIN_RETRY_SECONDS), response.exhausted_limit
