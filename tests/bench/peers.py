"""`make bench-peers`: prints how Skein compares with plain pgvector, Chroma, LangGraph's store, mem0 and Hindsight.

    .venv/bin/python tests/bench/peers.py                                   # 20 tenants with 5,000 entries together
    .venv/bin/python tests/bench/peers.py --tenants 100 --entries 100000

Nothing here is asserted. All of them hold the same texts with the same vectors, and embed a query with the same model:
Skein in its own process, the others in the process that asks. They take turns, so that none runs beside another.
Chroma and LangGraph come from tests/bench/peers.lock, mem0 and Hindsight from locks of their names, in environments of
their own, which the first run makes. When one of them fails, the others' figures are printed, and the command fails.

Searches are compared of Skein, pgvector, Chroma and LangGraph. Skein, mem0 and Hindsight are compared by what becomes
of one person's texts: written one by one with given vectors, found at once, found after a restart, deleted.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from skein_cluster.embedded import Server
from skein_cluster.embedded.account import Account

# The folder of the tests, so that what lies in this one has a name: `python tests/bench/peers.py` is how it is run.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import asyncpg
import click
import numpy as np
import uvloop
from bench import dialogues, lives, processes, report
from bench.household import settled
from bench.lives import After, Before
from bench.searches import DEPTH, LOADED, MODES, TEXT, VECTOR, Calls, Corpus, Engine, Row, measure
from bench.subject import ONE_PROCESS, data_folder, running
from pgvector.asyncpg import register_vector
from rich import box
from rich.table import Table

import skein_recall
from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2
from skein_client.client import Client
from skein_client.connection import Connection
from skein_cluster import embedded
from skein_cluster.api.client import open_client, read_credentials
from skein_cluster.api.tenants import create_tenant
from skein_recall.embedded_model.embedder import LocalEmbedder

_TESTS = Path(__file__).resolve().parents[1]
_EDGE = _TESTS.parent / ".edge"
_TIMEOUT = 60.0
# A large population has a long backlog.
_PENDING_SECONDS = 3600.0
_PERSON = "anna"
# What Skein embeds before a call returns, and how many of such calls are under way.
_AT_ONCE, _WRITERS = 16, 4
# Texts that are embedded at once here.
_EMBEDDED = 512
_SKEIN, _PGVECTOR, _CHROMA, _LANGGRAPH = "skein", "pgvector", "chroma", "langgraph"
_MEM0, _HINDSIGHT = "mem0", "hindsight"
# What no figure shows.
_LACKS = """\
plain pgvector (one table, one HNSW index, default settings): a filter, the tenant's too, applies after the index has \
answered. It ranks no words. Identities, tenants and limits are the caller's work.
Chroma (a collection for each tenant): it filters by metadata and by parts of the text, and ranks no words. Any caller \
may open any collection.
LangGraph (a namespace for each tenant): it filters by fields of the value, after the vector index has answered; the \
namespace is such a filter. It ranks no words. Any caller may name any namespace. It takes no vector as a query: here \
its embedder looks the vector up."""
_LIVES_LACK = """\
mem0 (Postgres, infer=False): texts are stored as they are, by no language model, and its embedder looks the vectors \
up. Any caller may name any user.
Hindsight (its own Postgres; no language model and no reranker): each text is one chunk. A search returns all hits of \
4,096 tokens, and a text is found when it is among them; Skein and mem0 return the nearest text alone."""


class PeerFailed(Exception):
    """A peer could not be installed or did not end well; the message is what it said."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Material:
    """What all are measured with."""

    corpus: Corpus
    calls: Calls
    # Holds the corpus, and what peers store.
    folder: Path
    embedder: LocalEmbedder


