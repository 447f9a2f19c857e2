"""What the servicer is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skein_kit.search_text.embedding_requests import EmbeddingClient
    from skein_session.agent_states.store import StateStore
    from skein_session.cold_storage.store import ColdStorageStore
    from skein_session.erasure.store import ErasureStore
    from skein_session.export.store import ExportStore
    from skein_session.messages.store import MessageStore
    from skein_session.messages.stream import StreamHub
    from skein_session.search.searcher import MessageSearcher
    from skein_session.sessions.store import SessionStore
    from skein_session.settings import SessionSettings
    from skein_session.summaries.summarizer import Summarizer
    from skein_session.transcripts.pages import MessagePages
    from skein_session.transcripts.store import TranscriptStore


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """Everything that the service's RPCs call."""

    settings: SessionSettings
    sessions: SessionStore
    messages: MessageStore
    transcripts: TranscriptStore
    states: StateStore
    archives: ColdStorageStore
    pages: MessagePages
    erasing: ErasureStore
    exporting: ExportStore
    searcher: MessageSearcher
    summarizer: Summarizer
    embeddings: EmbeddingClient
    following: StreamHub
