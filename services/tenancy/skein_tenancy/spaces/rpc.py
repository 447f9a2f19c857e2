"""The RPCs of spaces: parse, one call, reply."""

from __future__ import annotations

from uuid import UUID

from skein.tenancy.v1 import spaces_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.errors import PermissionMissing
from skein_kit.idempotency.store import IdempotencyKey, IdempotencyStore
from skein_kit.identity.identity_token import Caller
from skein_kit.identity.spaces import DEFAULT_SPACE
from skein_kit.ids import now
from skein_kit.rpc import pagination
from skein_tenancy.spaces import convert
from skein_tenancy.spaces.model import (
    PERMISSION,
    client_of,
    is_manager,
    principals_of,
    require_binding,
    require_visible,
    sees_all,
    with_delegation,
)
from skein_tenancy.spaces.store import SpaceStore

_FIRST = UUID(int=0)


class SpaceHandlers:
    """Spaces of a tenant, and who sees them."""

    def __init__(self, store: SpaceStore, idempotency: IdempotencyStore, whole_idempotency: IdempotencyStore) -> None:
        """The transactions of `whole_idempotency` see what lies in every space."""
        self._store = store
        self._idempotency = idempotency
        self._whole_idempotency = whole_idempotency

    async def CreateSpace(self, request: pb.CreateSpaceRequest, context: Context) -> pb.CreateSpaceResponse:
        caller = caller_of(context)
        values = convert.values(request.space)
        async with self._idempotency.begin(caller, request) as write:
            space = await self._store.create_space(
                write.tx, caller.require_tenant(), created_by=caller.principal, **values
            )
            return await write.save(pb.CreateSpaceResponse(space=convert.space(space)))

    async def GetSpace(self, request: pb.GetSpaceRequest, context: Context) -> pb.GetSpaceResponse:
        caller, space_id = caller_of(context), UUID(request.space_id)
        require_visible(caller, space_id)
        space = await self._store.get_space(caller.require_tenant(), space_id)
        return pb.GetSpaceResponse(space=convert.space(space))

    async def ListSpaces(self, request: pb.ListSpacesRequest, context: Context) -> pb.ListSpacesResponse:
        caller = caller_of(context)
        tenant_id = caller.require_tenant()
        size = pagination.resolve_page_size(request.page_size)
        position = pagination.read_token(request.page_token, tenant_id, request)
        ids = None if sees_all(caller) else [space_id for space_id, _ in caller.spaces or ()]
        rows = await self._store.list_spaces(
            tenant_id, ids, after=UUID(position[0]) if position else _FIRST, size=size + 1
        )
        page, token = pagination.fit_rows(
            rows, convert.space, lambda space: [str(space.space_id)], request, tenant_id, size=size
        )
        return pb.ListSpacesResponse(spaces=page, next_page_token=token)

    async def UpdateSpace(self, request: pb.UpdateSpaceRequest, context: Context) -> pb.UpdateSpaceResponse:
        caller = caller_of(context)
        values = convert.change(request.space, request.update_mask)
        async with self._idempotency.begin(caller, request) as write:
            space = await self._store.update_space(
                write.tx,
                caller.require_tenant(),
                UUID(request.space.space_id),
                values,
                revision=request.space.revision,
                updated_by=caller.principal,
            )
            return await write.save(pb.UpdateSpaceResponse(space=convert.space(space)))

    async def DeleteSpace(self, request: pb.DeleteSpaceRequest, context: Context) -> pb.DeleteSpaceResponse:
        caller = caller_of(context)
        async with self._whole_idempotency.begin(caller, request) as write:
            await self._store.delete_space(write.tx, caller.require_tenant(), UUID(request.space_id))
            return await write.save(pb.DeleteSpaceResponse())

    async def GrantSpace(self, request: pb.GrantSpaceRequest, context: Context) -> pb.GrantSpaceResponse:
        caller = caller_of(context)
        tenant_id = caller.require_tenant()
        grant = convert.read_grant(request.grant, at=now(), created_by=caller.principal)
        if request.bind:
            require_binding(caller, grant.principal)
        key = IdempotencyKey.of(caller, request)
        async with self._idempotency.begin_with_key(tenant_id, key) as write:
            own = await self._store.lock_own_grants(write.tx, tenant_id, grant.space_id, principals_of(caller))
            grant = with_delegation(caller, grant, own)
            await self._store.put_grant(
                write.tx,
                tenant_id,
                grant,
                is_bound=request.bind,
                may_replace=is_manager(caller, grant.space_id),
            )
            return await write.save(pb.GrantSpaceResponse(grant=convert.grant(grant)))

    async def RevokeSpaceGrant(
        self, request: pb.RevokeSpaceGrantRequest, context: Context
    ) -> pb.RevokeSpaceGrantResponse:
        caller, space_id = caller_of(context), UUID(request.space_id)
        _require_manager(caller, space_id)
        if request.unbind:
            require_binding(caller, request.principal)
        async with self._idempotency.begin(caller, request) as write:
            await self._store.revoke_grant(
                write.tx, caller.require_tenant(), space_id, request.principal, unbind=request.unbind
            )
            return await write.save(pb.RevokeSpaceGrantResponse())

    async def ListSpaceGrants(self, request: pb.ListSpaceGrantsRequest, context: Context) -> pb.ListSpaceGrantsResponse:
        caller, space_id = caller_of(context), UUID(request.space_id)
        tenant_id = caller.require_tenant()
        _require_manager(caller, space_id)
        await self._store.get_space(tenant_id, space_id)
        size = pagination.resolve_page_size(request.page_size)
        position = pagination.read_token(request.page_token, tenant_id, request)
        rows = await self._store.list_grants(tenant_id, space_id, after=position[0] if position else "", size=size + 1)
        page, token = pagination.fit_rows(
            rows, convert.grant, lambda grant: [grant.principal], request, tenant_id, size=size
        )
        return pb.ListSpaceGrantsResponse(grants=page, next_page_token=token)

    async def ExplainAccess(self, request: pb.ExplainAccessRequest, context: Context) -> pb.ExplainAccessResponse:
        caller = caller_of(context)
        tenant_id, is_admin = caller.require_tenant(), sees_all(caller)
        principals, client = principals_of(caller), client_of(caller)
        if request.principal:
            if not is_admin:
                raise PermissionMissing(permission=PERMISSION)
            principals = [request.principal, *([f"agent:{request.agent_id}"] if request.agent_id else ())]
            client = f"client:{request.client_id}" if request.client_id else ""
        if request.memory_id:
            space_id = await self._store.find_space_of_memory(
                tenant_id, UUID(request.memory_id), of_all_spaces=is_admin
            )
        else:
            space_id = UUID(request.space_id)
            if space_id != DEFAULT_SPACE:
                require_visible(caller, space_id)
                await self._store.get_space(tenant_id, space_id)
        return convert.explanation(await self._store.explain(tenant_id, space_id, principals, client))


def _require_manager(caller: Caller, space_id: UUID) -> None:
    if not is_manager(caller, space_id):
        raise PermissionMissing(permission=PERMISSION)
