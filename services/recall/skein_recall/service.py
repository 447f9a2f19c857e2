"""How the recall service is put together."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from skein.recall.v1 import recall_pb2_grpc as rpc
from skein_kit.access_log.writer import AccessLog
from skein_kit.admission.adaptive_limit import DELAYS
from skein_kit.background import alongside
from skein_kit.host.process import Host, Service, Servicers
from skein_kit.outbound.fetch import Outbound, OutboundSettings
from skein_kit.policies.store import policies_of
from skein_kit.telemetry.metrics import EMBEDDER_QUEUE, EMBEDDER_WAIT
from skein_recall.comparing import Comparer
from skein_recall.deferring import Deferred
from skein_recall.embedder import Embedder
from skein_recall.erasing import ErasureWatch
from skein_recall.held import Held
from skein_recall.index import Indexer
from skein_recall.model_servicer import ModelParts
from skein_recall.models import Registry
from skein_recall.providers.choosing import Providers
from skein_recall.providers.embedded import Embedded
from skein_recall.providers.keys import Keys
from skein_recall.query.similar import SimilarItems
from skein_recall.recent import Recent
from skein_recall.reindexing import Reindexer
from skein_recall.sampling import Sampler
from skein_recall.search import Searcher
from skein_recall.servicer import IndexServicer, RecallServicer
from skein_recall.settings import RecallSettings
from skein_recall.store import Store, prepare_connection
from skein_recall.vectors import Vectors, observe_batch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def _waited(seconds: float) -> None:
    EMBEDDER_WAIT.observe(seconds)
    DELAYS.waited("embedder", seconds)


@asynccontextmanager
async def start(host: Host) -> AsyncIterator[Servicers]:
    """Load the model, open the pool, put the servicers on both."""
    settings = RecallSettings.read(host.environment)
    servicers = Servicers()
    loaded = await asyncio.to_thread(
        Embedder.load, threads=settings.embedder_threads, on_batch=observe_batch, on_begin=_waited
    )
    async with (
        loaded as embedder,
        host.database("recall", servicers, init=prepare_connection) as database,
        AccessLog(database, policies_of(database), counts_uses=True).open() as access_log,
    ):
        store = Store(database)
        registry = Registry(store.models.list_models, seconds=settings.models_seconds)
        outbound = Outbound.of(OutboundSettings.read(host.environment))
        providers = Providers(Embedded(embedder), outbound, Keys.read(host.environment))
        vectors = Vectors(providers, query_seconds=settings.embed_timeout_seconds)
        recent = Recent()
        sampler = Sampler(store, share=settings.sample_share)
        indexer = Indexer(store.index, store.vectors, registry, vectors)
        deferred = Deferred(indexer.index)
        EMBEDDER_QUEUE.set_function(lambda: embedder.queue_depth + deferred.depth)
        held = Held(
            store.holding,
            most_bytes=settings.held_megabytes * 1_000_000,
            least_chunks=settings.held_least_chunks,
        )
        searcher = Searcher(
            store, registry, vectors, sampler, deferred, held, wait_seconds=settings.vectors_wait_seconds
        )
        reindexer = Reindexer(store.reindexes, store.index, store.vectors, registry, vectors)
        parts = ModelParts(
            store=store,
            registry=registry,
            vectors=vectors,
            comparer=Comparer(store, registry, vectors, recent),
            outbound=outbound,
            settings=settings,
        )
        servicer = RecallServicer(searcher, SimilarItems(store, registry, deferred, searcher), recent, parts)
        servicers.add(rpc.add_RecallServiceServicer_to_server, access_log.watching(servicer))
        servicers.add(rpc.add_IndexServiceServicer_to_server, IndexServicer(indexer, deferred, reindexer, store))
        erasures = ErasureWatch(store.erasures, [held, vectors, recent, sampler])
        async with alongside(sampler=sampler.run, deferred=deferred.run, held=held.run, erasures=erasures.run):
            yield servicers


SERVICE = Service(name="recall", port=50055, calls=("auth",), start=start)
