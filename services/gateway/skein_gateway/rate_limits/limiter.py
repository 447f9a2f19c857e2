"""How many calls are let through: spends leases of allowances that all gateways share.

An allowance is a token bucket in tenancy, one of each tenant and one of each caller. A gateway leases about as much as
is spent in a second and gives it out by itself, so a busy caller costs a question a second and waits for none; only a
first call, and what goes beyond the lease, waits. What is not spent lapses when its caller stops. While tenancy does
not answer everybody is let through: limits protect the cluster, they are no reason to be down.
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

    Ask = Callable[[pb.LeaseRequestsRequest], Awaitable[pb.LeaseRequestsResponse]]

LIMITED = Counter("skein_gateway_rate_limited_total", "Calls refused because a limit was exhausted.", ["kind"])
UNANSWERED = Counter(
    "skein_gateway_rate_limits_unanswered_total", "Questions for allowances without an answer: all calls pass."
)
DECISIONS = Counter(
    "skein_gateway_rate_limit_decisions_total",
    "Calls by what their limits said: allowed, refused, or unanswered and let through.",
    ["decision"],
)
_ALLOWED, _REFUSED, _UNANSWERED = (DECISIONS.labels(each) for each in ("allowed", "refused", "unanswered"))
# Purses, of tenants and of callers, that a gateway remembers.
MAX_BUCKETS = 20_000
# A question takes no longer; after that everybody is let through for as long.
ANSWER_SECONDS = 1.0
# An allowance that is exhausted is not asked more often.
_PAUSE_SECONDS = 0.1
# What a purse is filled up to at least: this, and up to eight times as much, a sixth of a second's worth, for whoever
# spends what was leased.
_LEAST = 8
_MODEST, _MODEST_SECONDS = 64, 0.16
# When what is left of a lease lasts no longer at the present pace, the next one is asked for: with half of it left at
# the earliest, and with so much at the latest. And when it lapses so soon, unless that would keep more than is needed.
_LOW_SECONDS, _LOW_SHARE, _LOW = 0.5, 0.5, 2
_RENEW_SECONDS = 1.0
# Spending is measured over no shorter time.
_MEASURED_SECONDS = 0.05
# What is leased for one second of the present pace.
_AHEAD = 1.5
_MOST = 100_000
_UNLIMITED = frozenset({OPERATOR, SYSTEM})
_CALLERS = "caller_requests_per_minute"
_PATH = "/skein.tenancy.v1.UpkeepService/LeaseRequests"

log = logs.get("gateway")


@dataclass(kw_only=True, slots=True)
class LeasedBucket:
    """What is left of the leases of one allowance. All times are the event loop's."""

    left: int = 0
    lapse_time: float = 0.0
    # What there was when the last lease came, when that was, and what was spent since.
    leased: int = 0
    lease_time: float = 0.0
    spent: int = 0
    # Calls a second that the allowance lets through.
    rate: float = math.inf
    # Until then the allowance is known to be exhausted, by the limit of this kind.
    empty_until: float = 0.0
    kind: str = ""
    # Until then nobody is limited, because tenancy does not answer.
    open_until: float = 0.0

    def has(self, at: float) -> bool:
        """Say whether a call can be paid for."""
        if at >= self.lapse_time:
            self.left = 0
        return self.left > 0 or at < self.open_until

    def spend(self) -> None:
        """Pay for one call."""
        self.left = max(0, self.left - 1)
        self.spent += 1

    def is_low(self, at: float) -> bool:
        """Say whether more is needed soon, and asking is not known to be in vain."""
        if at < self.empty_until or at < self.open_until:
            return False
        if self.left <= _LOW:
            return True
        if at >= self.lapse_time - _RENEW_SECONDS:
            return self.left <= max(_MODEST, self._pace(at) * _AHEAD)
        # Most calls are through here.
        return self.left <= self.leased * _LOW_SHARE and self.left <= self._pace(at) * _LOW_SECONDS

    def wants_ahead(self, at: float) -> bool:
        """Say whether to ask before a call has to wait: not for an allowance so small that nothing of it may lapse."""
        return self.leased >= _LEAST and self.is_low(at)

    def wish(self, at: float, waiting: int) -> int:
        """Return how many calls to ask for: those that wait, and what the next second is going to take."""
        most = max(1.0, min(self.rate, _MOST))
        least, left = _LEAST, self.left
        if at >= self.lapse_time:
            left = 0
        elif 2 * self.spent >= self.leased:
            # Little of the last lease was going to lapse.
            least = max(_LEAST, int(min(_MODEST, self.rate * _MODEST_SECONDS)))
        return int(min(most, max(waiting, 1, max(least, math.ceil(self._pace(at) * _AHEAD)) - left)))

    def _pace(self, at: float) -> float:
        """Return the calls a second that the lease is spent by."""
        return self.spent / max(at - self.lease_time, _MEASURED_SECONDS)

    def put(self, count: int, *, rate: float, lapse_time: float, at: float) -> None:
        """Put a lease in. What is left from before a lower limit is thrown away."""
        if at >= self.lapse_time or rate < self.rate:
            self.left = 0
        self.left += count
        self.leased, self.lease_time, self.spent = self.left, at, 0
        self.rate, self.lapse_time = rate, lapse_time


