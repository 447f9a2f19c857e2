"""The worker's own identity: the cluster's system, in one tenant at a time."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from skein.auth.v1 import auth_pb2 as pb
from skein_kit.calls.call import Call, as_current_call
from skein_kit.clock import CLOCK

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from skein.auth.v1 import auth_pb2_grpc as rpc

# A token is exchanged anew when it has less than this left, and in any case after so long.
_MARGIN_SECONDS = 20
_MOST_SECONDS = 40.0
_MAX_CACHED_TOKENS = 10_000


class SystemIdentity:
    """Lends the system's identity to calls. Tokens live a minute; each is used until shortly before its end."""

    def __init__(self, auth: rpc.IdentityServiceAsyncStub, *, key: str) -> None:
        self._auth = auth
        self._credential = pb.SystemCredential(key=key, service="worker")
        # Each with its end by auth's clock, and with the time by a clock that never jumps when it is exchanged anew.
        self._tokens: OrderedDict[tuple[str, bool], tuple[str, float, float]] = OrderedDict()

    @asynccontextmanager
    async def acting(self, *, tenant_id: str = "", closed: bool = False, seconds: float) -> AsyncIterator[None]:
        """Make the calls of the block as the system, in this tenant or in none, for at most so many seconds.

        A tenant that is being deleted is `closed`: a token from before that would not do. Raises AioRpcError when auth
        does not answer or there is no such tenant.
        """
        loop = asyncio.get_running_loop()
        call = Call(path="worker", metadata={}, deadline=loop.time() + seconds, peer="worker")
        with as_current_call(call):
            call.token = await self._token(tenant_id, closed=closed)
            yield

    def forget(self, tenant_id: str) -> None:
        """Exchange anew before the next call in a tenant that is being deleted: the token may be from before that."""
        self._tokens.pop((tenant_id, True), None)

    async def _token(self, tenant_id: str, *, closed: bool) -> str:
        key = (tenant_id, closed)
        token, ends, lapses = self._tokens.get(key, ("", 0.0, 0.0))
        asked = time.monotonic()
        if CLOCK.seconds() < ends - _MARGIN_SECONDS and asked < lapses:
            return token
        request = pb.ExchangeRequest(system=self._credential, tenant_id=tenant_id)
        response = await self._auth.Exchange(request)
        self._tokens[key] = (response.token, float(response.expire_time.seconds), asked + _MOST_SECONDS)
        self._tokens.move_to_end(key)
        if len(self._tokens) > _MAX_CACHED_TOKENS:
            self._tokens.popitem(last=False)
        return response.token
