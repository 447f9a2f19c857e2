"""What Recall costs in a tenant of any size, and what it finds: latency, processor time, memory, and recall.

    .venv/bin/python tests/bench/vectors.py                                # 1,000 to 1,000,000 entries
    .venv/bin/python tests/bench/vectors.py --large                        # 5,000,000 as well: much disk and time
    .venv/bin/python tests/bench/vectors.py --json deploy/vectors.json
    .venv/bin/python tests/bench/plot.py deploy/vectors.json deploy/vectors.svg

Nothing here is asserted. The tenants are filled past the services. Their vectors are mixtures of those of texts, with
noise; questions are vectors of other texts. The cluster runs in one process beside its Postgres, which share the cores
with the caller; processor time is that of the cluster and Postgres.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from uuid import UUID

from bench.subject import Subject
from numpy.typing import NDArray

# The folder of the tests, so that what lies in this one has a name: it is run as a program.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import click
import numpy as np
import uvloop
from bench import dialogues, processes, report
from bench.large_tenants import FEW, SHARES, SOME, LargeTenant
from bench.load import Limits, measured
from bench.subject import ONE_PROCESS, data_folder, running
from rich import box
from rich.table import Table

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2
from skein_client.client import Client
from skein_client.connection import Connection
from skein_cluster.api.client import open_client, read_credentials
from skein_cluster.api.tenants import create_tenant
from skein_recall.embedded_model.embedder import LocalEmbedder

_SIZES, _LARGE = (1000, 10_000, 100_000, 1_000_000), 5_000_000
_TEXTS, _QUESTIONS, _DEPTH = 1500, 250, 10
_TIMEOUT = 60.0
# Time that the vector cache has to load a tenant, and searches that warm up each kind.
_LOAD_SECONDS, _WARM_UP = 900.0, 10
_CREATED, _BATCH = 25, 16
_MEBIBYTE = 1024 * 1024
_HYBRID = "hybrid"
# Kinds of searches, and the types that they ask for.
_KINDS = {"vector": "", "1.6 % pass": SOME, "0.1 % pass": FEW, _HYBRID: ""}


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """What was measured of one kind of search in a tenant of one size."""

    entries: int
    kind: str
    path: str
    p50_ms: float
    p95_ms: float
    # Processor time of the cluster and Postgres for one search, and theirs for one created memory.
    cpu_ms: float
    create_cpu_ms: float
    created_per_second: float
    # Of the exact first ten, among those that pass; hybrid has no exact order.
    recall: float | None
    # Seconds from the first search to the first one by the vector cache, and memory of the process.
    load_seconds: float
    resident_megabytes: float


@click.command()
@click.option("--large", is_flag=True, help=f"Measure a tenant of {_LARGE:,} entries too.")
@click.option("--entries", multiple=True, type=click.IntRange(min=100), help="Of a tenant; repeatable.")
@click.option("--searches", type=click.IntRange(min=1), default=100, show_default=True, help="Of each kind.")
@click.option("--megabytes", default=1024, show_default=True, help="SKEIN_RECALL_CACHE_MEGABYTES.")
@click.option("--exact-chunks", default=250_000, show_default=True, help="SKEIN_ADVANCED_RECALL_CACHE_EXACT_CHUNKS.")
@click.option("--random", is_flag=True, help="Vectors without any meaning.")
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write the figures here.")
def main(
    *,
    large: bool,
    entries: Sequence[int],
    searches: int,
    megabytes: int,
    exact_chunks: int,
    random: bool,
    json_file: Path | None,
) -> None:
    """Print latency, processor time, memory and recall by the size of a tenant."""
    sizes = list(entries) or [*_SIZES, *([_LARGE] if large else [])]
    settings = {
        "SKEIN_RECALL_CACHE_MEGABYTES": str(megabytes),
        "SKEIN_ADVANCED_RECALL_CACHE_EXACT_CHUNKS": str(exact_chunks),
    }
    rows: list[Row] = []
    try:
        uvloop.run(_bench(sizes, searches, settings, rows, random=random))
    finally:
        _print(rows)
        if json_file is not None:
            json_file.write_text(json.dumps({"vectors": [asdict(row) for row in rows]}, indent=2) + "\n", "utf-8")


async def _bench(
    sizes: Sequence[int], searches: int, settings: dict[str, str], rows: list[Row], *, random: bool
) -> None:
    """Measure into `rows`, so that those measured before something goes wrong are not lost."""
    out = report.console()
    texts, questions = await _embedded()
    with data_folder() as folder:
        # The server of Postgres may have a user of its own, which enters this folder.
        folder.chmod(0o711)
        async with running(folder, ONE_PROCESS, **settings) as subject:
            operator_key = read_credentials(folder / "credentials.json")["operator_key"]
            connection = Connection(endpoint=subject.addresses["gateway"], api_key=operator_key, timeout=_TIMEOUT)
            async with open_client(connection) as operator:
                for size in sizes:
                    tenant_id, api_key = await create_tenant(operator, f"tenant of {size}")
                    file = folder / "vectors.npy"
                    made = LargeTenant.make(UUID(tenant_id), size, None if random else texts, file)
                    seconds = await made.fill(subject.database_url)
                    out.print(f"{size:,} entries were written in {seconds:.0f} s", style="dim")
                    async with Client(
                        endpoint=subject.addresses["gateway"], api_key=api_key, timeout=_TIMEOUT
                    ) as client:
                        rows += await _measure(subject, client, made, questions, searches)
                    file.unlink()


async def _embedded() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return vectors of texts and of questions about them."""
    population = dialogues.population(tenants=1, entries=_TEXTS, questions=_QUESTIONS, seed=1)
    async with LocalEmbedder.load() as embedder:
        parts = [await embedder.embed(population.tenants[0][start : start + 256]) for start in range(0, _TEXTS, 256)]
        return np.concatenate(parts), await embedder.embed([question.text for question in population.questions])