@click.command()
@click.option("--tenants", type=click.IntRange(min=1), default=20, show_default=True, help="Tenants of Zipf's sizes.")
@click.option("--entries", type=click.IntRange(min=1), default=5000, show_default=True, help="Of all tenants together.")
@click.option("--alone", type=click.IntRange(min=1), default=200, show_default=True, help="Searches one by one.")
@click.option("--loaded", type=click.IntRange(min=1), default=400, show_default=True, help="Searches with 8 in flight.")
@click.option("--seed", default=1, show_default=True, help="Of the texts.")
@click.option(
    "--only",
    multiple=True,
    type=click.Choice([_SKEIN, _PGVECTOR, _CHROMA, _LANGGRAPH, _MEM0, _HINDSIGHT]),
    help="This one; repeatable.",
)
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write the figures here.")
def main(
    *, tenants: int, entries: int, alone: int, loaded: int, seed: int, only: Sequence[str], json_file: Path | None
) -> None:
    """Print latencies, processor time, throughput and recall of each store, and what it does not do."""
    calls = Calls(alone=alone, loaded=loaded)
    population = dialogues.population(tenants=tenants, entries=entries, questions=calls.questions, seed=seed)
    rows: list[Row] = []
    people: dict[str, tuple[Before, After]] = {}
    failures: dict[str, str] = {}
    try:
        uvloop.run(_bench(population, calls, only or [*_STORES, _MEM0, _HINDSIGHT], (rows, people), failures))
    except KeyboardInterrupt:
        raise click.Abort from None
    finally:
        _print(rows, population)
        _print_lives(people)
        if json_file is not None:
            measured = {
                "searches": [row.as_json() for row in rows],
                "lives": {
                    name: {part.__class__.__name__.lower(): part.as_json() for part in life}
                    for name, life in people.items()
                },
            }
            json_file.write_text(json.dumps(measured, indent=2) + "\n", "utf-8")
    if failures:
        raise click.ClickException("\n".join(f"{name} failed: {reason}" for name, reason in failures.items()))


async def _bench(
    population: dialogues.Population,
    calls: Calls,
    names: Sequence[str],
    figures: tuple[list[Row], dict[str, tuple[Before, After]]],
    failures: dict[str, str],
) -> None:
    """Measure into `figures`, so that those measured before something goes wrong are not lost."""
    rows, people = figures
    out = report.console()
    out.print(
        f"Load average of the last minute: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; what else runs here "
        "makes the figures worse.",
        style="dim",
    )
    with data_folder() as folder:
        # The server of Postgres may have a user of its own, which enters this folder.
        folder.chmod(0o711)
        async with LocalEmbedder.load() as embedder:
            material = Material(
                corpus=await _embedded(population, embedder), calls=calls, folder=folder, embedder=embedder
            )
            material.corpus.save(folder)
            for name in names:
                out.print(f"{name} …", style="dim")
                # One that fails keeps no other from being measured.
                try:
                    if name in _STORES:
                        rows += await _STORES[name](material)
                    if name in _LIVES:
                        people[name] = await _LIVES[name](material)
                except Exception as error:  # noqa: BLE001 - whatever it is, it is printed.
                    failures[name] = "".join(traceback.format_exception(error)).strip()
                    out.print(f"{name} failed", style="bold red")


async def _embedded(population: dialogues.Population, embedder: LocalEmbedder) -> Corpus:
    async def vectors(texts: Sequence[str]) -> NDArray[np.float32]:
        parts = [await embedder.embed(texts[start : start + _EMBEDDED]) for start in range(0, len(texts), _EMBEDDED)]
        return np.concatenate(parts)

    return Corpus(
        population=population,
        entries=[await vectors(texts) for texts in population.tenants],
        questions=await vectors([question.text for question in population.questions]),
    )


async def _skein(material: Material) -> list[Row]:
    folder = material.folder / "skein"
    folder.mkdir(mode=0o711)
    async with AsyncExitStack() as stack:
        stack.callback(embedded.delete_data_dir, folder / "postgres")
        subject = await stack.enter_async_context(running(folder, ONE_PROCESS))
        endpoint = subject.addresses["gateway"]
        operator_key = read_credentials(folder / "credentials.json")["operator_key"]
        clients: list[Client] = []
        numbers: dict[str, int] = {}
        connection = Connection(endpoint=endpoint, api_key=operator_key, timeout=_TIMEOUT)
        operator = await stack.enter_async_context(open_client(connection))
        for tenant, texts in enumerate(material.corpus.population.tenants):
            _, api_key = await create_tenant(operator, f"tenant {tenant}")
            client = Client(endpoint=endpoint, api_key=api_key, timeout=_TIMEOUT)
            clients.append(await stack.enter_async_context(client))
            numbers |= await _remember(client, texts)
        await settled(subject, seconds=_PENDING_SECONDS)
        engine = Engine(
            name="Skein",
            searches={mode: _recalling(material.corpus, clients, numbers, mode) for mode in MODES},
            server_cpu=lambda: processes.cpu_seconds(subject.pid),
        )
        return await measure(engine, material.corpus, material.calls)


