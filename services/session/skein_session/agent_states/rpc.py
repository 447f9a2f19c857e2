"""RPCs of agent states."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.session.v1 import states_pb2 as pb
from skein_kit.calls.call import Context, caller
from skein_kit.errors import FieldInvalid
from skein_kit.idempotency.key import IdempotencyKey
from skein_kit.ids import now
from skein_kit.rpc.pagination import fit_items, read_token, resolve_page_size, write_token
from skein_kit.rpc.row_times import ImportTimes
from skein_session.agent_states import convert
from skein_session.agent_states.model import AgentStatePut
from skein_session.page_tokens import keys_from_page_token

if TYPE_CHECKING:
    from skein_kit.identity.identity_token import Caller
    from skein_session.agent_states.store import AgentStateStore


class AgentStateRpc:
    """Puts, reads and deletes agent states."""

    def __init__(self, states: AgentStateStore) -> None:
        self._states = states

    async def PutAgentState(self, request: pb.PutAgentStateRequest, context: Context) -> pb.PutAgentStateResponse:
        identity, at = caller(context), now()
        times = ImportTimes.of(request.state, identity, at, keep_times=request.keep_times)
        put = AgentStatePut.of(request, at=at, principal=identity.principal, agent_id=identity.agent_id, times=times)
        return await self._states.put_state(identity.tenant(), IdempotencyKey.of(identity, request), put)

    async def GetAgentState(self, request: pb.GetAgentStateRequest, context: Context) -> pb.GetAgentStateResponse:
        identity = caller(context)
        agent_id = _agent_or_caller(request.agent_id, identity)
        row = await self._states.get_state(identity.tenant(), agent_id, request.session_id, now())
        return pb.GetAgentStateResponse(state=convert.agent_state(row))

    async def ListAgentStates(self, request: pb.ListAgentStatesRequest, context: Context) -> pb.ListAgentStatesResponse:
        tenant_id = caller(context).tenant()
        size = resolve_page_size(request.page_size)
        rows = await self._states.list_states(
            tenant_id,
            agent_id=request.agent_id or None,
            session_id=request.session_id or None,
            after=keys_from_page_token(read_token(request.page_token, tenant_id, request)),
            at=now(),
            limit=size + 1,
        )
        states = fit_items(convert.agent_state(row) for row in rows[:size])
        response = pb.ListAgentStatesResponse(states=states)
        if len(rows) > len(states):
            last = [states[-1].agent_id, states[-1].session_id]
            response.next_page_token = write_token(last, tenant_id, request)
        return response

    async def DeleteAgentState(
        self, request: pb.DeleteAgentStateRequest, context: Context
    ) -> pb.DeleteAgentStateResponse:
        identity = caller(context)
        return await self._states.delete_state(
            identity.tenant(),
            IdempotencyKey.of(identity, request),
            _agent_or_caller(request.agent_id, identity),
            request.session_id,
            revision=request.revision,
            at=now(),
        )


def _agent_or_caller(agent_id: str, identity: Caller) -> str:
    """Return the agent of the request, or the caller's own. Raises FieldInvalid when there is neither."""
    if not (agent_id or identity.agent_id):
        raise FieldInvalid(violations=[("agent_id", "says whose state it is")])
    return agent_id or identity.agent_id
