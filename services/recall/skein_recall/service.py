"""How the recall service is put together."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from skein.recall.v1 import recall_pb2_grpc as rpc
from skein_kit.access_log.writer import AccessLog
from skein_kit.admission.adaptive_limit import DELAYS
from skein_kit.background import background_tasks
from skein_kit.host.process import Host, Service, ServicerRegistry
from skein_kit.outbound.fetch import OutboundSettings, SafeHttpClient
from skein_kit.policies.store import shared_policy_cache
from skein_kit.telemetry.metrics import EMBEDDER_QUEUE, EMBEDDER_WAIT
from skein_recall.embedded_model.embedder import LocalEmbedder
from skein_recall.erasure.watcher import ErasureWatcher
from skein_recall.index.embedding_queue import EmbeddingQueue
from skein_recall.index.indexer import Indexer
from skein_recall.index.reindexer import Reindexer
from skein_recall.model_servicer import ModelParts
from skein_recall.models.model import ModelRegistry
from skein_recall.providers.api_keys import ApiKeys
from skein_recall.providers.embedded import EmbeddedProvider
from skein_recall.providers.selection import ProviderRegistry
from skein_recall.providers.text_embedder import TextEmbedder, observe_batch
from skein_recall.quality.comparison import ModelComparer
from skein_recall.quality.recent_queries import RecentQueries
from skein_recall.quality.sampler import Sampler
from skein_recall.search.searcher import RecallSearcher
from skein_recall.search.similar import SimilarItems
from skein_recall.servicers import IndexServicer, RecallServicer
from skein_recall.settings import RecallSettings
from skein_recall.store import Store, prepare_connection
from skein_recall.vector_cache.cache import VectorCache

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def _waited(seconds: float) -> None:
    EMBEDDER_WAIT.observe(seconds)
    DELAYS.waited("embedder", seconds)


@asynccontextmanager
async def start(host: Host) -> AsyncIterator[ServicerRegistry]:
    """Load the model, open the pool, put the servicers on both."""
    settings = RecallSettings.read(host.environment)
    servicers = ServicerRegistry()
    loaded = await asyncio.to_thread(
        LocalEmbedder.load, threads=settings.embedder_threads, on_batch=observe_batch, on_begin=_waited
    )
    async with (
        loaded as embedder,
        host.database("recall", servicers, init=prepare_connection) as database,
        AccessLog(database, shared_policy_cache(database), counts_uses=True).open() as access_log,
    ):
        store = Store(database)
        registry = ModelRegistry(store.models.list_models, seconds=settings.models_seconds)
        outbound = SafeHttpClient.of(OutboundSettings.read(host.environment))
        providers = ProviderRegistry(EmbeddedProvider(embedder), outbound, ApiKeys.read(host.environment))
        vectors = TextEmbedder(providers, query_seconds=settings.embed_timeout_seconds)
        recent = RecentQueries()
        sampler = Sampler(store, share=settings.sample_share)
        indexer = Indexer(store.index, store.vectors, registry, vectors)
        deferred = EmbeddingQueue(indexer.index)
        EMBEDDER_QUEUE.set_function(lambda: embedder.queue_depth + deferred.depth)
        held = VectorCache(
            store.holding,
            most_bytes=settings.held_megabytes * 1_000_000,
            least_chunks=settings.held_least_chunks,
        )
        searcher = RecallSearcher(
            store, registry, vectors, sampler, deferred, held, wait_seconds=settings.vectors_wait_seconds
        )
        reindexer = Reindexer(store.reindexes, store.index, store.vectors, registry, vectors)
        parts = ModelParts(
            store=store,
            registry=registry,
            vectors=vectors,
            comparer=ModelComparer(store, registry, vectors, recent),
            outbound=outbound,
            settings=settings,
        )
        servicer = RecallServicer(searcher, SimilarItems(store, registry, deferred, searcher), recent, parts)
        servicers.add(rpc.add_RecallServiceServicer_to_server, access_log.watching(servicer))
        servicers.add(rpc.add_IndexServiceServicer_to_server, IndexServicer(indexer, deferred, reindexer, store))
        erasures = ErasureWatcher(store.erasures, [held, vectors, recent, sampler])
        async with background_tasks(sampler=sampler.run, deferred=deferred.run, held=held.run, erasures=erasures.run):
            yield servicers


SERVICE = Service(name="recall", port=50055, calls=("auth",), start=start)
