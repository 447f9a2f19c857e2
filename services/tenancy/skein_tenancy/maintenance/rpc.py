"""The RPCs that other services ask about tenants and accounts: parse, one call, reply."""

from __future__ import annotations

from uuid import UUID

from skein.tenancy.v1 import members_pb2 as pb
from skein_kit.calls.call import Context, caller
from skein_kit.ids import now
from skein_tenancy.rpc_base import Rpcs


class MembershipStateHandlers(Rpcs):
    """What accounts are in tenants, and what of it is over."""

    async def GetStanding(self, request: pb.GetStandingRequest, context: Context) -> pb.GetStandingResponse:
        account_id = UUID(request.account_id) if request.account_id else None
        return await self._parts.members.get_standing(UUID(request.tenant_id), account_id)

    async def CheckInvitation(self, request: pb.CheckInvitationRequest, context: Context) -> pb.CheckInvitationResponse:
        found, mailed = await self._parts.invitations.check_invitation(request.token, request.email.lower(), now())
        return pb.CheckInvitationResponse(invitation_id=str(found), mailed=mailed)

    async def RemoveAccount(self, request: pb.RemoveAccountRequest, context: Context) -> pb.RemoveAccountResponse:
        return pb.RemoveAccountResponse(
            removed_count=await self._parts.members.remove_account(UUID(request.account_id))
        )

    async def DeleteExpired(self, request: pb.DeleteExpiredRequest, context: Context) -> pb.DeleteExpiredResponse:
        tenant_id, at = caller(context).tenant(), now()
        deleted = await self._parts.invitations.delete_expired(tenant_id, at)
        deleted += await self._parts.quotas.delete_idle(tenant_id, at)
        deleted += await self._parts.agents.delete_purged(tenant_id, at)
        return pb.DeleteExpiredResponse(deleted_count=deleted)
