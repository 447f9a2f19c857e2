"""The methods of the services of skein/session/v1/session.proto, for the code that serves them. Generated; do not edit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from skein.session.v1 import archives_pb2
from skein.session.v1 import ledgers_pb2
from skein.session.v1 import session_pb2
from skein.session.v1 import states_pb2


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionServiceMethods:
    """What answers each RPC of SessionService."""

    CreateSession: Callable[[session_pb2.CreateSessionRequest, Any], Awaitable[session_pb2.CreateSessionResponse]]
    GetSession: Callable[[session_pb2.GetSessionRequest, Any], Awaitable[session_pb2.GetSessionResponse]]
    ListSessions: Callable[[session_pb2.ListSessionsRequest, Any], Awaitable[session_pb2.ListSessionsResponse]]
    UpdateSession: Callable[[session_pb2.UpdateSessionRequest, Any], Awaitable[session_pb2.UpdateSessionResponse]]
    EndSession: Callable[[session_pb2.EndSessionRequest, Any], Awaitable[session_pb2.EndSessionResponse]]
    HideSession: Callable[[session_pb2.HideSessionRequest, Any], Awaitable[session_pb2.HideSessionResponse]]
    UnhideSession: Callable[[session_pb2.UnhideSessionRequest, Any], Awaitable[session_pb2.UnhideSessionResponse]]
    DeleteSession: Callable[[session_pb2.DeleteSessionRequest, Any], Awaitable[session_pb2.DeleteSessionResponse]]
    MoveSession: Callable[[session_pb2.MoveSessionRequest, Any], Awaitable[session_pb2.MoveSessionResponse]]
    AppendMessages: Callable[[session_pb2.AppendMessagesRequest, Any], Awaitable[session_pb2.AppendMessagesResponse]]
    GetMessage: Callable[[session_pb2.GetMessageRequest, Any], Awaitable[session_pb2.GetMessageResponse]]
    ListMessages: Callable[[session_pb2.ListMessagesRequest, Any], Awaitable[session_pb2.ListMessagesResponse]]
    ListAgentMessages: Callable[[session_pb2.ListAgentMessagesRequest, Any], Awaitable[session_pb2.ListAgentMessagesResponse]]
    GetRecentWindow: Callable[[session_pb2.GetRecentWindowRequest, Any], Awaitable[session_pb2.GetRecentWindowResponse]]
    SearchMessages: Callable[[session_pb2.SearchMessagesRequest, Any], Awaitable[session_pb2.SearchMessagesResponse]]
    UpdateMessage: Callable[[session_pb2.UpdateMessageRequest, Any], Awaitable[session_pb2.UpdateMessageResponse]]
    DeleteMessage: Callable[[session_pb2.DeleteMessageRequest, Any], Awaitable[session_pb2.DeleteMessageResponse]]
    UndeleteMessage: Callable[[session_pb2.UndeleteMessageRequest, Any], Awaitable[session_pb2.UndeleteMessageResponse]]
    StreamMessages: Callable[[session_pb2.StreamMessagesRequest, Any], AsyncIterator[session_pb2.StreamMessagesResponse]]
    SummarizeSession: Callable[[session_pb2.SummarizeSessionRequest, Any], Awaitable[session_pb2.SummarizeSessionResponse]]
    PutAgentState: Callable[[states_pb2.PutAgentStateRequest, Any], Awaitable[states_pb2.PutAgentStateResponse]]
    GetAgentState: Callable[[states_pb2.GetAgentStateRequest, Any], Awaitable[states_pb2.GetAgentStateResponse]]
    ListAgentStates: Callable[[states_pb2.ListAgentStatesRequest, Any], Awaitable[states_pb2.ListAgentStatesResponse]]
    DeleteAgentState: Callable[[states_pb2.DeleteAgentStateRequest, Any], Awaitable[states_pb2.DeleteAgentStateResponse]]
    PutSessionItem: Callable[[states_pb2.PutSessionItemRequest, Any], Awaitable[states_pb2.PutSessionItemResponse]]
    GetSessionItem: Callable[[states_pb2.GetSessionItemRequest, Any], Awaitable[states_pb2.GetSessionItemResponse]]
    ListSessionItems: Callable[[states_pb2.ListSessionItemsRequest, Any], Awaitable[states_pb2.ListSessionItemsResponse]]
    DeleteSessionItem: Callable[[states_pb2.DeleteSessionItemRequest, Any], Awaitable[states_pb2.DeleteSessionItemResponse]]
    PurgeSession: Callable[[states_pb2.PurgeSessionRequest, Any], Awaitable[states_pb2.PurgeSessionResponse]]
    PurgeMessages: Callable[[states_pb2.PurgeMessagesRequest, Any], Awaitable[states_pb2.PurgeMessagesResponse]]
    PurgeSubject: Callable[[states_pb2.PurgeSubjectRequest, Any], Awaitable[states_pb2.PurgeSubjectResponse]]
    ExportSubject: Callable[[session_pb2.ExportSubjectRequest, Any], Awaitable[session_pb2.ExportSubjectResponse]]
    StartExtraction: Callable[[session_pb2.StartExtractionRequest, Any], Awaitable[session_pb2.StartExtractionResponse]]
    ListFailedExtractions: Callable[[session_pb2.ListFailedExtractionsRequest, Any], Awaitable[session_pb2.ListFailedExtractionsResponse]]
    CancelExtraction: Callable[[session_pb2.CancelExtractionRequest, Any], Awaitable[session_pb2.CancelExtractionResponse]]
    ArchiveSession: Callable[[archives_pb2.ArchiveSessionRequest, Any], Awaitable[archives_pb2.ArchiveSessionResponse]]
    UnarchiveSession: Callable[[archives_pb2.UnarchiveSessionRequest, Any], Awaitable[archives_pb2.UnarchiveSessionResponse]]
    ListArchivedSessions: Callable[[archives_pb2.ListArchivedSessionsRequest, Any], Awaitable[archives_pb2.ListArchivedSessionsResponse]]
    ListContextLedgers: Callable[[ledgers_pb2.ListContextLedgersRequest, Any], Awaitable[ledgers_pb2.ListContextLedgersResponse]]


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionInternalServiceMethods:
    """What answers each RPC of SessionInternalService."""

    GetContextLedger: Callable[[ledgers_pb2.GetContextLedgerRequest, Any], Awaitable[ledgers_pb2.GetContextLedgerResponse]]
    PutContextLedger: Callable[[ledgers_pb2.PutContextLedgerRequest, Any], Awaitable[ledgers_pb2.PutContextLedgerResponse]]
    EnsurePartitions: Callable[[session_pb2.EnsurePartitionsRequest, Any], Awaitable[session_pb2.EnsurePartitionsResponse]]
    ListDueTenants: Callable[[session_pb2.ListDueTenantsRequest, Any], Awaitable[session_pb2.ListDueTenantsResponse]]
    DeleteExpired: Callable[[session_pb2.DeleteExpiredRequest, Any], Awaitable[session_pb2.DeleteExpiredResponse]]
    EndIdleSessions: Callable[[session_pb2.EndIdleSessionsRequest, Any], Awaitable[session_pb2.EndIdleSessionsResponse]]
    InheritParticipants: Callable[[session_pb2.InheritParticipantsRequest, Any], Awaitable[session_pb2.InheritParticipantsResponse]]
    ArchiveHiddenSessions: Callable[[archives_pb2.ArchiveHiddenSessionsRequest, Any], Awaitable[archives_pb2.ArchiveHiddenSessionsResponse]]
    LeaseExtraction: Callable[[session_pb2.LeaseExtractionRequest, Any], Awaitable[session_pb2.LeaseExtractionResponse]]
    CompleteExtraction: Callable[[session_pb2.CompleteExtractionRequest, Any], Awaitable[session_pb2.CompleteExtractionResponse]]
    LeaseModelExtraction: Callable[[session_pb2.LeaseModelExtractionRequest, Any], Awaitable[session_pb2.LeaseModelExtractionResponse]]
    StartModelCall: Callable[[session_pb2.StartModelCallRequest, Any], Awaitable[session_pb2.StartModelCallResponse]]
    CompleteModelExtraction: Callable[[session_pb2.CompleteModelExtractionRequest, Any], Awaitable[session_pb2.CompleteModelExtractionResponse]]
    PurgeTenant: Callable[[session_pb2.PurgeTenantRequest, Any], Awaitable[session_pb2.PurgeTenantResponse]]
