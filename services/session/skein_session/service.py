"""The composition root of the session service."""

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
from skein_session.agent_states.rpc import AgentStateRpc
from skein_session.agent_states.store import AgentStateStore
from skein_session.cold_storage.rpc import ColdStorageRpc
from skein_session.cold_storage.store import ColdStorageStore
from skein_session.erasure.rpc import ErasureRpc
from skein_session.erasure.store import ErasureStore
from skein_session.export.rpc import ExportRpc
from skein_session.export.store import ExportStore
from skein_session.idempotency import SessionIdempotencyStore
from skein_session.items.rpc import ItemRpc
from skein_session.items.store import ItemStore
from skein_session.maintenance.rpc import MaintenanceRpc
from skein_session.messages.rpc import MessageRpc
from skein_session.messages.store import MessageStore
from skein_session.messages.stream import StreamHub
from skein_session.messages.stream_store import StreamStore
from skein_session.search.rpc import SearchRpc
from skein_session.search.store import SearchStore
from skein_session.servicers import SessionInternalServicer, SessionServicer
from skein_session.sessions.idle_store import IdleSessionStore
from skein_session.sessions.participants import ParticipantStore
from skein_session.sessions.rpc import SessionRpc
from skein_session.sessions.store import SessionStore
from skein_session.settings import SessionSettings
from skein_session.summaries.chat_model import ChatModel
from skein_session.summaries.rpc import SummaryRpc
from skein_session.summaries.store import SummaryStore
from skein_session.transcripts.rpc import TranscriptRpc
from skein_session.transcripts.store import TranscriptStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def start(host: Host) -> AsyncIterator[ServicerRegistry]:
    """Open the pool and serve SessionService and UpkeepService."""
    settings = SessionSettings.read(host.environment)
    servicers = ServicerRegistry()
    async with (
        host.database("session", servicers, init=prepare_connection) as database,
        AccessLog(database, shared_policy_cache(database), counts_uses=False).open() as access_log,
    ):
        policies = shared_policy_cache(database)
        idempotency, quotas = SessionIdempotencyStore(database), QuotaCounter("session")
        months = MonthlyPartitions(database, Queries.of("skein_session")["ensure_month"])
        recall = host.channel("recall")
        embeddings = EmbeddingClient(
            recall_pb2_grpc.IndexServiceStub(recall), service="session", at_once=settings.immediate_embeddings
        )
        idle = IdleSessionStore(database, policies)
        states = AgentStateStore(database, idempotency, quotas)
        items = ItemStore(database, idempotency, quotas)
        archives = ColdStorageStore(
            database, idempotency, policies, months, ColdFiles(settings.archives(host.environment))
        )
        streams = StreamHub(
            StreamStore(database),
            heartbeat_seconds=settings.stream_heartbeat_seconds,
            max_poll_seconds=settings.stream_pause_seconds,
        )
        servicer = SessionServicer(
            sessions=SessionRpc(SessionStore(database, idempotency, quotas)),
            messages=MessageRpc(
                MessageStore(database, idempotency, quotas, months, idle),
                streams,
                embeddings,
                max_content_characters=settings.max_content_characters,
            ),
            transcripts=TranscriptRpc(TranscriptStore(database, archives)),
            search=SearchRpc(SearchStore(database), recall_pb2_grpc.RecallServiceStub(recall)),
            summaries=SummaryRpc(SummaryStore(database, idempotency), ChatModel.of(settings)),
            states=AgentStateRpc(states),
            items=ItemRpc(items),
            cold_storage=ColdStorageRpc(archives, embeddings),
            erasure=ErasureRpc(ErasureStore(database, idempotency, quotas, archives)),
            export=ExportRpc(ExportStore(database, archives)),
        )
        maintenance = MaintenanceRpc(
            database,
            months,
            idempotency=idempotency,
            states=states,
            items=items,
            idle=idle,
            participants=ParticipantStore(database),
            archives=archives,
        )
        servicers.add(rpc.add_SessionServiceServicer_to_server, access_log.watching(servicer))
        servicers.add(rpc.add_UpkeepServiceServicer_to_server, SessionInternalServicer(maintenance))
        async with streams.open():
            yield servicers


SERVICE = Service(name="session", port=50053, calls=("auth", "recall"), start=start)
