"""Reads of the access log, which the kit writes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from uuid import UUID

import asyncpg

from skein_kit.database.transactions import Database
from skein_memory.queries import QUERIES


@dataclass(frozen=True, kw_only=True, slots=True)
class AccessLogFilter:
    """The requested accesses; None does not restrict."""

    from_id: UUID
    before_id: UUID
    memory_id: UUID | None
    session_id: str | None
    agent_id: str | None
    claimed_agent_id: str | None
    claimed_session_id: str | None
    operation: str | None
    failed_only: bool
    unanswered_only: bool


class AccessLogStore:
    """Reads the access log."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_accesses(
        self, tenant_id: UUID, access_filter: AccessLogFilter, *, count: int
    ) -> list[asyncpg.Record]:
        """Read up to `count` accesses, newest first."""
        async with self._database.transaction(tenant_id) as tx:
            return await tx.rows(QUERIES["list_accesses"], tenant_id=tenant_id, count=count, **asdict(access_filter))

    async def drop_before(self, before: datetime) -> int:
        """Remove the months of all tenants' logs that end before a time; return how many."""
        async with self._database.global_transaction() as tx:
            dropped_count: int = await tx.value(QUERIES["drop_access_log"], before=before)
        return dropped_count
