"""Composition root of memory."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from skein.memory.v1 import memory_pb2_grpc as rpc
from skein.recall.v1 import recall_pb2_grpc as recall_rpc
from skein_kit.embeddings import Embeddings
from skein_kit.months import Months
from skein_kit.policies import Policies
from skein_kit.quotas import Quotas
from skein_kit.requests import Requests
from skein_kit.service import Service, Servicers
from skein_memory.parts import Parts
from skein_memory.servicer import LinkServicer, MemoryServicer, UpkeepServicer
from skein_memory.settings import MemorySettings
from skein_memory.store import LinkStore, MemoryStore
from skein_memory.store.queries import QUERIES
from skein_memory.store.tables import Tables

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from skein_kit.service import Host


@asynccontextmanager
async def start(host: Host) -> AsyncIterator[Servicers]:
    """Answer for memories, links and their upkeep."""
    settings = MemorySettings.read(host.environment)
    servicers = Servicers()
    index = recall_rpc.IndexServiceStub(host.channel("recall"))
    embeddings = Embeddings(index, service="memory", at_once=settings.immediate_embeddings)
    async with host.database("memory", servicers) as database:
        months = Months(database, QUERIES["ensure_month"])
        tables = Tables(database, requests=Requests("memory"), quotas=Quotas("memory"), policies=Policies())
        parts = Parts(
            settings=settings,
            embeddings=embeddings,
            months=months,
            memories=MemoryStore(tables, months),
            links=LinkStore(tables),
        )
        servicers.add(rpc.add_MemoryServiceServicer_to_server, MemoryServicer(parts))
        servicers.add(rpc.add_LinkServiceServicer_to_server, LinkServicer(parts))
        servicers.add(rpc.add_UpkeepServiceServicer_to_server, UpkeepServicer(parts))
        yield servicers


SERVICE = Service(name="memory", port=50054, calls=("auth", "recall"), start=start)
