"""Composition root of the session service: settings, database, clients, features, servicers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from skein.recall.v1 import recall_pb2_grpc
from skein.session.v1 import session_pb2_grpc as rpc
from skein_kit.access_log.writer import AccessLog
from skein_kit.approval import ApprovalGate
from skein_kit.cold_storage import ColdFiles
from skein_kit.content_guard.endpoint import DetectorEndpoint
from skein_kit.content_guard.guard import ContentGuard
from skein_kit.database.monthly_partitions import MonthlyPartitions
from skein_kit.database.named_queries import Queries
from skein_kit.host.process import Host, Service, ServicerRegistry
from skein_kit.jobs.store import JobStore
from skein_kit.policies.store import shared_policy_cache
from skein_kit.quotas.store import QuotaCounter
from skein_kit.rpc.declared_steps import DeclaredSteps
from skein_kit.search_text.embedding_requests import EmbeddingClient
from skein_kit.search_text.vector_columns import prepare_connection
from skein_session.agent_states.rpc import AgentStateHandlers
from skein_session.agent_states.store import AgentStateStore
from skein_session.cold_storage.rpc import ColdStorageHandlers
from skein_session.cold_storage.store import ColdStorageStore
from skein_session.erasure.rpc import ErasureHandlers
from skein_session.erasure.store import ErasureStore
from skein_session.export.rpc import ExportHandlers
from skein_session.export.store import ExportStore
from skein_session.extractions.model_queue import ModelQueue
from skein_session.extractions.rpc import BackfillStore, ExtractionHandlers
from skein_session.extractions.store import ExtractionStore
from skein_session.idempotency import SessionIdempotencyStore
from skein_session.items.rpc import ItemHandlers
from skein_session.items.store import ItemStore
from skein_session.ledgers.rpc import LedgerHandlers
from skein_session.ledgers.store import LedgerStore
from skein_session.maintenance.rpc import MaintenanceHandlers
from skein_session.messages.model import MAX_CONTENT_CHARACTERS
from skein_session.messages.rpc import MessageHandlers
from skein_session.messages.store import MessageStore
from skein_session.messages.stream import MAX_POLL_SECONDS, StreamHub
from skein_session.search.rpc import SearchHandlers
from skein_session.search.store import SearchStore
from skein_session.sessions.rpc import SessionHandlers, without_texts
from skein_session.sessions.store import SessionStore
from skein_session.settings import SessionSettings
from skein_session.summaries.chat_model import ChatModel
from skein_session.summaries.rpc import SummaryHandlers
from skein_session.summaries.store import SummaryStore
from skein_session.transcripts.rpc import TranscriptHandlers
from skein_session.transcripts.store import TranscriptStore


@asynccontextmanager
async def start(host: Host) -> AsyncIterator[ServicerRegistry]:
    """Open the database and register the servicers. Raises SettingInvalid."""
    settings = SessionSettings.read(host.environment)
    detector = DetectorEndpoint.of(host.environment, service="session")
    registry = ServicerRegistry()
    async with host.database("session", registry, init=prepare_connection) as database:
        policies = shared_policy_cache(database)
        idempotency, quotas = SessionIdempotencyStore(database), QuotaCounter("session")
        months = MonthlyPartitions(database, Queries.load("skein_session")["ensure_month"])
        recall = host.channel("recall", caller="session")
        embeddings = EmbeddingClient(
            recall_pb2_grpc.RecallInternalServiceStub(recall),
            service="session",
        )
        sessions = SessionStore(database, quotas, policies)
        extractions = ExtractionStore(database, policies)
        messages = MessageStore(database, sessions, quotas, months, extractions)
        states, items = AgentStateStore(database, quotas), ItemStore(database, quotas)
        ledgers = LedgerStore(database, quotas)
        ledger_handlers = LedgerHandlers(ledgers)
        archives = ColdStorageStore(database, policies, months, ColdFiles(settings.archives(host.environment)))
        jobs = JobStore(database)
        access_log = AccessLog(database, policies, counts_uses=False)
        extraction_handlers = ExtractionHandlers(
            extractions,
            BackfillStore(database, policies, jobs),
            idempotency,
            models=ModelQueue(database, policies),
            jobs=jobs,
            access_log=access_log,
        )
        streams = StreamHub(
            messages,
            heartbeat_seconds=host.settings.stream_heartbeat_seconds,
            max_poll_seconds=MAX_POLL_SECONDS,
        )
        message_handlers = MessageHandlers(
            messages, idempotency, streams, embeddings, max_content_characters=MAX_CONTENT_CHARACTERS
        )
        session_handlers = SessionHandlers(sessions, idempotency)
        summary_handlers = SummaryHandlers(SummaryStore(database), idempotency, ChatModel.of(settings), jobs)
        maintenance = MaintenanceHandlers(
            database,
            months,
            idempotency=idempotency,
            sessions=sessions,
            expiring=(states, items, ledgers, messages),
            archives=archives,
            jobs=jobs,
        )
        waiting = {
            f"/skein.session.v1.SessionService/{name}": handler
            for name, handler in {
                **message_handlers.waiting,
                **without_texts(session_handlers, summary_handlers),
            }.items()
        }
        async with access_log.open(), streams.open():
            registry.steps = DeclaredSteps(
                access_log=access_log,
                refusals=access_log.refusals,
                gate=ApprovalGate(database, policies),
                guard=ContentGuard(database, policies, detector),
                waiting=waiting,
                locate=sessions.locate,
            )
            registry.add(
                rpc.add_SessionServiceServicer_to_server,
                session_handlers,
                message_handlers,
                TranscriptHandlers(TranscriptStore(database, archives)),
                SearchHandlers(SearchStore(database, policies), recall_pb2_grpc.RecallServiceStub(recall)),
                summary_handlers,
                AgentStateHandlers(states, idempotency),
                ItemHandlers(items, idempotency),
                ColdStorageHandlers(archives, idempotency, embeddings),
                ErasureHandlers(ErasureStore(database, quotas, archives), idempotency, archives),
                ExportHandlers(ExportStore(database, archives)),
                extraction_handlers,
                ledger_handlers,
            )
            registry.add(
                rpc.add_SessionInternalServiceServicer_to_server, maintenance, ledger_handlers, extraction_handlers
            )
            yield registry


SERVICE = Service(name="session", port=50053, depends_on=("auth", "recall"), start=start)
