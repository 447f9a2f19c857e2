"""The synthetic tenants of the canary in the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_kit.canary import CANARY_TENANTS, ORGANIZATION, SLUG
from skein_kit.ids import now
from skein_tenancy.queries import QUERIES

if TYPE_CHECKING:
    from skein_kit.canary import CanaryTenant
    from skein_kit.database.transactions import Database

_ROLE = "viewer"


class CanaryStore:
    """The canary's organization, its tenants, and the one member of each."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create_missing(self) -> None:
        at = now()
        async with self._database.operator_transaction() as tx:
            await tx.execute(
                QUERIES["create_canary_organization"],
                organization_id=ORGANIZATION,
                display_name="Canary",
                slug=SLUG,
                create_time=at,
            )
            for canary in CANARY_TENANTS:
                await tx.execute(
                    QUERIES["create_canary_tenant"],
                    tenant_id=canary.tenant_id,
                    organization_id=ORGANIZATION,
                    display_name=f"Canary {canary.secret}",
                    slug=canary.slug,
                    create_time=at,
                )
        for canary in CANARY_TENANTS:
            await self._create_member(canary)

    async def _create_member(self, canary: CanaryTenant) -> None:
        async with self._database.transaction(canary.tenant_id) as tx:
            await tx.row(
                QUERIES["create_member"],
                tenant_id=canary.tenant_id,
                account_id=canary.account_id,
                role=_ROLE,
                email=f"{canary.secret}@canary.invalid",
                display_name=f"Canary {canary.secret}",
                create_time=now(),
                created_by="system:tenancy",
            )
