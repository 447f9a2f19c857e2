"""A recall service of a test's own beside an endpoint, so that the model in force can be changed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from fix_cluster import Cluster
from fix_endpoint import DIMENSIONS, EmbeddingServer, vector_of
from fix_recall import RecallServer, RecallTenant, serving
from joserfc.jwk import OKPKey

from skein.recall.v1 import recall_pb2 as pb
from skein.recall.v1 import recall_pb2_grpc as rpc
from skein_cluster import embedded
from skein_cluster.embedded.server import Server
from skein_kit.identity.permissions import SYSTEM_PERMISSIONS

EMBEDDED = "all-minilm-l6-v2"
WORDS = "words"
# After a scan that took long the next one is far away.
SCAN_NOW = (
    "UPDATE worker.pgqueuer SET execute_after = now() WHERE status = 'queued' AND entrypoint = 'embedding_backlog_scan'"
)
REINDEX_NOW = "UPDATE worker.pgqueuer SET execute_after = now() WHERE status = 'queued' AND entrypoint = 'reindex'"


def cosine(one: str, other: str) -> float:
    """The cosine of two texts, as the endpoint has it."""
    a, b = np.array(vector_of(one)), np.array(vector_of(other))
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


@dataclass
class Deployment:
    """The service, its endpoint, and one tenant."""

    service: RecallServer
    endpoint: EmbeddingServer
    tenant: RecallTenant
    # Those of the process, for a second one beside it.
    settings: dict[str, str]

    @property
    def operator(self) -> rpc.RecallServiceAsyncStub:
        return self.service.operator

    async def register(self, model: str = WORDS, **values: Any) -> None:
        fields: dict[str, Any] = {
            "provider": "openai",
            "dimensions": DIMENSIONS,
            "endpoint": self.endpoint.endpoint,
        } | values
        request = pb.RegisterEmbeddingModelRequest(embedding_model=pb.EmbeddingModel(model=model, **fields))
        await self.operator.RegisterEmbeddingModel(request)

    async def start(self, model: str = WORDS, **values: Any) -> pb.Reindex:
        request = pb.StartReindexRequest(model=model, texts_per_second=100_000, **values)
        return (await self.operator.StartReindex(request)).reindex

    async def progress(self, reindex_id: str) -> pb.Reindex:
        return (await self.operator.GetReindex(pb.GetReindexRequest(reindex_id=reindex_id))).reindex

    async def due(self) -> list[str]:
        stub = rpc.RecallInternalServiceStub(self.service._channel("system:worker", None, SYSTEM_PERMISSIONS))
        return list((await stub.ListDueReindexes(pb.ListDueReindexesRequest())).tenant_ids)

    async def work(self, recall_tenant: RecallTenant | None = None) -> int:
        """Do what the worker does in one tenant, until there is nothing to do."""
        index, made = (recall_tenant or self.tenant).index, 0
        while True:
            answer = await index.ContinueReindex(pb.ContinueReindexRequest())
            made += answer.embedded_count
            if not answer.more:
                return made

    async def backlog(self) -> int:
        return (await self.tenant.index.IndexBacklog(pb.IndexBacklogRequest())).indexed_count

    async def use(self, model: str, **values: Any) -> pb.ActivateEmbeddingModelResponse:
        return await self.operator.ActivateEmbeddingModel(pb.ActivateEmbeddingModelRequest(model=model, **values))

    async def drop(self, model: str) -> None:
        await self.operator.DeleteEmbeddingModel(pb.DeleteEmbeddingModelRequest(model=model))

    async def change(self, model: str = WORDS, **values: Any) -> str:
        """Register a model, make its vectors of everything, and put it in force; return the reindex."""
        await self.register(model, **values)
        reindex = await self.start(model)
        await self.work()
        await self.use(model)
        return reindex.reindex_id

    async def vectors(self, model: str) -> dict[str, int]:
        """How many vectors of a model each item has."""
        table = f"recall.embeddings_{model.replace('-', '_')}"
        async with self.service.superuser() as connection:
            rows = await connection.fetch(f"SELECT item_id, count(*) FROM {table} GROUP BY item_id")  # noqa: S608
        return {str(row["item_id"]): row["count"] for row in rows}


@asynccontextmanager
async def run_deployment(
    server: Server, template: str, endpoint: EmbeddingServer, **settings: str
) -> AsyncIterator[Deployment]:
    """Run a recall service on a database of its own that may ask the endpoint."""
    name = f"models_{uuid4().hex}"
    await embedded.create_database(server, name, template)
    key = OKPKey.generate_key("Ed25519", parameters={"kid": "test"})
    known = {
        "SKEIN_OUTBOUND_ALLOW": endpoint.url,
        "SKEIN_ADVANCED_RECALL_SETTLE_SECONDS": "0",
        "SKEIN_ADVANCED_RECALL_MODELS_SECONDS": "0",
        **settings,
    }
    try:
        async with serving(server.url(user="postgres", database=name), key, **known) as service:
            yield Deployment(service, endpoint, await service.new_tenant(), known)
    finally:
        await embedded.drop_database(server, name)


@pytest.fixture
async def deployment(server: Server, template: str, endpoint: EmbeddingServer) -> AsyncIterator[Deployment]:
    """A deployment of a test's own."""
    async with run_deployment(server, template, endpoint) as made:
        yield made


async def until_scanned(cluster: Cluster, holds: Any) -> None:
    """Have the worker look for items without vectors until something holds: its next scan may be a minute away."""
    async with cluster.superuser() as connection, asyncio.timeout(60):
        while not await holds():
            await connection.execute(SCAN_NOW)
            await asyncio.sleep(0.05)


async def until(holds: Any, *, seconds: float = 60.0) -> None:
    """Ask again until something holds."""
    async with asyncio.timeout(seconds):
        while not await holds():
            await asyncio.sleep(0.02)
