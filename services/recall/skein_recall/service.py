"""How the recall service is put together."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from skein.recall.v1 import recall_pb2_grpc as rpc
from skein_kit.policies import Policies
from skein_kit.recording import AccessLog
from skein_kit.service import Host, Service, Servicers
from skein_kit.telemetry import EMBEDDER_QUEUE
from skein_recall.embedder import Embedder
from skein_recall.index import Indexer
from skein_recall.models import Registry
from skein_recall.search import Searcher
from skein_recall.servicer import IndexServicer, RecallServicer
from skein_recall.settings import RecallSettings
from skein_recall.store import Store, prepare_connection
from skein_recall.vectors import Vectors, observe_batch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def start(host: Host) -> AsyncIterator[Servicers]:
    """Load the model, open the pool, put the servicers on both."""
    settings = RecallSettings.read(host.environment)
    servicers = Servicers()
    loaded = await asyncio.to_thread(Embedder.load, threads=settings.embedder_threads, on_batch=observe_batch)
    async with (
        loaded as embedder,
        host.database("recall", servicers, init=prepare_connection) as database,
        AccessLog(database, Policies(), counts_uses=True).open() as access_log,
    ):
        EMBEDDER_QUEUE.set_function(lambda: embedder.queue_depth)
        store = Store(database)
        registry = Registry(store.active_model, seconds=settings.models_seconds)
        vectors = Vectors(embedder, query_seconds=settings.embed_timeout_seconds)
        searcher, indexer = Searcher(store, registry, vectors), Indexer(store, registry, vectors)
        servicer = RecallServicer(searcher, vectors, registry, store)
        servicers.add(rpc.add_RecallServiceServicer_to_server, access_log.watching(servicer))
        servicers.add(rpc.add_IndexServiceServicer_to_server, IndexServicer(indexer, store))
        yield servicers


SERVICE = Service(name="recall", port=50055, calls=("auth",), start=start)
