"""Identifies callers: auth exchanges a credential for an identity token, which is cached for seconds.

Credentials stop at the gateway; services get the identity token. Forged credentials are refused here. A credential that
only auth can judge costs its source a rate-limit token unless it is good, so a flood cannot delay honest exchanges.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
import uuid
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import grpc
from grpc import aio
from prometheus_client import Counter

from skein.auth.v1 import auth_pb2, auth_pb2_grpc
from skein_gateway.identity.credential_check import CredentialChecker, CredentialOrigin
from skein_gateway.rate_limits import LIMITED
from skein_kit.calls.call import REQUEST_ID_KEY, TENANT_KEY, Call, as_current_call
from skein_kit.clock import CLOCK
from skein_kit.errors import CredentialInvalid, FieldInvalid, RateLimited, ServiceUnavailable
from skein_kit.identity.identity_token import Caller, IdentityTokenVerifier
from skein_kit.network.source_network import source_network
from skein_kit.rpc.interceptors import bearer_credential
from skein_kit.telemetry.logs import LogThrottle

KIND = "unproven_credentials"
# Default of failed exchanges a second per source; all sources together may have ten times as many.
SOURCE_RATE = 10.0
_TOTAL_FACTOR = 10
# A burst is worth this many seconds of the rate.
_BURST_SECONDS = 10.0
MAX_SOURCES = 20_000


# Revoked keys and keys of deleted tenants must fail within five seconds. Auth caches a tenant's existence for one
# second, so this must stay below four.
LIFETIME_SECONDS = 3.75
MAX_CACHED = 10_000
MAX_CREDENTIAL = 8192
# Deadline of an exchange. The caller's own would not do: other callers may share the exchange.
EXCHANGE_SECONDS = 5.0
# One forged credential per source and this many seconds reaches auth for its audit log; most sources tracked.
REPORT_SECONDS = 60.0
MAX_REPORTS = 1_000
# Most credentials with a known outcome of their last exchange.
MAX_KNOWN_OUTCOMES = 50_000

REFUSED = Counter(
    "skein_gateway_refused_credentials_total",
    "Credentials that the gateway refused without a call of auth.",
    ["reason"],
)
# Codes of auth for a credential that is invalid, or invalid in the requested tenant.
_REFUSAL_CODES = frozenset({grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.NOT_FOUND})
_INVALID = REFUSED.labels(CredentialInvalid.reason)


@dataclass(frozen=True, kw_only=True, slots=True)
class CachedIdentity:
    """The result of an exchange."""

    caller: Caller
    token: str
    # End of the cache entry, by the monotonic clock.
    cache_end: float
    # End of the token, in seconds since 1970.
    token_end: float


class IdentityCache:
    """Identities by credential. Refusals are not cached, so a new key works at once."""

    def __init__(
        self,
        identities: auth_pb2_grpc.AuthInternalServiceAsyncStub,
        verifier: IdentityTokenVerifier,
        checker: CredentialChecker,
        clock: Callable[[], float] = time.monotonic,
        *,
        unproven_per_second: float = SOURCE_RATE,
    ) -> None:
        """Exchange credentials at `identities` and verify the tokens as every service does.

        One source may present `unproven_per_second` bad credentials a second that only auth can judge.
        """
        self._identities = identities
        self._verifier = verifier
        self._checker = checker
        self._clock = clock
        self._sources = SourceRateLimiter(clock, rate=unproven_per_second)
        self._forgery_reports: LogThrottle[str] = LogThrottle(REPORT_SECONDS, max_kinds=MAX_REPORTS, clock=clock)
        # Whether the last exchange of a credential succeeded, by the credential's digest.
        self._outcomes: OrderedDict[bytes, bool] = OrderedDict()
        # Keys are digests, so that no credential stays in memory.
        self._cache: OrderedDict[bytes, CachedIdentity] = OrderedDict()
        self._exchanges: dict[bytes, asyncio.Task[CachedIdentity]] = {}

    async def identify(self, call: Call) -> Caller:
        """Return the caller and set the identity token of the call. Raises CredentialInvalid and RateLimited."""
        credential, tenant_id = bearer_credential(call), _tenant(call)
        if len(credential) > MAX_CREDENTIAL:
            raise CredentialInvalid
        key = hashlib.sha256(f"{tenant_id}\0{call.audience}\0{credential}".encode()).digest()
        identity = self._cached(key) or await self._exchanged(key, credential, tenant_id, call)
        call.identity_token = identity.token
        return identity.caller

    def _cached(self, key: bytes) -> CachedIdentity | None:
        identity = self._cache.get(key)
        if identity is None:
            return None
        if self._clock() >= identity.cache_end or CLOCK.seconds() >= identity.token_end:
            del self._cache[key]
            return None
        self._cache.move_to_end(key)
        return identity

    async def _exchanged(self, key: bytes, credential: str, tenant_id: str, call: Call) -> CachedIdentity:
        task = self._exchanges.get(key)
        if task is None:
            origin = await self._checker.origin_of(credential)
            # Another call may have started the exchange during the check.
            task = self._exchanges.get(key) or self._start_exchange(key, credential, tenant_id, call, origin)
        # A cancelled caller must not cancel the exchange for others.
        return await asyncio.shield(task)

    def _start_exchange(
        self, key: bytes, credential: str, tenant_id: str, call: Call, origin: CredentialOrigin
    ) -> asyncio.Task[CachedIdentity]:
        """Start an exchange. Raises CredentialInvalid for a forged credential, RateLimited for an unproven one."""
        source = source_network(call.client_address)
        digest = hashlib.sha256(credential.encode()).digest()
        is_charged = self._charge(source, digest, origin)
        task = asyncio.create_task(self._exchange(credential, tenant_id, call))
        self._exchanges[key] = task

        def on_done(exchange: asyncio.Task[CachedIdentity]) -> None:
            is_good = self._store_result(key, digest, exchange)
            if is_charged and is_good is not False:
                self._sources.give_back(source)

        task.add_done_callback(on_done)
        return task

    @asynccontextmanager
    async def charge_failures(self, credential: str, call: Call) -> AsyncIterator[None]:
        """Run a block that sends a credential to auth without an exchange, and charge a failure to its source.

        Raises CredentialInvalid for a forged credential, RateLimited for an unproven one.
        """
        if not credential or len(credential) > MAX_CREDENTIAL:
            raise CredentialInvalid
        source = source_network(call.client_address)
        digest = hashlib.sha256(credential.encode()).digest()
        is_charged = self._charge(source, digest, await self._checker.origin_of(credential))
        is_good: bool | None = None
        try:
            yield
            is_good = True
        except aio.AioRpcError as error:
            is_good = False if error.code() in _REFUSAL_CODES else None
            raise
        finally:
            if is_good is not None:
                self._remember_outcome(digest, is_good=is_good)
            if is_charged and is_good is not False:
                self._sources.give_back(source)

    def _charge(self, source: str, digest: bytes, origin: CredentialOrigin) -> bool:
        """Charge a source for a credential that only auth can judge; return whether it was charged.

        Raises CredentialInvalid for a forged credential, RateLimited for an unproven one.
        """
        if origin is CredentialOrigin.FORGED:
            if not self._forgery_reports.is_first(source):
                _INVALID.inc()
                raise CredentialInvalid
            return False
        if self._outcomes.get(digest, origin is CredentialOrigin.GENUINE):
            return False
        self._sources.charge(source)
        return True

    def _remember_outcome(self, digest: bytes, *, is_good: bool) -> None:
        self._outcomes[digest] = is_good
        self._outcomes.move_to_end(digest)
        if len(self._outcomes) > MAX_KNOWN_OUTCOMES:
            self._outcomes.popitem(last=False)

    def _store_result(self, key: bytes, digest: bytes, task: asyncio.Task[CachedIdentity]) -> bool | None:
        """Cache the result of an exchange. Return whether the credential was good; None if that is unknown."""
        del self._exchanges[key]
        if task.cancelled():
            return None
        error = task.exception()
        if error is not None:
            if not (isinstance(error, aio.AioRpcError) and error.code() in _REFUSAL_CODES):
                return None
        else:
            self._cache[key] = task.result()
            if len(self._cache) > MAX_CACHED:
                self._cache.popitem(last=False)
        self._remember_outcome(digest, is_good=error is None)
        return error is None

    async def _exchange(self, credential: str, tenant_id: str, call: Call) -> CachedIdentity:
        # Measured from before the exchange, so that a key revoked during it expires in time.
        started = self._clock()
        exchange_call = Call(
            path=call.path,
            metadata={REQUEST_ID_KEY: call.request_id},
            deadline=asyncio.get_running_loop().time() + EXCHANGE_SECONDS,
            peer=call.peer_address,
        )
        exchange_call.client_address, exchange_call.user_agent = call.client_address, call.user_agent
        with as_current_call(exchange_call):
            request = auth_pb2.ExchangeRequest(bearer=credential, tenant_id=tenant_id, audience=call.audience)
            try:
                response = await self._identities.Exchange(request)
            except aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                    # The exchange timed out, not the call, so the caller may retry.
                    raise ServiceUnavailable(service="auth") from None
                raise
            caller = await self._verifier.verify(response.token)
        token_end = float(response.expire_time.seconds)
        return CachedIdentity(
            caller=caller, token=response.token, cache_end=started + LIFETIME_SECONDS, token_end=token_end
        )


class SourceRateLimiter:
    """Rate limits of bad credentials: token buckets of the most recent sources, and one of all.

    A source is an IPv4 address or an IPv6 /64. A successful exchange costs nothing.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, rate: float = SOURCE_RATE) -> None:
        """Allow `rate` failures a second per source."""
        self._clock = clock
        self._rate = rate
        self._total = self._full_bucket(rate * _TOTAL_FACTOR)
        self._sources: OrderedDict[str, _Bucket] = OrderedDict()

    def charge(self, source: str) -> None:
        """Take a token of the source and one of the total. Raises RateLimited and takes nothing if one is empty."""
        buckets = (self._bucket_of(source), self._total)
        now = self._clock()
        for bucket in buckets:
            bucket.refill(now)
        wait = max(bucket.wait_seconds() for bucket in buckets)
        if wait > 0:
            LIMITED.labels(KIND).inc()
            raise RateLimited(retry_after=wait, kind=KIND)
        for bucket in buckets:
            bucket.tokens -= 1

    def give_back(self, source: str) -> None:
        """Return the tokens of an exchange that succeeded or did not finish."""
        for bucket in (self._bucket_of(source), self._total):
            bucket.tokens = min(bucket.burst, bucket.tokens + 1)

    def _bucket_of(self, source: str) -> _Bucket:
        bucket = self._sources.get(source)
        if bucket is None:
            bucket = self._sources[source] = self._full_bucket(self._rate)
            if len(self._sources) > MAX_SOURCES:
                self._sources.popitem(last=False)
        self._sources.move_to_end(source)
        return bucket

    def _full_bucket(self, rate: float) -> _Bucket:
        burst = rate * _BURST_SECONDS
        return _Bucket(rate, burst, burst, self._clock())


@dataclass(slots=True)
class _Bucket:
    """A token bucket. Rate in tokens a second, times in seconds of the clock."""

    rate: float
    burst: float
    tokens: float
    time: float

    def refill(self, now: float) -> None:
        self.tokens = min(self.burst, self.tokens + (now - self.time) * self.rate)
        self.time = now

    def wait_seconds(self) -> float:
        """Return the seconds until a token is available."""
        return max(0.0, (1.0 - self.tokens) / self.rate)


def _tenant(call: Call) -> str:
    text = call.metadata.get(TENANT_KEY, "").strip()
    if not text:
        return ""
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise FieldInvalid(violations=[(TENANT_KEY, "must be a UUID")]) from None
