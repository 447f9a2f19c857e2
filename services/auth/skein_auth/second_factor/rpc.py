"""RPCs: the second factor of the caller's account."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.auth.v1 import accounts_pb2
from skein_kit.calls.call import Context, caller
from skein_kit.idempotency.key import IdempotencyKey

if TYPE_CHECKING:
    from skein_auth.second_factor.totp import Totp


class SecondFactorRpc:
    """The second factor of the caller's account."""

    def __init__(self, totp: Totp) -> None:
        self._totp = totp

    async def StartTotp(
        self, request: accounts_pb2.StartTotpRequest, context: Context
    ) -> accounts_pb2.StartTotpResponse:
        who = caller(context)
        return await self._totp.start(who, request.password, IdempotencyKey.of(who, request))

    async def ConfirmTotp(
        self, request: accounts_pb2.ConfirmTotpRequest, context: Context
    ) -> accounts_pb2.ConfirmTotpResponse:
        who = caller(context)
        return await self._totp.confirm(who, request.code, IdempotencyKey.of(who, request))

    async def DisableTotp(
        self, request: accounts_pb2.DisableTotpRequest, context: Context
    ) -> accounts_pb2.DisableTotpResponse:
        who = caller(context)
        once = IdempotencyKey.of(who, request)
        await self._totp.disable(who, request.password, request.second_factor, once)
        return accounts_pb2.DisableTotpResponse()
