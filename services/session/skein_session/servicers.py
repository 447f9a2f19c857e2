"""The servicers of session's two gRPC services. Each RPC is delegated to the feature that handles it."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skein.session.v1 import archives_pb2, states_pb2
from skein.session.v1 import session_pb2 as pb
from skein.session.v1 import session_pb2_grpc as rpc

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from skein_kit.calls.call import Context
    from skein_session.agent_states.rpc import AgentStateHandlers
    from skein_session.cold_storage.rpc import ColdStorageHandlers
    from skein_session.erasure.rpc import ErasureHandlers
    from skein_session.export.rpc import ExportHandlers
    from skein_session.items.rpc import ItemHandlers
    from skein_session.maintenance.rpc import MaintenanceHandlers
    from skein_session.messages.rpc import MessageHandlers
    from skein_session.search.rpc import SearchHandlers
    from skein_session.sessions.rpc import SessionHandlers
    from skein_session.summaries.rpc import SummaryHandlers
    from skein_session.transcripts.rpc import TranscriptHandlers


@dataclass(kw_only=True, eq=False, slots=True)
class SessionServicer(rpc.SessionServiceServicer):
    """SessionService: conversations, the states of agents, and items."""

    sessions: SessionHandlers
    messages: MessageHandlers
    transcripts: TranscriptHandlers
    search: SearchHandlers
    summaries: SummaryHandlers
    states: AgentStateHandlers
    items: ItemHandlers
    cold_storage: ColdStorageHandlers
    erasure: ErasureHandlers
    export: ExportHandlers

    async def CreateSession(self, request: pb.CreateSessionRequest, context: Context) -> pb.CreateSessionResponse:
        return await self.sessions.CreateSession(request, context)

    async def GetSession(self, request: pb.GetSessionRequest, context: Context) -> pb.GetSessionResponse:
        return await self.sessions.GetSession(request, context)

    async def ListSessions(self, request: pb.ListSessionsRequest, context: Context) -> pb.ListSessionsResponse:
        return await self.sessions.ListSessions(request, context)

    async def UpdateSession(self, request: pb.UpdateSessionRequest, context: Context) -> pb.UpdateSessionResponse:
        return await self.sessions.UpdateSession(request, context)

    async def EndSession(self, request: pb.EndSessionRequest, context: Context) -> pb.EndSessionResponse:
        return await self.sessions.EndSession(request, context)

    async def HideSession(self, request: pb.HideSessionRequest, context: Context) -> pb.HideSessionResponse:
        return await self.sessions.HideSession(request, context)

    async def UnhideSession(self, request: pb.UnhideSessionRequest, context: Context) -> pb.UnhideSessionResponse:
        return await self.sessions.UnhideSession(request, context)

    async def DeleteSession(self, request: pb.DeleteSessionRequest, context: Context) -> pb.DeleteSessionResponse:
        return await self.sessions.DeleteSession(request, context)

    async def AppendMessages(self, request: pb.AppendMessagesRequest, context: Context) -> pb.AppendMessagesResponse:
        return await self.messages.AppendMessages(request, context)

    async def GetMessage(self, request: pb.GetMessageRequest, context: Context) -> pb.GetMessageResponse:
        return await self.messages.GetMessage(request, context)

    async def UpdateMessage(self, request: pb.UpdateMessageRequest, context: Context) -> pb.UpdateMessageResponse:
        return await self.messages.UpdateMessage(request, context)

    async def DeleteMessage(self, request: pb.DeleteMessageRequest, context: Context) -> pb.DeleteMessageResponse:
        return await self.messages.DeleteMessage(request, context)

    async def StreamMessages(
        self, request: pb.StreamMessagesRequest, context: Context
    ) -> AsyncGenerator[pb.StreamMessagesResponse]:
        async with aclosing(self.messages.StreamMessages(request, context)) as responses:
            async for response in responses:
                yield response

    async def ListMessages(self, request: pb.ListMessagesRequest, context: Context) -> pb.ListMessagesResponse:
        return await self.transcripts.ListMessages(request, context)

    async def ListAgentMessages(
        self, request: pb.ListAgentMessagesRequest, context: Context
    ) -> pb.ListAgentMessagesResponse:
        return await self.transcripts.ListAgentMessages(request, context)

    async def GetRecentWindow(self, request: pb.GetRecentWindowRequest, context: Context) -> pb.GetRecentWindowResponse:
        return await self.transcripts.GetRecentWindow(request, context)

    async def SearchMessages(self, request: pb.SearchMessagesRequest, context: Context) -> pb.SearchMessagesResponse:
        return await self.search.SearchMessages(request, context)

    async def SummarizeSession(
        self, request: pb.SummarizeSessionRequest, context: Context
    ) -> pb.SummarizeSessionResponse:
        return await self.summaries.SummarizeSession(request, context)

    async def PutAgentState(
        self, request: states_pb2.PutAgentStateRequest, context: Context
    ) -> states_pb2.PutAgentStateResponse:
        return await self.states.PutAgentState(request, context)

    async def GetAgentState(
        self, request: states_pb2.GetAgentStateRequest, context: Context
    ) -> states_pb2.GetAgentStateResponse:
        return await self.states.GetAgentState(request, context)

    async def ListAgentStates(
        self, request: states_pb2.ListAgentStatesRequest, context: Context
    ) -> states_pb2.ListAgentStatesResponse:
        return await self.states.ListAgentStates(request, context)

    async def DeleteAgentState(
        self, request: states_pb2.DeleteAgentStateRequest, context: Context
    ) -> states_pb2.DeleteAgentStateResponse:
        return await self.states.DeleteAgentState(request, context)

    async def PutItem(self, request: states_pb2.PutItemRequest, context: Context) -> states_pb2.PutItemResponse:
        return await self.items.PutItem(request, context)

    async def GetItem(self, request: states_pb2.GetItemRequest, context: Context) -> states_pb2.GetItemResponse:
        return await self.items.GetItem(request, context)

    async def ListItems(self, request: states_pb2.ListItemsRequest, context: Context) -> states_pb2.ListItemsResponse:
        return await self.items.ListItems(request, context)

    async def DeleteItem(
        self, request: states_pb2.DeleteItemRequest, context: Context
    ) -> states_pb2.DeleteItemResponse:
        return await self.items.DeleteItem(request, context)

    async def ArchiveSession(
        self, request: archives_pb2.ArchiveSessionRequest, context: Context
    ) -> archives_pb2.ArchiveSessionResponse:
        return await self.cold_storage.ArchiveSession(request, context)

    async def UnarchiveSession(
        self, request: archives_pb2.UnarchiveSessionRequest, context: Context
    ) -> archives_pb2.UnarchiveSessionResponse:
        return await self.cold_storage.UnarchiveSession(request, context)

    async def ListArchivedSessions(
        self, request: archives_pb2.ListArchivedSessionsRequest, context: Context
    ) -> archives_pb2.ListArchivedSessionsResponse:
        return await self.cold_storage.ListArchivedSessions(request, context)

    async def PurgeSession(
        self, request: states_pb2.PurgeSessionRequest, context: Context
    ) -> states_pb2.PurgeSessionResponse:
        return await self.erasure.PurgeSession(request, context)

    async def PurgeMessages(
        self, request: states_pb2.PurgeMessagesRequest, context: Context
    ) -> states_pb2.PurgeMessagesResponse:
        return await self.erasure.PurgeMessages(request, context)

    async def PurgeSubject(
        self, request: states_pb2.PurgeSubjectRequest, context: Context
    ) -> states_pb2.PurgeSubjectResponse:
        return await self.erasure.PurgeSubject(request, context)

    async def ExportSubject(self, request: pb.ExportSubjectRequest, context: Context) -> pb.ExportSubjectResponse:
        return await self.export.ExportSubject(request, context)


@dataclass(kw_only=True, eq=False, slots=True)
class SessionInternalServicer(rpc.SessionInternalServiceServicer):
    """SessionInternalService: calls of the worker."""

    maintenance: MaintenanceHandlers

    async def EnsurePartitions(
        self, request: pb.EnsurePartitionsRequest, context: Context
    ) -> pb.EnsurePartitionsResponse:
        return await self.maintenance.EnsurePartitions(request, context)

    async def DeleteExpired(self, request: pb.DeleteExpiredRequest, context: Context) -> pb.DeleteExpiredResponse:
        return await self.maintenance.DeleteExpired(request, context)

    async def EndIdleSessions(self, request: pb.EndIdleSessionsRequest, context: Context) -> pb.EndIdleSessionsResponse:
        return await self.maintenance.EndIdleSessions(request, context)

    async def InheritParticipants(
        self, request: pb.InheritParticipantsRequest, context: Context
    ) -> pb.InheritParticipantsResponse:
        return await self.maintenance.InheritParticipants(request, context)

    async def ArchiveHiddenSessions(
        self, request: archives_pb2.ArchiveHiddenSessionsRequest, context: Context
    ) -> archives_pb2.ArchiveHiddenSessionsResponse:
        return await self.maintenance.ArchiveHiddenSessions(request, context)

    async def PurgeTenant(self, request: pb.PurgeTenantRequest, context: Context) -> pb.PurgeTenantResponse:
        return await self.maintenance.PurgeTenant(request, context)
