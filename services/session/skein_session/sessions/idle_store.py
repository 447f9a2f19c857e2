"""Sessions that end because nobody speaks in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_kit.database.named_queries import Queries
from skein_session.sessions.lifecycle import ACTIVE, END_REASON_IDLE, ENDED, idle_cutoff

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from skein_kit.database.transactions import Database, Transaction
    from skein_kit.policies.store import Policies

_QUERIES = Queries.of("skein_session")


class IdleStore:
    """Ends what is idle for longer than its tenant's policy allows."""

    def __init__(self, database: Database, policies: Policies) -> None:
        self._database = database
        self._policies = policies

    async def since(self, tx: Transaction, tenant_id: UUID, at: datetime) -> datetime | None:
        """Return since when nobody must have spoken in a session for it to be over; None when it never is."""
        policy = await self._policies.of(tx, tenant_id)
        return idle_cutoff(at, policy.session_idle_minutes)

    async def end_some(self, tenant_id: UUID, at: datetime, *, count: int) -> int:
        """End up to `count` idle sessions of a tenant; return how many."""
        async with self._database.tenant(tenant_id) as tx:
            since = await self.since(tx, tenant_id, at)
            if since is None:
                return 0
            return await tx.execute(
                _QUERIES["end_idle_sessions"], tenant_id=tenant_id, idle_before=since, at=at, count=count
            )

    async def end(self, tenant_id: UUID, session_id: str, at: datetime) -> None:
        """End one session if it is idle for too long."""
        async with self._database.tenant(tenant_id) as tx:
            since = await self.since(tx, tenant_id, at)
            row = await tx.row(_QUERIES["lock_session"], tenant_id=tenant_id, session_id=session_id)
            if since is None or row is None or row["state"] != ACTIVE or row["active_time"] > since:
                return
            await tx.row(
                _QUERIES["move_session"],
                tenant_id=tenant_id,
                session_id=session_id,
                state=ENDED,
                archived_state=None,
                archive_time=None,
                end_time=at,
                end_reason=END_REASON_IDLE,
                summary=None,
                at=at,
            )
