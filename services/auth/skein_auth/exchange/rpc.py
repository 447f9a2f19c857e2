"""The RPCs of IdentityService: parse, one call, reply."""

from __future__ import annotations

from uuid import UUID

from skein.auth.v1 import auth_pb2 as pb
from skein.auth.v1 import auth_pb2_grpc as rpc
from skein_auth import convert as wire
from skein_auth.accounts.rpc import StandingRpcs
from skein_auth.maintenance.store import DEFAULT_PURGE
from skein_kit.calls.call import Context, caller
from skein_kit.ids import now


class IdentityServicer(StandingRpcs, rpc.IdentityServiceServicer):
    """The exchange of credentials for signed identities."""

    async def Exchange(self, request: pb.ExchangeRequest, context: Context) -> pb.ExchangeResponse:
        at = now()
        tenant_id = UUID(request.tenant_id) if request.tenant_id else None
        if request.HasField("system"):
            identity = await self._parts.identities.of_system(request.system.key, request.system.service, tenant_id)
        else:
            identity = await self._parts.identities.of_bearer(request.bearer, tenant_id, at, audience=request.audience)
        until = None if identity.expire_time is None else identity.expire_time.timestamp()
        return wire.exchanged(*await self._parts.keyring.signed(identity.caller, at=at.timestamp(), until=until))

    async def GetCheckKeys(self, request: pb.GetCheckKeysRequest, context: Context) -> pb.GetCheckKeysResponse:
        return pb.GetCheckKeysResponse(check_keys=await self._parts.check_keys.known())

    async def DeleteExpired(self, request: pb.DeleteExpiredRequest, context: Context) -> pb.DeleteExpiredResponse:
        deleted = await self._parts.upkeep.delete_expired(caller(context).tenant(), now())
        return pb.DeleteExpiredResponse(deleted_count=deleted)

    async def PurgeTenant(self, request: pb.PurgeTenantRequest, context: Context) -> pb.PurgeTenantResponse:
        counts, more = await self._parts.upkeep.purge(caller(context).tenant(), request.limit or DEFAULT_PURGE)
        return pb.PurgeTenantResponse(deleted_counts=counts, more=more)
