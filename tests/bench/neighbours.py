"""`python tests/bench/neighbours.py`: prints how one tenant's heavy calls slow another tenant's recalls.

Nothing here is asserted. The cluster is one process with the settings that it has unless it is told otherwise. One
tenant recalls again and again, one call at a time; another makes heavy calls, eight at a time, from a process of its
own. Each is measured alone and beside the other, in turns, so that what else runs on the machine is fair to both. A
heavy call that is refused is repeated after the pause of its RetryInfo, as clients do.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import json
import multiprocessing
import os
import random
import secrets
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.subject import Subject
from google.protobuf.message import Message

# The folder of the tests, so that what lies in this one has a name: `python tests/bench/neighbours.py` runs it.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import click
import httpx
import uvloop
from bench import report
from bench.figures import percentile
from bench.household import settled
from bench.subject import ONE_PROCESS, DidNotStart, data_folder, running
from bench.ways import Material
from fix_settings import FIELDS
from google.protobuf import json_format
from google.protobuf.struct_pb2 import Struct
from google.rpc import error_details_pb2
from grpc import aio
from grpc_status import rpc_status
from rich import box
from rich.table import Table

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein_client.client import Client
from skein_client.connection import Connection
from skein_client.errors import SkeinError
from skein_cluster.api.client import open_client, read_credentials
from skein_cluster.api.tenants import create_tenant

GRPC, HTTP = "gRPC", "HTTP/JSON"
_MEMORIES_API, _LINKS_API = "/skein.memory.v1.MemoryService/", "/skein.memory.v1.LinkService/"
_AT_ONCE = 8
_TIMEOUT = 120.0
# No call of a step begins later, so that a busy machine has a table, too.
_MAX_STEP_SECONDS = 60.0
_MEMORIES = 200
# Before a repetition when the refusal names no time.
_UNTOLD_PAUSE_SECONDS = 0.2
# Seconds between two recalls: an agent thinks.
_PAUSE_SECONDS = 0.02
_LONG, _LARGE = 3_000, 99_000
_LISTED, _DENSE, _WIDE = 1_000, 140, 200
_BATCH, _KEYS = 20, 8_000
# An ordinary batch, which fairness must not slow.
_ORDINARY = 20
_RATE_LIMITS = ("SKEIN_TENANT_REQUESTS_PER_SECOND",)


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """One kind of heavy call."""

    name: str
    # Its path.
    method: str
    # Returns the message of a call by its number.
    request: Callable[[Stored, int], Message]
    ports: tuple[str, ...] = (GRPC, HTTP)


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """What the heavy tenant has stored, by id."""

    # The centre of a star of long memories, and one of memories that are all linked with each other.
    hub_id: str
    dense_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """Where the heavy calls go; it passes to another process."""

    load: str
    port: str
    endpoint: str
    http: str
    api_key: str
    stored: Stored


@dataclass(kw_only=True, slots=True)
class Work:
    """What the heavy caller did."""

    calls: int = 0
    seconds: float = 0.0
    refusals: int = 0
    # Refusals without a time for the repetition, and other errors by name.
    errors: Counter[str] = field(default_factory=Counter)


@dataclass(kw_only=True, slots=True)
class Row:
    """Both callers alone and beside each other, all rounds together."""

    load: str
    port: str
    other_alone: list[float] = field(default_factory=list)
    other_beside: list[float] = field(default_factory=list)
    alone: Work = field(default_factory=Work)
    beside: Work = field(default_factory=Work)


def _words(length: int, number: int) -> str:
    return f"{secrets.token_hex(8)} {_body(length, number % _BATCH)}"[:length]


@functools.cache
def _body(length: int, number: int) -> str:
    """Return words that are made once: the caller's own work must not take the processor from the cluster."""
    source = random.Random(number)
    return " ".join(source.choice(_WORDS) for _ in range(length // 6 + 1))


_WORDS = (
    *("kettle", "teapot", "garden", "harbour", "letter", "violin", "window", "orchard"),
    *("ladder", "candle", "bridge", "meadow", "saddle", "basket", "copper", "lantern"),
)


def _long_word(length: int) -> str:
    """Return a text of one word that no model knows: what is measured is its length, not the time of its vector."""
    return secrets.token_hex(length // 2)


def _batch(length: int) -> Callable[[Stored, int], Message]:
    def request(_: Stored, number: int) -> Message:
        memories = [memory_pb2.Memory(content=_words(length, number)) for number in range(number, number + _BATCH)]
        return memory_pb2.BatchCreateMemoriesRequest(memories=memories)

    return request


def _with_keys(_: Stored, number: int) -> Message:
    metadata = Struct()
    metadata.update({f"key-{index}": index for index in range(_KEYS)})
    return memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content=_words(200, number), metadata=metadata))


LOADS = (
    Load(
        name=f"SpreadActivation, {_DENSE} nodes",
        method=_LINKS_API + "SpreadActivation",
        request=lambda stored, _: memory_pb2.SpreadActivationRequest(
            seeds=[memory_pb2.ActivationSeed(memory_id=stored.dense_id)], hops=4, max_nodes=1000
        ),
    ),
    Load(
        name=f"ListMemories, {_LISTED} long texts",
        method=_MEMORIES_API + "ListMemories",
        request=lambda _stored, _: memory_pb2.ListMemoriesRequest(page_size=1000),
    ),
    Load(
        name=f"TraverseLinks, {_WIDE} nodes",
        method=_LINKS_API + "TraverseLinks",
        request=lambda stored, _: memory_pb2.TraverseLinksRequest(
            memory_id=stored.hub_id, hops=4, max_nodes=1000, include_memories=True
        ),
    ),
    Load(name=f"{_KEYS:,} metadata keys", method=_MEMORIES_API + "CreateMemory", request=_with_keys),
    Load(name="batch of 20 × 200 B (ordinary)", method=_MEMORIES_API + "BatchCreateMemories", request=_batch(200)),
    # Last, because the vectors of its texts are computed for minutes.
    Load(name="batch of 20 × 99 kB", method=_MEMORIES_API + "BatchCreateMemories", request=_batch(_LARGE)),
)


@click.command()
@click.option("--seconds", type=float, default=3.0, help="For each caller alone.")
@click.option("--rounds", type=int, default=2, help="How often the callers take turns.")
@click.option("--only", multiple=True, help="Part of a load's name; repeatable.")
@click.option("--port", "ports", multiple=True, type=click.Choice([GRPC, HTTP]), help="Repeatable.")
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write the figures here.")
def main(*, seconds: float, rounds: int, only: Sequence[str], ports: Sequence[str], json_file: Path | None) -> None:
    """Print what one tenant's heavy calls cost another tenant, as a table."""
    out = report.console()
    out.print(f"Load average of the last minute: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.", style="dim")
    rows: list[Row] = []
    try:
        uvloop.run(_bench(rows, seconds, rounds, only, ports))
    except DidNotStart as error:
        raise click.ClickException(str(error)) from None
    finally:
        out.print(_table(rows))
        if json_file is not None:
            json_file.write_text(json.dumps([_as_json(row) for row in rows], indent=2) + "\n", "utf-8")


async def _bench(rows: list[Row], seconds: float, rounds: int, only: Sequence[str], ports: Sequence[str]) -> None:
    limits = {name: str(FIELDS[name]) for name in _RATE_LIMITS}
    context = multiprocessing.get_context("spawn")
    with data_folder() as folder, ProcessPoolExecutor(1, mp_context=context) as pool:
        async with running(folder, ONE_PROCESS, **limits) as subject:
            other_key, heavy_key = await _tenants(
                subject, read_credentials(folder / "credentials.json")["operator_key"]
            )
            async with Client(endpoint=subject.addresses["gateway"], api_key=other_key, timeout=_TIMEOUT) as other:
                await _fill_other(other)
                async with Client(endpoint=subject.addresses["gateway"], api_key=heavy_key, timeout=_TIMEOUT) as heavy:
                    stored = await _fill_heavy(heavy)
                await settled(subject, seconds=600.0)
                for load, port in itertools.product(LOADS, (GRPC, HTTP)):
                    if port not in (ports or load.ports) or not (not only or any(part in load.name for part in only)):
                        continue
                    target = Target(
                        load=load.name,
                        port=port,
                        endpoint=subject.addresses["gateway"],
                        http=f"http://{subject.http}",
                        api_key=heavy_key,
                        stored=stored,
                    )
                    row = Row(load=load.name, port=port)
                    rows.append(row)
                    await _measure(row, other, target, pool, seconds, rounds)
                    report.console().print(_table([row]))


async def _measure(row: Row, other: Client, target: Target, pool: Executor, seconds: float, rounds: int) -> None:
    loop = asyncio.get_running_loop()
    recalls = Material((), 7)
    # The first calls of a kind fill caches, and tell how many calls the time holds.
    probe = await loop.run_in_executor(pool, heavy_work, target, 10**9, seconds / 2)
    await _recalls(other, recalls, [], asyncio.ensure_future(asyncio.sleep(seconds / 4)))
    calls = max(_AT_ONCE, round(probe.calls / max(probe.seconds, 0.1) * seconds))
    for number in range(rounds):
        await _recalls(other, recalls, row.other_alone, asyncio.ensure_future(asyncio.sleep(seconds)))
        steps: list[tuple[Work, bool]] = [(row.alone, False), (row.beside, True)]
        for work, is_beside in steps if number % 2 == 0 else reversed(steps):
            heavy = loop.run_in_executor(pool, heavy_work, target, calls, _MAX_STEP_SECONDS)
            if is_beside:
                await _recalls(other, recalls, row.other_beside, heavy)
            done = await heavy
            work.calls += done.calls
            work.seconds += done.seconds
            work.refusals += done.refusals
            work.errors += done.errors


async def _recalls(client: Client, material: Material, latencies: list[float], until: Awaitable[Any]) -> None:
    """Recall again and again until something has ended."""
    end = asyncio.ensure_future(until)
    while not end.done():
        started = time.perf_counter()
        # One that ends by its deadline took that long.
        with suppress(SkeinError):
            await client.gateway.Recall(gateway_pb2.RecallRequest(query=material.question()))
        latencies.append(time.perf_counter() - started)
        await asyncio.sleep(_PAUSE_SECONDS)


async def _tenants(subject: Subject, operator_key: str) -> tuple[str, str]:
    connection = Connection(endpoint=subject.addresses["gateway"], api_key=operator_key, timeout=_TIMEOUT)
    async with open_client(connection) as operator:
        return (await create_tenant(operator, "other"))[1], (await create_tenant(operator, "heavy"))[1]


async def _fill_other(client: Client) -> None:
    material = Material((), 3)
    for _ in range(_MEMORIES // _BATCH):
        memories = [material.memory() for _ in range(_BATCH)]
        await client.memories.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=memories))


