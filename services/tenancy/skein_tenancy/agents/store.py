"""Agents in the database. Methods that take `tx` work in the caller's transaction, which sees the tenant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from skein_kit.database.transactions import Database, Transaction
from skein_kit.ids import now
from skein_kit.quotas.store import QuotaCounter
from skein_tenancy.errors import AgentDeleted, AgentExists, AgentNotFound
from skein_tenancy.queries import QUERIES
from skein_tenancy.rows import Resource, RowStore

# Every call that began before a purge has ended after this time.
_MAX_CALL_TIME = timedelta(minutes=10)


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


AGENT = Resource(
    noun="agent",
    of_record=lambda row: Agent(**row),
    not_found=AgentNotFound,
    exists=AgentExists,
    deleted=AgentDeleted,
)


class AgentStore(RowStore[Agent]):
    """Agents of a tenant."""

    def __init__(self, database: Database, quota_counter: QuotaCounter, whole_database: Database) -> None:
        """The transactions of `whole_database` see what lies in every space."""
        super().__init__(AGENT, database, quota_counter)
        self._whole_database = whole_database

    async def list_agents(self, tenant_id: UUID, *, after: str, size: int, show_deleted: bool) -> list[Agent]:
        """Read agents in order of their ids, from after this id; the empty id comes first."""
        page = {"tenant_id": tenant_id, "after": after, "size": size, "show_deleted": show_deleted}
        async with self._database.transaction(tenant_id) as tx:
            rows = await tx.rows(QUERIES["list_agents"], **page)
        return [Agent(**row) for row in rows]

    async def delete_purged(self, tenant_id: UUID, at: datetime) -> int:
        """Remove purged agents to which no service refers, and free their ids; return how many."""
        async with self._whole_database.transaction(tenant_id) as tx:
            return await tx.execute(
                QUERIES["delete_purged_agents"], tenant_id=tenant_id, purged_before=at - _MAX_CALL_TIME
            )

    async def _purge(self, tx: Transaction, tenant_id: UUID, row_id: str, *, by: str) -> None:
        """Empty an agent; its row keeps the id until no other service refers to it."""
        key, at = self._key(tenant_id, row_id), now()
        await tx.execute(QUERIES["revoke_agent_space_grants"], **key, purge_time=at)
        await tx.execute(QUERIES["purge_agent"], **key, purge_time=at, purged_by=by)
        await tx.execute(QUERIES["detach_tools"], **key)
