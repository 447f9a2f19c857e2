"""A cache of tenants and memberships, which tenancy answers to `system:auth`."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skein.tenancy.v1 import members_pb2
from skein_kit.identity.identity_token import Caller
from skein_kit.identity.permissions import SYSTEM

if TYPE_CHECKING:
    from collections.abc import Callable
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


class TenantDirectory:
    """Tenants and memberships."""

    def __init__(
        self,
        tenancy: tenancy_pb2_grpc.TenancyInternalServiceAsyncStub,
        keyring: Keyring,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tenancy = tenancy
        self._keyring = keyring
        self._clock = clock
        self._cache: OrderedDict[tuple[UUID, UUID | None], tuple[Membership, float]] = OrderedDict()

    async def get_membership(self, tenant_id: UUID, account_id: UUID | None = None) -> Membership:
        """Return the state of a tenant and the account's role in it. Raises the errors of the call to tenancy.

        Only open tenants and memberships are cached, so that a new member has access at once.
        """
        at, key = self._clock(), (tenant_id, account_id)
        known, until = self._cache.get(key, (None, at))
        if known is not None and at < until:
            return known
        membership = await self._fetch(tenant_id, account_id)
        if membership.tenant_is_open and (membership.role or account_id is None):
            self._cache[key] = (membership, at + TTL_SECONDS)
            self._cache.move_to_end(key)
            if len(self._cache) > _MAX_CACHED:
                self._cache.popitem(last=False)
        return membership

    async def _fetch(self, tenant_id: UUID, account_id: UUID | None) -> Membership:
        token, _ = await self._keyring.sign_identity(_SELF, at=time.time())
        metadata = (("authorization", f"Bearer {token}"),)
        request = members_pb2.GetMembershipRequest(tenant_id=str(tenant_id), account_id=str(account_id or ""))
        response = await self._tenancy.GetMembership(request, metadata=metadata)
        return Membership(
            tenant_is_open=response.state == members_pb2.TENANT_STATE_OPEN,
            tenant_is_deleted=response.state == members_pb2.TENANT_STATE_CLOSED,
            role=_ROLES.get(response.role, ""),
        )