async def _fill_heavy(client: Client) -> Stored:
    """Store long memories, a star and a dense graph."""
    long_ids = await _created(client, _LISTED, _LONG)
    star = long_ids[:_WIDE]
    await _linked(client, [(star[0], end) for end in star[1:]])
    dense = await _created(client, _DENSE, 200)
    await _linked(client, list(itertools.combinations(dense, 2)))
    return Stored(hub_id=star[0], dense_id=dense[0])


async def _created(client: Client, count: int, length: int) -> list[str]:
    ids: list[str] = []
    for _ in range(0, count, _BATCH):
        memories = [memory_pb2.Memory(content=_long_word(length)) for _ in range(_BATCH)]
        response = await client.memories.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=memories))
        ids += [memory.memory_id for memory in response.memories]
    return ids


async def _linked(client: Client, pairs: Sequence[tuple[str, str]]) -> None:
    for start in range(0, len(pairs), 100):
        links = [memory_pb2.Link(from_memory_id=near, to_memory_id=far) for near, far in pairs[start : start + 100]]
        await client.links.BatchCreateLinks(memory_pb2.BatchCreateLinksRequest(links=links))


def heavy_work(target: Target, calls: int, seconds: float) -> Work:
    """Make heavy calls in this process until so many are done or the time is over."""
    return uvloop.run(_heavy(target, calls, seconds))


