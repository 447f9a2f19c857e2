"""The synthetic tenants of the canary, created once the database accepts them."""

from __future__ import annotations

import asyncio

import asyncpg

from skein_kit.canary import CANARY_TENANTS, ORGANIZATION, SLUG, CanaryTenant
from skein_kit.database.transactions import Database
from skein_kit.errors import RpcError
from skein_kit.ids import now
from skein_kit.telemetry import logs
from skein_tenancy.queries import QUERIES

_ROLE = "viewer"
# The pause before the next attempt while the database is down or not migrated.
_PAUSE_SECONDS = 2.0

log = logs.get("tenancy")


class CanaryStore:
    """The canary's organization, its tenants, and the one member of each."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def provision(self) -> None:
        """Create the missing organization and tenants, then wait until cancelled: a background task must not end."""
        while True:
            try:
                await self._create_missing()
            except (RpcError, asyncpg.PostgresError) as error:
                log.warning("canary_provisioning_failed", error=type(error).__name__)
                await asyncio.sleep(_PAUSE_SECONDS)
            else:
                await asyncio.Event().wait()

    async def _create_missing(self) -> None:
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
