"""Tools in the database. Methods that take `tx` work in the caller's transaction, which sees the tenant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import asyncpg

from skein_kit.database.transactions import Database, Transaction
from skein_kit.ids import now
from skein_kit.quotas.store import QuotaCounter
from skein_tenancy.errors import AgentNotFound, ToolDeleted, ToolExists, ToolNotFound
from skein_tenancy.queries import QUERIES
from skein_tenancy.rows import Resource, RowStore


@dataclass(frozen=True, kw_only=True, slots=True)
class Tool:
    """A tool that agents of a tenant may have."""

    tool_id: str
    name: str
    description: str
    # JSON text.
    json_schema: str | None
    source_type: str
    source_code: str
    tags: Sequence[str]
    # JSON text.
    metadata: str | None
    revision: int
    create_time: datetime
    update_time: datetime
    created_by: str
    updated_by: str
    # None: not deleted.
    delete_time: datetime | None


TOOL = Resource(
    noun="tool",
    of_record=lambda row: Tool(**row),
    not_found=ToolNotFound,
    exists=ToolExists,
    deleted=ToolDeleted,
    violations={"tools_name_key": ToolExists()},
)


class ToolStore(RowStore[Tool]):
    """Tools of a tenant, and the agents to which they are attached. The name of a tool is unique."""

    def __init__(self, database: Database, quota_counter: QuotaCounter) -> None:
        super().__init__(TOOL, database, quota_counter)

    async def list_tools(
        self, tenant_id: UUID, agent_id: str, *, after: str, size: int, show_deleted: bool
    ) -> list[Tool]:
        """Read tools in order of their ids, from after this id: all, or those of one agent, which hide deleted ones."""
        page = {"tenant_id": tenant_id, "after": after, "size": size}
        async with self._database.transaction(tenant_id) as tx:
            if agent_id:
                rows = await tx.rows(QUERIES["list_tools_of_agent"], agent_id=agent_id, **page)
            else:
                rows = await tx.rows(QUERIES["list_tools"], **page, show_deleted=show_deleted)
        return [Tool(**row) for row in rows]

    async def _check_update(self, tx: Transaction, current: asyncpg.Record, values: Mapping[str, object]) -> None:
        """Raise ToolDeleted for a name of a deleted tool; the constraint finds one that is not deleted."""
        if values["name"] != current["name"]:
            await self._raise_deleted(tx, {**values, "tool_id": None})

    async def attach_tool(
        self, tx: Transaction, tenant_id: UUID, agent_id: str, tool_id: str, *, created_by: str
    ) -> None:
        """Raises AgentNotFound and ToolNotFound."""
        await _lock_for_share(tx, tenant_id, agent_id, tool_id)
        await tx.execute(
            QUERIES["attach_tool"],
            tenant_id=tenant_id,
            agent_id=agent_id,
            tool_id=tool_id,
            create_time=now(),
            created_by=created_by,
        )

    async def detach_tool(self, tx: Transaction, tenant_id: UUID, agent_id: str, tool_id: str) -> None:
        """Raises AgentNotFound and ToolNotFound."""
        await _lock_for_share(tx, tenant_id, agent_id, tool_id)
        await tx.execute(QUERIES["detach_tool"], tenant_id=tenant_id, agent_id=agent_id, tool_id=tool_id)


async def _lock_for_share(tx: Transaction, tenant_id: UUID, agent_id: str, tool_id: str) -> None:
    """Keep an agent and a tool from being deleted until the transaction ends."""
    if await tx.value(QUERIES["share_agent"], tenant_id=tenant_id, agent_id=agent_id) is None:
        raise AgentNotFound
    if await tx.value(QUERIES["share_tool"], tenant_id=tenant_id, tool_id=tool_id) is None:
        raise ToolNotFound
