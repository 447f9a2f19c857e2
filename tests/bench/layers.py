"""What a recall or a write costs, layer by layer: tables of docs/internals/recall.md and deploy/capacity.md.

    .venv/bin/python tests/bench/layers.py                                  # 20 tenants with 20,000 entries together
    .venv/bin/python tests/bench/layers.py --folder FOLDER                  # keeps the data there, and uses it again
    .venv/bin/python tests/bench/layers.py --tenants 1 --versions 5         # as of a former time
    .venv/bin/python tests/bench/layers.py --only create --only append      # writes

Nothing here is asserted. The cluster runs in this process, and a process of its own calls it. What counts is processor
time, of one call at a time. Each step of a coroutine counts for the innermost layer that it is in; a step that no
layer knows is gRPC's, the event loop's or the driver's protocol. The embedder computes in threads of its own. The
processor time of Postgres is that of the backend that runs a statement, as the kernel counts it. Former versions of
entries are written past the services, which write one in a statement of its own.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import statistics
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from skein_cluster.processes.single_process import LocalCluster

# The folder of the tests, so that what lies in this one has a name: `python tests/bench/layers.py` is how it is run.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import asyncpg
import click
import uvloop
from bench import dialogues, report
from bench.former_versions import add_former_versions
from bench.subject import data_folder
from rich import box
from rich.table import Table

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2
from skein_client.client import Client
from skein_client.connection import Connection
from skein_cluster.api.client import open_client
from skein_cluster.api.tenants import create_tenant
from skein_cluster.processes.ports import free_ports
from skein_cluster.processes.single_process import single_process_cluster
from skein_cluster.registry import OTHER_PORTS, PORTS
from skein_kit.access_log.writer import AccessLog
from skein_kit.content_guard.guard import ContentGuard
from skein_kit.database import transactions
from skein_kit.database.transactions import Transaction
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.policies.store import PolicyCache
from skein_kit.quotas.store import QuotaCounter
from skein_kit.rpc import interceptors
from skein_kit.search_text import postings
from skein_kit.search_text.embedding_requests import EmbeddingClient
from skein_memory.memories import convert as memory_convert
from skein_memory.memories import writes
from skein_recall.embedded_model.embedder import LocalEmbedder
from skein_recall.index.vector_store import VectorStore
from skein_recall.providers.text_embedder import TextEmbedder
from skein_recall.search import convert
from skein_recall.search.nearest import NearestSearch
from skein_recall.search.rpc import SearchHandlers
from skein_recall.search.search_transaction import SearchTransaction
from skein_recall.search.searcher import QueryReader, RecallSearcher
from skein_recall.search.store import QueryTransaction
from skein_recall.vector_cache.cache import VectorCache
from skein_session.messages.store import MessageStore

_HOST = "127.0.0.1"
_TIMEOUT = 120.0
_BATCH = 50
_TURNS_OF_A_SESSION = 20
TEXT, HYBRID, VECTOR = RECALLS = "text", "hybrid", "vector"
# CreateMemory with its vector before the reply and after it, BatchCreateMemories, AppendMessages of two messages, and
# Remember of a message and a memory.
CREATE, DEFERRED, BATCH, APPEND, REMEMBER = WRITES = "create", "deferred", "batch", "append", "remember"
# The rest of the main thread's time, and that of all other threads.
_LOOP, _THREADS = "gRPC, event loop, driver's protocol", "embedder's threads"
_UNLIMITED = dict.fromkeys(
    ("SKEIN_TENANT_REQUESTS_PER_SECOND",),
    "1000000",
) | {"SKEIN_ADVANCED_SCAN_MEBIBYTES_PER_SECOND": "0"}
# Classes or modules, names of their functions, and the layer of these.
_LAYERS: tuple[tuple[object, tuple[str, ...], str], ...] = (
    (TextEmbedder, ("embed_query",), "embedding of the query"),
    (TextEmbedder, ("embed_items",), "embedding of items"),
    (EmbeddingClient, ("request_embeddings",), "request for vectors"),
    (VectorStore, ("put",), "vectors"),
    (ContentGuard, ("rules", "apply"), "content guard"),
    (PolicyCache, ("get",), "policy"),
    (IdempotencyStore, ("claim", "save", "replace"), "duplicate test and saved response"),
    (QuotaCounter, ("charge",), "quota"),
    (memory_convert, ("drafts", "memory"), "protobuf of memory"),
    (writes, ("insert_memories", "score_new_memories"), "memories"),
    (MessageStore, ("append_messages",), "messages"),
    (postings, ("new_documents",), "words and documents"),
    (QueryReader, ("read",), "names and known words"),
    (VectorCache, ("shortlist", "accept_rows"), "vectors"),
    (NearestSearch, ("find",), "vectors"),
    (SearchTransaction, ("_similarities",), "vectors"),
    (QueryTransaction, ("terms", "match_terms"), "words"),
    (QueryTransaction, ("measure",), "neighbours and measurements"),
    (SearchTransaction, ("_read_hits",), "items"),
    (SearchTransaction, ("_rank", "with_relevance"), "ranking"),
    (convert, ("recall_query", "response"), "protobuf of recall"),
    (RecallSearcher, ("recall",), "rest of the search"),
    (SearchHandlers, ("Recall",), "rest of the search"),
    (AccessLog, ("call_and_record", "flush"), "access log"),
    (Transaction, ("rows", "row", "execute", "insert", "insert_all", "set_plan_mode"), "driver: statements"),
    (transactions._TransactionContext, ("__aenter__", "__aexit__"), "driver: begin and commit"),
)


# The clients' names of the services of methods, and the modules of their requests.
_SERVICES: Mapping[str, tuple[str, Any]] = {
    "Recall": ("gateway", gateway_pb2),
    "Remember": ("gateway", gateway_pb2),
    "CreateMemory": ("memories", memory_pb2),
    "BatchCreateMemories": ("memories", memory_pb2),
    "AppendMessages": ("sessions", session_pb2),
}


@dataclass(slots=True)
class Clock:
    """The processor time of the main thread, by layer, in nanoseconds."""

    totals: Counter[str] = field(default_factory=Counter)
    _layers: list[str] = field(default_factory=list)
    _last: int = 0

    def enter(self, layer: str) -> None:
        """Count what follows for a layer."""
        at = time.thread_time_ns()
        if self._layers:
            self.totals[self._layers[-1]] += at - self._last
        self._layers.append(layer)
        self._last = at

    def leave(self) -> None:
        """Count what follows for the layer before."""
        at = time.thread_time_ns()
        self.totals[self._layers.pop()] += at - self._last
        self._last = at


class _TimedCoroutine(Coroutine[Any, Any, Any]):
    """A coroutine whose steps count for a layer."""

    def __init__(self, inner: Coroutine[Any, Any, Any], clock: Clock, layer: str) -> None:
        self._inner = inner
        self._clock = clock
        self._layer = layer

    def send(self, value: Any) -> Any:
        self._clock.enter(self._layer)
        try:
            return self._inner.send(value)
        finally:
            self._clock.leave()

    def throw(self, *error: Any) -> Any:
        self._clock.enter(self._layer)
        try:
            return self._inner.throw(*error)
        finally:
            self._clock.leave()

    def close(self) -> None:
        self._inner.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self  # type: ignore[return-value]  # It has send, throw and close.

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self.send(None)


def _timed(function: Callable[..., Any], clock: Clock, layer: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def run(*arguments: Any, **keywords: Any) -> Any:
        clock.enter(layer)
        try:
            result = function(*arguments, **keywords)
        finally:
            clock.leave()
        return _TimedCoroutine(result, clock, layer) if isinstance(result, Coroutine) else result

    return run


def _instrument(clock: Clock) -> None:
    """Count the steps of the layers' functions from now on, before the cluster starts."""
    for owner, names, layer in _LAYERS:
        for name in names:
            setattr(owner, name, _timed(getattr(owner, name), clock, layer))
    wrap = interceptors.InterceptorChain.wrap

    def wrap_timed(chain: interceptors.InterceptorChain, method: interceptors.Method) -> interceptors.Handler:
        service = method.service.split(".")[1]
        handler = _timed(method.handler, clock, f"handlers of {service}")
        return _timed(wrap(chain, replace(method, handler=handler)), clock, f"interceptors of {service}")

    setattr(interceptors.InterceptorChain, "wrap", wrap_timed)  # noqa: B010 - mypy takes no function for a method.


