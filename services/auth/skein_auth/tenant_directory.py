"""Calls to tenancy as `system:auth`: tenants and memberships, which are cached, and invitations."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass, replace
from uuid import UUID

import grpc
from grpc import aio

from skein.tenancy.v1 import members_pb2, spaces_pb2, tenancy_pb2_grpc
from skein_auth.signing.keyring import Keyring
from skein_kit.identity.identity_token import Caller
from skein_kit.identity.permissions import SYSTEM
from skein_kit.identity.spaces import DEFAULT_SPACE, MANAGER, READER, WRITER

# A deleted tenant's keys and a removed member are refused within five seconds; the gateway's cache of exchanges takes
# most of that time.
TTL_SECONDS = 1.0
_MAX_CACHED = 10_000
_ROLES = {
    members_pb2.ROLE_VIEWER: "viewer",
    members_pb2.ROLE_MEMBER: "member",
    members_pb2.ROLE_ADMIN: "admin",
    members_pb2.ROLE_OWNER: "owner",
}
_SPACE_ROLES = {
    spaces_pb2.SPACE_ROLE_READER: READER,
    spaces_pb2.SPACE_ROLE_WRITER: WRITER,
    spaces_pb2.SPACE_ROLE_MANAGER: MANAGER,
}
_SELF = Caller(principal="system:auth", tenant_id=None, permissions=frozenset({SYSTEM}))


@dataclass(frozen=True, kw_only=True, slots=True)
class Membership:
    """The state of a tenant, and the role of an account in it."""

    # False for an unknown or deleted tenant.
    tenant_is_open: bool
    # Deleted, with rows that are not purged yet.
    tenant_is_deleted: bool = False
    # owner, admin, member or viewer; empty without a membership.
    role: str = ""
    # The tenant has spaces beside the default one.
    has_spaces: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Invitation:
    """An open invitation."""

    # Its token was mailed to the invited address alone, so its holder owns the address.
    is_mailed: bool


class TenantDirectory:
    """Tenants, memberships and invitations. Every method raises the errors of the call to tenancy."""

    def __init__(self, tenancy: tenancy_pb2_grpc.TenancyInternalServiceAsyncStub, keyring: Keyring) -> None:
        self._tenancy = tenancy
        self._keyring = keyring
        self._cache: OrderedDict[tuple[UUID, UUID | None], tuple[Membership, float]] = OrderedDict()

    async def get_membership(self, tenant_id: UUID, account_id: UUID | None = None) -> Membership:
        """Return the state of a tenant and the account's role in it.

        Only open tenants and memberships are cached, so that a new member has access at once.
        """
        at, key = time.monotonic(), (tenant_id, account_id)
        cached, expiry = self._cache.get(key, (None, at))
        if cached is not None and at < expiry:
            return cached
        membership = await self._fetch(tenant_id, account_id)
        if membership.tenant_is_open and (membership.role or account_id is None):
            self._cache[key] = (membership, at + TTL_SECONDS)
            self._cache.move_to_end(key)
            if len(self._cache) > _MAX_CACHED:
                self._cache.popitem(last=False)
        return membership

    async def with_spaces(self, caller: Caller) -> Caller:
        """Return the caller of a tenant with the spaces that it sees; unchanged in a tenant without spaces.

        Each exchange asks anew, so that a revoked grant ends with the exchange that the gateway keeps.
        """
        if caller.tenant_id is None or not (await self.get_membership(caller.tenant_id, caller.account_id)).has_spaces:
            return caller
        request = members_pb2.GetMembershipRequest(
            tenant_id=str(caller.tenant_id),
            principals=caller.space_principals,
            client_principal=caller.space_client,
        )
        response = await self._tenancy.GetMembership(request, metadata=await self._metadata())
        spaces = tuple((UUID(space.space_id), _SPACE_ROLES[space.role]) for space in response.spaces)
        # Tenancy of an older release names no grants.
        grant_ids = tuple(UUID(space.grant_id) if space.grant_id else DEFAULT_SPACE for space in response.spaces)
        return replace(caller, spaces=spaces, space_grant_ids=grant_ids)

    async def space_ids(self, tenant_id: UUID) -> list[str]:
        """Return every space of a tenant beside the default one."""
        if not (await self.get_membership(tenant_id)).has_spaces:
            return []
        request = members_pb2.GetMembershipRequest(tenant_id=str(tenant_id), all_spaces=True)
        response = await self._tenancy.GetMembership(request, metadata=await self._metadata())
        return [space.space_id for space in response.spaces]

    async def find_invitation(self, token: str, email: str) -> Invitation | None:
        """Return an open invitation for this address; None without one."""
        request = members_pb2.CheckInvitationRequest(token=token, email=email)
        try:
            response = await self._tenancy.CheckInvitation(request, metadata=await self._metadata())
        except aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                return None
            raise
        return Invitation(is_mailed=response.mailed)

    async def remove_account(self, account_id: UUID) -> None:
        """Remove all memberships of an account; tenancy refuses with LAST_OWNER for the last owner of a tenant."""
        request = members_pb2.RemoveAccountRequest(account_id=str(account_id))
        await self._tenancy.RemoveAccount(request, metadata=await self._metadata())

    async def _fetch(self, tenant_id: UUID, account_id: UUID | None) -> Membership:
        request = members_pb2.GetMembershipRequest(tenant_id=str(tenant_id), account_id=str(account_id or ""))
        response = await self._tenancy.GetMembership(request, metadata=await self._metadata())
        return Membership(
            tenant_is_open=response.state == members_pb2.TENANT_STATE_ACTIVE,
            tenant_is_deleted=response.state == members_pb2.TENANT_STATE_DELETED,
            role=_ROLES.get(response.role, ""),
            has_spaces=response.has_spaces,
        )

    async def _metadata(self) -> tuple[tuple[str, str], ...]:
        token, _ = await self._keyring.sign_identity(_SELF, at=time.time())
        return (("authorization", f"Bearer {token}"),)
