"""The RPCs that concern the second factor: parse, one call, reply."""

from __future__ import annotations

from skein.auth.v1 import accounts_pb2 as pb
from skein_auth.rpc_group import Rpcs
from skein_kit.calls.call import Context, caller
from skein_kit.idempotency.store import IdempotencyKey


class TotpRpcs(Rpcs):
    """The second factor of the account that calls."""

    async def StartTotp(self, request: pb.StartTotpRequest, context: Context) -> pb.StartTotpResponse:
        who = caller(context)
        return await self._parts.totp.start(who, request.password, IdempotencyKey.of(who, request))

    async def ConfirmTotp(self, request: pb.ConfirmTotpRequest, context: Context) -> pb.ConfirmTotpResponse:
        who = caller(context)
        return await self._parts.totp.confirm(who, request.code, IdempotencyKey.of(who, request))

    async def DisableTotp(self, request: pb.DisableTotpRequest, context: Context) -> pb.DisableTotpResponse:
        who = caller(context)
        once = IdempotencyKey.of(who, request)
        await self._parts.totp.disable(who, request.password, request.second_factor, once)
        return pb.DisableTotpResponse()
