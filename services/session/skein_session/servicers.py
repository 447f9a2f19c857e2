"""The methods of SessionService, each that of the feature which answers it."""

from __future__ import annotations

from skein.session.v1.session_methods import SessionInternalServiceMethods, SessionServiceMethods
from skein_session.agent_states.rpc import AgentStateHandlers
from skein_session.cold_storage.rpc import ColdStorageHandlers
from skein_session.erasure.rpc import ErasureHandlers
from skein_session.export.rpc import ExportHandlers
from skein_session.extractions.rpc import ExtractionHandlers
from skein_session.items.rpc import ItemHandlers
from skein_session.ledgers.rpc import LedgerHandlers
from skein_session.maintenance.rpc import MaintenanceHandlers
from skein_session.messages.rpc import MessageHandlers
from skein_session.search.rpc import SearchHandlers
from skein_session.sessions.rpc import SessionHandlers
from skein_session.summaries.rpc import SummaryHandlers
from skein_session.transcripts.rpc import TranscriptHandlers


def session_service(  # noqa: PLR0913 - one for each feature.
    *,
    sessions: SessionHandlers,
    messages: MessageHandlers,
    transcripts: TranscriptHandlers,
    search: SearchHandlers,
    summaries: SummaryHandlers,
    states: AgentStateHandlers,
    items: ItemHandlers,
    cold_storage: ColdStorageHandlers,
    erasure: ErasureHandlers,
    export: ExportHandlers,
    extractions: ExtractionHandlers,
    ledgers: LedgerHandlers,
) -> SessionServiceMethods:
    """SessionService: conversations, the states of agents, and items."""
    return SessionServiceMethods(
        CreateSession=sessions.CreateSession,
        GetSession=sessions.GetSession,
        ListSessions=sessions.ListSessions,
        UpdateSession=sessions.UpdateSession,
        EndSession=sessions.EndSession,
        HideSession=sessions.HideSession,
        UnhideSession=sessions.UnhideSession,
        DeleteSession=sessions.DeleteSession,
        MoveSession=sessions.MoveSession,
        AppendMessages=messages.AppendMessages,
        GetMessage=messages.GetMessage,
        UpdateMessage=messages.UpdateMessage,
        DeleteMessage=messages.DeleteMessage,
        UndeleteMessage=messages.UndeleteMessage,
        StreamMessages=messages.StreamMessages,
        ListMessages=transcripts.ListMessages,
        ListAgentMessages=transcripts.ListAgentMessages,
        GetRecentWindow=transcripts.GetRecentWindow,
        SearchMessages=search.SearchMessages,
        SummarizeSession=summaries.SummarizeSession,
        PutAgentState=states.PutAgentState,
        GetAgentState=states.GetAgentState,
        ListAgentStates=states.ListAgentStates,
        DeleteAgentState=states.DeleteAgentState,
        PutSessionItem=items.PutSessionItem,
        GetSessionItem=items.GetSessionItem,
        ListSessionItems=items.ListSessionItems,
        DeleteSessionItem=items.DeleteSessionItem,
        StartExtraction=extractions.StartExtraction,
        CancelExtraction=extractions.CancelExtraction,
        ListFailedExtractions=extractions.ListFailedExtractions,
        ArchiveSession=cold_storage.ArchiveSession,
        UnarchiveSession=cold_storage.UnarchiveSession,
        ListArchivedSessions=cold_storage.ListArchivedSessions,
        PurgeSession=erasure.PurgeSession,
        PurgeMessages=erasure.PurgeMessages,
        PurgeSubject=erasure.PurgeSubject,
        ExportSubject=export.ExportSubject,
        ListContextLedgers=ledgers.ListContextLedgers,
    )


def session_internal_service(
    *, maintenance: MaintenanceHandlers, ledgers: LedgerHandlers, extractions: ExtractionHandlers
) -> SessionInternalServiceMethods:
    """SessionInternalService: what the worker and the gateway call."""
    return SessionInternalServiceMethods(
        GetContextLedger=ledgers.GetContextLedger,
        PutContextLedger=ledgers.PutContextLedger,
        EnsurePartitions=maintenance.EnsurePartitions,
        ListDueTenants=maintenance.ListDueTenants,
        DeleteExpired=maintenance.DeleteExpired,
        EndIdleSessions=maintenance.EndIdleSessions,
        InheritParticipants=maintenance.InheritParticipants,
        ArchiveHiddenSessions=maintenance.ArchiveHiddenSessions,
        LeaseExtraction=extractions.LeaseExtraction,
        LeaseModelExtraction=extractions.LeaseModelExtraction,
        StartModelCall=extractions.StartModelCall,
        CompleteModelExtraction=extractions.CompleteModelExtraction,
        CompleteExtraction=extractions.CompleteExtraction,
        PurgeTenant=maintenance.PurgeTenant,
    )