async def _remember(client: Client, texts: Sequence[str]) -> dict[str, int]:
    """Store texts as memories; return the number of each by its id."""
    numbers: dict[str, int] = {}
    starts = iter(range(0, len(texts), _AT_ONCE))

    async def writer() -> None:
        for start in starts:
            batch = [memory_pb2.Memory(content=text) for text in texts[start : start + _AT_ONCE]]
            response = await client.memories.BatchCreateMemories(
                memory_pb2.BatchCreateMemoriesRequest(memories=batch), timeout=_TIMEOUT
            )
            numbers.update((memory.memory_id, start + index) for index, memory in enumerate(response.memories))

    async with asyncio.TaskGroup() as group:
        for _ in range(_WRITERS):
            group.create_task(writer())
    return numbers


def _recalling(
    corpus: Corpus, clients: Sequence[Client], numbers: dict[str, int], mode: str
) -> Callable[[int], Awaitable[Sequence[int]]]:
    async def recall(number: int) -> Sequence[int]:
        question = corpus.population.questions[number]
        request = gateway_pb2.RecallRequest(limit=DEPTH, branches=[gateway_pb2.BRANCH_MEMORIES])
        if mode != VECTOR:
            request.query = question.text
        else:
            request.mode = recall_pb2.SEARCH_MODE_SEMANTIC
        if mode != TEXT:
            request.embedding.extend(corpus.questions[number].tolist())
        response = await clients[question.tenant].gateway.Recall(request)
        if response.incomplete:
            message = "a branch did not answer"
            raise RuntimeError(message)
        return [numbers[hit.item_id] for hit in response.hits]

    return recall


async def _pgvector(material: Material) -> list[Row]:
    corpus = material.corpus
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(_postgres(material, _PGVECTOR))
        dsn = server.dsn(database=_PGVECTOR)
        setup = await asyncpg.connect(**dsn)
        await setup.execute("CREATE EXTENSION vector")
        await setup.execute(
            "CREATE TABLE entries (tenant integer, number integer, content text, embedding vector(384))"
        )
        await register_vector(setup)
        await setup.copy_records_to_table(
            "entries",
            records=[
                (tenant, number, text, vector)
                for tenant, (texts, vectors) in enumerate(zip(corpus.population.tenants, corpus.entries, strict=True))
                for number, (text, vector) in enumerate(zip(texts, vectors, strict=True))
            ],
        )
        await setup.execute("CREATE INDEX ON entries USING hnsw (embedding vector_cosine_ops)")
        await setup.execute("CREATE INDEX ON entries (tenant)")
        await setup.execute("VACUUM (ANALYZE)")
        await setup.close()
        pool = await stack.enter_async_context(
            asyncpg.create_pool(**dsn, min_size=LOADED, max_size=LOADED, init=register_vector)
        )

        async def search(number: int, vector: NDArray[np.float32]) -> Sequence[int]:
            found = await pool.fetch(
                "SELECT number, content FROM entries WHERE tenant = $1 ORDER BY embedding <=> $2 LIMIT $3",
                corpus.population.questions[number].tenant,
                vector,
                DEPTH,
            )
            return [row["number"] for row in found]

        async def by_text(number: int) -> Sequence[int]:
            (vector,) = await material.embedder.embed([corpus.population.questions[number].text])
            return await search(number, vector)

        engine = Engine(
            name="plain pgvector",
            searches={TEXT: by_text, VECTOR: lambda number: search(number, corpus.questions[number])},
            server_cpu=lambda: processes.cpu_seconds(server.pid),
        )
        return await measure(engine, corpus, material.calls)


async def _chroma(material: Material) -> list[Row]:
    return await _peer("peer_chroma.py", material)


async def _langgraph(material: Material) -> list[Row]:
    async with _postgres(material, _LANGGRAPH) as server:
        url = server.url(user=embedded.SUPERUSER, database=_LANGGRAPH)
        return await _peer("peer_langgraph.py", material, url, str(server.pid))


# In the order in which they are measured.
_STORES = {_SKEIN: _skein, _PGVECTOR: _pgvector, _CHROMA: _chroma, _LANGGRAPH: _langgraph}


