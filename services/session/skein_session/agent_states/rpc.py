"""Agent states, short-term items and erasure: each RPC reads its request, makes one call, and replies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.session.v1 import session_pb2, states_pb2
from skein_kit.calls.call import Context, caller
from skein_kit.errors import FieldInvalid
from skein_kit.idempotency.store import IdempotencyKey
from skein_kit.ids import now
from skein_kit.rpc.row_times import ImportTimes
from skein_session.agent_states.model import AgentStatePut, ItemPut

if TYPE_CHECKING:
    from skein_kit.identity.identity_token import Caller
    from skein_session.agent_states.store import StateStore
    from skein_session.erasure.store import ErasureStore
    from skein_session.export.store import ExportStore


class StateRpcs:
    """What agents keep in mind, what sessions keep for a while, and what is removed for good."""

    def __init__(self, *, states: StateStore, erasing: ErasureStore, exporting: ExportStore) -> None:
        self._states = states
        self._erasing = erasing
        self._exporting = exporting

    async def PutAgentState(
        self, request: states_pb2.PutAgentStateRequest, context: Context
    ) -> states_pb2.PutAgentStateResponse:
        who, at = caller(context), now()
        times = ImportTimes.of(request.state, who, at, keep_times=request.keep_times)
        put = AgentStatePut.of(request, at=at, by=who.principal, agent_id=who.agent_id, times=times)
        return await self._states.put(who.tenant(), IdempotencyKey.of(who, request), put)

    async def GetAgentState(
        self, request: states_pb2.GetAgentStateRequest, context: Context
    ) -> states_pb2.GetAgentStateResponse:
        who = caller(context)
        state = await self._states.get(who.tenant(), _agent(request.agent_id, who), request.session_id, now())
        return states_pb2.GetAgentStateResponse(state=state)

    async def ListAgentStates(
        self, request: states_pb2.ListAgentStatesRequest, context: Context
    ) -> states_pb2.ListAgentStatesResponse:
        return await self._states.page(caller(context).tenant(), request, now())

    async def DeleteAgentState(
        self, request: states_pb2.DeleteAgentStateRequest, context: Context
    ) -> states_pb2.DeleteAgentStateResponse:
        who = caller(context)
        agent_id = _agent(request.agent_id, who)
        return await self._states.delete(who.tenant(), IdempotencyKey.of(who, request), request, agent_id, now())

    async def PutItem(self, request: states_pb2.PutItemRequest, context: Context) -> states_pb2.PutItemResponse:
        who, at = caller(context), now()
        times = ImportTimes.of(request, who, at, keep_times=request.keep_times)
        put = ItemPut.of(request, at=at, times=times)
        return await self._states.put_item(who.tenant(), IdempotencyKey.of(who, request), put, at=at, by=who.principal)

    async def GetItem(self, request: states_pb2.GetItemRequest, context: Context) -> states_pb2.GetItemResponse:
        item = await self._states.get_item(caller(context).tenant(), request.session_id, request.key, now())
        return states_pb2.GetItemResponse(item=item)

    async def ListItems(self, request: states_pb2.ListItemsRequest, context: Context) -> states_pb2.ListItemsResponse:
        return await self._states.items(caller(context).tenant(), request, now())

    async def DeleteItem(
        self, request: states_pb2.DeleteItemRequest, context: Context
    ) -> states_pb2.DeleteItemResponse:
        who = caller(context)
        return await self._states.delete_item(who.tenant(), IdempotencyKey.of(who, request), request, now())

    async def PurgeSession(
        self, request: states_pb2.PurgeSessionRequest, context: Context
    ) -> states_pb2.PurgeSessionResponse:
        who = caller(context)
        return await self._erasing.session(who.tenant(), IdempotencyKey.of(who, request), request, now())

    async def PurgeMessages(
        self, request: states_pb2.PurgeMessagesRequest, context: Context
    ) -> states_pb2.PurgeMessagesResponse:
        who = caller(context)
        return await self._erasing.messages(who.tenant(), IdempotencyKey.of(who, request), request, now())

    async def PurgeSubject(
        self, request: states_pb2.PurgeSubjectRequest, context: Context
    ) -> states_pb2.PurgeSubjectResponse:
        who = caller(context)
        return await self._erasing.subject(who.tenant(), IdempotencyKey.of(who, request), request, now())

    async def ExportSubject(
        self, request: session_pb2.ExportSubjectRequest, context: Context
    ) -> session_pb2.ExportSubjectResponse:
        return await self._exporting.page(caller(context).tenant(), request)


def _agent(agent_id: str, who: Caller) -> str:
    """Return the agent that is named, or the caller's own."""
    if not (agent_id or who.agent_id):
        raise FieldInvalid(violations=[("agent_id", "says whose state it is")])
    return agent_id or who.agent_id
