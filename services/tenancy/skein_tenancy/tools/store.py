"""Tools in the database. Methods that take `tx` work in the caller's transaction, which sees the tenant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from skein_kit.database.transactions import Database, Transaction, translate_constraint_errors
from skein_kit.ids import new_id, now
from skein_kit.quotas.store import QuotaCounter
from skein_kit.rpc.row_times import ImportTimes
from skein_tenancy.errors import AgentNotFound, ToolDeleted, ToolExists, ToolNotFound
from skein_tenancy.queries import QUERIES
from skein_tenancy.rows import RowChange, RowDraft, check_revision, require_row, update_row


class ToolStore:
    """Tools of a tenant, and the agents to which they are attached."""

    def __init__(self, database: Database, quota_counter: QuotaCounter) -> None:
        self._database = database
        self._quota_counter = quota_counter

    async def create_tool(
        self, tx: Transaction, tenant_id: UUID, draft: RowDraft, times: ImportTimes, *, created_by: str
    ) -> Tool:
        """Raises ToolExists, ToolDeleted and QuotaExceeded."""
        row = await tx.row(
            QUERIES["create_tool"],
            tenant_id=tenant_id,
            tool_id=draft.row_id or str(new_id(now())),
            create_time=times.create_time,
            update_time=times.update_time,
            created_by=created_by,
            **draft.values,
        )
        if row is None:
            delete_time = await tx.value(
                QUERIES["find_conflicting_tool"],
                tenant_id=tenant_id,
                tool_id=draft.row_id or None,
                name=draft.values["name"],
            )
            raise ToolExists if delete_time is None else ToolDeleted
        await self._quota_counter.charge(tx, tenant_id, {"tools": 1})
        return Tool(**row)

    async def get_tool(self, tenant_id: UUID, tool_id: str) -> Tool:
        """Raises ToolNotFound."""
        async with self._database.transaction(tenant_id) as tx:
            row = await tx.row(QUERIES["get_tool"], tenant_id=tenant_id, tool_id=tool_id)
        return Tool(**require_row(row, ToolNotFound))

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

    async def update_tool(self, tx: Transaction, tenant_id: UUID, change: RowChange, *, updated_by: str) -> Tool:
        """Raises ToolNotFound, RevisionStale, and ToolExists or ToolDeleted for a name that is taken."""
        current = await tx.row(QUERIES["lock_tool"], tenant_id=tenant_id, tool_id=change.row_id)
        if current is None or current["delete_time"] is not None:
            raise ToolNotFound
        check_revision(change.revision, current["revision"])
        stamps = {"tenant_id": tenant_id, "updated_by": updated_by, "update_time": now()}
        values = {**current, **change.values, **stamps}
        if values["name"] != current["name"]:
            # Finds a deleted tool with the name; the constraint below finds one that is not deleted.
            delete_time = await tx.value(
                QUERIES["find_conflicting_tool"], tenant_id=tenant_id, tool_id=None, name=values["name"]
            )
            if delete_time is not None:
                raise ToolDeleted
        with translate_constraint_errors({"tools_name_key": ToolExists()}):
            row = await update_row(tx, QUERIES["update_tool"], values)
        return Tool(**row)

    async def delete_tool(self, tx: Transaction, tenant_id: UUID, tool_id: str, *, deleted_by: str) -> None:
        """Delete a tool; it stays attached for an undelete. Raises ToolNotFound."""
        deleted_count = await tx.execute(
            QUERIES["delete_tool"], tenant_id=tenant_id, tool_id=tool_id, delete_time=now(), deleted_by=deleted_by
        )
        if not deleted_count:
            raise ToolNotFound
        await self._quota_counter.charge(tx, tenant_id, {"tools": -1})

    async def undelete_tool(self, tx: Transaction, tenant_id: UUID, tool_id: str, *, updated_by: str) -> Tool:
        """Bring a deleted tool back; return one that is not deleted as it is. Raises ToolNotFound, QuotaExceeded."""
        key = {"tenant_id": tenant_id, "tool_id": tool_id}
        row = require_row(await tx.row(QUERIES["lock_tool"], **key), ToolNotFound)
        if row["delete_time"] is not None:
            row = require_row(await tx.row(QUERIES["undelete_tool"], **key, update_time=now(), updated_by=updated_by))
            await self._quota_counter.charge(tx, tenant_id, {"tools": 1})
        return Tool(**row)

    async def purge_tool(self, tx: Transaction, tenant_id: UUID, tool_id: str) -> None:
        """Remove a tool for good, deleted or not, from its agents too. Raises ToolNotFound."""
        key = {"tenant_id": tenant_id, "tool_id": tool_id}
        row = require_row(await tx.row(QUERIES["lock_tool"], **key), ToolNotFound)
        await tx.execute(QUERIES["purge_tool"], **key)
        if row["delete_time"] is None:
            await self._quota_counter.charge(tx, tenant_id, {"tools": -1})

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
