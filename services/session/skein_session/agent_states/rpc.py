"""RPCs of agent states. A claim saves an empty response, so deletions save none."""

from __future__ import annotations

from skein.session.v1 import states_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.errors import FieldInvalid
from skein_kit.identity.identity_token import Caller
from skein_kit.ids import now
from skein_kit.rpc.pagination import fit_items, read_token, resolve_page_size, write_token
from skein_kit.rpc.row_times import ImportTimes
from skein_session.agent_states import convert
from skein_session.agent_states.store import AgentStateStore
from skein_session.idempotency import SessionIdempotencyStore
from skein_session.page_tokens import keys_from_page_token


class AgentStateHandlers:
    """Puts, reads and deletes agent states."""

    def __init__(self, store: AgentStateStore, idempotency: SessionIdempotencyStore) -> None:
        self._store = store
        self._idempotency = idempotency

    async def PutAgentState(self, request: pb.PutAgentStateRequest, context: Context) -> pb.PutAgentStateResponse:
        caller, at = caller_of(context), now()
        times = ImportTimes.read(request.state, caller, at, keep_times=request.keep_times)
        put = convert.agent_state_put(request, at=at, principal=caller.principal, agent_id=caller.agent_id, times=times)
        async with self._idempotency.begin(caller, request) as write:
            columns = await self._store.put_state(write.tx, caller.require_tenant(), put)
            return await write.save(pb.PutAgentStateResponse(state=convert.agent_state(columns)))

    async def GetAgentState(self, request: pb.GetAgentStateRequest, context: Context) -> pb.GetAgentStateResponse:
        caller = caller_of(context)
        agent_id = _agent_or_caller(request.agent_id, caller)
        row = await self._store.get_state(caller.require_tenant(), agent_id, request.session_id, now())
        return pb.GetAgentStateResponse(state=convert.agent_state(row))

    async def ListAgentStates(self, request: pb.ListAgentStatesRequest, context: Context) -> pb.ListAgentStatesResponse:
        caller = caller_of(context)
        tenant_id = caller.require_tenant()
        size = resolve_page_size(request.page_size)
        rows = await self._store.list_states(
            tenant_id,
            # A credential that is bound to an agent reads the states of that one.
            agent_id=request.agent_id or caller.agent_id or None,
            session_id=request.session_id or None,
            after=keys_from_page_token(read_token(request.page_token, tenant_id, request)),
            at=now(),
            limit=size + 1,
        )
        states = fit_items(convert.agent_state(row) for row in rows[:size])
        response = pb.ListAgentStatesResponse(states=states)
        if len(rows) > len(states):
            last_row = rows[len(states) - 1]
            last = [last_row["agent_id"], last_row["session_id"], str(last_row["space_id"])]
            response.next_page_token = write_token(last, tenant_id, request)
        return response

    async def DeleteAgentState(
        self, request: pb.DeleteAgentStateRequest, context: Context
    ) -> pb.DeleteAgentStateResponse:
        caller = caller_of(context)
        agent_id = _agent_or_caller(request.agent_id, caller)
        async with self._idempotency.begin(caller, request) as write:
            await self._store.delete_state(
                write.tx,
                caller.require_tenant(),
                agent_id,
                request.session_id,
                revision=request.revision,
                at=now(),
            )
        return pb.DeleteAgentStateResponse()


def _agent_or_caller(agent_id: str, caller: Caller) -> str:
    """Return the agent of the request, or the caller's own. Raises FieldInvalid when there is neither."""
    if not (agent_id or caller.agent_id):
        raise FieldInvalid(violations=[("agent_id", "must be set, because the credential has no agent")])
    return agent_id or caller.agent_id
