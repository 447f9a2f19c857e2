"""Agents in the database."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from skein.tenancy.v1 import tenancy_pb2 as pb
from skein_kit.idempotency.store import LIFETIME
from skein_kit.ids import new_id, now
from skein_tenancy import convert as wire
from skein_tenancy.errors import AgentDeleted, AgentExists, AgentNotFound
from skein_tenancy.queries import QUERIES
from skein_tenancy.store_base import StoreBase, check_revision, require_row

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from skein_kit.idempotency.store import IdempotencyKey
    from skein_kit.rpc.row_times import ImportTimes
    from skein_tenancy.agents import model as agents

# No call lasts that long: what began before a purge is over.
_MAX_CALL_TIME = timedelta(minutes=10)
# Requests whose stored answers show an agent.
_METHODS_WITH_AGENT = [
    kind.DESCRIPTOR.full_name for kind in (pb.CreateAgentRequest, pb.UpdateAgentRequest, pb.UndeleteAgentRequest)
]


class AgentStore(StoreBase):
    """The agents of a tenant."""

    async def create_agent(
        self, tenant_id: UUID, draft: agents.Draft, times: ImportTimes, once: IdempotencyKey, *, created_by: str
    ) -> pb.CreateAgentResponse:
        async with self._database.tenant(tenant_id) as tx:
            if (first := await self._requests.claim(tx, tenant_id, once)) is not None:
                return pb.CreateAgentResponse.FromString(first)
            row = await tx.row(
                QUERIES["create_agent"],
                tenant_id=tenant_id,
                agent_id=draft.agent_id or str(new_id(now())),
                create_time=times.create_time,
                update_time=times.update_time,
                created_by=created_by,
                **draft.values,
            )
            if row is None:
                known = await tx.row(QUERIES["agent_delete_time"], tenant_id=tenant_id, agent_id=draft.agent_id)
                raise AgentExists if known is None or known["delete_time"] is None else AgentDeleted
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

    async def list_agents(self, tenant_id: UUID, *, after: str, size: int, show_deleted: bool) -> list[pb.Agent]:
        """Read agents whose ids come after `after`; the empty text comes before all."""
        page = {"tenant_id": tenant_id, "after": after, "size": size, "show_deleted": show_deleted}
        async with self._database.tenant(tenant_id) as tx:
            rows = await tx.rows(QUERIES["list_agents"], **page)
        return [wire.agent(row) for row in rows]

    async def update_agent(
        self, tenant_id: UUID, change: agents.Change, once: IdempotencyKey, *, updated_by: str
    ) -> pb.UpdateAgentResponse:
        query = QUERIES["update_agent"]
        async with self._database.tenant(tenant_id) as tx:
            if (first := await self._requests.claim(tx, tenant_id, once)) is not None:
                return pb.UpdateAgentResponse.FromString(first)
            current = await tx.row(QUERIES["lock_agent"], tenant_id=tenant_id, agent_id=change.agent_id)
            if current is None:
                raise AgentNotFound
            check_revision(change.revision, current)
            values = {
                "tenant_id": tenant_id,
                **current,
                **change.values,
                "updated_by": updated_by,
                "update_time": now(),
            }
            row = await tx.row(query, **{name: values[name] for name in query.parameters})
            response = pb.UpdateAgentResponse(agent=wire.agent(require_row(row)))
            await self._answer(tx, tenant_id, once, response)
            return response

    async def delete_agent(
        self, tenant_id: UUID, agent_id: str, once: IdempotencyKey, *, deleted_by: str
    ) -> pb.DeleteAgentResponse:
        """Mark an agent as deleted; its tools, blocks, states and keys stay for the day that it is brought back."""
        at, response = now(), pb.DeleteAgentResponse()
        async with self._database.tenant(tenant_id) as tx:
            if (first := await self._requests.claim(tx, tenant_id, once)) is not None:
                return pb.DeleteAgentResponse.FromString(first)
            deleted = await tx.execute(
                QUERIES["delete_agent"],
                tenant_id=tenant_id,
                agent_id=agent_id,
                delete_time=at,
                deleted_by=deleted_by,
            )
            if not deleted:
                raise AgentNotFound
            await self._answer(tx, tenant_id, once, response)
            await self._quotas.charge(tx, tenant_id, {"agents": -1})
        return response

    async def undelete_agent(
        self, tenant_id: UUID, agent_id: str, once: IdempotencyKey, *, updated_by: str
    ) -> pb.UndeleteAgentResponse:
        """Bring a deleted agent back; one that is not deleted stays as it is."""
        named = {"tenant_id": tenant_id, "agent_id": agent_id}
        async with self._database.tenant(tenant_id) as tx:
            if (first := await self._requests.claim(tx, tenant_id, once)) is not None:
                return pb.UndeleteAgentResponse.FromString(first)
            row = await tx.row(QUERIES["lock_agent_any"], **named)
            if row is None:
                raise AgentNotFound
            if row["delete_time"] is not None:
                row = require_row(
                    await tx.row(QUERIES["undelete_agent"], **named, update_time=now(), updated_by=updated_by)
                )
                await self._quotas.charge(tx, tenant_id, {"agents": 1})
            response = pb.UndeleteAgentResponse(agent=wire.agent(row))
            await self._answer(tx, tenant_id, once, response)
            return response

    async def purge_agent(
        self, tenant_id: UUID, agent_id: str, once: IdempotencyKey, *, purged_by: str
    ) -> pb.PurgeAgentResponse:
        """Empty an agent at once; its row, which takes its id, goes when the other services have nothing left of it."""
        named, at, response = {"tenant_id": tenant_id, "agent_id": agent_id}, now(), pb.PurgeAgentResponse()
        async with self._database.tenant(tenant_id) as tx:
            if (first := await self._requests.claim(tx, tenant_id, once)) is not None:
                return pb.PurgeAgentResponse.FromString(first)
            row = await tx.row(QUERIES["lock_agent_any"], **named)
            if row is None:
                raise AgentNotFound
            await tx.execute(QUERIES["purge_agent"], **named, purge_time=at, purged_by=purged_by)
            await tx.execute(QUERIES["detach_tools"], **named)
            await tx.execute(
                QUERIES["empty_agent_answers"],
                tenant_id=tenant_id,
                since_time=at - LIFETIME,
                methods=_METHODS_WITH_AGENT,
                # As an answer begins to name an agent.
                name=pb.Agent(agent_id=agent_id).SerializeToString(),
            )
            await self._answer(tx, tenant_id, once, response)
            if row["delete_time"] is None:
                await self._quotas.charge(tx, tenant_id, {"agents": -1})
        return response

    async def delete_purged(self, tenant_id: UUID, at: datetime) -> int:
        """Remove purged agents of which nothing is left, and free their ids; return how many."""
        async with self._database.tenant(tenant_id) as tx:
            return await tx.execute(
                QUERIES["delete_purged_agents"], tenant_id=tenant_id, purged_before=at - _MAX_CALL_TIME
            )
