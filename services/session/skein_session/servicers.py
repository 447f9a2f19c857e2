"""The gRPC services of the session service: each RPC delegates to the feature that has it."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from skein.session.v1 import archives_pb2, states_pb2
from skein.session.v1 import session_pb2 as pb
from skein.session.v1 import session_pb2_grpc as rpc

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from skein_kit.calls.call import Context
    from skein_session.agent_states.rpc import AgentStateRpc
    from skein_session.cold_storage.rpc import ColdStorageRpc
    from skein_session.erasure.rpc import ErasureRpc
    from skein_session.export.rpc import ExportRpc
    from skein_session.items.rpc import ItemRpc
    from skein_session.maintenance.rpc import MaintenanceRpc
    from skein_session.messages.rpc import MessageRpc
    from skein_session.search.rpc import SearchRpc
    from skein_session.sessions.rpc import SessionRpc
    from skein_session.summaries.rpc import SummaryRpc
    from skein_session.transcripts.rpc import TranscriptRpc


class SessionServicer(rpc.SessionServiceServicer):
    """SessionService."""

    def __init__(  # noqa: PLR0913 - one argument per feature.
        self,
        *,
        sessions: SessionRpc,
        messages: MessageRpc,
        transcripts: TranscriptRpc,
        search: SearchRpc,
        summaries: SummaryRpc,
        states: AgentStateRpc,
        items: ItemRpc,
        cold_storage: ColdStorageRpc,
        erasure: ErasureRpc,
        export: ExportRpc,
    ) -> None:
        self._sessions = sessions
        self._messages = messages
        self._transcripts = transcripts
        self._search = search
        self._summaries = summaries
        self._states = states
        self._items = items
        self._cold_storage = cold_storage
        self._erasure = erasure
        self._export = export

    async def CreateSession(self, request: pb.CreateSessionRequest, context: Context) -> pb.CreateSessionResponse:
        return await self._sessions.CreateSession(request, context)

    async def GetSession(self, request: pb.GetSessionRequest, context: Context) -> pb.GetSessionResponse:
        return await self._sessions.GetSession(request, context)

    async def ListSessions(self, request: pb.ListSessionsRequest, context: Context) -> pb.ListSessionsResponse:
        return await self._sessions.ListSessions(request, context)

    async def UpdateSession(self, request: pb.UpdateSessionRequest, context: Context) -> pb.UpdateSessionResponse:
        return await self._sessions.UpdateSession(request, context)

    async def EndSession(self, request: pb.EndSessionRequest, context: Context) -> pb.EndSessionResponse:
        return await self._sessions.EndSession(request, context)

    async def ArchiveSession(self, request: pb.ArchiveSessionRequest, context: Context) -> pb.ArchiveSessionResponse:
        return await self._sessions.ArchiveSession(request, context)

    async def UnarchiveSession(
        self, request: pb.UnarchiveSessionRequest, context: Context
    ) -> pb.UnarchiveSessionResponse:
        return await self._sessions.UnarchiveSession(request, context)

    async def DeleteSession(self, request: pb.DeleteSessionRequest, context: Context) -> pb.DeleteSessionResponse:
        return await self._sessions.DeleteSession(request, context)

    async def AppendMessages(self, request: pb.AppendMessagesRequest, context: Context) -> pb.AppendMessagesResponse:
        return await self._messages.AppendMessages(request, context)

    async def GetMessage(self, request: pb.GetMessageRequest, context: Context) -> pb.GetMessageResponse:
        return await self._messages.GetMessage(request, context)

    async def UpdateMessage(self, request: pb.UpdateMessageRequest, context: Context) -> pb.UpdateMessageResponse:
        return await self._messages.UpdateMessage(request, context)

    async def DeleteMessage(self, request: pb.DeleteMessageRequest, context: Context) -> pb.DeleteMessageResponse:
        return await self._messages.DeleteMessage(request, context)

    async def StreamMessages(
        self, request: pb.StreamMessagesRequest, context: Context
    ) -> AsyncGenerator[pb.StreamMessagesResponse]:
        async with aclosing(self._messages.StreamMessages(request, context)) as responses:
            async for response in responses:
                yield response

    async def ListMessages(self, request: pb.ListMessagesRequest, context: Context) -> pb.ListMessagesResponse:
        return await self._transcripts.ListMessages(request, context)

    async def ListAgentMessages(
        self, request: pb.ListAgentMessagesRequest, context: Context
    ) -> pb.ListAgentMessagesResponse:
        return await self._transcripts.ListAgentMessages(request, context)

    async def GetRecentWindow(self, request: pb.GetRecentWindowRequest, context: Context) -> pb.GetRecentWindowResponse:
        return await self._transcripts.GetRecentWindow(request, context)

    async def SearchMessages(self, request: pb.SearchMessagesRequest, context: Context) -> pb.SearchMessagesResponse:
        return await self._search.SearchMessages(request, context)

    async def SummarizeSession(
        self, request: pb.SummarizeSessionRequest, context: Context
    ) -> pb.SummarizeSessionResponse:
        return await self._summaries.SummarizeSession(request, context)

    async def PutAgentState(
        self, request: states_pb2.PutAgentStateRequest, context: Context
    ) -> states_pb2.PutAgentStateResponse:
        return await self._states.PutAgentState(request, context)

    async def GetAgentState(
        self, request: states_pb2.GetAgentStateRequest, context: Context
    ) -> states_pb2.GetAgentStateResponse:
        return await self._states.GetAgentState(request, context)

    async def ListAgentStates(
        self, request: states_pb2.ListAgentStatesRequest, context: Context
    ) -> states_pb2.ListAgentStatesResponse:
        return await self._states.ListAgentStates(request, context)

    async def DeleteAgentState(
        self, request: states_pb2.DeleteAgentStateRequest, context: Context
    ) -> states_pb2.DeleteAgentStateResponse:
        return await self._states.DeleteAgentState(request, context)

    async def PutItem(self, request: states_pb2.PutItemRequest, context: Context) -> states_pb2.PutItemResponse:
        return await self._items.PutItem(request, context)

    async def GetItem(self, request: states_pb2.GetItemRequest, context: Context) -> states_pb2.GetItemResponse:
        return await self._items.GetItem(request, context)

    async def ListItems(self, request: states_pb2.ListItemsRequest, context: Context) -> states_pb2.ListItemsResponse:
        return await self._items.ListItems(request, context)

    async def DeleteItem(
        self, request: states_pb2.DeleteItemRequest, context: Context
    ) -> states_pb2.DeleteItemResponse:
        return await self._items.DeleteItem(request, context)

    async def StoreSession(
        self, request: archives_pb2.StoreSessionRequest, context: Context
    ) -> archives_pb2.StoreSessionResponse:
        return await self._cold_storage.StoreSession(request, context)

    async def RestoreSession(
        self, request: archives_pb2.RestoreSessionRequest, context: Context
    ) -> archives_pb2.RestoreSessionResponse:
        return await self._cold_storage.RestoreSession(request, context)

    async def ListStoredSessions(
        self, request: archives_pb2.ListStoredSessionsRequest, context: Context
    ) -> archives_pb2.ListStoredSessionsResponse:
        return await self._cold_storage.ListStoredSessions(request, context)

    async def PurgeSession(
        self, request: states_pb2.PurgeSessionRequest, context: Context
    ) -> states_pb2.PurgeSessionResponse:
        return await self._erasure.PurgeSession(request, context)

    async def PurgeMessages(
        self, request: states_pb2.PurgeMessagesRequest, context: Context
    ) -> states_pb2.PurgeMessagesResponse:
        return await self._erasure.PurgeMessages(request, context)

    async def PurgeSubject(
        self, request: states_pb2.PurgeSubjectRequest, context: Context
    ) -> states_pb2.PurgeSubjectResponse:
        return await self._erasure.PurgeSubject(request, context)

    async def ExportSubject(self, request: pb.ExportSubjectRequest, context: Context) -> pb.ExportSubjectResponse:
        return await self._export.ExportSubject(request, context)


class SessionInternalServicer(rpc.UpkeepServiceServicer):
    """UpkeepService, for the worker."""

    def __init__(self, maintenance: MaintenanceRpc) -> None:
        self._maintenance = maintenance

    async def EnsurePartitions(
        self, request: pb.EnsurePartitionsRequest, context: Context
    ) -> pb.EnsurePartitionsResponse:
        return await self._maintenance.EnsurePartitions(request, context)

    async def DeleteExpired(self, request: pb.DeleteExpiredRequest, context: Context) -> pb.DeleteExpiredResponse:
        return await self._maintenance.DeleteExpired(request, context)

    async def EndIdleSessions(self, request: pb.EndIdleSessionsRequest, context: Context) -> pb.EndIdleSessionsResponse:
        return await self._maintenance.EndIdleSessions(request, context)

    async def InheritParticipants(
        self, request: pb.InheritParticipantsRequest, context: Context
    ) -> pb.InheritParticipantsResponse:
        return await self._maintenance.InheritParticipants(request, context)

    async def StoreArchived(
        self, request: archives_pb2.StoreArchivedRequest, context: Context
    ) -> archives_pb2.StoreArchivedResponse:
        return await self._maintenance.StoreArchived(request, context)

    async def PurgeTenant(self, request: pb.PurgeTenantRequest, context: Context) -> pb.PurgeTenantResponse:
        return await self._maintenance.PurgeTenant(request, context)
