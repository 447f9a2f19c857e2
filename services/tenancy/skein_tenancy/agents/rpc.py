"""The RPCs of agents: parse, one call, reply."""

from __future__ import annotations

from collections.abc import Iterable

from google.protobuf.field_mask_pb2 import FieldMask

from skein.tenancy.v1 import tenancy_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.ids import now
from skein_kit.rpc import pagination, well_known_types
from skein_kit.rpc.row_times import ImportTimes
from skein_tenancy.agents.store import Agent, AgentStore
from skein_tenancy.rows import RowChange, RowDraft

_TEXTS = ("display_name", "agent_type", "description", "system_prompt", "topic")
_OBJECTS = ("metadata", "llm_config", "embedding_config", "tool_rules")
_LISTS = ("mcp_servers", "message_ids")
_UPDATABLE = (*_TEXTS, *_OBJECTS, *_LISTS)
# Requests whose saved responses contain an agent.
METHODS_WITH_AGENT = [
    kind.DESCRIPTOR.full_name for kind in (pb.CreateAgentRequest, pb.UpdateAgentRequest, pb.UndeleteAgentRequest)
]


class AgentHandlers:
    """Agents of a tenant."""

    def __init__(self, store: AgentStore, idempotency: IdempotencyStore) -> None:
        self._store = store
        self._idempotency = idempotency

    async def CreateAgent(self, request: pb.CreateAgentRequest, context: Context) -> pb.CreateAgentResponse:
        caller = caller_of(context)
        draft = read_draft(request.agent)
        times = ImportTimes.read(request.agent, caller, now(), keep_times=request.keep_times)
        async with self._idempotency.begin(caller, request) as write:
            agent = await self._store.create_agent(
                write.tx, caller.require_tenant(), draft, times, created_by=caller.principal
            )
            return await write.save(pb.CreateAgentResponse(agent=agent_message(agent)))

    async def GetAgent(self, request: pb.GetAgentRequest, context: Context) -> pb.GetAgentResponse:
        agent = await self._store.get_agent(caller_of(context).require_tenant(), request.agent_id)
        return pb.GetAgentResponse(agent=agent_message(agent))

    async def ListAgents(self, request: pb.ListAgentsRequest, context: Context) -> pb.ListAgentsResponse:
        tenant_id = caller_of(context).require_tenant()
        size = pagination.resolve_page_size(request.page_size)
        position = pagination.read_token(request.page_token, tenant_id, request)
        rows = await self._store.list_agents(
            tenant_id, after=position[0] if position else "", size=size + 1, show_deleted=request.show_deleted
        )
        page, token = pagination.fit_rows(
            rows, agent_message, lambda agent: [agent.agent_id], request, tenant_id, size=size
        )
        return pb.ListAgentsResponse(agents=page, next_page_token=token)

    async def UpdateAgent(self, request: pb.UpdateAgentRequest, context: Context) -> pb.UpdateAgentResponse:
        caller = caller_of(context)
        change = read_change(request.agent, request.update_mask)
        async with self._idempotency.begin(caller, request) as write:
            agent = await self._store.update_agent(
                write.tx, caller.require_tenant(), change, updated_by=caller.principal
            )
            return await write.save(pb.UpdateAgentResponse(agent=agent_message(agent)))

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
            return await write.save(pb.UndeleteAgentResponse(agent=agent_message(agent)))

    async def PurgeAgent(self, request: pb.PurgeAgentRequest, context: Context) -> pb.PurgeAgentResponse:
        caller, agent_id = caller_of(context), request.agent_id
        async with self._idempotency.begin(caller, request) as write:
            await self._store.purge_agent(write.tx, caller.require_tenant(), agent_id, purged_by=caller.principal)
            await self._store.clear_responses(
                write.tx,
                caller.require_tenant(),
                methods=METHODS_WITH_AGENT,
                prefix=agent_prefix(agent_id),
            )
        return pb.PurgeAgentResponse()


def agent_message(value: Agent) -> pb.Agent:
    return well_known_types.to_message(pb.Agent, value)


def agent_prefix(agent_id: str) -> bytes:
    """Return the bytes with which the agent begins inside a saved response."""
    return pb.Agent(agent_id=agent_id).SerializeToString()


def read_draft(message: pb.Agent) -> RowDraft:
    return RowDraft(row_id=message.agent_id, values=_values(message, _UPDATABLE))


def read_change(message: pb.Agent, mask: FieldMask) -> RowChange:
    """Read the fields that the mask names, or all when it is empty."""
    updated_names = well_known_types.updated_fields(mask, _UPDATABLE)
    return RowChange(row_id=message.agent_id, revision=message.revision, values=_values(message, updated_names))


def _values(message: pb.Agent, names: Iterable[str]) -> dict[str, object]:
    values: dict[str, object] = {}
    for name in names:
        if name in _OBJECTS:
            values[name] = well_known_types.json_text(message, name)
        elif name in _TEXTS:
            values[name] = getattr(message, name)
        else:
            values[name] = list(getattr(message, name))
    return values
