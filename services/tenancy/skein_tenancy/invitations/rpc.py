"""The RPCs that concern invitations: parse, one call, reply."""

from __future__ import annotations

from uuid import UUID

from skein.tenancy.v1 import members_pb2 as pb
from skein_kit.calls.call import Context, caller
from skein_kit.idempotency.store import IdempotencyKey
from skein_kit.ids import now
from skein_kit.rpc import pagination
from skein_tenancy.invitations.model import Draft
from skein_tenancy.members.model import Authority
from skein_tenancy.rpc_base import Rpcs, id_from_page_token


class InvitationRpcs(Rpcs):
    """Offers to join a tenant."""

    async def CreateInvitation(
        self, request: pb.CreateInvitationRequest, context: Context
    ) -> pb.CreateInvitationResponse:
        who = caller(context)
        draft = Draft.of(request, who)
        Authority.of(who).must_cover(draft.role)
        return await self._parts.inviting.invite(who.tenant(), draft, IdempotencyKey.of(who, request))

    async def ListInvitations(self, request: pb.ListInvitationsRequest, context: Context) -> pb.ListInvitationsResponse:
        tenant_id = caller(context).tenant()
        size = pagination.resolve_page_size(request.page_size)
        before = id_from_page_token(pagination.read_token(request.page_token, tenant_id, request))
        found = await self._parts.invitations.list_invitations(tenant_id, before=before, size=size + 1, at=now())
        page = pagination.fit_items(found[:size])
        response = pb.ListInvitationsResponse(invitations=page)
        if len(found) > len(page):
            response.next_page_token = pagination.write_token([page[-1].invitation_id], tenant_id, request)
        return response

    async def RevokeInvitation(
        self, request: pb.RevokeInvitationRequest, context: Context
    ) -> pb.RevokeInvitationResponse:
        who = caller(context)
        return await self._parts.invitations.revoke_invitation(
            who.tenant(), UUID(request.invitation_id), IdempotencyKey.of(who, request)
        )

    async def AcceptInvitation(
        self, request: pb.AcceptInvitationRequest, context: Context
    ) -> pb.AcceptInvitationResponse:
        who = caller(context)
        address = await self._parts.accounts.address_of(who)
        return await self._parts.invitations.accept_invitation(
            request.token, who, address, IdempotencyKey.of(who, request)
        )
