"""The session service, put together."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from skein.recall.v1 import recall_pb2_grpc
from skein.session.v1 import session_pb2_grpc as rpc
from skein_kit.access_log.writer import AccessLog
from skein_kit.cold_storage.files import ColdFiles
from skein_kit.database.monthly_partitions import MonthlyPartitions
from skein_kit.database.named_queries import Queries
from skein_kit.host.process import Host, Service, ServicerRegistry
from skein_kit.policies.store import shared_policy_cache
from skein_kit.quotas.store import QuotaCounter
from skein_kit.search_text.embedding_requests import EmbeddingClient
from skein_kit.search_text.vector_columns import prepare_connection
from skein_session.agent_states.store import StateStore
from skein_session.cold_storage.store import ColdStorageStore
from skein_session.erasure.store import ErasureStore
from skein_session.export.store import ExportStore
from skein_session.idempotency import SessionIdempotencyStore
from skein_session.messages.store import MessageStore
from skein_session.messages.stream import StreamHub
from skein_session.messages.stream_store import StreamStore
from skein_session.parts import Parts
from skein_session.search.searcher import MessageSearcher
from skein_session.search.store import SearchStore
from skein_session.servicers import SessionInternalServicer, SessionServicer
from skein_session.sessions.idle_store import IdleStore
from skein_session.sessions.participants import ParticipantStore
from skein_session.sessions.store import SessionStore
from skein_session.settings import SessionSettings
from skein_session.summaries.chat_model import ChatModel
from skein_session.summaries.summarizer import Summarizer
from skein_session.transcripts.pages import MessagePages
from skein_session.transcripts.store import TranscriptStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def start(host: Host) -> AsyncIterator[ServicerRegistry]:
    """Open the pool and answer SessionService and UpkeepService."""
    settings = SessionSettings.read(host.environment)
    servicers = ServicerRegistry()
    async with (
        host.database("session", servicers, init=prepare_connection) as database,
        AccessLog(database, shared_policy_cache(database), counts_uses=False).open() as access_log,
    ):
        policies = shared_policy_cache(database)
        requests, quotas = SessionIdempotencyStore(), QuotaCounter("session")
        idle, transcripts = IdleStore(database, policies), TranscriptStore(database, requests)
        states = StateStore(database, requests, quotas)
        months = MonthlyPartitions(database, Queries.of("skein_session")["ensure_month"])
        messages = MessageStore(database, requests, quotas, months, idle)
        archives = ColdStorageStore(
            database, requests, policies, months, ColdFiles(settings.archives(host.environment))
        )
        index = recall_pb2_grpc.IndexServiceStub(host.channel("recall"))
        following = StreamHub(
            StreamStore(database),
            heartbeat_seconds=settings.stream_heartbeat_seconds,
            longest_pause_seconds=settings.stream_pause_seconds,
        )
        parts = Parts(
            settings=settings,
            sessions=SessionStore(database, requests, quotas),
            messages=messages,
            transcripts=transcripts,
            searcher=MessageSearcher(SearchStore(database), recall_pb2_grpc.RecallServiceStub(host.channel("recall"))),
            summarizer=Summarizer(transcripts, ChatModel.of(settings)),
            embeddings=EmbeddingClient(index, service="session", at_once=settings.immediate_embeddings),
            following=following,
            states=states,
            archives=archives,
            pages=MessagePages(messages, archives),
            erasing=ErasureStore(database, requests, quotas, archives),
            exporting=ExportStore(database, archives),
        )
        servicers.add(rpc.add_SessionServiceServicer_to_server, access_log.watching(SessionServicer(parts)))
        servicers.add(
            rpc.add_UpkeepServiceServicer_to_server,
            SessionInternalServicer(database, requests, months, idle, states, archives, ParticipantStore(database)),
        )
        async with following.open():
            yield servicers


SERVICE = Service(name="session", port=50053, calls=("auth", "recall"), start=start)