async def _measure(
    subject: Subject, client: Client, tenant: LargeTenant, questions: NDArray[np.float32], searches: int
) -> list[Row]:
    load_seconds = await _until_cached(client, questions)
    numbers = itertools.count()
    pace = await measured(
        lambda number: _create(client, questions, number),
        numbers,
        in_flight=2,
        limits=Limits(calls=_CREATED, seconds=_TIMEOUT),
        server_cpu=lambda: processes.cpu_seconds(subject.pid),
    )
    rows = []
    for kind in _KINDS:
        search = _Searches(client, tenant, questions, kind)
        limits = Limits(calls=_WARM_UP, seconds=_TIMEOUT)
        await measured(search.run, numbers, in_flight=1, limits=limits, server_cpu=lambda: 0.0)
        search.found.clear()
        search.paths.clear()
        figures = await measured(
            search.run,
            numbers,
            in_flight=1,
            limits=Limits(calls=searches, seconds=10 * _TIMEOUT),
            server_cpu=lambda: processes.cpu_seconds(subject.pid),
        )
        count = len(figures.latencies)
        process = processes.Process.of(subject.pid)
        rows.append(
            Row(
                entries=len(tenant.ids),
                kind=kind,
                path=", ".join(sorted(search.paths)),
                p50_ms=figures.p50,
                p95_ms=figures.p95,
                cpu_ms=1000 * figures.server_cpu / count,
                create_cpu_ms=1000 * pace.server_cpu / (_CREATED * _BATCH),
                created_per_second=_CREATED * _BATCH / pace.seconds,
                recall=None if kind == _HYBRID else search.recall(),
                load_seconds=load_seconds,
                resident_megabytes=0.0 if process is None else process.resident_bytes / _MEBIBYTE,
            )
        )
    return rows


class _Searches:
    """Searches of one kind in a tenant, with what they found."""

    def __init__(self, client: Client, tenant: LargeTenant, questions: NDArray[np.float32], kind: str) -> None:
        self._client = client
        self._tenant = tenant
        self._questions = questions
        self._kind = kind
        # The ids of the hits, by the number of the question.
        self.found: dict[int, set[str]] = {}
        self.paths: set[str] = set()

    async def run(self, number: int) -> None:
        """Ask a question."""
        at = number % len(self._questions)
        text = self._tenant.question(number) if self._kind == _HYBRID else ""
        response = await _recall(self._client, self._questions[at], text, _KINDS[self._kind])
        self.paths.add(response.dense_path)
        self.found[at] = {hit.item_id for hit in response.hits}

    def recall(self) -> float:
        """Return the mean share of the exact neighbours that were found."""
        rounded = self._questions[list(self.found)].astype(np.float16).astype(np.float32)
        exact = self._tenant.nearest(rounded, _DEPTH, _KINDS[self._kind])
        shares = [len(ids & each) / max(1, len(each)) for ids, each in zip(self.found.values(), exact, strict=True)]
        return float(np.mean(shares))


async def _until_cached(client: Client, questions: NDArray[np.float32]) -> float:
    """Search until the vector cache answers, or for some time; return the seconds."""
    started = time.perf_counter()
    limit = time.perf_counter() + _LOAD_SECONDS
    pause = 0.05
    while (await _recall(client, questions[0], "", "")).dense_path not in ("cached", "approximate"):
        if time.perf_counter() > limit:
            break
        await asyncio.sleep(pause)
        pause = min(5.0, 2 * pause)
    return time.perf_counter() - started


async def _recall(client: Client, vector: NDArray[np.float32], text: str, type_: str) -> gateway_pb2.RecallResponse:
    request = gateway_pb2.RecallRequest(limit=_DEPTH, branches=[gateway_pb2.BRANCH_MEMORIES], embedding=vector.tolist())
    if text:
        request.query = text
    else:
        request.mode = recall_pb2.SEARCH_MODE_SEMANTIC
    if type_:
        request.filter.CopyFrom(memory_pb2.MemoryFilter(types=[type_]))
    response: gateway_pb2.RecallResponse = await client.gateway.Recall(request)
    return response


async def _create(client: Client, questions: NDArray[np.float32], number: int) -> None:
    """Store memories that no question finds: the exact neighbours stay what they are."""
    vector = (-questions[number % len(questions)]).tolist()
    memories = [
        memory_pb2.Memory(content=f"Entry {number}-{place} came later.", embedding=vector) for place in range(_BATCH)
    ]
    await client.memories.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=memories))


def _print(rows: Sequence[Row]) -> None:
    if not rows:
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("entries", "search", "path"):
        table.add_column(name, no_wrap=True)
    for name in ("p50 ms", "p95 ms", "CPU ms", f"recall@{_DEPTH}", "loaded in s", "resident MB", "CPU ms a memory"):
        table.add_column(name, justify="right")
    for row in rows:
        share = "" if row.recall is None else f"{row.recall:.3f}"
        figures = (f"{row.p50_ms:.1f}", f"{row.p95_ms:.1f}", f"{row.cpu_ms:.1f}", share, f"{row.load_seconds:.0f}")
        memory = (f"{row.resident_megabytes:.0f}", f"{row.create_cpu_ms:.1f}")
        table.add_row(f"{row.entries:,}", row.kind, row.path, *figures, *memory)
    report.console().print(table)
    shares = " and ".join(f"{100 * share:g} %" for share in SHARES.values())
    report.console().print(f"One search at a time. Of all entries, {shares} pass the filters.", style="dim")


if __name__ == "__main__":
    main()
