"""What the servicer is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skein_kit.search_text.embedding_requests import Embeddings
    from skein_session.following import Following
    from skein_session.searching import Searcher
    from skein_session.settings import SessionSettings
    from skein_session.store.archives import ArchiveStore
    from skein_session.store.cold_pages import Pages
    from skein_session.store.erasing import ErasingStore
    from skein_session.store.exporting import ExportingStore
    from skein_session.store.messages import MessageStore
    from skein_session.store.sessions import SessionStore
    from skein_session.store.states import StateStore
    from skein_session.store.transcripts import TranscriptStore
    from skein_session.summarizing import Summarizer


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """Everything that the service's RPCs call."""

    settings: SessionSettings
    sessions: SessionStore
    messages: MessageStore
    transcripts: TranscriptStore
    states: StateStore
    archives: ArchiveStore
    pages: Pages
    erasing: ErasingStore
    exporting: ExportingStore
    searcher: Searcher
    summarizer: Summarizer
    embeddings: Embeddings
    following: Following