async def _heavy(target: Target, calls: int, seconds: float) -> Work:
    load = next(load for load in LOADS if load.name == target.load)
    async with (
        aio.insecure_channel(target.endpoint, options=[("grpc.max_receive_message_length", -1)]) as channel,
        httpx.AsyncClient(base_url=target.http, trust_env=False, timeout=_TIMEOUT) as web,
    ):
        caller = HeavyCaller(target, load, channel, web)
        numbers, started = iter(range(calls)), time.perf_counter()
        await asyncio.gather(*(caller.run(numbers, started + seconds) for _ in range(_AT_ONCE)))
        caller.work.seconds = time.perf_counter() - started
    return caller.work


class HeavyCaller:
    """Makes heavy calls and repeats those that are refused."""

    def __init__(self, target: Target, load: Load, channel: aio.Channel, web: httpx.AsyncClient) -> None:
        self.work = Work()
        self._target = target
        self._load = load
        self._web = web
        self._call: Any = channel.unary_unary(load.method)
        self._authorization = f"Bearer {target.api_key}"

    async def run(self, numbers: Iterator[int], ends: float) -> None:
        """Make a call for each number that this caller gets, until a time."""
        make = self._by_grpc if self._target.port == GRPC else self._by_http
        for number in numbers:
            message = self._load.request(self._target.stored, number)
            while (pause := await make(message)) is not None and time.perf_counter() < ends:
                await asyncio.sleep(pause)
            # A call that began in time counts when it ends, however long it takes.
            self.work.calls += pause is None
            if time.perf_counter() >= ends:
                return

    async def _by_grpc(self, message: Message) -> float | None:
        """Make the call; return the pause before its repetition when it was refused."""
        metadata = [("authorization", self._authorization)]
        try:
            await self._call(message.SerializeToString(), timeout=_TIMEOUT, metadata=metadata)
        except aio.AioRpcError as error:
            return self._refused(error.code().name, _retry_delay(error))
        return None

    async def _by_http(self, message: Message) -> float | None:
        headers = {"authorization": self._authorization, "content-type": "application/json"}
        content = json_format.MessageToJson(message, indent=None)
        response = await self._web.post(self._load.method, content=content, headers=headers)
        if response.is_success:
            return None
        pause = response.headers.get("retry-after")
        return self._refused(str(response.status_code), None if pause is None else float(pause))

    def _refused(self, code: str, pause: float | None) -> float:
        self.work.refusals += 1
        if pause is None:
            self.work.errors[code] += 1
        return _UNTOLD_PAUSE_SECONDS if pause is None else pause