class _SkeinPerson:
    """The texts of one person in Skein."""

    def __init__(self, client: Client, corpus: Corpus) -> None:
        self._client = client
        self._texts = corpus.population.tenants[lives.TENANT]
        self._vectors = corpus.entries[lives.TENANT].tolist()

    async def write(self, number: int) -> None:
        memory = memory_pb2.Memory(
            content=self._texts[number],
            subject_id=_PERSON,
            embedding=self._vectors[number],
            metadata={"number": number},
        )
        await self._client.memories.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))

    async def search(self, number: int) -> int | None:
        request = gateway_pb2.RecallRequest(
            limit=1,
            branches=[gateway_pb2.BRANCH_MEMORIES],
            mode=recall_pb2.SEARCH_MODE_SEMANTIC,
            embedding=self._vectors[number],
            subject_id=_PERSON,
        )
        hits = (await self._client.gateway.Recall(request)).hits
        return int(str(hits[0].memory.metadata["number"]).partition(".")[0]) if hits else None

    async def delete(self) -> None:
        while (await self._client.gateway.Forget(gateway_pb2.ForgetRequest(subject_id=_PERSON))).more:
            pass


async def _life_of_skein(material: Material) -> tuple[Before, After]:
    folder = material.folder / "skein-life"
    folder.mkdir(mode=0o711)
    async with AsyncExitStack() as stack:
        stack.callback(embedded.delete_data_dir, folder / "postgres")

        async def phase(do: Callable[[lives.Store, Corpus], Awaitable[Any]]) -> Any:
            async with running(folder, ONE_PROCESS) as subject:
                connection = Client(endpoint=subject.addresses["gateway"], api_key=subject.api_key, timeout=_TIMEOUT)
                async with connection as client:
                    return await do(_SkeinPerson(client, material.corpus), material.corpus)

        return await phase(lives.write_and_search), await phase(lives.search_and_delete)


async def _life_of_mem0(material: Material) -> tuple[Before, After]:
    async with _postgres(material, _MEM0) as server:
        return await _life(_MEM0, material, server.url(user=embedded.SUPERUSER, database=_MEM0))


async def _life_of_hindsight(material: Material) -> tuple[Before, After]:
    await _python_of(_HINDSIGHT)
    # Its migrations need pg_trgm, which the Postgres that it brings has and Skein's has not.
    (pg0,) = (_EDGE / _HINDSIGHT).glob("lib/*/site-packages/pg0/bin/pg0")
    account = Account.for_server()
    home = material.folder / _HINDSIGHT
    home.mkdir(mode=0o700)
    program = Path(shutil.copy(pg0, home))
    for path in (home, program):
        account.chown(path)
    try:
        started = _run_as(account, program, "start", "--password", secrets.token_hex())
        (url,) = re.findall(r"postgresql://\S+", started)
        return await _life(_HINDSIGHT, material, url)
    finally:
        _run_as(account, program, "stop")


