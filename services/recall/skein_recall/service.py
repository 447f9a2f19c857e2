"""Composition root of the recall service: settings, model, database, features, servicers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import asyncpg

from skein.auth.v1 import auth_pb2_grpc
from skein.recall.v1 import recall_pb2_grpc as rpc
from skein_kit.access_log.writer import AccessLog, AccessLogKeys
from skein_kit.admission.adaptive_limit import DELAYS
from skein_kit.approval import ApprovalGate
from skein_kit.audit_log.writer import AuditLog
from skein_kit.background import background_tasks
from skein_kit.host.process import Host, Service, ServicerRegistry
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.jobs.store import JobStore
from skein_kit.outbound.fetch import OutboundSettings, SafeHttpClient
from skein_kit.policies.store import shared_policy_cache
from skein_kit.rpc.declared_steps import DeclaredSteps
from skein_kit.search_text import vector_columns
from skein_kit.telemetry.metrics import EMBEDDER_QUEUE, EMBEDDER_WAIT
from skein_recall.embedded_model.bulk_threads import BulkThreads
from skein_recall.embedded_model.embedder import EmbedderHooks, LocalEmbedders
from skein_recall.erasure.watcher import ErasureStore, ErasureWatcher
from skein_recall.index.embedding_queue import EmbeddingQueue
from skein_recall.index.indexer import Indexer
from skein_recall.index.rpc import IndexHandlers
from skein_recall.index.store import IndexStore
from skein_recall.index.term_counts import TermCountStore
from skein_recall.index.vector_store import VectorStore
from skein_recall.maintenance.store import MaintenanceHandlers, PurgeStore
from skein_recall.models.model import EMBEDDED_MODEL, ModelRegistry
from skein_recall.models.rpc import ModelHandlers
from skein_recall.models.store import ModelStore
from skein_recall.providers.api_keys import ApiKeys
from skein_recall.providers.rpc import EmbedHandlers
from skein_recall.providers.text_embedder import ProviderRegistry, TextEmbedder, observe_batch
from skein_recall.quality.recent_queries import RecentQueries
from skein_recall.quality.rpc import ModelComparer, QualityHandlers
from skein_recall.receipts.reader import ReceiptReader
from skein_recall.receipts.replay import RecallReplayer
from skein_recall.receipts.rpc import ReceiptHandlers
from skein_recall.receipts.store import ReceiptStore
from skein_recall.receipts.writer import ReceiptRecorder, ReceiptWriter
from skein_recall.reindexes.reindexer import ChosenModels, Reindexer
from skein_recall.reindexes.rpc import ReindexHandlers
from skein_recall.reindexes.store import ReindexStore
from skein_recall.search.known_items import KnownItems
from skein_recall.search.name_cache import NameCache
from skein_recall.search.rpc import SearchHandlers
from skein_recall.search.searcher import QueryReader, RecallSearcher, SearchCaches
from skein_recall.search.store import QueryStore
from skein_recall.settings import RecallSettings
from skein_recall.term_cache.cache import TermCache
from skein_recall.term_cache.store import TermCacheStore
from skein_recall.usage.rpc import UsageHandlers
from skein_recall.usage.store import SearchCounter, SearchCountStore
from skein_recall.vector_cache.cache import MIN_RECALL, VectorCache
from skein_recall.vector_cache.store import VectorCacheStore


async def prepare_connection(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Send vectors in binary, and have the planner use indexes.

    Every statement has an index of its own. Other plans are cheap only for a tenant whose rows lie side by side, as
    after an import. For a tenant with scattered rows they cost ten times as much.
    """
    await vector_columns.prepare_connection(connection)
    await connection.execute("SET enable_seqscan = off; SET enable_bitmapscan = off")


# Bulk requests wait for idle cores: their delay limits no calls.
_EMBEDDER_HOOKS = EmbedderHooks(
    on_batch=observe_batch,
    on_begin=EMBEDDER_WAIT.observe,
    on_small_begin=lambda seconds: DELAYS.observe("embedder", seconds),
)


