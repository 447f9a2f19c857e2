"""The RPCs that concern service accounts: parse, one call, reply."""

from __future__ import annotations

from uuid import UUID

from skein.auth.v1 import accounts_pb2 as pb
from skein_auth import permissions
from skein_auth.rpc_group import Rpcs, id_before
from skein_auth.service_accounts import model as service_accounts
from skein_kit.calls.call import Context, caller
from skein_kit.idempotency.store import IdempotencyKey
from skein_kit.rpc import pagination


class ServiceAccountRpcs(Rpcs):
    """Names that keys can belong to."""

    async def CreateServiceAccount(
        self, request: pb.CreateServiceAccountRequest, context: Context
    ) -> pb.CreateServiceAccountResponse:
        who = caller(context)
        draft = service_accounts.Draft.of(request.service_account, who)
        return await self._parts.service_accounts.create_service_account(
            who.tenant(), draft, IdempotencyKey.of(who, request)
        )

    async def GetServiceAccount(
        self, request: pb.GetServiceAccountRequest, context: Context
    ) -> pb.GetServiceAccountResponse:
        found = await self._parts.service_accounts.get_service_account(
            caller(context).tenant(), UUID(request.service_account_id)
        )
        return pb.GetServiceAccountResponse(service_account=found)

    async def ListServiceAccounts(
        self, request: pb.ListServiceAccountsRequest, context: Context
    ) -> pb.ListServiceAccountsResponse:
        tenant_id = caller(context).tenant()
        size = pagination.resolve_page_size(request.page_size)
        before = id_before(pagination.read_token(request.page_token, tenant_id, request))
        found = await self._parts.service_accounts.list_service_accounts(tenant_id, before=before, size=size + 1)
        response = pb.ListServiceAccountsResponse(service_accounts=found[:size])
        if len(found) > size:
            response.next_page_token = pagination.write_token([found[size - 1].service_account_id], tenant_id, request)
        return response

    async def UpdateServiceAccount(
        self, request: pb.UpdateServiceAccountRequest, context: Context
    ) -> pb.UpdateServiceAccountResponse:
        who = caller(context)
        change = service_accounts.Change.of(request.service_account, request.update_mask, who)
        return await self._parts.service_accounts.update_service_account(
            who.tenant(), change, IdempotencyKey.of(who, request)
        )

    async def AdoptServiceAccount(
        self, request: pb.AdoptServiceAccountRequest, context: Context
    ) -> pb.AdoptServiceAccountResponse:
        who = caller(context)
        permissions.require_person(who)
        account_id = UUID(request.service_account_id)
        return await self._parts.service_accounts.adopt_service_account(
            who.tenant(), account_id, who, IdempotencyKey.of(who, request)
        )

    async def DeleteServiceAccount(
        self, request: pb.DeleteServiceAccountRequest, context: Context
    ) -> pb.DeleteServiceAccountResponse:
        who = caller(context)
        account_id = UUID(request.service_account_id)
        await self._parts.service_accounts.delete_service_account(
            who.tenant(), account_id, IdempotencyKey.of(who, request)
        )
        return pb.DeleteServiceAccountResponse()
