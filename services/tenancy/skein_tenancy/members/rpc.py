"""The RPCs that concern members: parse, one call, reply."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from skein.tenancy.v1 import members_pb2 as pb
from skein_kit.calls.call import Context, caller
from skein_kit.errors import PageTokenInvalid
from skein_kit.idempotency.store import IdempotencyKey
from skein_kit.rpc import pagination
from skein_tenancy import convert as wire
from skein_tenancy.members.model import OWNER, Authority, OwnershipTransfer, RoleChange
from skein_tenancy.rpc_base import Rpcs


class MemberRpcs(Rpcs):
    """The members of a tenant, and who owns it."""

    async def AddMember(self, request: pb.AddMemberRequest, context: Context) -> pb.AddMemberResponse:
        who = caller(context)
        joining = await self._parts.accounts.joining(
            request.account_id, wire.role_name(request.role), created_by=who.principal
        )
        return await self._parts.members.add_member(who.tenant(), joining, IdempotencyKey.of(who, request))

    async def GetMember(self, request: pb.GetMemberRequest, context: Context) -> pb.GetMemberResponse:
        member = await self._parts.members.get_member(caller(context).tenant(), UUID(request.account_id))
        return pb.GetMemberResponse(member=member)

    async def ListMembers(self, request: pb.ListMembersRequest, context: Context) -> pb.ListMembersResponse:
        tenant_id = caller(context).tenant()
        size = pagination.resolve_page_size(request.page_size)
        after = _place(pagination.read_token(request.page_token, tenant_id, request))
        found = await self._parts.members.list_members(tenant_id, after=after, size=size + 1)
        page = pagination.fit_items(found[:size])
        response = pb.ListMembersResponse(members=page)
        if len(found) > len(page):
            joined = page[-1].create_time.ToDatetime(tzinfo=UTC).isoformat()
            response.next_page_token = pagination.write_token([joined, page[-1].account_id], tenant_id, request)
        return response

    async def UpdateMember(self, request: pb.UpdateMemberRequest, context: Context) -> pb.UpdateMemberResponse:
        who = caller(context)
        change = RoleChange(
            account_id=UUID(request.account_id), role=wire.role_name(request.role), revision=request.revision
        )
        return await self._parts.members.update_member(
            who.tenant(), change, IdempotencyKey.of(who, request), by=Authority.of(who)
        )

    async def RemoveMember(self, request: pb.RemoveMemberRequest, context: Context) -> pb.RemoveMemberResponse:
        who = caller(context)
        return await self._parts.members.remove_member(
            who.tenant(), UUID(request.account_id), IdempotencyKey.of(who, request), by=Authority.of(who)
        )

    async def LeaveTenant(self, request: pb.LeaveTenantRequest, context: Context) -> pb.LeaveTenantResponse:
        who = caller(context)
        return await self._parts.members.leave_tenant(who.tenant(), who.account(), IdempotencyKey.of(who, request))

    async def TransferOwnership(
        self, request: pb.TransferOwnershipRequest, context: Context
    ) -> pb.TransferOwnershipResponse:
        who = caller(context)
        from_account_id = UUID(request.from_account_id) if request.from_account_id else None
        transfer = OwnershipTransfer.of(who, UUID(request.account_id), from_account_id)
        Authority.of(who).must_cover(OWNER)
        return await self._parts.members.transfer_ownership(who.tenant(), transfer, IdempotencyKey.of(who, request))


def _place(place: list[str] | None) -> tuple[datetime, UUID] | None:
    if place is None:
        return None
    try:
        joined, account_id = place
        return datetime.fromisoformat(joined).astimezone(UTC), UUID(account_id)
    except (ValueError, OverflowError):
        raise PageTokenInvalid from None
