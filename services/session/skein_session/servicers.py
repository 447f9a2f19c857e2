"""The servicer of SessionService. Each RPC is the method of the feature that handles it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skein_session.agent_states.rpc import AgentStateHandlers
    from skein_session.cold_storage.rpc import ColdStorageHandlers
    from skein_session.erasure.rpc import ErasureHandlers
    from skein_session.export.rpc import ExportHandlers
    from skein_session.items.rpc import ItemHandlers
    from skein_session.messages.rpc import MessageHandlers
    from skein_session.search.rpc import SearchHandlers
    from skein_session.sessions.rpc import SessionHandlers
    from skein_session.summaries.rpc import SummaryHandlers
    from skein_session.transcripts.rpc import TranscriptHandlers


class SessionServicer:
    """SessionService: conversations, the states of agents, and items."""

    def __init__(  # noqa: PLR0913 - one for each feature.
        self,
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
    ) -> None:
        self.CreateSession = sessions.CreateSession
        self.GetSession = sessions.GetSession
        self.ListSessions = sessions.ListSessions
        self.UpdateSession = sessions.UpdateSession
        self.EndSession = sessions.EndSession
        self.HideSession = sessions.HideSession
        self.UnhideSession = sessions.UnhideSession
        self.DeleteSession = sessions.DeleteSession
        self.AppendMessages = messages.AppendMessages
        self.GetMessage = messages.GetMessage
        self.UpdateMessage = messages.UpdateMessage
        self.DeleteMessage = messages.DeleteMessage
        self.StreamMessages = messages.StreamMessages
        self.ListMessages = transcripts.ListMessages
        self.ListAgentMessages = transcripts.ListAgentMessages
        self.GetRecentWindow = transcripts.GetRecentWindow
        self.SearchMessages = search.SearchMessages
        self.SummarizeSession = summaries.SummarizeSession
        self.PutAgentState = states.PutAgentState
        self.GetAgentState = states.GetAgentState
        self.ListAgentStates = states.ListAgentStates
        self.DeleteAgentState = states.DeleteAgentState
        self.PutSessionItem = items.PutSessionItem
        self.GetSessionItem = items.GetSessionItem
        self.ListSessionItems = items.ListSessionItems
        self.DeleteSessionItem = items.DeleteSessionItem
        self.ArchiveSession = cold_storage.ArchiveSession
        self.UnarchiveSession = cold_storage.UnarchiveSession
        self.ListArchivedSessions = cold_storage.ListArchivedSessions
        self.PurgeSession = erasure.PurgeSession
        self.PurgeMessages = erasure.PurgeMessages
        self.PurgeSubject = erasure.PurgeSubject
        self.ExportSubject = export.ExportSubject