@asynccontextmanager
async def start(host: Host) -> AsyncIterator[ServicerRegistry]:
    """Load the model, open the database and register the servicers. Raises SettingInvalid."""
    settings = RecallSettings.read(host.environment)
    servicers = ServicerRegistry()
    async with (
        LocalEmbedders(
            threads=settings.embedder_threads,
            bulk_threads=BulkThreads.for_this_process(
                most=settings.embedder_bulk_threads, nice_step=settings.embedder_bulk_nice
            ),
            hooks=_EMBEDDER_HOOKS,
            has_tokens=settings.token_vectors,
        ) as local_embedders,
        host.database("recall", servicers, init=prepare_connection) as database,
        AccessLog(database, shared_policy_cache(database), counts_uses=True).open() as access_log,
        AsyncExitStack() as stack,
    ):
        # Before the first call, which would wait for it.
        default_embedder = await local_embedders.get(EMBEDDED_MODEL)
        idempotency, jobs = IdempotencyStore(database, "recall", AuditLog()), JobStore(database)
        # Searches keep to the spaces of their callers; the index, its caches and counts serve all.
        whole_database = database.for_all_spaces()
        models = ModelStore(database, settle_seconds=settings.settle_seconds)
        queries = QueryStore(database)
        documents, vectors, reindexes = (
            IndexStore(whole_database),
            VectorStore(whole_database),
            ReindexStore(whole_database),
        )
        registry = ModelRegistry(models, seconds=settings.models_seconds)
        outbound = SafeHttpClient.from_settings(OutboundSettings.read(host.environment))
        providers = ProviderRegistry(local_embedders, outbound, ApiKeys.read(host.environment))
        embedder = TextEmbedder(providers, query_seconds=settings.embed_timeout_seconds)
        recent = RecentQueries()
        term_counts = TermCountStore(whole_database)
        indexer = Indexer(documents, vectors, term_counts, registry, embedder)
        queue = EmbeddingQueue(indexer.index_deferred)
        EMBEDDER_QUEUE.set_function(lambda: local_embedders.queue_depth + queue.depth)
        vector_store = VectorCacheStore(whole_database)
        vector_cache = VectorCache(
            vector_store,
            max_bytes=settings.cache_megabytes * 1_000_000,
            min_chunks=settings.cache_min_chunks,
            max_exact_chunks=settings.cache_exact_chunks,
            min_recall=MIN_RECALL,
        )
        term_cache = TermCache(
            TermCacheStore(whole_database),
            vector_store,
            max_bytes=settings.cache_megabytes * 1_000_000 // 4,
        )
        name_cache = NameCache(database)
        searcher = RecallSearcher(
            queries,
            registry,
            embedder,
            queue,
            SearchCaches(vectors=vector_cache, terms=term_cache),
            QueryReader(name_cache, default_embedder.has_word),
            wait_seconds=settings.vectors_wait_seconds,
        )
        choices = ChosenModels(database, reindexes, models, registry, settings)
        reindexer = Reindexer(reindexes, documents, vectors, registry, embedder, jobs, choices)
        index_handlers = IndexHandlers(
            IndexStore(database),
            vectors,
            models,
            registry,
            indexer,
            queue,
            idempotency=idempotency,
            term_counts=term_counts,
            jobs=jobs,
        )
        reindex_handlers = ReindexHandlers(reindexes, models, registry, embedder, reindexer, idempotency, settings)
        receipts = ReceiptStore(database, months=settings.receipt_months)
        receipt_writer = await stack.enter_async_context(
            ReceiptWriter(
                receipts, auth_pb2_grpc.AuthInternalServiceStub(host.channel("auth", caller="recall")), database
            ).open()
        )
        receipt_reader = ReceiptReader(
            receipts, receipt_writer, auth_pb2_grpc.AuthServiceStub(host.channel("auth", caller="recall"))
        )
        receipt_handlers = ReceiptHandlers(
            receipt_reader,
            RecallReplayer(receipt_reader, receipts, searcher, queries, registry, AccessLogKeys(database)),
            receipts,
            receipt_writer,
        )
        search_counts = SearchCountStore(database)
        counter = await stack.enter_async_context(SearchCounter(search_counts).open())
        search_handlers = SearchHandlers(
            searcher, recent, ReceiptRecorder(database, receipt_writer), KnownItems(queries), counter
        )
        gate = ApprovalGate(database, shared_policy_cache(database))
        servicers.steps = DeclaredSteps(access_log=access_log, refusals=access_log.refusals, gate=gate)
        servicers.add(
            rpc.add_RecallServiceServicer_to_server,
            search_handlers,
            UsageHandlers(search_counts, counter),
            receipt_handlers,
            EmbedHandlers(registry, embedder),
            index_handlers,
            ModelHandlers(models, registry, outbound, idempotency, settle_seconds=settings.settle_seconds),
            reindex_handlers,
            QualityHandlers(ModelComparer(queries, registry, embedder, recent)),
        )
        servicers.add(
            rpc.add_RecallInternalServiceServicer_to_server,
            index_handlers,
            reindex_handlers,
            MaintenanceHandlers(PurgeStore(whole_database, models)),
            receipt_handlers,
            search_handlers,
        )
        erasures = ErasureWatcher(ErasureStore(database), [vector_cache, term_cache, name_cache, embedder, recent])
        async with background_tasks(
            embedding_queue=queue.run,
            vector_cache=vector_cache.run,
            term_cache=term_cache.run,
            erasures=erasures.run,
        ):
            yield servicers


SERVICE = Service(name="recall", port=50055, depends_on=("auth",), start=start)
