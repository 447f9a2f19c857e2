"""Agent states in the database. Methods that take `tx` work in the caller's transaction, which sees the tenant."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from asyncpg import Record

from skein_kit.database.named_queries import Queries
from skein_kit.database.transactions import Database, Transaction
from skein_kit.errors import AgentNotActive, RevisionStale, TransactionConflict
from skein_kit.quotas.store import QuotaCounter
from skein_session.agent_states.model import AgentStatePut, is_expired
from skein_session.errors import AgentStateNotFound
from skein_session.sessions.store import lock_session_shared

_QUERIES = Queries.load("skein_session")
# Attempts to store a state that concurrent calls insert and delete.
_MAX_ATTEMPTS = 3


class AgentStateStore:
    """Agent states by agent and session."""

    def __init__(self, database: Database, quotas: QuotaCounter) -> None:
        self._database = database
        self._quotas = quotas

    async def put_state(self, tx: Transaction, tenant_id: UUID, put: AgentStatePut) -> Mapping[str, object]:
        """Insert or replace a state; return its columns.

        Raises SessionNotFound, AgentNotActive, QuotaExceeded and the errors of AgentStatePut.apply_to.
        """
        if put.session_id:
            await lock_session_shared(tx, tenant_id, put.session_id)
        if await tx.row(_QUERIES["get_deleted_agent"], tenant_id=tenant_id, agent_id=put.agent_id) is not None:
            raise AgentNotActive(agent_id=put.agent_id)
        for _ in range(_MAX_ATTEMPTS):
            row = await tx.row(
                _QUERIES["lock_state"], tenant_id=tenant_id, agent_id=put.agent_id, session_id=put.session_id
            )
            columns = put.apply_to(row)
            query = _QUERIES["insert_state" if row is None else "replace_state"]
            if await tx.row(query, tenant_id=tenant_id, **columns) is not None:
                await self._quotas.charge(tx, tenant_id, {"agent_states": int(row is None)})
                return columns
        raise TransactionConflict

    async def get_state(self, tenant_id: UUID, agent_id: str, session_id: str, at: datetime) -> Record:
        """Read a state that has not expired. Raises AgentStateNotFound."""
        async with self._database.transaction(tenant_id) as tx:
            row = await tx.row(
                _QUERIES["get_state"], tenant_id=tenant_id, agent_id=agent_id, session_id=session_id, at=at
            )
        if row is None:
            raise AgentStateNotFound
        return row

    async def list_states(
        self,
        tenant_id: UUID,
        *,
        agent_id: str | None,
        session_id: str | None,
        after: tuple[str, str, UUID],
        at: datetime,
        limit: int,
    ) -> list[Record]:
        """Read states that have not expired, by agent, session and space, after the keys of another state.

        `agent_id` and `session_id` restrict the list; None does not.
        """
        after_agent, after_session, after_space_id = after
        values = {"tenant_id": tenant_id, "agent_id": agent_id, "after_agent": after_agent, "at": at, "limit": limit}
        async with self._database.transaction(tenant_id) as tx:
            if session_id is None:
                return await tx.rows(
                    _QUERIES["list_states"], **values, after_session=after_session, after_space_id=after_space_id
                )
            return await tx.rows(
                _QUERIES["list_states_of_session"], **values, session_id=session_id, show_deleted=False
            )

    async def delete_state(
        self, tx: Transaction, tenant_id: UUID, agent_id: str, session_id: str, *, revision: int, at: datetime
    ) -> None:
        """Delete a state for good; `revision` 0 is any. Raises AgentStateNotFound and RevisionStale."""
        state_key = {"tenant_id": tenant_id, "agent_id": agent_id, "session_id": session_id}
        row = await tx.row(_QUERIES["lock_state"], **state_key)
        if row is None or is_expired(row, at):
            raise AgentStateNotFound
        if revision not in (0, row["revision"]):
            raise RevisionStale(requested=revision, current=row["revision"])
        await tx.execute(_QUERIES["delete_state"], **state_key)
        await self._quotas.charge(tx, tenant_id, {"agent_states": -1})

    async def delete_expired(self, tenant_id: UUID, at: datetime, *, count: int) -> int:
        """Delete up to `count` expired states, and as many of purged agents; return how many."""
        async with self._database.transaction(tenant_id) as tx:
            deleted_count = await tx.execute(_QUERIES["delete_expired_states"], tenant_id=tenant_id, at=at, count=count)
            deleted_count += await tx.execute(
                _QUERIES["delete_states_of_purged_agents"], tenant_id=tenant_id, count=count
            )
            await self._quotas.charge(tx, tenant_id, {"agent_states": -deleted_count})
        return deleted_count