@dataclass(slots=True)
class StatementClock:
    """The processor time of Postgres, by statement, in nanoseconds."""

    totals: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    is_on: bool = False

    def instrument(self) -> None:
        """Ask the kernel before and after each statement."""
        fetch, execute = asyncpg.Connection.fetch, asyncpg.Connection.execute
        fetchrow = asyncpg.Connection.fetchrow

        def measured(inner: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(inner)
            async def run(connection: Any, text: str, *arguments: Any, **keywords: Any) -> Any:
                if not self.is_on:
                    return await inner(connection, text, *arguments, **keywords)
                path = f"/proc/{connection.get_server_pid()}/schedstat"
                before = _on_core(path)
                try:
                    return await inner(connection, text, *arguments, **keywords)
                finally:
                    name = _statement_name(text)
                    self.totals[name] += _on_core(path) - before
                    self.counts[name] += 1

            return run

        asyncpg.Connection.fetch = measured(fetch)  # type: ignore[method-assign]  # They are what is measured.
        asyncpg.Connection.fetchrow = measured(fetchrow)  # type: ignore[method-assign]
        asyncpg.Connection.execute = measured(execute)  # type: ignore[method-assign]


def _statement_name(text: str) -> str:
    """Return the name in the comment that a named query begins with; of another statement its first word."""
    first, _, rest = text.partition(" ")
    return rest.partition(" ")[0] if first == "/*" else first


def _on_core(path: str) -> int:
    return int(Path(path).read_text("utf-8").split()[0])


@click.command()
@click.option("--tenants", type=click.IntRange(min=1), default=20, show_default=True, help="Tenants of Zipf's sizes.")
@click.option("--entries", type=click.IntRange(min=1), default=20_000, show_default=True, help="Of all together.")
@click.option("--messages", is_flag=True, help="Store the entries as messages of sessions instead of memories.")
@click.option(
    "--queries", type=click.IntRange(min=10), default=300, show_default=True, help="Of each kind, in each phase."
)
@click.option(
    "--only",
    multiple=True,
    type=click.Choice([*RECALLS, *WRITES]),
    default=RECALLS,
    help="Repeatable.",
)
@click.option("--seed", default=1, show_default=True, help="Of the texts.")
@click.option("--folder", type=click.Path(path_type=Path, file_okay=False), help="Keep the data here.")
@click.option(
    "--versions",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Of each memory; of more, ask for the middle one.",
)
@click.option("--brief", is_flag=True, help="Print the sums alone, without the clocks' own cost.")
def main(  # noqa: PLR0913 - click passes each option.
    *,
    tenants: int,
    entries: int,
    messages: bool,
    queries: int,
    only: Sequence[str],
    seed: int,
    folder: Path | None,
    versions: int,
    brief: bool,
) -> None:
    """Print the processor time of a recall or a write by layer and by statement, in milliseconds."""
    population = dialogues.population(tenants=tenants, entries=entries, questions=3 * queries, seed=seed)
    if folder is None:
        with data_folder() as temporary:
            temporary.chmod(0o711)
            uvloop.run(_bench(temporary, population, only, messages=messages, versions=versions, brief=brief))
    else:
        folder.mkdir(mode=0o711, exist_ok=True, parents=True)
        uvloop.run(_bench(folder, population, only, messages=messages, versions=versions, brief=brief))


async def _bench(
    folder: Path,
    population: dialogues.Population,
    kinds: Sequence[str],
    *,
    messages: bool,
    versions: int,
    brief: bool,
) -> None:
    clock, statements = Clock(), StatementClock()
    if not brief:
        _instrument(clock)
        statements.instrument()
    async with _cluster(folder) as cluster:
        keys = await _stored(cluster, folder, population, messages=messages)
        known_time = (
            await add_former_versions(cluster.postgres.url(user="postgres", database="skein"), versions)
            if versions > 1
            else None
        )
        vectors: list[list[float]] = []
        if set(kinds) & {HYBRID, VECTOR}:
            async with LocalEmbedder.load() as embedder:
                embedded = await embedder.embed([question.text for question in population.questions])
                vectors = embedded.tolist()
        async with _caller(cluster.addresses["gateway"], keys) as ask:
            for kind in kinds:
                if kind in WRITES:
                    asked = _writes(kind, len(population.tenants), len(population.questions))
                else:
                    asked = [
                        _request(kind, question, vectors[number] if vectors else [], known_time)
                        for number, question in enumerate(population.questions)
                    ]
                count = len(asked) // 3
                # The first calls load the caches.
                await ask(asked[:count])
                await asyncio.sleep(2.0)
                if kind in RECALLS:
                    await ask(asked[:count:3])
                with _measured(clock, cluster.postgres.pid) as costs:
                    seconds = await ask(asked[count : 2 * count])
                if not brief:
                    statements.is_on = True
                    await ask(asked[2 * count :])
                    statements.is_on = False
                _print(kind, seconds, costs, statements)


@asynccontextmanager
async def _cluster(folder: Path) -> AsyncIterator[LocalCluster]:
    names = [f"SKEIN_{name.upper()}_PORT" for name in PORTS]
    with free_ports([*names, *OTHER_PORTS], _HOST) as ports:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("SKEIN_")}
        environment = {
            **inherited,
            **_UNLIMITED,
            **ports,
            "SKEIN_PC2_BASE_PORT": "0",
            "SKEIN_CANARY_SECONDS": "0",
            "SKEIN_LOG_LEVEL": "error",
            "SKEIN_DATA_DIR": str(folder),
        }
        async with single_process_cluster(folder, environment=environment, durable=False) as cluster:
            yield cluster


