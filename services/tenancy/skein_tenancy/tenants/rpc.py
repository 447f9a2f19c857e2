"""The RPCs of tenants: parse, one call, reply."""

from __future__ import annotations

from uuid import UUID

from skein.tenancy.v1 import tenancy_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.database.transactions import retry_conflicts
from skein_kit.idempotency.store import IdempotencyKey, IdempotencyStore
from skein_kit.identity.identity_token import Caller
from skein_kit.rpc import pagination
from skein_kit.rpc.well_known_types import to_message
from skein_tenancy.directory import convert as directory
from skein_tenancy.errors import TenantNotFound
from skein_tenancy.members.accounts import AccountClient
from skein_tenancy.members.model import OWNER, NewMember
from skein_tenancy.tenants.model import DirectoryScope, Tenant, TenantDraft
from skein_tenancy.tenants.store import TenantStore
from skein_tenancy.validation import require_tenant


class TenantHandlers:
    """Tenants. Their deletion has handlers of its own."""

    def __init__(
        self,
        store: TenantStore,
        accounts: AccountClient,
        idempotency: IdempotencyStore,
        *,
        accounts_organization: str,
        max_owned: int,
    ) -> None:
        """Put tenants that accounts create into `accounts_organization` (a slug); an account owns `max_owned`."""
        self._store = store
        self._accounts = accounts
        self._idempotency = idempotency
        self._accounts_organization = accounts_organization
        self._max_owned = max_owned

    async def CreateTenant(self, request: pb.CreateTenantRequest, context: Context) -> pb.CreateTenantResponse:
        caller = caller_of(context)
        draft = _draft(request, caller, accounts_organization=self._accounts_organization)
        owner = await self._owner(draft, caller)
        key = IdempotencyKey.of(caller, request)
        # On Citus, writes of the copied directory wait for each other on every machine, and some of them deadlock.
        return await retry_conflicts(lambda: self._create(key, draft, owner), attempts=10, pause_seconds=0.2)

    async def _create(
        self, key: IdempotencyKey, draft: TenantDraft, owner: NewMember | None
    ) -> pb.CreateTenantResponse:
        async with self._idempotency.begin_as_operator(key) as write:
            tenant = await self._store.create_tenant(write.tx, draft, owner, max_owned=self._max_owned)
            response = await write.save(pb.CreateTenantResponse(tenant=_tenant(tenant)))
            if owner is not None:
                await self._store.add_owner(write.tx, tenant.tenant_id, owner)
            return response

    async def GetTenant(self, request: pb.GetTenantRequest, context: Context) -> pb.GetTenantResponse:
        caller = caller_of(context)
        tenant_id = UUID(request.tenant_id) if request.tenant_id else require_tenant(caller)
        tenant = await self._store.get_tenant(tenant_id, scope=DirectoryScope.of(caller))
        return pb.GetTenantResponse(tenant=_tenant(tenant))

    async def ListTenants(self, request: pb.ListTenantsRequest, context: Context) -> pb.ListTenantsResponse:
        scope = DirectoryScope.of(caller_of(context))
        # Page tokens are bound to the tenant, or to the account of a list of memberships.
        token_owner = scope.tenant_id or scope.account_id
        size = pagination.resolve_page_size(request.page_size)
        rows = await self._store.list_tenants(
            scope=scope,
            organization_id=UUID(request.organization_id) if request.organization_id else None,
            before=pagination.read_id(token_owner, request),
            size=size + 1,
        )
        page, token = pagination.fit_rows(
            rows, _tenant, lambda tenant: [str(tenant.tenant_id)], request, token_owner, size=size
        )
        return pb.ListTenantsResponse(tenants=page, next_page_token=token)

    async def UpdateTenant(self, request: pb.UpdateTenantRequest, context: Context) -> pb.UpdateTenantResponse:
        caller = caller_of(context)
        scope = DirectoryScope.of(caller, for_write=True)
        change = directory.change(
            request.tenant,
            request.update_mask,
            noun="tenant",
            not_found=TenantNotFound(),
            updatable=scope.updatable,
        )
        scope.require_visible(change.row_id)
        key = IdempotencyKey.of(caller, request)
        begin = (
            self._idempotency.begin_as_operator(key)
            if scope.tenant_id is None
            else self._idempotency.begin_with_key(scope.tenant_id, key)
        )
        async with begin as write:
            tenant = await self._store.update_tenant(write.tx, change)
            return await write.save(pb.UpdateTenantResponse(tenant=_tenant(tenant)))

    async def _owner(self, draft: TenantDraft, caller: Caller) -> NewMember | None:
        if draft.is_self_service:
            return NewMember.from_caller(caller, OWNER)
        if draft.owner_account_id:
            return await self._accounts.get_new_member(draft.owner_account_id, OWNER, created_by=caller.principal)
        return None


def _tenant(value: Tenant) -> pb.Tenant:
    return to_message(pb.Tenant, value)


def _draft(request: pb.CreateTenantRequest, caller: Caller, *, accounts_organization: str) -> TenantDraft:
    return TenantDraft.for_caller(
        caller,
        directory.draft(request.tenant, noun="tenant"),
        organization_id=UUID(request.tenant.organization_id) if request.tenant.organization_id else None,
        owner_account_id=request.owner_account_id,
        accounts_organization=accounts_organization,
    )
