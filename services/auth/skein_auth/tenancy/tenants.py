"""Whether a tenant is there and what an account is in it: asked of tenancy as `system:auth`, remembered shortly."""

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

# A deleted tenant's keys and a removed member are refused within five seconds, most of which the gateway's memory of
# exchanges may take.
REMEMBER_SECONDS = 1.0
_MAX_REMEMBERED = 10_000
_ROLES = {
    members_pb2.ROLE_VIEWER: "viewer",
    members_pb2.ROLE_MEMBER: "member",
    members_pb2.ROLE_ADMIN: "admin",
    members_pb2.ROLE_OWNER: "owner",
}
_SELF = Caller(principal="system:auth", tenant_id=None, permissions=frozenset({SYSTEM}))


@dataclass(frozen=True, kw_only=True, slots=True)
class Membership:
    """What a tenant is, and what an account is in it."""

    # False: no such tenant, or a deleted one.
    open: bool
    # A deleted tenant of which something is left.
    closed: bool = False
    # owner, admin, member or viewer; empty for who is no member.
    role: str = ""


class TenantDirectory:
    """The tenants, and what accounts are in them."""

    def __init__(
        self,
        upkeep: tenancy_pb2_grpc.UpkeepServiceAsyncStub,
        keyring: Keyring,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._upkeep = upkeep
        self._keyring = keyring
        self._clock = clock
        self._remembered: OrderedDict[tuple[UUID, UUID | None], tuple[Membership, float]] = OrderedDict()

    async def standing(self, tenant_id: UUID, account_id: UUID | None = None) -> Membership:
        """Say what the tenant is and what the account is in it. Fails like the call to tenancy.

        Only what lets somebody in is remembered: who was just made a member is one at once.
        """
        at, key = self._clock(), (tenant_id, account_id)
        known, until = self._remembered.get(key, (None, at))
        if known is not None and at < until:
            return known
        found = await self._ask(tenant_id, account_id)
        if found.open and (found.role or account_id is None):
            self._remembered[key] = (found, at + REMEMBER_SECONDS)
            self._remembered.move_to_end(key)
            if len(self._remembered) > _MAX_REMEMBERED:
                self._remembered.popitem(last=False)
        return found

    async def _ask(self, tenant_id: UUID, account_id: UUID | None) -> Membership:
        token, _ = await self._keyring.signed(_SELF, at=time.time())
        metadata = (("authorization", f"Bearer {token}"),)
        request = members_pb2.GetStandingRequest(tenant_id=str(tenant_id), account_id=str(account_id or ""))
        answer = await self._upkeep.GetStanding(request, metadata=metadata)
        return Membership(
            open=answer.state == members_pb2.TENANT_STATE_OPEN,
            closed=answer.state == members_pb2.TENANT_STATE_CLOSED,
            role=_ROLES.get(answer.role, ""),
        )