async def _stored(
    cluster: LocalCluster, folder: Path, population: dialogues.Population, *, messages: bool
) -> list[str]:
    """Store the texts, unless the folder has them, and return a key of each tenant."""
    file = folder / "keys.json"
    if file.exists():
        keys: list[str] = json.loads(file.read_text("utf-8"))
        return keys
    keys = []
    endpoint = cluster.addresses["gateway"]
    operator_connection = Connection(endpoint=endpoint, api_key=cluster.credentials.operator_key, timeout=_TIMEOUT)
    async with open_client(operator_connection) as operator:
        for tenant, texts in enumerate(population.tenants):
            _, key = await create_tenant(operator, f"tenant {tenant}")
            keys.append(key)
            async with Client(endpoint=endpoint, api_key=key, timeout=_TIMEOUT) as client:
                for start in range(0, len(texts), _BATCH):
                    await _store(client, texts[start : start + _BATCH], f"session {start}", messages=messages)
    connection = await asyncpg.connect(cluster.postgres.url(user="postgres", database="skein"))
    while await connection.fetchval("SELECT count(*) FROM recall.documents WHERE pending"):
        await asyncio.sleep(1.0)
    await connection.execute("VACUUM (ANALYZE)")
    await connection.close()
    file.write_text(json.dumps(keys), "utf-8")
    return keys


