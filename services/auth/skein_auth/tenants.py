"""Whether a tenant is there: asked of the tenancy service as `system:auth`, remembered for a moment."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING

import grpc
from grpc import aio

from skein.tenancy.v1 import tenancy_pb2
from skein_kit.access import SYSTEM
from skein_kit.identity import Caller, sign

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from skein.tenancy.v1 import tenancy_pb2_grpc
    from skein_auth.signing import Keyring

# A deleted tenant's keys are refused within five seconds, most of which the gateway's memory of exchanges may take.
REMEMBER_SECONDS = 1.0
_MAX_REMEMBERED = 10_000
_SELF = Caller(principal="system:auth", tenant_id=None, permissions=frozenset({SYSTEM, "tenant.read"}))


class Tenants:
    """The tenants that are not deleted."""

    def __init__(
        self,
        tenancy: tenancy_pb2_grpc.TenancyServiceAsyncStub,
        keyring: Keyring,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tenancy = tenancy
        self._keyring = keyring
        self._clock = clock
        self._remembered: OrderedDict[UUID, tuple[bool, float]] = OrderedDict()

    async def exists(self, tenant_id: UUID) -> bool:
        """Say whether the tenant is there. Fails like the call to tenancy when that does not answer."""
        at = self._clock()
        exists, until = self._remembered.get(tenant_id, (False, at))
        if at < until:
            return exists
        exists = await self._ask(tenant_id)
        self._remembered[tenant_id] = (exists, at + REMEMBER_SECONDS)
        self._remembered.move_to_end(tenant_id)
        if len(self._remembered) > _MAX_REMEMBERED:
            self._remembered.popitem(last=False)
        return exists

    async def _ask(self, tenant_id: UUID) -> bool:
        token, _ = sign(_SELF, key=await self._keyring.active(), at=time.time())
        metadata = (("authorization", f"Bearer {token}"),)
        try:
            await self._tenancy.GetTenant(tenancy_pb2.GetTenantRequest(tenant_id=str(tenant_id)), metadata=metadata)
        except aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                return False
            raise
        return True
