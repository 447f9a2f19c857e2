"""The worker's own identity: the cluster's system, in one tenant, and in one space of it, at a time."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from skein.auth.v1 import auth_pb2 as pb
from skein.auth.v1 import auth_pb2_grpc as rpc
from skein_kit.calls.call import Call, as_current_call
from skein_kit.clock import CLOCK

# A token is replaced this long before it expires, and at the latest after _MAX_TOKEN_SECONDS.
_MARGIN_SECONDS = 20
_MAX_TOKEN_SECONDS = 40.0
_MAX_CACHED_TOKENS = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class _Token:
    text: str
    # The spaces of its tenant beside the default one.
    space_ids: tuple[str, ...]
    # By auth's clock.
    expire_seconds: float
    # When to replace it, by the monotonic clock.
    replace_seconds: float


class SystemIdentity:
    """Makes calls as the system. Tokens live a minute and are cached until shortly before they expire."""

    def __init__(self, auth: rpc.AuthInternalServiceAsyncStub, *, key: str) -> None:
        self._auth = auth
        self._key = key
        # By tenant, whether it is deleted, extractor and space.
        self._tokens: OrderedDict[tuple[str, bool, str, str], _Token] = OrderedDict()

    @asynccontextmanager
    async def as_system(
        self, *, tenant_id: str = "", space_id: str = "", deleted: bool = False, seconds: float
    ) -> AsyncIterator[None]:
        """Make the calls of the block as the system, in a tenant or in none, within `seconds`.

        They reach one space of the tenant: the default one where `space_id` is empty.
        A token from before a tenant's deletion is refused after it, so tokens of a `deleted` tenant are cached apart.
        Raises AioRpcError when auth does not answer or has no such tenant.
        """
        loop = asyncio.get_running_loop()
        call = Call(path="worker", metadata={}, deadline=loop.time() + seconds, peer="worker")
        with as_current_call(call):
            call.identity_token = (await self._token(tenant_id, deleted=deleted, space_id=space_id)).text
            yield

    @asynccontextmanager
    async def as_extractor(
        self, extractor: str, *, tenant_id: str, space_id: str = "", seconds: float
    ) -> AsyncIterator[None]:
        """Make the calls of the block as an extractor of facts ("extractor:rules@4") in a space, within `seconds`.

        Its permissions are those of auth's SystemCredential.extractor. Raises AioRpcError as `as_system`.
        """
        loop = asyncio.get_running_loop()
        call = Call(path="worker", metadata={}, deadline=loop.time() + seconds, peer="worker")
        with as_current_call(call):
            name = extractor.removeprefix("extractor:")
            call.identity_token = (await self._token(tenant_id, extractor=name, space_id=space_id)).text
            yield

    async def spaces(self, tenant_id: str, *, seconds: float) -> list[str]:
        """Return the spaces of a tenant as `as_system` names them, the default one first. Raises AioRpcError."""
        loop = asyncio.get_running_loop()
        with as_current_call(Call(path="worker", metadata={}, deadline=loop.time() + seconds, peer="worker")):
            return ["", *(await self._token(tenant_id)).space_ids]

    def drop_token(self, tenant_id: str) -> None:
        """Drop the token of a deleted tenant, which may be from before the deletion."""
        self._tokens.pop((tenant_id, True, "", ""), None)

    async def _token(self, tenant_id: str, *, deleted: bool = False, extractor: str = "", space_id: str = "") -> _Token:
        key = (tenant_id, deleted, extractor, space_id)
        token, request_seconds = self._tokens.get(key), time.monotonic()
        if (
            token is not None
            and CLOCK.seconds() < token.expire_seconds - _MARGIN_SECONDS
            and request_seconds < token.replace_seconds
        ):
            return token
        credential = pb.SystemCredential(key=self._key, service="worker", extractor=extractor, space_id=space_id)
        request = pb.ExchangeRequest(system=credential, tenant_id=tenant_id)
        response = await self._auth.Exchange(request)
        token = self._tokens[key] = _Token(
            text=response.token,
            space_ids=tuple(response.space_ids),
            expire_seconds=float(response.expire_time.seconds),
            replace_seconds=request_seconds + _MAX_TOKEN_SECONDS,
        )
        self._tokens.move_to_end(key)
        if len(self._tokens) > _MAX_CACHED_TOKENS:
            self._tokens.popitem(last=False)
        return token