class RateLimiter:
    """Lets calls through as long as their tenant's and their caller's allowances last."""

    def __init__(self, ask: Ask, *, max_purses: int = MAX_BUCKETS) -> None:
        """Use `ask` to lease in the name of the call at hand."""
        self._ask = ask
        self._max_purses = max_purses
        # By tenant and principal; that of a tenant has no principal.
        self._purses: OrderedDict[tuple[UUID | None, str], LeasedBucket] = OrderedDict()
        # One question at a time for each caller, and the calls that wait for it.
        self._questions: dict[tuple[UUID | None, str], asyncio.Task[None]] = {}
        self._waiting: dict[tuple[UUID | None, str], int] = {}

    async def __aenter__(self) -> Self:
        """Limit until the block ends."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Leave the questions that are under way."""
        questions = [*self._questions.values()]
        for question in questions:
            question.cancel()
        await asyncio.gather(*questions, return_exceptions=True)

    async def admit(self, call: Call) -> None:
        """Let a call through, or refuse with RateLimited. Calls without an identity have limits of their own."""
        caller = call.caller
        if caller is None or not caller.permissions.isdisjoint(_UNLIMITED):
            return
        loop = asyncio.get_running_loop()
        key = (caller.tenant_id, caller.principal)
        while True:
            at = loop.time()
            purses = self._purses_of(caller)
            lacking = [purse for purse in purses if not purse.has(at)]
            if not lacking:
                break
            for purse in lacking:
                if at < purse.empty_until:
                    LIMITED.labels(purse.kind).inc()
                    _REFUSED.inc()
                    raise RateLimited(after=purse.empty_until - at, kind=purse.kind)
            self._waiting[key] = self._waiting.get(key, 0) + 1
            try:
                # In one piece: whoever is cancelled leaves, while others wait on.
                await asyncio.wait({self._question(call, caller)})
            finally:
                self._waiting[key] -= 1
                if not self._waiting[key]:
                    del self._waiting[key]
        (_ALLOWED if all(purse.left for purse in purses) else _UNANSWERED).inc()
        for purse in purses:
            purse.spend()
        if any(purse.wants_ahead(at) for purse in purses):
            self._question(call, caller)

    def _purses_of(self, caller: Caller) -> list[LeasedBucket]:
        """Return the purse of the caller and, in a tenant, before it that of the tenant."""
        keys = [(caller.tenant_id, caller.principal)]
        if caller.tenant_id is not None:
            keys.insert(0, (caller.tenant_id, ""))
        found = []
        for key in keys:
            purse = self._purses.get(key)
            if purse is None:
                purse = self._purses[key] = LeasedBucket()
            self._purses.move_to_end(key)
            found.append(purse)
        while len(self._purses) > self._max_purses:
            self._purses.popitem(last=False)
        return found

    def _question(self, call: Call, caller: Caller) -> asyncio.Task[None]:
        """Return the question that is under way for a caller, or begin one."""
        key = (caller.tenant_id, caller.principal)
        question = self._questions.get(key)
        if question is None:
            # It is not the call's own work: it has a deadline of its own and goes on when the call is over.
            question = asyncio.create_task(self._lease(call.token, caller), context=contextvars.Context())
            self._questions[key] = question
            question.add_done_callback(lambda _: self._questions.pop(key, None))
        return question

    async def _lease(self, token: str, caller: Caller) -> None:
        loop = asyncio.get_running_loop()
        at = loop.time()
        purses = self._purses_of(caller)
        waiting = self._waiting.get((caller.tenant_id, caller.principal), 0)
        wishes = [
            purse.wish(at, waiting) if purse.wants_ahead(at) or (waiting and not purse.has(at)) else 0
            for purse in purses
        ]
        if not any(wishes):
            return
        request = pb.LeaseRequestsRequest(tenant_count=wishes[0] if len(purses) > 1 else 0, caller_count=wishes[-1])
        call = Call(path=_PATH, metadata={}, deadline=at + ANSWER_SECONDS, peer="gateway")
        call.token = token
        try:
            with as_current_call(call):
                async with asyncio.timeout_at(call.deadline):
                    answer = await self._ask(request)
        except Exception as error:  # noqa: BLE001 - whatever it is: tenancy does not answer.
            UNANSWERED.inc()
            log.warning("rate_limits_unanswered", error=type(error).__name__)
            for purse in purses:
                purse.open_until = loop.time() + ANSWER_SECONDS
            return
        self._put(purses, answer, loop.time())

    def _put(self, purses: list[LeasedBucket], answer: pb.LeaseRequestsResponse, at: float) -> None:
        counts = [answer.tenant_count, answer.caller_count][-len(purses) :]
        rates = [answer.tenant_rate, answer.caller_rate][-len(purses) :]
        lapse_time = at + answer.lifetime.ToTimedelta().total_seconds()
        for purse, count, rate in zip(purses, counts, rates, strict=True):
            if count:
                purse.put(count, rate=rate, lapse_time=lapse_time, at=at)
        if answer.exhausted:
            exhausted = purses[-1] if answer.exhausted == _CALLERS else purses[0]
            delay = answer.retry_delay.ToTimedelta().total_seconds()
            exhausted.empty_until, exhausted.kind = at + max(delay, _PAUSE_SECONDS), answer.exhausted
