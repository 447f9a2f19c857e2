"""The RPCs of service accounts."""

from __future__ import annotations

from uuid import UUID

from google.protobuf.field_mask_pb2 import FieldMask

from skein.auth.v1 import accounts_pb2 as pb
from skein_auth import permissions
from skein_auth.service_accounts.model import UPDATABLE, ServiceAccount, ServiceAccountChange, ServiceAccountDraft
from skein_auth.service_accounts.store import ServiceAccountStore
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.errors import FieldInvalid
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.identity.identity_token import Caller
from skein_kit.ids import parse_id
from skein_kit.rpc import pagination, well_known_types
from skein_kit.rpc.well_known_types import to_message


class ServiceAccountHandlers:
    """Service accounts of a tenant."""

    def __init__(self, store: ServiceAccountStore, idempotency: IdempotencyStore) -> None:
        self._store = store
        self._idempotency = idempotency

    async def CreateServiceAccount(
        self, request: pb.CreateServiceAccountRequest, context: Context
    ) -> pb.CreateServiceAccountResponse:
        caller = caller_of(context)
        draft = _draft(request.service_account, caller)
        async with self._idempotency.begin(caller, request) as write:
            account = await self._store.create_service_account(write.tx, caller.require_tenant(), draft)
            return await write.save(pb.CreateServiceAccountResponse(service_account=_service_account(account)))

    async def GetServiceAccount(
        self, request: pb.GetServiceAccountRequest, context: Context
    ) -> pb.GetServiceAccountResponse:
        account = await self._store.get_service_account(
            caller_of(context).require_tenant(), UUID(request.service_account_id)
        )
        return pb.GetServiceAccountResponse(service_account=_service_account(account))

    async def ListServiceAccounts(
        self, request: pb.ListServiceAccountsRequest, context: Context
    ) -> pb.ListServiceAccountsResponse:
        tenant_id = caller_of(context).require_tenant()
        size = pagination.resolve_page_size(request.page_size)
        before = pagination.read_id(tenant_id, request)
        accounts = await self._store.list_service_accounts(tenant_id, before=before, size=size + 1)
        page, token = pagination.fit_rows(
            accounts, _service_account, lambda account: [str(account.service_account_id)], request, tenant_id, size=size
        )
        return pb.ListServiceAccountsResponse(service_accounts=page, next_page_token=token)

    async def UpdateServiceAccount(
        self, request: pb.UpdateServiceAccountRequest, context: Context
    ) -> pb.UpdateServiceAccountResponse:
        caller = caller_of(context)
        change = _change(request.service_account, request.update_mask, caller)
        async with self._idempotency.begin(caller, request) as write:
            account = await self._store.update_service_account(write.tx, caller.require_tenant(), change)
            return await write.save(pb.UpdateServiceAccountResponse(service_account=_service_account(account)))

    async def AdoptServiceAccount(
        self, request: pb.AdoptServiceAccountRequest, context: Context
    ) -> pb.AdoptServiceAccountResponse:
        caller = caller_of(context)
        permissions.require_person(caller)
        account_id = UUID(request.service_account_id)
        async with self._idempotency.begin(caller, request) as write:
            account = await self._store.adopt_service_account(write.tx, caller.require_tenant(), account_id, caller)
            return await write.save(pb.AdoptServiceAccountResponse(service_account=_service_account(account)))

    async def DeleteServiceAccount(
        self, request: pb.DeleteServiceAccountRequest, context: Context
    ) -> pb.DeleteServiceAccountResponse:
        caller, account_id = caller_of(context), UUID(request.service_account_id)
        async with self._idempotency.begin(caller, request) as write:
            await self._store.delete_service_account(write.tx, caller.require_tenant(), account_id)
        return pb.DeleteServiceAccountResponse()


def _service_account(value: ServiceAccount) -> pb.ServiceAccount:
    return to_message(pb.ServiceAccount, value)


def _draft(message: pb.ServiceAccount, creator: Caller) -> ServiceAccountDraft:
    """Read a new account; without permissions it gets those of a new key.

    Raises PermissionEscalation and FieldInvalid.
    """
    _require_name(message)
    agent_id = permissions.agent_to_grant(message.agent_id, creator)
    return ServiceAccountDraft(
        display_name=message.display_name,
        permissions=permissions.permissions_to_grant(message.permissions, agent_id, creator),
        agent_id=agent_id,
        disabled=message.disabled,
        created_by=creator.principal,
        grant_ids=creator.grant_ids,
    )


def _change(message: pb.ServiceAccount, mask: FieldMask, caller: Caller) -> ServiceAccountChange:
    """Read the fields that the mask names, or all when it is empty. Raises FieldInvalid."""
    account_id = parse_id(message.service_account_id)
    if account_id is None:
        raise FieldInvalid(violations=[("service_account.service_account_id", "is not a UUID")])
    fields = well_known_types.updated_fields(mask, UPDATABLE)
    if "display_name" in fields:
        _require_name(message)
    values: dict[str, object] = {field: getattr(message, field) for field in fields - {"permissions"}}
    if "permissions" in fields:
        permissions.require_known_permissions(message.permissions)
        values["permissions"] = sorted(message.permissions)
    return ServiceAccountChange(service_account_id=account_id, revision=message.revision, values=values, caller=caller)


def _require_name(message: pb.ServiceAccount) -> None:
    if not message.display_name.strip():
        raise FieldInvalid(violations=[("service_account.display_name", "must not be empty")])
