"""The RPCs of agents: parse, one call, reply."""

from __future__ import annotations

from skein.tenancy.v1 import tenancy_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.ids import now
from skein_kit.rpc import pagination
from skein_kit.rpc.row_times import ImportTimes
from skein_tenancy.agents import convert
from skein_tenancy.agents.store import AgentStore


class AgentHandlers:
    """Agents of a tenant."""

    def __init__(self, store: AgentStore, idempotency: IdempotencyStore) -> None:
        self._store = store
        self._idempotency = idempotency

    async def CreateAgent(self, request: pb.CreateAgentRequest, context: Context) -> pb.CreateAgentResponse:
        caller = caller_of(context)
        draft = convert.draft(request.agent)
        times = ImportTimes.read(request.agent, caller, now(), keep_times=request.keep_times)
        async with self._idempotency.begin(caller, request) as write:
            agent = await self._store.create_agent(
                write.tx, caller.require_tenant(), draft, times, created_by=caller.principal
            )
            return await write.save(pb.CreateAgentResponse(agent=convert.agent(agent)))

    async def GetAgent(self, request: pb.GetAgentRequest, context: Context) -> pb.GetAgentResponse:
        agent = await self._store.get_agent(caller_of(context).require_tenant(), request.agent_id)
        return pb.GetAgentResponse(agent=convert.agent(agent))

    async def ListAgents(self, request: pb.ListAgentsRequest, context: Context) -> pb.ListAgentsResponse:
        tenant_id = caller_of(context).require_tenant()
        size = pagination.resolve_page_size(request.page_size)
        position = pagination.read_token(request.page_token, tenant_id, request)
        rows = await self._store.list_agents(
            tenant_id, after=position[0] if position else "", size=size + 1, show_deleted=request.show_deleted
        )
        page, token = pagination.fit_rows(
            rows, convert.agent, lambda agent: [agent.agent_id], request, tenant_id, size=size
        )
        return pb.ListAgentsResponse(agents=page, next_page_token=token)

    async def UpdateAgent(self, request: pb.UpdateAgentRequest, context: Context) -> pb.UpdateAgentResponse:
        caller = caller_of(context)
        change = convert.change(request.agent, request.update_mask)
        async with self._idempotency.begin(caller, request) as write:
            agent = await self._store.update_agent(
                write.tx, caller.require_tenant(), change, updated_by=caller.principal
            )
            return await write.save(pb.UpdateAgentResponse(agent=convert.agent(agent)))

    async def DeleteAgent(self, request: pb.DeleteAgentRequest, context: Context) -> pb.DeleteAgentResponse:
        caller = caller_of(context)
        async with self._idempotency.begin(caller, request) as write:
            await self._store.delete_agent(
                write.tx, caller.require_tenant(), request.agent_id, deleted_by=caller.principal
            )
        return pb.DeleteAgentResponse()

    async def UndeleteAgent(self, request: pb.UndeleteAgentRequest, context: Context) -> pb.UndeleteAgentResponse:
        caller = caller_of(context)
        async with self._idempotency.begin(caller, request) as write:
            agent = await self._store.undelete_agent(
                write.tx, caller.require_tenant(), request.agent_id, updated_by=caller.principal
            )
            return await write.save(pb.UndeleteAgentResponse(agent=convert.agent(agent)))

    async def PurgeAgent(self, request: pb.PurgeAgentRequest, context: Context) -> pb.PurgeAgentResponse:
        caller, agent_id = caller_of(context), request.agent_id
        async with self._idempotency.begin(caller, request) as write:
            await self._store.purge_agent(write.tx, caller.require_tenant(), agent_id, purged_by=caller.principal)
            await self._store.clear_responses(
                write.tx,
                caller.require_tenant(),
                methods=convert.METHODS_WITH_AGENT,
                prefix=convert.agent_prefix(agent_id),
            )
        return pb.PurgeAgentResponse()
