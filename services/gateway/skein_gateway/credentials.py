"""How the gateway learns who calls: what a caller brings is exchanged for a signed identity, remembered for seconds.

A caller's credential ends here: what travels on is the identity that auth signed.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
import uuid
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import grpc
from grpc import aio

from skein.auth.v1 import auth_pb2
from skein_kit.call import REQUEST_ID_KEY, TENANT_KEY, Call, working_for
from skein_kit.clock import CLOCK
from skein_kit.errors import CredentialInvalid, FieldInvalid, ServiceUnavailable
from skein_kit.interceptors import bearer

if TYPE_CHECKING:
    from collections.abc import Callable

    from skein.auth.v1 import auth_pb2_grpc
    from skein_kit.identity import Caller, TokenVerifier

# A revoked key, or one of a deleted tenant, is refused within five seconds: that is promised. Auth itself remembers for
# one second that a tenant is there, so this must stay below four.
LIFETIME_SECONDS = 3.75
MAX_REMEMBERED = 10_000
MAX_CREDENTIAL = 8192
# Time for an exchange. It is not the caller's own, because other callers may wait for the same exchange.
EXCHANGE_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """A caller whose credential was good when it was looked at."""

    caller: Caller
    token: str
    # When auth is asked again, by a clock that never jumps.
    ends: float
    # When the token is good no more, in seconds since 1970.
    expires: float


class Credentials:
    """Identities by credential. Failures are not remembered: a key that was just made works at once."""

    def __init__(
        self,
        identities: auth_pb2_grpc.IdentityServiceAsyncStub,
        verifier: TokenVerifier,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Ask `identities` for tokens and verify them like every other service does."""
        self._identities = identities
        self._verifier = verifier
        self._clock = clock
        # Keys are digests, so that no credential stays in memory.
        self._known: OrderedDict[bytes, Identity] = OrderedDict()
        self._asking: dict[bytes, asyncio.Task[Identity]] = {}

    async def identify(self, call: Call) -> Caller:
        """Return who makes the call, and let its outgoing calls carry the signed identity."""
        credential, tenant_id = bearer(call), _tenant(call)
        if len(credential) > MAX_CREDENTIAL:
            raise CredentialInvalid
        key = hashlib.sha256(f"{tenant_id}\0{call.audience}\0{credential}".encode()).digest()
        identity = self._remembered(key) or await self._asked(key, credential, tenant_id, call)
        call.token = identity.token
        return identity.caller

    def _remembered(self, key: bytes) -> Identity | None:
        identity = self._known.get(key)
        if identity is None:
            return None
        if self._clock() >= identity.ends or CLOCK.seconds() >= identity.expires:
            del self._known[key]
            return None
        self._known.move_to_end(key)
        return identity

    async def _asked(self, key: bytes, credential: str, tenant_id: str, call: Call) -> Identity:
        task = self._asking.get(key)
        if task is None:
            task = asyncio.create_task(self._exchange(credential, tenant_id, call))
            self._asking[key] = task
            task.add_done_callback(lambda done: self._answered(key, done))
        # One caller that gives up leaves the exchange to the others.
        return await asyncio.shield(task)

    def _answered(self, key: bytes, task: asyncio.Task[Identity]) -> None:
        del self._asking[key]
        if task.cancelled() or task.exception() is not None:
            return
        self._known[key] = task.result()
        if len(self._known) > MAX_REMEMBERED:
            self._known.popitem(last=False)

    async def _exchange(self, credential: str, tenant_id: str, call: Call) -> Identity:
        # Counted from before the exchange: a key revoked during it is forgotten in time as well.
        started = self._clock()
        asking = Call(
            path=call.path,
            metadata={REQUEST_ID_KEY: call.request_id},
            deadline=asyncio.get_running_loop().time() + EXCHANGE_SECONDS,
            peer=call.peer_address,
        )
        asking.client_address, asking.user_agent = call.client_address, call.user_agent
        with working_for(asking):
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
        return Identity(caller=caller, token=response.token, ends=started + LIFETIME_SECONDS, expires=expires)


def _tenant(call: Call) -> str:
    given = call.metadata.get(TENANT_KEY, "").strip()
    if not given:
        return ""
    try:
        return str(uuid.UUID(given))
    except ValueError:
        raise FieldInvalid(violations=[(TENANT_KEY, "is not a UUID")]) from None
