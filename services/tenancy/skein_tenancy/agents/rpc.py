"""The RPCs that concern agents: parse, one call, reply."""

from __future__ import annotations

from skein.tenancy.v1 import tenancy_pb2 as pb
from skein_kit.calls.call import Context, caller
from skein_kit.idempotency.store import IdempotencyKey
from skein_kit.ids import now
from skein_kit.rpc import pagination
from skein_kit.rpc.row_times import ImportTimes
from skein_tenancy.agents import model as agents
from skein_tenancy.rpc_base import Rpcs


class AgentRpcs(Rpcs):
    """The agents of a tenant."""

    async def CreateAgent(self, request: pb.CreateAgentRequest, context: Context) -> pb.CreateAgentResponse:
        who = caller(context)
        draft = agents.Draft.of(request.agent)
        times = ImportTimes.of(request.agent, who, now(), keep_times=request.keep_times)
        return await self._parts.agents.create_agent(
            who.tenant(), draft, times, IdempotencyKey.of(who, request), created_by=who.principal
        )

    async def GetAgent(self, request: pb.GetAgentRequest, context: Context) -> pb.GetAgentResponse:
        return pb.GetAgentResponse(agent=await self._parts.agents.get_agent(caller(context).tenant(), request.agent_id))

    async def ListAgents(self, request: pb.ListAgentsRequest, context: Context) -> pb.ListAgentsResponse:
        tenant_id = caller(context).tenant()
        size = pagination.resolve_page_size(request.page_size)
        place = pagination.read_token(request.page_token, tenant_id, request)
        found = await self._parts.agents.list_agents(
            tenant_id, after=place[0] if place else "", size=size + 1, show_deleted=request.show_deleted
        )
        page = pagination.fit_items(found[:size])
        response = pb.ListAgentsResponse(agents=page)
        if len(found) > len(page):
            response.next_page_token = pagination.write_token([page[-1].agent_id], tenant_id, request)
        return response

    async def UpdateAgent(self, request: pb.UpdateAgentRequest, context: Context) -> pb.UpdateAgentResponse:
        who = caller(context)
        change = agents.Change.of(request.agent, request.update_mask)
        return await self._parts.agents.update_agent(
            who.tenant(), change, IdempotencyKey.of(who, request), updated_by=who.principal
        )

    async def DeleteAgent(self, request: pb.DeleteAgentRequest, context: Context) -> pb.DeleteAgentResponse:
        who = caller(context)
        once = IdempotencyKey.of(who, request)
        return await self._parts.agents.delete_agent(who.tenant(), request.agent_id, once, deleted_by=who.principal)

    async def UndeleteAgent(self, request: pb.UndeleteAgentRequest, context: Context) -> pb.UndeleteAgentResponse:
        who = caller(context)
        once = IdempotencyKey.of(who, request)
        return await self._parts.agents.undelete_agent(who.tenant(), request.agent_id, once, updated_by=who.principal)

    async def PurgeAgent(self, request: pb.PurgeAgentRequest, context: Context) -> pb.PurgeAgentResponse:
        who = caller(context)
        once = IdempotencyKey.of(who, request)
        return await self._parts.agents.purge_agent(who.tenant(), request.agent_id, once, purged_by=who.principal)
