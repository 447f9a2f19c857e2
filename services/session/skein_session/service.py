"""The session service, put together."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from skein.recall.v1 import recall_pb2_grpc
from skein.session.v1 import session_pb2_grpc as rpc
from skein_kit.access_log.writer import AccessLog
from skein_kit.cold_storage.files import Cold
from skein_kit.database.monthly_partitions import Months
from skein_kit.database.named_queries import Queries
from skein_kit.host.process import Host, Service, Servicers
from skein_kit.policies.store import policies_of
from skein_kit.quotas.store import Quotas
from skein_kit.search_text.embedding_requests import Embeddings
from skein_kit.search_text.vector_columns import prepare_connection
from skein_session.agent_states.store import StateStore
from skein_session.cold_storage.store import ArchiveStore
from skein_session.erasure.store import ErasingStore
from skein_session.export.store import ExportingStore
from skein_session.idempotency import SessionRequests
from skein_session.messages.store import MessageStore
from skein_session.messages.stream import Following
from skein_session.messages.stream_store import StandingStore
from skein_session.parts import Parts
from skein_session.search.searcher import Searcher
from skein_session.search.store import SearchStore
from skein_session.servicers import SessionServicer, UpkeepServicer
from skein_session.sessions.idle_store import IdleStore
from skein_session.sessions.participants import InheritanceStore
from skein_session.sessions.store import SessionStore
from skein_session.settings import SessionSettings
from skein_session.summaries.chat_model import ChatModel
from skein_session.summaries.summarizer import Summarizer
from skein_session.transcripts.pages import Pages
from skein_session.transcripts.store import TranscriptStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def start(host: Host) -> AsyncIterator[Servicers]:
    """Open the pool and answer SessionService and UpkeepService."""
    settings = SessionSettings.read(host.environment)
    servicers = Servicers()
    async with (
        host.database("session", servicers, init=prepare_connection) as database,
        AccessLog(database, policies_of(database), counts_uses=False).open() as access_log,
    ):
        policies = policies_of(database)
        requests, quotas = SessionRequests(), Quotas("session")
        idle, transcripts = IdleStore(database, policies), TranscriptStore(database, requests)
        states = StateStore(database, requests, quotas)
        months = Months(database, Queries.of("skein_session")["ensure_month"])
        messages = MessageStore(database, requests, quotas, months, idle)
        archives = ArchiveStore(database, requests, policies, months, Cold(settings.archives(host.environment)))
        index = recall_pb2_grpc.IndexServiceStub(host.channel("recall"))
        following = Following(
            StandingStore(database),
            heartbeat_seconds=settings.stream_heartbeat_seconds,
            longest_pause_seconds=settings.stream_pause_seconds,
        )
        parts = Parts(
            settings=settings,
            sessions=SessionStore(database, requests, quotas),
            messages=messages,
            transcripts=transcripts,
            searcher=Searcher(SearchStore(database), recall_pb2_grpc.RecallServiceStub(host.channel("recall"))),
            summarizer=Summarizer(transcripts, ChatModel.of(settings)),
            embeddings=Embeddings(index, service="session", at_once=settings.immediate_embeddings),
            following=following,
            states=states,
            archives=archives,
            pages=Pages(messages, archives),
            erasing=ErasingStore(database, requests, quotas, archives),
            exporting=ExportingStore(database, archives),
        )
        servicers.add(rpc.add_SessionServiceServicer_to_server, access_log.watching(SessionServicer(parts)))
        servicers.add(
            rpc.add_UpkeepServiceServicer_to_server,
            UpkeepServicer(database, requests, months, idle, states, archives, InheritanceStore(database)),
        )
        async with following.open():
            yield servicers


SERVICE = Service(name="session", port=50053, calls=("auth", "recall"), start=start)
