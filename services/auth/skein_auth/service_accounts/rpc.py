"""RPCs: service accounts of a tenant."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from skein.auth.v1 import accounts_pb2
from skein_auth import permissions
from skein_auth.pages import id_before
from skein_auth.service_accounts.model import Change, Draft
from skein_kit.calls.call import Context, caller
from skein_kit.idempotency.key import IdempotencyKey
from skein_kit.rpc import pagination

if TYPE_CHECKING:
    from skein_auth.service_accounts.store import ServiceAccountStore


class ServiceAccountsRpc:
    """Service accounts of a tenant."""

    def __init__(self, store: ServiceAccountStore) -> None:
        self._store = store

    async def CreateServiceAccount(
        self, request: accounts_pb2.CreateServiceAccountRequest, context: Context
    ) -> accounts_pb2.CreateServiceAccountResponse:
        who = caller(context)
        draft = Draft.of(request.service_account, who)
        return await self._store.create_service_account(who.tenant(), draft, IdempotencyKey.of(who, request))

    async def GetServiceAccount(
        self, request: accounts_pb2.GetServiceAccountRequest, context: Context
    ) -> accounts_pb2.GetServiceAccountResponse:
        found = await self._store.get_service_account(caller(context).tenant(), UUID(request.service_account_id))
        return accounts_pb2.GetServiceAccountResponse(service_account=found)

    async def ListServiceAccounts(
        self, request: accounts_pb2.ListServiceAccountsRequest, context: Context
    ) -> accounts_pb2.ListServiceAccountsResponse:
        tenant_id = caller(context).tenant()
        size = pagination.resolve_page_size(request.page_size)
        before = id_before(pagination.read_token(request.page_token, tenant_id, request))
        found = await self._store.list_service_accounts(tenant_id, before=before, size=size + 1)
        response = accounts_pb2.ListServiceAccountsResponse(service_accounts=found[:size])
        if len(found) > size:
            response.next_page_token = pagination.write_token([found[size - 1].service_account_id], tenant_id, request)
        return response

    async def UpdateServiceAccount(
        self, request: accounts_pb2.UpdateServiceAccountRequest, context: Context
    ) -> accounts_pb2.UpdateServiceAccountResponse:
        who = caller(context)
        change = Change.of(request.service_account, request.update_mask, who)
        return await self._store.update_service_account(who.tenant(), change, IdempotencyKey.of(who, request))

    async def AdoptServiceAccount(
        self, request: accounts_pb2.AdoptServiceAccountRequest, context: Context
    ) -> accounts_pb2.AdoptServiceAccountResponse:
        who = caller(context)
        permissions.require_person(who)
        account_id = UUID(request.service_account_id)
        return await self._store.adopt_service_account(who.tenant(), account_id, who, IdempotencyKey.of(who, request))

    async def DeleteServiceAccount(
        self, request: accounts_pb2.DeleteServiceAccountRequest, context: Context
    ) -> accounts_pb2.DeleteServiceAccountResponse:
        who = caller(context)
        account_id = UUID(request.service_account_id)
        await self._store.delete_service_account(who.tenant(), account_id, IdempotencyKey.of(who, request))
        return accounts_pb2.DeleteServiceAccountResponse()