def _run_as(account: Account, program: Path, *arguments: str) -> str:
    """Return what a program printed that ran as a user, whose home is the program's folder. Raises PeerFailed."""
    ended = subprocess.run(
        [program, *arguments],
        user=account.user if account.switch else None,
        group=account.group if account.switch else None,
        extra_groups=[] if account.switch else None,
        cwd=program.parent,
        env={**os.environ, "HOME": str(program.parent)},
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if ended.returncode:
        raise PeerFailed(ended.stdout)
    return ended.stdout


async def _life(name: str, material: Material, url: str) -> tuple[Before, After]:
    """Run the program of a peer before and after a restart of it. Raises PeerFailed."""
    arguments = (str(material.folder), url)
    before, after = [
        json.loads((await _run_peer(name, f"peer_{name}.py", *arguments, phase)).splitlines()[-1])
        for phase in ("before", "after")
    ]
    return Before(**before), After(**after)


_LIVES = {_SKEIN: _life_of_skein, _MEM0: _life_of_mem0, _HINDSIGHT: _life_of_hindsight}


@asynccontextmanager
async def _postgres(material: Material, name: str) -> AsyncIterator[Server]:
    """Run a Postgres of the same settings as Skein's, with an empty database of this name."""
    data_dir = material.folder / name
    try:
        async with embedded.running_server(data_dir) as server:
            await embedded.create_database(server, name)
            yield server
    finally:
        embedded.delete_data_dir(data_dir)


async def _peer(program: str, material: Material, *arguments: str) -> list[Row]:
    """Search in a peer by a program of this folder. Raises PeerFailed."""
    output = await _run_peer("peers", program, str(material.folder), json.dumps(asdict(material.calls)), *arguments)
    return [Row(**row) for row in json.loads(output.splitlines()[-1])]


async def _run_peer(environment: str, program: str, *arguments: str) -> str:
    """Run a program of this folder in an environment of peers; return what it prints. Raises PeerFailed."""
    return await _output(
        await _python_of(environment),
        str(_TESTS / "bench" / program),
        *arguments,
        # The embedded model, and this folder.
        PYTHONPATH=os.pathsep.join((str(_TESTS), str(Path(skein_recall.__file__).parents[1]))),
        # mem0 reports its runs otherwise, and keeps a file in the home folder.
        MEM0_TELEMETRY="false",
        MEM0_DIR=str(_EDGE / environment / "home"),
    )


async def _python_of(environment: str) -> str:
    """Make an environment of peers, unless it is there with these versions; return its Python. Raises PeerFailed."""
    folder, lock_file = _EDGE / environment, _TESTS / "bench" / f"{environment}.lock"
    ready, python = folder / "ready", str(folder / "bin" / "python")
    lock = lock_file.read_text("utf-8")
    if not ready.exists() or ready.read_text("utf-8") != lock:
        uv = (sys.executable, "-m", "uv")
        await _output(*uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder))
        options = ("--quiet", "--no-deps", "--no-build", "--require-hashes")
        await _output(*uv, "pip", "install", *options, "--python", python, "-r", str(lock_file))
        ready.write_text(lock, "utf-8")
    return python


async def _output(*command: str, **environment: str) -> str:
    """Return what a program printed. Raises PeerFailed."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **environment},
    )
    try:
        output, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    if process.returncode:
        raise PeerFailed(errors.decode(errors="replace").strip() or f"{command[1]} ended with {process.returncode}")
    return output.decode()


def table(rows: Sequence[Row]) -> Table:
    """Lay out the rows by mode; the stores keep their order."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    made.add_column("query", no_wrap=True)
    made.add_column("store", no_wrap=True)
    for name in ("p50 ms", "p95 ms", "CPU ms", f"queries/s, {LOADED} in flight", f"recall@{DEPTH}"):
        made.add_column(name, justify="right")
    for mode in MODES:
        for row in rows:
            if row.mode == mode:
                figures = (f"{row.p50_ms:.1f}", f"{row.p95_ms:.1f}", f"{row.cpu_ms:.1f}", f"{row.per_second:,.0f}")
                made.add_row(mode, row.engine, *figures, "" if row.recall is None else f"{row.recall:.3f}")
        made.add_section()
    return made


def _print_lives(measured: Mapping[str, tuple[Before, After]]) -> None:
    if not measured:
        return
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("store", "write ms", "search ms", "found at once", "found after a restart", "delete ms", "left"):
        made.add_column(name, justify="left" if name == "store" else "right")
    for name, (before, after) in measured.items():
        times = f"{before.write_ms:.1f}", f"{before.search_ms:.1f}"
        counts = str(before.found), str(after.found)
        made.add_row(name, *times, *counts, f"{after.delete_ms:.0f}", str(after.remaining))
    out = report.console()
    out.print(f"\nUp to {lives.TEXTS} texts of one person, each written and searched for with a given vector, alone")
    out.print(made)
    out.print(_LIVES_LACK)


def _print(rows: Sequence[Row], population: dialogues.Population) -> None:
    if not rows:
        return
    out = report.console()
    sizes = [len(texts) for texts in population.tenants]
    out.print(f"\n{len(sizes)} tenants of {max(sizes):,} to {min(sizes):,} entries, {sum(sizes):,} together")
    out.print(table(rows))
    out.print(_LACKS)
    out.print(
        f"\nOn {os.cpu_count()} cores, which the caller shares. p50 and p95 are of one query at a time. CPU is the "
        f"processor time of a query with {LOADED} in flight: of all processes, the caller and Postgres included. "
        "Questions go to tenants by their size, and none is asked twice. text: the question is embedded, and Skein "
        "searches its words too. vector: a vector alone, Skein's semantic mode. hybrid: a text with its vector, which "
        "Skein alone takes.",
        style="dim",
    )


if __name__ == "__main__":
    main()
