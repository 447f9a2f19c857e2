"""Policies in the database: one row for each tenant that changed something."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.tenancy.v1 import subjects_pb2 as pb
from skein_kit.ids import now
from skein_tenancy import convert as wire
from skein_tenancy.queries import QUERIES
from skein_tenancy.store_base import StoreBase, check_revision, require_row

if TYPE_CHECKING:
    from uuid import UUID

    from skein_kit.idempotency.store import IdempotencyKey
    from skein_tenancy.policies import model as policies


class PolicyStore(StoreBase):
    """The policy of a tenant."""

    async def get_policy(self, tenant_id: UUID) -> pb.Policy:
        async with self._database.tenant(tenant_id) as tx:
            row = await tx.row(QUERIES["get_policy"], tenant_id=tenant_id)
        return wire.policy(row)

    async def update_policy(
        self, tenant_id: UUID, change: policies.PolicyChange, once: IdempotencyKey
    ) -> pb.UpdatePolicyResponse:
        query, at = QUERIES["update_policy"], now()
        async with self._database.tenant(tenant_id) as tx:
            if (first := await self._requests.claim(tx, tenant_id, once)) is not None:
                return pb.UpdatePolicyResponse.FromString(first)
            await tx.execute(QUERIES["make_policy"], tenant_id=tenant_id, update_time=at)
            current = require_row(await tx.row(QUERIES["lock_policy"], tenant_id=tenant_id))
            check_revision(change.revision, current)
            values = {"tenant_id": tenant_id, **current, **change.values, "update_time": at}
            row = await tx.row(query, **{name: values[name] for name in query.parameters})
            response = pb.UpdatePolicyResponse(policy=wire.policy(require_row(row)))
            await self._answer(tx, tenant_id, once, response)
            return response
