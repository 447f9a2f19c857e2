"""The RPCs of agents."""

from __future__ import annotations

from collections.abc import Iterable

from skein.tenancy.v1 import tenancy_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.rpc import pagination, well_known_types
from skein_tenancy.agents.store import Agent, AgentStore
from skein_tenancy.row_handlers import RowHandlers

_TEXTS = ("display_name", "agent_type", "description", "system_prompt", "topic")
_OBJECTS = ("metadata", "llm_config", "embedding_config", "tool_rules")
_LISTS = ("mcp_servers", "message_ids")


class AgentHandlers(RowHandlers[Agent]):
    """Agents of a tenant."""

    noun, message = "agent", pb.Agent
    updatable = (*_TEXTS, *_OBJECTS, *_LISTS)

    def __init__(self, store: AgentStore, idempotency: IdempotencyStore) -> None:
        super().__init__(store, idempotency)
        self._store = store

    async def values(self, message: pb.Agent, names: Iterable[str]) -> dict[str, object]:
        values: dict[str, object] = {}
        for name in names:
            if name in _OBJECTS:
                values[name] = well_known_types.json_text(message, name)
            elif name in _TEXTS:
                values[name] = getattr(message, name)
            else:
                values[name] = list(getattr(message, name))
        return values

    async def CreateAgent(self, request: pb.CreateAgentRequest, context: Context) -> pb.CreateAgentResponse:
        return await self.create(request, context, pb.CreateAgentResponse)

    async def GetAgent(self, request: pb.GetAgentRequest, context: Context) -> pb.GetAgentResponse:
        return await self.get(request, context, pb.GetAgentResponse)

    async def ListAgents(self, request: pb.ListAgentsRequest, context: Context) -> pb.ListAgentsResponse:
        tenant_id = caller_of(context).require_tenant()
        position = pagination.read_token(request.page_token, tenant_id, request)
        rows = await self._store.list_agents(
            tenant_id,
            after=position[0] if position else "",
            size=pagination.resolve_page_size(request.page_size) + 1,
            show_deleted=request.show_deleted,
        )
        return self.page(request, tenant_id, rows, pb.ListAgentsResponse)

    async def UpdateAgent(self, request: pb.UpdateAgentRequest, context: Context) -> pb.UpdateAgentResponse:
        return await self.update(request, context, pb.UpdateAgentResponse)

    async def DeleteAgent(self, request: pb.DeleteAgentRequest, context: Context) -> pb.DeleteAgentResponse:
        return await self.delete(request, context, pb.DeleteAgentResponse)

    async def UndeleteAgent(self, request: pb.UndeleteAgentRequest, context: Context) -> pb.UndeleteAgentResponse:
        return await self.undelete(request, context, pb.UndeleteAgentResponse)

    async def PurgeAgent(self, request: pb.PurgeAgentRequest, context: Context) -> pb.PurgeAgentResponse:
        saved_by = (pb.CreateAgentRequest, pb.UpdateAgentRequest, pb.UndeleteAgentRequest)
        return await self.purge(request, context, pb.PurgeAgentResponse, saved_by=saved_by)
