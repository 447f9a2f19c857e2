"""The RPCs of the second factor."""

from __future__ import annotations

from skein.auth.v1 import accounts_pb2 as pb
from skein_auth.second_factor.totp import Totp
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.idempotency.store import IdempotencyKey


class SecondFactorHandlers:
    """The second factor of the calling account."""

    def __init__(self, totp: Totp) -> None:
        self._totp = totp

    async def StartTotp(self, request: pb.StartTotpRequest, context: Context) -> pb.StartTotpResponse:
        caller = caller_of(context)
        secret, uri = await self._totp.start(caller, request.password, IdempotencyKey.of(caller, request))
        return pb.StartTotpResponse(secret=secret, uri=uri)

    async def ConfirmTotp(self, request: pb.ConfirmTotpRequest, context: Context) -> pb.ConfirmTotpResponse:
        caller = caller_of(context)
        recovery_codes = await self._totp.confirm(caller, request.code, IdempotencyKey.of(caller, request))
        return pb.ConfirmTotpResponse(recovery_codes=recovery_codes)

    async def DisableTotp(self, request: pb.DisableTotpRequest, context: Context) -> pb.DisableTotpResponse:
        caller = caller_of(context)
        idempotency_key = IdempotencyKey.of(caller, request)
        await self._totp.disable(caller, request.password, request.second_factor, idempotency_key)
        return pb.DisableTotpResponse()
