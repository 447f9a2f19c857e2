"""Tools, and which agents have them, in the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.tenancy.v1 import subjects_pb2 as pb
from skein_kit.database import refusing
from skein_kit.ids import new_id, now
from skein_tenancy import wire
from skein_tenancy.errors import AgentNotFound, ToolExists, ToolNotFound
from skein_tenancy.store.queries import QUERIES
from skein_tenancy.store.tables import Tables, refuse_stale, there

if TYPE_CHECKING:
    from uuid import UUID

    from skein_kit.database import Transaction
    from skein_kit.requests import Once
    from skein_tenancy import tools


class ToolStore(Tables):
    """The tools of a tenant and of its agents."""

    async def create_tool(
        self, tenant_id: UUID, draft: tools.Draft, once: Once, *, created_by: str
    ) -> pb.CreateToolResponse:
        async with self._database.tenant(tenant_id) as tx:
            if (first := await self._requests.claim(tx, tenant_id, once)) is not None:
                return pb.CreateToolResponse.FromString(first)
            at = now()
            row = await tx.row(
                QUERIES["create_tool"],
                tenant_id=tenant_id,
                tool_id=draft.tool_id or str(new_id(at)),
                create_time=at,
                created_by=created_by,
                **draft.values,
            )
            if row is None:
                raise ToolExists
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

    async def list_tools(self, tenant_id: UUID, agent_id: str, *, after: str, size: int) -> list[pb.Tool]:
        """Read tools whose ids come after `after`: all, or those of one agent."""
        page = {"tenant_id": tenant_id, "after": after, "size": size}
        async with self._database.tenant(tenant_id) as tx:
            if agent_id:
                rows = await tx.rows(QUERIES["list_tools_of_agent"], agent_id=agent_id, **page)
            else:
                rows = await tx.rows(QUERIES["list_tools"], **page)
        return [wire.tool(row) for row in rows]

    async def update_tool(
        self, tenant_id: UUID, change: tools.Change, once: Once, *, updated_by: str
    ) -> pb.UpdateToolResponse:
        query = QUERIES["update_tool"]
        with refusing({"tools_name_key": ToolExists()}):
            async with self._database.tenant(tenant_id) as tx:
                if (first := await self._requests.claim(tx, tenant_id, once)) is not None:
                    return pb.UpdateToolResponse.FromString(first)
                current = await tx.row(QUERIES["lock_tool"], tenant_id=tenant_id, tool_id=change.tool_id)
                if current is None:
                    raise ToolNotFound
                refuse_stale(change.revision, current)
                values = {
                    "tenant_id": tenant_id,
                    **current,
                    **change.values,
                    "updated_by": updated_by,
                    "update_time": now(),
                }
                row = await tx.row(query, **{name: values[name] for name in query.parameters})
                response = pb.UpdateToolResponse(tool=wire.tool(there(row)))
                await self._answer(tx, tenant_id, once, response)
                return response

    async def delete_tool(self, tenant_id: UUID, tool_id: str, once: Once) -> pb.DeleteToolResponse:
        response = pb.DeleteToolResponse()
        async with self._database.tenant(tenant_id) as tx:
            if (first := await self._requests.claim(tx, tenant_id, once)) is not None:
                return pb.DeleteToolResponse.FromString(first)
            if not await tx.execute(QUERIES["delete_tool"], tenant_id=tenant_id, tool_id=tool_id):
                raise ToolNotFound
            await self._answer(tx, tenant_id, once, response)
            await self._quotas.charge(tx, tenant_id, {"tools": -1})
        return response

    async def attach_tool(
        self, tenant_id: UUID, agent_id: str, tool_id: str, once: Once, *, created_by: str
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

    async def detach_tool(self, tenant_id: UUID, agent_id: str, tool_id: str, once: Once) -> pb.DetachToolResponse:
        response = pb.DetachToolResponse()
        async with self._database.tenant(tenant_id) as tx:
            if (first := await self._requests.claim(tx, tenant_id, once)) is not None:
                return pb.DetachToolResponse.FromString(first)
            await _must_exist(tx, tenant_id, agent_id, tool_id)
            await tx.execute(QUERIES["detach_tool"], tenant_id=tenant_id, agent_id=agent_id, tool_id=tool_id)
            await self._answer(tx, tenant_id, once, response)
        return response


async def _must_exist(tx: Transaction, tenant_id: UUID, agent_id: str, tool_id: str) -> None:
    if await tx.value(QUERIES["share_agent"], tenant_id=tenant_id, agent_id=agent_id) is None:
        raise AgentNotFound
    if await tx.value(QUERIES["share_tool"], tenant_id=tenant_id, tool_id=tool_id) is None:
        raise ToolNotFound
