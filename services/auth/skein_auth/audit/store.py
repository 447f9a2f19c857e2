"""Audit events in the database."""

from __future__ import annotations

import dataclasses
from uuid import UUID

from skein_auth.audit.model import AuditEvent
from skein_auth.queries import QUERIES
from skein_kit.database.transactions import Database, Transaction


class AuditStore:
    """Audit events. Those that concern no tenant belong to NO_TENANT."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def record(self, event: AuditEvent) -> None:
        """Insert an event in a transaction of its own."""
        async with self._database.transaction(event.tenant_id) as tx:
            await self.add(tx, event)

    async def add(self, tx: Transaction, event: AuditEvent) -> None:
        """Insert an event in a transaction that sees its tenant."""
        await tx.execute(QUERIES["create_audit_event"], **dataclasses.asdict(event))

    async def list_audit_events(
        self, tenant_id: UUID, *, account_id: UUID | None, before: UUID | None, size: int
    ) -> list[AuditEvent]:
        """Read events of the tenant, or those of one account in it, newest first, from before this id."""
        async with self._database.transaction(tenant_id) as tx:
            rows = await tx.rows(
                QUERIES["list_audit_events"], tenant_id=tenant_id, account_id=account_id, before=before, size=size
            )
        return [AuditEvent(**row) for row in rows]
