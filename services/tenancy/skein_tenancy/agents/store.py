"""Agents in the database. Methods that take `tx` work in the caller's transaction, which sees the tenant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from skein_kit.database.transactions import Database, Transaction
from skein_kit.idempotency.store import LIFETIME
from skein_kit.ids import new_id, now
from skein_kit.quotas.store import QuotaCounter
from skein_kit.rpc.row_times import ImportTimes
from skein_tenancy.errors import AgentDeleted, AgentExists, AgentNotFound
from skein_tenancy.queries import QUERIES
from skein_tenancy.rows import RowChange, RowDraft, check_revision, require_row, update_row

# Every call that began before a purge has ended after this time.
_MAX_CALL_TIME = timedelta(minutes=10)


class AgentStore:
    """Agents of a tenant."""

    def __init__(self, database: Database, quota_counter: QuotaCounter, whole_database: Database) -> None:
        """The transactions of `whole_database` see what lies in every space."""
        self._database = database
        self._whole_database = whole_database
        self._quota_counter = quota_counter

    async def create_agent(
        self, tx: Transaction, tenant_id: UUID, draft: RowDraft, times: ImportTimes, *, created_by: str
    ) -> Agent:
        """Raises AgentExists, AgentDeleted and QuotaExceeded."""
        row = await tx.row(
            QUERIES["create_agent"],
            tenant_id=tenant_id,
            agent_id=draft.row_id or str(new_id(now())),
            create_time=times.create_time,
            update_time=times.update_time,
            created_by=created_by,
            **draft.values,
        )
        if row is None:
            delete_time = await tx.value(QUERIES["agent_delete_time"], tenant_id=tenant_id, agent_id=draft.row_id)
            raise AgentExists if delete_time is None else AgentDeleted
        await self._quota_counter.charge(tx, tenant_id, {"agents": 1})
        return Agent(**row)

    async def get_agent(self, tenant_id: UUID, agent_id: str) -> Agent:
        """Raises AgentNotFound."""
        async with self._database.transaction(tenant_id) as tx:
            row = await tx.row(QUERIES["get_agent"], tenant_id=tenant_id, agent_id=agent_id)
        return Agent(**require_row(row, AgentNotFound))

    async def list_agents(self, tenant_id: UUID, *, after: str, size: int, show_deleted: bool) -> list[Agent]:
        """Read agents in order of their ids, from after this id; the empty id comes first."""
        page = {"tenant_id": tenant_id, "after": after, "size": size, "show_deleted": show_deleted}
        async with self._database.transaction(tenant_id) as tx:
            rows = await tx.rows(QUERIES["list_agents"], **page)
        return [Agent(**row) for row in rows]

    async def update_agent(self, tx: Transaction, tenant_id: UUID, change: RowChange, *, updated_by: str) -> Agent:
        """Raises AgentNotFound and RevisionStale."""
        current = require_row(
            await tx.row(QUERIES["lock_agent"], tenant_id=tenant_id, agent_id=change.row_id), AgentNotFound
        )
        check_revision(change.revision, current["revision"])
        stamps = {"tenant_id": tenant_id, "updated_by": updated_by, "update_time": now()}
        values = {**current, **change.values, **stamps}
        row = await update_row(tx, QUERIES["update_agent"], values)
        return Agent(**row)

    async def delete_agent(self, tx: Transaction, tenant_id: UUID, agent_id: str, *, deleted_by: str) -> None:
        """Delete an agent; its tools, blocks, states and keys stay for an undelete. Raises AgentNotFound."""
        deleted_count = await tx.execute(
            QUERIES["delete_agent"],
            tenant_id=tenant_id,
            agent_id=agent_id,
            delete_time=now(),
            deleted_by=deleted_by,
        )
        if not deleted_count:
            raise AgentNotFound
        await self._quota_counter.charge(tx, tenant_id, {"agents": -1})

    async def undelete_agent(self, tx: Transaction, tenant_id: UUID, agent_id: str, *, updated_by: str) -> Agent:
        """Bring a deleted agent back; return one that is not deleted as it is. Raises AgentNotFound, QuotaExceeded."""
        key = {"tenant_id": tenant_id, "agent_id": agent_id}
        row = require_row(await tx.row(QUERIES["lock_agent_any"], **key), AgentNotFound)
        if row["delete_time"] is not None:
            row = require_row(await tx.row(QUERIES["undelete_agent"], **key, update_time=now(), updated_by=updated_by))
            await self._quota_counter.charge(tx, tenant_id, {"agents": 1})
        return Agent(**row)

    async def purge_agent(self, tx: Transaction, tenant_id: UUID, agent_id: str, *, purged_by: str) -> None:
        """Empty an agent; its row keeps the id until no other service refers to it. Raises AgentNotFound."""
        key = {"tenant_id": tenant_id, "agent_id": agent_id}
        row = require_row(await tx.row(QUERIES["lock_agent_any"], **key), AgentNotFound)
        at = now()
        await tx.execute(QUERIES["revoke_agent_space_grants"], **key, purge_time=at)
        await tx.execute(QUERIES["purge_agent"], **key, purge_time=at, purged_by=purged_by)
        await tx.execute(QUERIES["detach_tools"], **key)
        if row["delete_time"] is None:
            await self._quota_counter.charge(tx, tenant_id, {"agents": -1})

    async def clear_responses(self, tx: Transaction, tenant_id: UUID, *, methods: Sequence[str], prefix: bytes) -> None:
        """Empty the saved responses of these methods that contain the prefix of a purged agent."""
        await tx.execute(
            QUERIES["clear_agent_responses"],
            tenant_id=tenant_id,
            since_time=now() - LIFETIME,
            methods=list(methods),
            prefix=prefix,
        )

    async def delete_purged(self, tenant_id: UUID, at: datetime) -> int:
        """Remove purged agents to which no service refers, and free their ids; return how many."""
        async with self._whole_database.transaction(tenant_id) as tx:
            return await tx.execute(
                QUERIES["delete_purged_agents"], tenant_id=tenant_id, purged_before=at - _MAX_CALL_TIME
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class Agent:
    """A program that acts in a tenant."""

    agent_id: str
    display_name: str | None
    agent_type: str | None
    description: str | None
    system_prompt: str | None
    topic: str | None
    # JSON texts.
    metadata: str | None
    llm_config: str | None
    embedding_config: str | None
    tool_rules: str | None
    mcp_servers: Sequence[str]
    message_ids: Sequence[str]
    revision: int
    create_time: datetime
    update_time: datetime
    created_by: str
    updated_by: str
    # None: not deleted.
    delete_time: datetime | None
