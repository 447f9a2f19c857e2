"""How the gateway learns who calls: what a caller brings is exchanged for a signed identity, remembered for seconds.

A caller's credential ends here: what travels on is the identity that auth signed. Credentials that the cluster cannot
have made are refused here. Those that only auth can tell cost their source a token unless they turn out to be good, so
that a flood of them never stands in the queue of honest exchanges.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
import uuid
from collections import OrderedDict
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import grpc
from grpc import aio
from prometheus_client import Counter

from skein.auth.v1 import auth_pb2
from skein_gateway.identity.credential_check import CredentialOrigin
from skein_gateway.identity.source_limits import SOURCE_RATE, SourceRateLimiter
from skein_kit.calls.call import REQUEST_ID_KEY, TENANT_KEY, Call, as_current_call
from skein_kit.clock import CLOCK
from skein_kit.errors import CredentialInvalid, FieldInvalid, ServiceUnavailable
from skein_kit.network.source_network import source_network
from skein_kit.rpc.interceptors import bearer_credential
from skein_kit.telemetry.log_throttle import LogThrottle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from skein.auth.v1 import auth_pb2_grpc
    from skein_gateway.identity.credential_check import CredentialChecker
    from skein_kit.identity.identity_token import Caller, IdentityTokenVerifier

# A revoked key, or one of a deleted tenant, is refused within five seconds: that is promised. Auth itself remembers for
# one second that a tenant is there, so this must stay below four.
LIFETIME_SECONDS = 3.75
MAX_REMEMBERED = 10_000
MAX_CREDENTIAL = 8192
# Time for an exchange. It is not the caller's own, because other callers may wait for the same exchange.
EXCHANGE_SECONDS = 5.0
# Of a source's forged credentials one in so many seconds reaches auth, which records it; and of so many sources.
REPORT_SECONDS = 60.0
MAX_REPORTS = 1_000
# Credentials of which it is known how their last exchange ended.
MAX_PROVEN = 50_000

REFUSED = Counter(
    "skein_gateway_refused_credentials_total",
    "Credentials that the gateway refused without a question to auth.",
    ["reason"],
)
# What auth says of a credential that is not good, or not good where its caller wants to act.
_REFUSALS = frozenset({grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.NOT_FOUND})
_INVALID = REFUSED.labels(CredentialInvalid.reason)


@dataclass(frozen=True, kw_only=True, slots=True)
class CachedIdentity:
    """A caller whose credential was good when it was looked at."""

    caller: Caller
    token: str
    # When auth is asked again, by a clock that never jumps.
    ends: float
    # When the token is good no more, in seconds since 1970.
    expires: float


class IdentityCache:
    """Identities by credential. No refusal is repeated from memory: a key that was just made works at once."""

    def __init__(
        self,
        identities: auth_pb2_grpc.IdentityServiceAsyncStub,
        verifier: IdentityTokenVerifier,
        recognizer: CredentialChecker,
        clock: Callable[[], float] = time.monotonic,
        *,
        unproven_per_second: float = SOURCE_RATE,
    ) -> None:
        """Ask `identities` for tokens and verify them like every other service does.

        One source may present `unproven_per_second` credentials a second that auth alone can refuse.
        """
        self._identities = identities
        self._verifier = verifier
        self._recognizer = recognizer
        self._clock = clock
        self._sources = SourceRateLimiter(clock, rate=unproven_per_second)
        self._reports: LogThrottle[str] = LogThrottle(REPORT_SECONDS, most=MAX_REPORTS, clock=clock)
        # Whether the last exchange of a credential ended well, by the credential's digest.
        self._outcomes: OrderedDict[bytes, bool] = OrderedDict()
        # Keys are digests, so that no credential stays in memory.
        self._known: OrderedDict[bytes, CachedIdentity] = OrderedDict()
        self._asking: dict[bytes, asyncio.Task[CachedIdentity]] = {}

    async def identify(self, call: Call) -> Caller:
        """Return who makes the call, and let its outgoing calls carry the signed identity."""
        credential, tenant_id = bearer_credential(call), _tenant(call)
        if len(credential) > MAX_CREDENTIAL:
            raise CredentialInvalid
        key = hashlib.sha256(f"{tenant_id}\0{call.audience}\0{credential}".encode()).digest()
        identity = self._remembered(key) or await self._asked(key, credential, tenant_id, call)
        call.token = identity.token
        return identity.caller

    def _remembered(self, key: bytes) -> CachedIdentity | None:
        identity = self._known.get(key)
        if identity is None:
            return None
        if self._clock() >= identity.ends or CLOCK.seconds() >= identity.expires:
            del self._known[key]
            return None
        self._known.move_to_end(key)
        return identity

    async def _asked(self, key: bytes, credential: str, tenant_id: str, call: Call) -> CachedIdentity:
        task = self._asking.get(key)
        if task is None:
            recognition = await self._recognizer.recognize(credential)
            # Another call may have begun the exchange meanwhile.
            task = self._asking.get(key) or self._begin(key, credential, tenant_id, call, recognition)
        # One caller that gives up leaves the exchange to the others.
        return await asyncio.shield(task)

    def _begin(
        self, key: bytes, credential: str, tenant_id: str, call: Call, recognition: CredentialOrigin
    ) -> asyncio.Task[CachedIdentity]:
        """Begin an exchange. Raises CredentialInvalid for a forged credential, RateLimited for an unproven one."""
        source = source_network(call.client_address)
        digest = hashlib.sha256(credential.encode()).digest()
        is_charged = self._charge(source, digest, recognition)
        task = asyncio.create_task(self._exchange(credential, tenant_id, call))
        self._asking[key] = task

        def answered(done: asyncio.Task[CachedIdentity]) -> None:
            is_good = self._answered(key, digest, done)
            if is_charged and is_good is not False:
                self._sources.give_back(source)

        task.add_done_callback(answered)
        return task

    @asynccontextmanager
    async def charging(self, credential: str, call: Call) -> AsyncIterator[None]:
        """Run a block that presents a credential to auth without an exchange, and charge a failure to the source.

        Raises CredentialInvalid for a forged credential, RateLimited for an unproven one.
        """
        if not credential or len(credential) > MAX_CREDENTIAL:
            raise CredentialInvalid
        source = source_network(call.client_address)
        digest = hashlib.sha256(credential.encode()).digest()
        is_charged = self._charge(source, digest, await self._recognizer.recognize(credential))
        is_good: bool | None = None
        try:
            yield
            is_good = True
        except aio.AioRpcError as error:
            is_good = False if error.code() in _REFUSALS else None
            raise
        finally:
            if is_good is not None:
                self._remember_outcome(digest, is_good=is_good)
            if is_charged and is_good is not False:
                self._sources.give_back(source)

    def _charge(self, source: str, digest: bytes, recognition: CredentialOrigin) -> bool:
        """Charge a source for a credential that only auth can judge; return whether it was charged.

        Raises CredentialInvalid for a forged credential, RateLimited for an unproven one.
        """
        if recognition is CredentialOrigin.FORGED:
            if not self._reports.is_first(source):
                _INVALID.inc()
                raise CredentialInvalid
            return False
        if self._outcomes.get(digest, recognition is CredentialOrigin.GENUINE):
            return False
        self._sources.charge(source)
        return True

    def _remember_outcome(self, digest: bytes, *, is_good: bool) -> None:
        self._outcomes[digest] = is_good
        self._outcomes.move_to_end(digest)
        if len(self._outcomes) > MAX_PROVEN:
            self._outcomes.popitem(last=False)

    def _answered(self, key: bytes, digest: bytes, task: asyncio.Task[CachedIdentity]) -> bool | None:
        """Remember what came of an exchange; say whether the credential was good, None when that stayed open."""
        del self._asking[key]
        if task.cancelled():
            return None
        error = task.exception()
        if error is not None:
            if not (isinstance(error, aio.AioRpcError) and error.code() in _REFUSALS):
                return None
        else:
            self._known[key] = task.result()
            if len(self._known) > MAX_REMEMBERED:
                self._known.popitem(last=False)
        self._remember_outcome(digest, is_good=error is None)
        return error is None

    async def _exchange(self, credential: str, tenant_id: str, call: Call) -> CachedIdentity:
        # Counted from before the exchange: a key revoked during it is forgotten in time as well.
        started = self._clock()
        asking = Call(
            path=call.path,
            metadata={REQUEST_ID_KEY: call.request_id},
            deadline=asyncio.get_running_loop().time() + EXCHANGE_SECONDS,
            peer=call.peer_address,
        )
        asking.client_address, asking.user_agent = call.client_address, call.user_agent
        with as_current_call(asking):
            request = auth_pb2.ExchangeRequest(bearer=credential, tenant_id=tenant_id, audience=call.audience)
            try:
                response = await self._identities.Exchange(request)
            except aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                    # The exchange's own time is over, not the caller's, who may try again.
                    raise ServiceUnavailable(service="auth") from None
                raise
            caller = await self._verifier.verify(response.token)
        expires = float(response.expire_time.seconds)
        return CachedIdentity(caller=caller, token=response.token, ends=started + LIFETIME_SECONDS, expires=expires)


def _tenant(call: Call) -> str:
    given = call.metadata.get(TENANT_KEY, "").strip()
    if not given:
        return ""
    try:
        return str(uuid.UUID(given))
    except ValueError:
        raise FieldInvalid(violations=[(TENANT_KEY, "is not a UUID")]) from None
