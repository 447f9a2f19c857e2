"""The RPCs of members: parse, one call, reply."""

from __future__ import annotations

from uuid import UUID

from skein.tenancy.v1 import members_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.rpc import pagination
from skein_tenancy.members import convert
from skein_tenancy.members.accounts import AccountClient
from skein_tenancy.members.model import OWNER, Authority, OwnershipTransfer, RoleChange
from skein_tenancy.members.store import MemberStore
from skein_tenancy.spaces.convert import visible_spaces
from skein_tenancy.spaces.store import SpaceStore
from skein_tenancy.validation import parse_time_position


class MemberHandlers:
    """Members of a tenant and their roles; for other services, memberships of any account."""

    def __init__(
        self, store: MemberStore, spaces: SpaceStore, accounts: AccountClient, idempotency: IdempotencyStore
    ) -> None:
        self._store = store
        self._spaces = spaces
        self._accounts = accounts
        self._idempotency = idempotency

    async def AddMember(self, request: pb.AddMemberRequest, context: Context) -> pb.AddMemberResponse:
        caller = caller_of(context)
        new_member = await self._accounts.get_new_member(
            request.account_id, convert.role_name(request.role), created_by=caller.principal
        )
        async with self._idempotency.begin(caller, request) as write:
            member = await self._store.add_member(write.tx, caller.require_tenant(), new_member)
            return await write.save(pb.AddMemberResponse(member=convert.member(member)))

    async def GetMember(self, request: pb.GetMemberRequest, context: Context) -> pb.GetMemberResponse:
        member = await self._store.get_member(caller_of(context).require_tenant(), UUID(request.account_id))
        return pb.GetMemberResponse(member=convert.member(member))

    async def ListMembers(self, request: pb.ListMembersRequest, context: Context) -> pb.ListMembersResponse:
        tenant_id = caller_of(context).require_tenant()
        size = pagination.resolve_page_size(request.page_size)
        after = parse_time_position(pagination.read_token(request.page_token, tenant_id, request))
        rows = await self._store.list_members(tenant_id, after=after, size=size + 1)
        page, token = pagination.fit_rows(
            rows,
            convert.member,
            lambda row: [row.create_time.isoformat(), str(row.account_id)],
            request,
            tenant_id,
            size=size,
        )
        return pb.ListMembersResponse(members=page, next_page_token=token)

    async def UpdateMember(self, request: pb.UpdateMemberRequest, context: Context) -> pb.UpdateMemberResponse:
        caller = caller_of(context)
        change = RoleChange(
            account_id=UUID(request.account_id), role=convert.role_name(request.role), revision=request.revision
        )
        async with self._idempotency.begin(caller, request) as write:
            member = await self._store.update_member(write.tx, caller.require_tenant(), change, Authority.of(caller))
            return await write.save(pb.UpdateMemberResponse(member=convert.member(member)))

    async def RemoveMember(self, request: pb.RemoveMemberRequest, context: Context) -> pb.RemoveMemberResponse:
        caller = caller_of(context)
        account_id = UUID(request.account_id)
        async with self._idempotency.begin(caller, request) as write:
            await self._store.remove_member(write.tx, caller.require_tenant(), account_id, Authority.of(caller))
        return pb.RemoveMemberResponse()

    async def LeaveTenant(self, request: pb.LeaveTenantRequest, context: Context) -> pb.LeaveTenantResponse:
        caller = caller_of(context)
        async with self._idempotency.begin(caller, request) as write:
            await self._store.remove_member(write.tx, caller.require_tenant(), caller.require_account(), authority=None)
        return pb.LeaveTenantResponse()

    async def TransferOwnership(
        self, request: pb.TransferOwnershipRequest, context: Context
    ) -> pb.TransferOwnershipResponse:
        caller = caller_of(context)
        from_account_id = UUID(request.from_account_id) if request.from_account_id else None
        transfer = OwnershipTransfer.of(caller, UUID(request.account_id), from_account_id)
        Authority.of(caller).require_permissions_for(OWNER)
        async with self._idempotency.begin(caller, request) as write:
            member = await self._store.transfer_ownership(write.tx, caller.require_tenant(), transfer)
            return await write.save(pb.TransferOwnershipResponse(member=convert.member(member)))

    async def GetMembership(self, request: pb.GetMembershipRequest, context: Context) -> pb.GetMembershipResponse:
        tenant_id = UUID(request.tenant_id)
        account_id = UUID(request.account_id) if request.account_id else None
        response = convert.membership(await self._store.get_membership(tenant_id, account_id))
        if request.principals and response.has_spaces:
            spaces = await self._spaces.visible_spaces(tenant_id, request.principals, request.client_principal)
            response.spaces.extend(visible_spaces(spaces))
        elif request.all_spaces and response.has_spaces:
            space_ids = await self._spaces.open_space_ids(tenant_id)
            response.spaces.extend(pb.VisibleSpace(space_id=str(space_id)) for space_id in space_ids)
        return response

    async def RemoveAccount(self, request: pb.RemoveAccountRequest, context: Context) -> pb.RemoveAccountResponse:
        return pb.RemoveAccountResponse(removed_count=await self._store.remove_account(UUID(request.account_id)))
