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

# A token is replaced this long before it expires, and at the latest after _MAX_TOKEN_SECONDS.
_MARGIN_SECONDS = 20
_MAX_TOKEN_SECONDS = 40.0
_MAX_CACHED_TOKENS = 10_000


class SystemIdentity:
    """Makes calls as the system. Tokens live a minute and are cached until shortly before they expire."""

    def __init__(self, auth: rpc.AuthInternalServiceAsyncStub, *, key: str) -> None:
        self._auth = auth
        self._key = key
        # By tenant, whether it is deleted, and extractor: the token, its expiry by auth's clock, and when to replace it
        # by the monotonic clock.
        self._tokens: OrderedDict[tuple[str, bool, str], tuple[str, float, float]] = OrderedDict()

    @asynccontextmanager
    async def as_system(self, *, tenant_id: str = "", deleted: bool = False, seconds: float) -> AsyncIterator[None]:
        """Make the calls of the block as the system, in a tenant or in none, within `seconds`.

        A token from before a tenant's deletion is refused after it, so tokens of a `deleted` tenant are cached apart.
        Raises AioRpcError when auth does not answer or has no such tenant.
        """
        loop = asyncio.get_running_loop()
        call = Call(path="worker", metadata={}, deadline=loop.time() + seconds, peer="worker")
        with as_current_call(call):
            call.identity_token = await self._token(tenant_id, deleted=deleted)
            yield

    @asynccontextmanager
    async def as_extractor(self, extractor: str, *, tenant_id: str, seconds: float) -> AsyncIterator[None]:
        """Make the calls of the block as an extractor of facts ("extractor:rules@1"), within `seconds`.

        Its permissions are those of auth's SystemCredential.extractor. Raises AioRpcError as `as_system`.
        """
        loop = asyncio.get_running_loop()
        call = Call(path="worker", metadata={}, deadline=loop.time() + seconds, peer="worker")
        with as_current_call(call):
            call.identity_token = await self._token(tenant_id, extractor=extractor.removeprefix("extractor:"))
            yield

    def drop_token(self, tenant_id: str) -> None:
        """Drop the token of a deleted tenant, which may be from before the deletion."""
        self._tokens.pop((tenant_id, True, ""), None)

    async def _token(self, tenant_id: str, *, deleted: bool = False, extractor: str = "") -> str:
        key = (tenant_id, deleted, extractor)
        token, expire_seconds, replace_seconds = self._tokens.get(key, ("", 0.0, 0.0))
        request_seconds = time.monotonic()
        if CLOCK.seconds() < expire_seconds - _MARGIN_SECONDS and request_seconds < replace_seconds:
            return token
        credential = pb.SystemCredential(key=self._key, service="worker", extractor=extractor)
        request = pb.ExchangeRequest(system=credential, tenant_id=tenant_id)
        response = await self._auth.Exchange(request)
        self._tokens[key] = (
            response.token,
            float(response.expire_time.seconds),
            request_seconds + _MAX_TOKEN_SECONDS,
        )
        self._tokens.move_to_end(key)
        if len(self._tokens) > _MAX_CACHED_TOKENS:
            self._tokens.popitem(last=False)
        return response.token