async def _store(client: Client, texts: Sequence[str], session_id: str, *, messages: bool) -> None:
    if not messages:
        batch = [memory_pb2.Memory(content=text) for text in texts]
        await client.memories.BatchCreateMemories(
            memory_pb2.BatchCreateMemoriesRequest(memories=batch), timeout=_TIMEOUT
        )
        return
    for start in range(0, len(texts), _TURNS_OF_A_SESSION):
        turns = [
            session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=text)
            for text in texts[start : start + _TURNS_OF_A_SESSION]
        ]
        await client.sessions.AppendMessages(
            session_pb2.AppendMessagesRequest(session_id=f"{session_id} {start}", create_session=True, messages=turns),
            timeout=_TIMEOUT,
        )


def _writes(kind: str, tenants: int, count: int) -> list[tuple[int, str, bytes]]:
    """Return a number of writes of new texts; of batches a tenth."""
    size = _BATCH if kind == BATCH else 2
    if kind == BATCH:
        count //= 10
    texts = [
        text
        for turns in dialogues.population(
            tenants=tenants, entries=count * size, questions=0, seed=uuid.uuid4().int
        ).tenants
        for text in turns
    ]
    return [
        (number % tenants, *_write(kind, number // (10 * tenants), texts[number * size : (number + 1) * size]))
        for number in range(len(texts) // size)
    ]


def _write(kind: str, session: int, texts: Sequence[str]) -> tuple[str, bytes]:
    memories = [memory_pb2.Memory(content=text) for text in texts]
    turns = [session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=text) for text in texts]
    request_id, session_id = str(uuid.uuid4()), f"written {session}"
    request: Any
    if kind == BATCH:
        request = memory_pb2.BatchCreateMemoriesRequest(memories=memories, request_id=request_id)
    elif kind == APPEND:
        request = session_pb2.AppendMessagesRequest(
            session_id=session_id, create_session=True, messages=turns, request_id=request_id
        )
    elif kind == REMEMBER:
        request = gateway_pb2.RememberRequest(
            session_id=session_id, messages=turns[:1], memories=memories[1:], request_id=request_id
        )
    else:
        request = memory_pb2.CreateMemoryRequest(
            memory=memories[0], request_id=request_id, defer_embedding=kind == DEFERRED
        )
    return type(request).__name__.removesuffix("Request"), request.SerializeToString()


def _request(
    kind: str, question: dialogues.Question, vector: list[float], as_of_time: datetime | None
) -> tuple[int, str, bytes]:
    request = gateway_pb2.RecallRequest(query=question.text if kind != VECTOR else "")
    if as_of_time is not None:
        request.as_of_time.FromDatetime(as_of_time)
    if kind != TEXT:
        request.embedding.extend(vector)
    if kind == VECTOR:
        request.mode = recall_pb2.SEARCH_MODE_SEMANTIC
    return question.tenant, "Recall", request.SerializeToString()


@asynccontextmanager
async def _caller(endpoint: str, keys: Sequence[str]) -> AsyncIterator[Callable[..., Any]]:
    """Call from a process of its own, which this one tells what to ask."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        __file__,
        "--ask-for-parent",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps([endpoint, list(keys)]).encode() + b"\n")

    async def ask(requests: Sequence[tuple[int, str, bytes]]) -> list[float]:
        assert process.stdin is not None
        assert process.stdout is not None
        lines = [(tenant, method, request.hex()) for tenant, method, request in requests]
        process.stdin.write(json.dumps(lines).encode() + b"\n")
        seconds: list[float] = json.loads(await process.stdout.readline())
        return seconds

    try:
        yield ask
    finally:
        process.stdin.close()
        await process.wait()


async def _ask_for_parent() -> None:
    """Call what each line of the standard input says, one call at a time, and print the seconds of each line's."""
    endpoint, keys = json.loads(sys.stdin.readline())
    clients: dict[int, Client] = {}
    for line in sys.stdin:
        seconds = []
        for tenant, method, text in json.loads(line):
            if tenant not in clients:
                clients[tenant] = await Client(endpoint=endpoint, api_key=keys[tenant], timeout=_TIMEOUT).__aenter__()
            service, module = _SERVICES[method]
            request = getattr(module, f"{method}Request").FromString(bytes.fromhex(text))
            call = getattr(getattr(clients[tenant], service), method)
            start = time.perf_counter()
            response = await call(request)
            seconds.append(time.perf_counter() - start)
            if method == "Recall" and response.incomplete:
                sys.exit("a branch did not answer")
        sys.stdout.write(json.dumps(seconds) + "\n")
        sys.stdout.flush()


@dataclass(slots=True)
class _Costs:
    """Processor time in seconds."""

    layers: dict[str, float] = field(default_factory=dict)
    postgres: float = 0.0


@contextmanager
def _measured(clock: Clock, postgres_pid: int) -> Iterator[_Costs]:
    costs = _Costs()
    assert threading.current_thread() is threading.main_thread()
    totals, main, process = Counter(clock.totals), time.thread_time(), time.process_time()
    postgres = _postgres_seconds(postgres_pid)
    yield costs
    costs.postgres = _postgres_seconds(postgres_pid) - postgres
    main, process = time.thread_time() - main, time.process_time() - process
    costs.layers = {layer: (total - totals[layer]) / 1e9 for layer, total in clock.totals.items()}
    costs.layers[_LOOP] = main - sum(costs.layers.values())
    costs.layers[_THREADS] = process - main


def _postgres_seconds(pid: int) -> float:
    """Return the processor time of the server and its present children."""
    children = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and _parent(entry) == pid]
    return sum(_on_core(f"/proc/{each}/schedstat") for each in (pid, *children)) / 1e9


def _parent(entry: Path) -> int:
    try:
        return int((entry / "stat").read_text("utf-8").rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _print(kind: str, seconds: Sequence[float], costs: _Costs, statements: StatementClock) -> None:
    count = len(seconds) * (_BATCH if kind == BATCH else 1)
    services = sum(costs.layers.values())
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(f"{kind}: layer{', of each memory' if kind == BATCH else ''}", no_wrap=True)
    table.add_column("ms", justify="right")
    quantiles = statistics.quantiles(seconds, n=20)
    table.add_row("until the answer, p50", f"{quantiles[9] * 1e3:.2f}")
    table.add_row("until the answer, p95", f"{quantiles[18] * 1e3:.2f}")
    table.add_row("all", f"{(services + costs.postgres) / count * 1e3:.2f}")
    table.add_row("services", f"{services / count * 1e3:.2f}")
    for layer, used in sorted(costs.layers.items(), key=lambda item: -item[1]):
        if used / count * 1e3 >= 0.005:
            table.add_row(f"  {layer}", f"{used / count * 1e3:.2f}")
    table.add_row("Postgres", f"{costs.postgres / count * 1e3:.2f}")
    for name, nanoseconds in statements.totals.most_common():
        table.add_row(f"  {name} ({statements.counts[name] / count:.2f} times)", f"{nanoseconds / count / 1e6:.2f}")
    statements.totals.clear()
    statements.counts.clear()
    report.console().print(table)


if __name__ == "__main__":
    if sys.argv[1:] == ["--ask-for-parent"]:
        uvloop.run(_ask_for_parent())
    else:
        main()
