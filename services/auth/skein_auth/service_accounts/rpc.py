"""The RPCs of service accounts."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from skein.auth.v1 import accounts_pb2 as pb
from skein_auth import permissions
from skein_auth.pages import id_before
from skein_auth.service_accounts import convert
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.idempotency.store import IdempotencyKey
from skein_kit.rpc import pagination

if TYPE_CHECKING:
    from skein_auth.service_accounts.store import ServiceAccountStore
    from skein_kit.idempotency.store import IdempotencyStore


class ServiceAccountHandlers:
    """Service accounts of a tenant."""

    def __init__(self, store: ServiceAccountStore, idempotency: IdempotencyStore) -> None:
        self._store = store
        self._idempotency = idempotency

    async def CreateServiceAccount(
        self, request: pb.CreateServiceAccountRequest, context: Context
    ) -> pb.CreateServiceAccountResponse:
        caller = caller_of(context)
        draft = convert.draft(request.service_account, caller)
        async with self._idempotency.begin(caller.require_tenant(), IdempotencyKey.of(caller, request)) as write:
            if write.saved_response is not None:
                return pb.CreateServiceAccountResponse.FromString(write.saved_response)
            account = await self._store.create_service_account(write.tx, caller.require_tenant(), draft)
            return await write.save(pb.CreateServiceAccountResponse(service_account=convert.service_account(account)))

    async def GetServiceAccount(
        self, request: pb.GetServiceAccountRequest, context: Context
    ) -> pb.GetServiceAccountResponse:
        account = await self._store.get_service_account(
            caller_of(context).require_tenant(), UUID(request.service_account_id)
        )
        return pb.GetServiceAccountResponse(service_account=convert.service_account(account))

    async def ListServiceAccounts(
        self, request: pb.ListServiceAccountsRequest, context: Context
    ) -> pb.ListServiceAccountsResponse:
        tenant_id = caller_of(context).require_tenant()
        size = pagination.resolve_page_size(request.page_size)
        before = id_before(pagination.read_token(request.page_token, tenant_id, request))
        accounts = await self._store.list_service_accounts(tenant_id, before=before, size=size + 1)
        response = pb.ListServiceAccountsResponse(service_accounts=map(convert.service_account, accounts[:size]))
        if len(accounts) > size:
            last_id = str(accounts[size - 1].service_account_id)
            response.next_page_token = pagination.write_token([last_id], tenant_id, request)
        return response

    async def UpdateServiceAccount(
        self, request: pb.UpdateServiceAccountRequest, context: Context
    ) -> pb.UpdateServiceAccountResponse:
        caller = caller_of(context)
        change = convert.change(request.service_account, request.update_mask, caller)
        async with self._idempotency.begin(caller.require_tenant(), IdempotencyKey.of(caller, request)) as write:
            if write.saved_response is not None:
                return pb.UpdateServiceAccountResponse.FromString(write.saved_response)
            account = await self._store.update_service_account(write.tx, caller.require_tenant(), change)
            return await write.save(pb.UpdateServiceAccountResponse(service_account=convert.service_account(account)))

    async def AdoptServiceAccount(
        self, request: pb.AdoptServiceAccountRequest, context: Context
    ) -> pb.AdoptServiceAccountResponse:
        caller = caller_of(context)
        permissions.require_person(caller)
        account_id = UUID(request.service_account_id)
        async with self._idempotency.begin(caller.require_tenant(), IdempotencyKey.of(caller, request)) as write:
            if write.saved_response is not None:
                return pb.AdoptServiceAccountResponse.FromString(write.saved_response)
            account = await self._store.adopt_service_account(write.tx, caller.require_tenant(), account_id, caller)
            return await write.save(pb.AdoptServiceAccountResponse(service_account=convert.service_account(account)))

    async def DeleteServiceAccount(
        self, request: pb.DeleteServiceAccountRequest, context: Context
    ) -> pb.DeleteServiceAccountResponse:
        caller, account_id = caller_of(context), UUID(request.service_account_id)
        async with self._idempotency.begin(caller.require_tenant(), IdempotencyKey.of(caller, request)) as write:
            if write.saved_response is None:
                await self._store.delete_service_account(write.tx, caller.require_tenant(), account_id)
        return pb.DeleteServiceAccountResponse()
