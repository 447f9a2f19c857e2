"""Audit events in the database."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from skein_auth.audit import convert
from skein_auth.queries import QUERIES

if TYPE_CHECKING:
    from uuid import UUID

    from skein.auth.v1 import accounts_pb2 as pb
    from skein_auth.audit.model import AuditEvent
    from skein_kit.database.transactions import Database, Transaction


class AuditStore:
    """What happened to credentials; events that concern no tenant are kept under NO_TENANT."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def record(self, entry: AuditEvent) -> None:
        """Keep an event in a transaction of its own."""
        async with self._database.transaction(entry.tenant_id) as tx:
            await self.add(tx, entry)

    async def add(self, tx: Transaction, entry: AuditEvent) -> None:
        """Keep an event in a transaction that sees its tenant."""
        await tx.execute(QUERIES["create_audit_event"], **dataclasses.asdict(entry))

    async def list_audit_events(
        self, tenant_id: UUID, *, account_id: UUID | None, before: UUID | None, size: int
    ) -> list[pb.AuditEvent]:
        """Read events of the tenant, or those of one account in it, newest first."""
        async with self._database.transaction(tenant_id) as tx:
            rows = await tx.rows(
                QUERIES["list_audit_events"], tenant_id=tenant_id, account_id=account_id, before=before, size=size
            )
        return [convert.audit_event(row) for row in rows]
