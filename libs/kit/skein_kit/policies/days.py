"""The zone of the days that conditions name, by the policy of the tenant."""

from __future__ import annotations

from datetime import UTC, tzinfo
from typing import TYPE_CHECKING

from skein_kit import filters
from skein_kit.database.tx_options import READ_ONLY
from skein_kit.policies.store import shared_policy_cache

if TYPE_CHECKING:
    from uuid import UUID

    from skein_kit.database.transactions import Database


async def zone_of_days(database: Database, tenant_id: UUID, where: str) -> tzinfo:
    """Return the zone of the days that a condition names; UTC, without a look at the policy, where it names none."""
    if not filters.may_name_day(where):
        return UTC
    policies = shared_policy_cache(database)
    policy = policies.get_cached(tenant_id)
    if policy is None:
        async with database.transaction(tenant_id, READ_ONLY) as tx:
            policy = await policies.get(tx, tenant_id)
    return policy.zone
