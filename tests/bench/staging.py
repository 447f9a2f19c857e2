"""A cluster with a population in it: started, its model registered, its tables filled, its questions made."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import asyncpg
from bench import processes
from bench import sizes as sizes_on_disk
from bench.asking import VECTOR, Asking
from bench.loading import Loader, make_tenants
from bench.population import Block, Population
from bench.subject import ONE_PROCESS, data_folder, running
from grpc import aio

from skein.recall.v1 import recall_pb2, recall_pb2_grpc
from skein_kit.ids import now

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from bench.loading import Member
    from bench.population import Question
    from bench.subject import Subject
    from rich.console import Console

EMBEDDED_DIMENSIONS = 384
QUESTIONS = 200
SEED = 11
_ACTIVE_SECONDS = 60.0
_PAUSE_SECONDS = 0.5
_OPTIONS = (("grpc.max_receive_message_length", 16 << 20),)
_ACTIVE_TABLE = "SELECT table_name FROM recall.embedding_models WHERE active"


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """A cluster that is ready to be asked."""

    subject: Subject
    channel: aio.Channel
    # Of the database before anything was written.
    empty_bytes: int
    members: Sequence[Member]
    population: Population
    # The entries of those tenants that are asked.
    kept: dict[int, Block]
    questions: list[Question]
    # Of calls: each has one of its own.
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    def cpu(self) -> float:
        """Return the processor time of everything that serves."""
        return processes.cpu_seconds(self.subject.pid)


@asynccontextmanager
async def staged(
    out: Console, sizes: Sequence[int], dimensions: int, *, asked: Sequence[int] | None = None
) -> AsyncIterator[Stage]:
    """Start a cluster and fill it. `asked`: the tenant of each question; drawn as population does when None."""
    at = round(now().timestamp() * 1000)
    population = Population(sizes, dimensions=dimensions, seed=SEED, until_milliseconds=at)
    tenants = list(asked) if asked is not None else population.question_tenants(QUESTIONS)
    with data_folder() as folder:
        async with (
            running(folder, ONE_PROCESS) as subject,
            aio.insecure_channel(subject.addresses["gateway"], options=_OPTIONS) as channel,
        ):
            if dimensions != EMBEDDED_DIMENSIONS:
                operator_key = json.loads((folder / "credentials.json").read_text("utf-8"))["operator_key"]
                await _change_model(channel, operator_key, dimensions)
            empty_bytes = await sizes_on_disk.whole(subject.database_url)
            started = time.perf_counter()
            # The largest tenant is always asked.
            members, kept = await _filled(subject, population, {0, *tenants})
            out.print(
                f"{sum(sizes):,} entries × {dimensions} of {len(sizes):,} tenants, the largest {max(sizes):,}: written "
                f"in {time.perf_counter() - started:.0f} s",
                style="dim",
            )
            questions = population.questions(tenants, kept)
            await _is_searched(channel, members, questions[0], dimensions)
            yield Stage(
                subject=subject,
                channel=channel,
                empty_bytes=empty_bytes,
                members=members,
                population=population,
                kept=kept,
                questions=questions,
            )


async def _change_model(channel: aio.Channel, operator_key: str, dimensions: int) -> None:
    """Register a model whose vectors callers bring, and put it in force; the one before is followed no more."""
    model = f"bench-{dimensions}"
    metadata = (("authorization", f"Bearer {operator_key}"),)
    stub = recall_pb2_grpc.RecallServiceStub(channel)
    await stub.RegisterEmbeddingModel(
        recall_pb2.RegisterEmbeddingModelRequest(
            embedding_model=recall_pb2.EmbeddingModel(model=model, provider="caller", dimensions=dimensions)
        ),
        metadata=metadata,
    )
    # Nothing is stored yet that would lack a vector.
    await stub.SetActiveModel(recall_pb2.SetActiveModelRequest(model=model, force=True), metadata=metadata)
    # Else it would embed everything meanwhile, on one of the cores that are measured.
    for reindex in (await stub.ListReindexes(recall_pb2.ListReindexesRequest(), metadata=metadata)).reindexes:
        await stub.CancelReindex(recall_pb2.CancelReindexRequest(reindex_id=reindex.reindex_id), metadata=metadata)


async def _filled(subject: Subject, population: Population, wanted: set[int]) -> tuple[list[Member], dict[int, Block]]:
    """Write everything; return the tenants, and the entries of those that are wanted."""
    connection = await asyncpg.connect(subject.database_url)
    kept: dict[int, list[Block]] = {tenant: [] for tenant in wanted}
    try:
        members = await make_tenants(connection, len(population.sizes))
        loader = Loader(connection, members, str(await connection.fetchval(_ACTIVE_TABLE)))
        await loader.begin()
        for block in population.blocks():
            await loader.load(block)
            for tenant in wanted.intersection(block.tenants.tolist()):
                kept[tenant].append(block.of(tenant))
        await loader.end()
    finally:
        await connection.close()
    return members, {tenant: Block.joined(blocks) for tenant, blocks in kept.items()}


async def _is_searched(channel: aio.Channel, members: Sequence[Member], question: Question, dimensions: int) -> None:
    """Wait until the recall service has seen which model is active; it looks every few seconds."""
    asking = Asking(channel, members)
    async with asyncio.timeout(_ACTIVE_SECONDS):
        while True:
            try:
                await asking.ask(VECTOR, question, 0)
            except aio.AioRpcError:
                if dimensions == EMBEDDED_DIMENSIONS:
                    raise
                await asyncio.sleep(_PAUSE_SECONDS)
            else:
                return
