"""The end of idle sessions in the database."""

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


class IdleSessionStore:
    """Ends sessions that are idle for longer than their tenant's policy allows."""

    def __init__(self, database: Database, policies: Policies) -> None:
        self._database = database
        self._policies = policies

    async def idle_cutoff(self, tx: Transaction, tenant_id: UUID, at: datetime) -> datetime | None:
        """Return the time before which a session was last used to be idle; None disables idling."""
        policy = await self._policies.of(tx, tenant_id)
        return idle_cutoff(at, policy.session_idle_minutes)

    async def end_idle(self, tenant_id: UUID, at: datetime, *, count: int) -> int:
        """End up to `count` idle sessions of a tenant; return how many."""
        async with self._database.transaction(tenant_id) as tx:
            cutoff = await self.idle_cutoff(tx, tenant_id, at)
            if cutoff is None:
                return 0
            return await tx.execute(
                _QUERIES["end_idle_sessions"], tenant_id=tenant_id, idle_cutoff=cutoff, at=at, count=count
            )

    async def end_if_idle(self, tenant_id: UUID, session_id: str, at: datetime) -> None:
        """End one session if it is idle for too long."""
        async with self._database.transaction(tenant_id) as tx:
            cutoff = await self.idle_cutoff(tx, tenant_id, at)
            row = await tx.row(_QUERIES["lock_session"], tenant_id=tenant_id, session_id=session_id)
            if cutoff is None or row is None or row["state"] != ACTIVE or row["active_time"] > cutoff:
                return
            await tx.row(
                _QUERIES["set_session_state"],
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