def _retry_delay(error: aio.AioRpcError) -> float | None:
    status = rpc_status.from_call(error)  # type: ignore[arg-type]  # It reads three methods that both have.
    for detail in () if status is None else status.details:
        info = error_details_pb2.RetryInfo()
        if detail.Unpack(info):
            return float(info.retry_delay.ToTimedelta().total_seconds())
    return None


def _as_json(row: Row) -> Mapping[str, object]:
    def milliseconds(values: Sequence[float]) -> dict[str, float]:
        return {f"p{share * 100:.0f}_ms": percentile(values, share) * 1e3 for share in (0.5, 0.95, 0.99)}

    return {
        "load": row.load,
        "port": row.port,
        "other_alone": milliseconds(row.other_alone),
        "other_beside": milliseconds(row.other_beside),
        "heavy_alone_seconds": row.alone.seconds,
        "heavy_beside_seconds": row.beside.seconds,
        "refusals": row.alone.refusals + row.beside.refusals,
        "errors": dict(row.alone.errors + row.beside.errors),
    }


def _table(rows: Sequence[Row]) -> Table:
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    made.add_column("heavy call")
    made.add_column("port", no_wrap=True)
    for name in (
        "other alone p50/p95/p99 ms", "beside p50/p95/p99 ms", "p95 ×", "p99 ×", "heavy calls/s alone", "beside",
        "time ×", "refused", "errors",
    ):  # fmt: skip
        made.add_column(name, justify="right")
    for row in rows:
        if not (row.other_alone and row.other_beside):
            continue
        alone, beside = ([percentile(values, share) * 1e3 for share in (0.5, 0.95, 0.99)]
                         for values in (row.other_alone, row.other_beside))  # fmt: skip
        # Of no call at all, where none ended.
        rates = [work.calls / work.seconds for work in (row.alone, row.beside)]
        errors = row.alone.errors + row.beside.errors
        made.add_row(
            row.load,
            row.port,
            " / ".join(f"{value:.0f}" for value in alone),
            " / ".join(f"{value:.0f}" for value in beside),
            f"{beside[1] / alone[1]:.1f}",
            f"{beside[2] / alone[2]:.1f}",
            *(f"{rate:.1f}" for rate in rates),
            f"{rates[0] / rates[1]:.1f}" if all(rates) else "none ended",
            str(row.alone.refusals + row.beside.refusals),
            ", ".join(f"{count} {name}" for name, count in errors.items()),
        )
    return made


if __name__ == "__main__":
    main()
