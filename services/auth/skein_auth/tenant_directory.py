"""Calls to tenancy as `system:auth`: tenants and memberships, which are cached, and invitations."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import grpc
from grpc import aio

from skein.tenancy.v1 import members_pb2
from skein_kit.identity.identity_token import Caller
from skein_kit.identity.permissions import SYSTEM

if TYPE_CHECKING:
    from uuid import UUID

    from skein.tenancy.v1 import tenancy_pb2_grpc
    from skein_auth.signing.keyring import Keyring

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
        )

    async def _metadata(self) -> tuple[tuple[str, str], ...]:
        token, _ = await self._keyring.sign_identity(_SELF, at=time.time())
        return (("authorization", f"Bearer {token}"),)
