"""Tools, and which agents have them, in the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.tenancy.v1 import subjects_pb2 as pb
from skein_kit.database.transactions import translate_constraint_errors
from skein_kit.ids import new_id, now
from skein_tenancy import convert as wire
from skein_tenancy.errors import AgentNotFound, ToolDeleted, ToolExists, ToolNotFound
from skein_tenancy.queries import QUERIES
from skein_tenancy.store_base import StoreBase, check_revision, require_row

if TYPE_CHECKING:
    from uuid import UUID

    from skein_kit.database.transactions import Transaction
    from skein_kit.errors import AlreadyExists
    from skein_kit.idempotency.store import IdempotencyKey
    from skein_kit.rpc.row_times import ImportTimes
    from skein_tenancy.tools import model as tools


class ToolStore(StoreBase):
    """The tools of a tenant and of its agents."""

    async def create_tool(
        self, tenant_id: UUID, draft: tools.Draft, times: ImportTimes, once: IdempotencyKey, *, created_by: str
    ) -> pb.CreateToolResponse:
        async with self._database.tenant(tenant_id) as tx:
            if (first := await self._requests.claim(tx, tenant_id, once)) is not None:
                return pb.CreateToolResponse.FromString(first)
            row = await tx.row(
                QUERIES["create_tool"],
                tenant_id=tenant_id,
                tool_id=draft.tool_id or str(new_id(now())),
                create_time=times.create_time,
                update_time=times.update_time,
                created_by=created_by,
                **draft.values,
            )
            if row is None:
                raise await _taken(tx, tenant_id, draft.tool_id, draft.values["name"])
            response = pb.CreateToolResponse(tool=wire.tool(row))
            await self._answer(tx, tenant_id, once, response)
            await self._quotas.charge(tx, tenant_id, {"tools": 1})
            return response

    async def get_tool(self, tenant_id: UUID, tool_id: str) -> pb.Tool:
        async with self._database.tenant(tenant_id) as tx:
            row = await tx.row(QUERIES["get_tool"], tenant_id=tenant_id, tool_id=tool_id)
        if row is None:
            raise ToolNotFound
        return wire.tool(row)

    async def list_tools(
        self, tenant_id: UUID, agent_id: str, *, after: str, size: int, show_deleted: bool
    ) -> list[pb.Tool]:
        """Read tools whose ids come after `after`: all, or those of one agent."""
        page = {"tenant_id": tenant_id, "after": after, "size": size}
        async with self._database.tenant(tenant_id) as tx:
            if agent_id:
                rows = await tx.rows(QUERIES["list_tools_of_agent"], agent_id=agent_id, **page)
            else:
                rows = await tx.rows(QUERIES["list_tools"], **page, show_deleted=show_deleted)
        return [wire.tool(row) for row in rows]

    async def update_tool(
        self, tenant_id: UUID, change: tools.Change, once: IdempotencyKey, *, updated_by: str
    ) -> pb.UpdateToolResponse:
        query = QUERIES["update_tool"]
        with translate_constraint_errors({"tools_name_key": ToolExists()}):
            async with self._database.tenant(tenant_id) as tx:
                if (first := await self._requests.claim(tx, tenant_id, once)) is not None:
                    return pb.UpdateToolResponse.FromString(first)
                current = await tx.row(QUERIES["lock_tool"], tenant_id=tenant_id, tool_id=change.tool_id)
                if current is None or current["delete_time"] is not None:
                    raise ToolNotFound
                check_revision(change.revision, current)
                values = {
                    "tenant_id": tenant_id,
                    **current,
                    **change.values,
                    "updated_by": updated_by,
                    "update_time": now(),
                }
                if values["name"] != current["name"]:
                    # The same in words that tell a deleted tool from another; the constraint keeps the rule.
                    other = await tx.row(QUERIES["taken_tool"], tenant_id=tenant_id, tool_id=None, name=values["name"])
                    if other is not None and other["delete_time"] is not None:
                        raise ToolDeleted
                row = await tx.row(query, **{name: values[name] for name in query.parameters})
                response = pb.UpdateToolResponse(tool=wire.tool(require_row(row)))
                await self._answer(tx, tenant_id, once, response)
                return response

    async def delete_tool(
        self, tenant_id: UUID, tool_id: str, once: IdempotencyKey, *, deleted_by: str
    ) -> pb.DeleteToolResponse:
        """Mark a tool as deleted; its agents have it again when it is brought back."""
        named, response = {"tenant_id": tenant_id, "tool_id": tool_id}, pb.DeleteToolResponse()
        async with self._database.tenant(tenant_id) as tx:
            if (first := await self._requests.claim(tx, tenant_id, once)) is not None:
                return pb.DeleteToolResponse.FromString(first)
            if not await tx.execute(QUERIES["delete_tool"], **named, delete_time=now(), deleted_by=deleted_by):
                raise ToolNotFound
            await self._answer(tx, tenant_id, once, response)
            await self._quotas.charge(tx, tenant_id, {"tools": -1})
        return response

    async def undelete_tool(
        self, tenant_id: UUID, tool_id: str, once: IdempotencyKey, *, updated_by: str
    ) -> pb.UndeleteToolResponse:
        """Bring a deleted tool back; one that is not deleted stays as it is."""
        named = {"tenant_id": tenant_id, "tool_id": tool_id}
        async with self._database.tenant(tenant_id) as tx:
            if (first := await self._requests.claim(tx, tenant_id, once)) is not None:
                return pb.UndeleteToolResponse.FromString(first)
            row = await tx.row(QUERIES["lock_tool"], **named)
            if row is None:
                raise ToolNotFound
            if row["delete_time"] is not None:
                row = require_row(
                    await tx.row(QUERIES["undelete_tool"], **named, update_time=now(), updated_by=updated_by)
                )
                await self._quotas.charge(tx, tenant_id, {"tools": 1})
            response = pb.UndeleteToolResponse(tool=wire.tool(row))
            await self._answer(tx, tenant_id, once, response)
            return response

    async def purge_tool(self, tenant_id: UUID, tool_id: str, once: IdempotencyKey) -> pb.PurgeToolResponse:
        """Remove a tool for good, deleted or not, from its agents too."""
        named, response = {"tenant_id": tenant_id, "tool_id": tool_id}, pb.PurgeToolResponse()
        async with self._database.tenant(tenant_id) as tx:
            if (first := await self._requests.claim(tx, tenant_id, once)) is not None:
                return pb.PurgeToolResponse.FromString(first)
            row = await tx.row(QUERIES["lock_tool"], **named)
            if row is None:
                raise ToolNotFound
            await tx.execute(QUERIES["purge_tool"], **named)
            await self._answer(tx, tenant_id, once, response)
            if row["delete_time"] is None:
                await self._quotas.charge(tx, tenant_id, {"tools": -1})
        return response

    async def attach_tool(
        self, tenant_id: UUID, agent_id: str, tool_id: str, once: IdempotencyKey, *, created_by: str
    ) -> pb.AttachToolResponse:
        response = pb.AttachToolResponse()
        async with self._database.tenant(tenant_id) as tx:
            if (first := await self._requests.claim(tx, tenant_id, once)) is not None:
                return pb.AttachToolResponse.FromString(first)
            await _must_exist(tx, tenant_id, agent_id, tool_id)
            await tx.execute(
                QUERIES["attach_tool"],
                tenant_id=tenant_id,
                agent_id=agent_id,
                tool_id=tool_id,
                create_time=now(),
                created_by=created_by,
            )
            await self._answer(tx, tenant_id, once, response)
        return response

    async def detach_tool(
        self, tenant_id: UUID, agent_id: str, tool_id: str, once: IdempotencyKey
    ) -> pb.DetachToolResponse:
        response = pb.DetachToolResponse()
        async with self._database.tenant(tenant_id) as tx:
            if (first := await self._requests.claim(tx, tenant_id, once)) is not None:
                return pb.DetachToolResponse.FromString(first)
            await _must_exist(tx, tenant_id, agent_id, tool_id)
            await tx.execute(QUERIES["detach_tool"], tenant_id=tenant_id, agent_id=agent_id, tool_id=tool_id)
            await self._answer(tx, tenant_id, once, response)
        return response


async def _taken(tx: Transaction, tenant_id: UUID, tool_id: str, name: object) -> AlreadyExists:
    """Return the refusal of an id or a name that another tool has, or a deleted one."""
    known = await tx.row(QUERIES["taken_tool"], tenant_id=tenant_id, tool_id=tool_id or None, name=name)
    return ToolExists() if known is None or known["delete_time"] is None else ToolDeleted()


async def _must_exist(tx: Transaction, tenant_id: UUID, agent_id: str, tool_id: str) -> None:
    if await tx.value(QUERIES["share_agent"], tenant_id=tenant_id, agent_id=agent_id) is None:
        raise AgentNotFound
    if await tx.value(QUERIES["share_tool"], tenant_id=tenant_id, tool_id=tool_id) is None:
        raise ToolNotFound
