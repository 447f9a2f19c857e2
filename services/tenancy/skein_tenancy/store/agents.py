"""Agents in the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.tenancy.v1 import tenancy_pb2 as pb
from skein_kit.ids import new_id, now
from skein_tenancy import wire
from skein_tenancy.errors import AgentExists, AgentNotFound
from skein_tenancy.store.queries import QUERIES
from skein_tenancy.store.tables import Tables, refuse_stale, there

if TYPE_CHECKING:
    from uuid import UUID

    from skein_kit.requests import Once
    from skein_tenancy import agents


class AgentStore(Tables):
    """The agents of a tenant."""

    async def create_agent(
        self, tenant_id: UUID, draft: agents.Draft, once: Once, *, created_by: str
    ) -> pb.CreateAgentResponse:
        async with self._database.tenant(tenant_id) as tx:
            if (first := await self._requests.claim(tx, tenant_id, once)) is not None:
                return pb.CreateAgentResponse.FromString(first)
            at = now()
            row = await tx.row(
                QUERIES["create_agent"],
                tenant_id=tenant_id,
                agent_id=draft.agent_id or str(new_id(at)),
                create_time=at,
                created_by=created_by,
                **draft.values,
            )
            if row is None:
                raise AgentExists
            response = pb.CreateAgentResponse(agent=wire.agent(row))
            await self._answer(tx, tenant_id, once, response)
            await self._quotas.charge(tx, tenant_id, {"agents": 1})
            return response

    async def get_agent(self, tenant_id: UUID, agent_id: str) -> pb.Agent:
        async with self._database.tenant(tenant_id) as tx:
            row = await tx.row(QUERIES["get_agent"], tenant_id=tenant_id, agent_id=agent_id)
        if row is None:
            raise AgentNotFound
        return wire.agent(row)

    async def list_agents(self, tenant_id: UUID, *, after: str, size: int) -> list[pb.Agent]:
        """Read agents whose ids come after `after`; the empty text comes before all."""
        async with self._database.tenant(tenant_id) as tx:
            rows = await tx.rows(QUERIES["list_agents"], tenant_id=tenant_id, after=after, size=size)
        return [wire.agent(row) for row in rows]

    async def update_agent(
        self, tenant_id: UUID, change: agents.Change, once: Once, *, updated_by: str
    ) -> pb.UpdateAgentResponse:
        query = QUERIES["update_agent"]
        async with self._database.tenant(tenant_id) as tx:
            if (first := await self._requests.claim(tx, tenant_id, once)) is not None:
                return pb.UpdateAgentResponse.FromString(first)
            current = await tx.row(QUERIES["lock_agent"], tenant_id=tenant_id, agent_id=change.agent_id)
            if current is None:
                raise AgentNotFound
            refuse_stale(change.revision, current)
            values = {
                "tenant_id": tenant_id,
                **current,
                **change.values,
                "updated_by": updated_by,
                "update_time": now(),
            }
            row = await tx.row(query, **{name: values[name] for name in query.parameters})
            response = pb.UpdateAgentResponse(agent=wire.agent(there(row)))
            await self._answer(tx, tenant_id, once, response)
            return response

    async def delete_agent(
        self, tenant_id: UUID, agent_id: str, once: Once, *, deleted_by: str
    ) -> pb.DeleteAgentResponse:
        at, response = now(), pb.DeleteAgentResponse()
        free_id = str(new_id(at))
        async with self._database.tenant(tenant_id) as tx:
            if (first := await self._requests.claim(tx, tenant_id, once)) is not None:
                return pb.DeleteAgentResponse.FromString(first)
            deleted = await tx.execute(
                QUERIES["delete_agent"],
                tenant_id=tenant_id,
                agent_id=agent_id,
                free_id=free_id,
                delete_time=at,
                deleted_by=deleted_by,
            )
            if not deleted:
                raise AgentNotFound
            # They followed the agent to its new id.
            await tx.execute(QUERIES["detach_tools"], tenant_id=tenant_id, agent_id=free_id)
            await self._answer(tx, tenant_id, once, response)
            await self._quotas.charge(tx, tenant_id, {"agents": -1})
        return response
