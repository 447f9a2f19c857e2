"""The zone of the days that conditions name: of the person whom they are about, else of the tenant."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from uuid import UUID
from zoneinfo import ZoneInfo

from skein_kit import filters
from skein_kit.database.named_queries import Queries
from skein_kit.database.transactions import Database, Transaction
from skein_kit.database.tx_options import READ_ONLY
from skein_kit.policies.store import shared_policy_cache

_QUERIES = Queries.load("skein_kit")


async def zone_of_days(database: Database, tenant_id: UUID, where: str, subject_id: str = "") -> tzinfo:
    """Return the zone of the days that a condition names, which may be about one person.

    It is UTC, without a look at the database, where the condition names none.
    """
    if not filters.may_name_day(where):
        return UTC
    if subject_id:
        async with database.transaction(tenant_id, READ_ONLY) as tx:
            zone = await read_zone_of_subject(tx, tenant_id, subject_id)
        if zone is not None:
            return zone
    policies = shared_policy_cache(database)
    policy = policies.get_cached(tenant_id)
    if policy is None:
        async with database.transaction(tenant_id, READ_ONLY) as tx:
            policy = await policies.get(tx, tenant_id)
    return policy.zone


async def read_zone_of_subject(
    tx: Transaction, tenant_id: UUID, subject_id: str, as_of_time: datetime | None = None
) -> tzinfo | None:
    """Return the time zone that a person has, or had at a time; None for none."""
    named = {"tenant_id": tenant_id, "subject_id": subject_id}
    if as_of_time is None:
        name = await tx.value(_QUERIES["read_zone_of_subject"], **named)
    else:
        name = await tx.value(_QUERIES["read_zone_of_subject_then"], **named, at=as_of_time)
    return None if name is None else ZoneInfo(name)
