"""`make soak`: prints how long the cluster holds under moderate mixed load, and what grows meanwhile.

Nothing here is asserted. The cluster is a `skein up` of its own, on free ports and a new data folder; Ctrl-C ends the
load, prints the verdict and stops it.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
import sys
import time
import urllib.request
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

# The folder of the tests, so that what lies in this one has a name: `python tests/bench/soak.py` is how it is run.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import click
import uvloop
from bench import processes, report
from bench.figures import percentile, thirds, verdict
from bench.subject import ONE_PROCESS, DidNotStart, data_folder, running
from bench.ways import Material
from prometheus_client.parser import text_string_to_metric_families
from rich import box
from rich.table import Table

from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2
from skein_client.client import Client
from skein_client.errors import SkeinError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from bench.subject import Subject
    from rich.console import Console

SAMPLE_SECONDS = 30.0
_SEED = 7
_CALLERS = 4
# Between two calls of one caller: some 60 calls a second in all where a call takes 15 ms.
_PAUSE_SECONDS = 0.05
_SESSIONS = 200
# How much of a measure may change between the first and the last third before it is said to grow.
_TOLERATED = 0.15


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One line of the report."""

    seconds: float
    calls: int
    errors: int
    p95_ms: float
    # Of the cluster's own process, and what Postgres' processes do not share, in MiB.
    memory_mib: float
    postgres_mib: float
    open_files: int
    threads: int
    connections: int
    lag_ms: float

    def measures(self) -> dict[str, float]:
        """Return what the verdict looks at, by its name."""
        return {
            "p95 ms": self.p95_ms,
            "errors": self.errors,
            "memory MiB": self.memory_mib,
            "Postgres MiB": self.postgres_mib,
            "open files": self.open_files,
            "threads": self.threads,
            "connections": self.connections,
            "loop lag ms": self.lag_ms,
        }


@dataclass(kw_only=True, slots=True)
class Load:
    """The mixed load, and what came of it since somebody last asked."""

    skein: Client
    material: Material
    memory_ids: list[str] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    async def caller(self) -> None:
        """Call one thing after the other until cancelled; errors are counted."""
        turns: list[Callable[[int], Awaitable[None]]] = [
            self._remember, self._recall, self._get, self._append, self._recall, self._list,
        ]  # fmt: skip
        while True:
            number = next(self.numbers)
            started = time.perf_counter()
            try:
                await turns[number % len(turns)](number)
            except SkeinError as error:
                self.errors[type(error).__name__] += 1
            self.latencies.append(time.perf_counter() - started)
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _remember(self, number: int) -> None:
        response = await self.skein.remember(
            [self.material.memory()], messages=[self.material.message()], session_id=_session(number)
        )
        self.memory_ids.extend(memory.memory_id for memory in response.memories)
        del self.memory_ids[:-1000]

    async def _recall(self, _number: int) -> None:
        await self.skein.recall(self.material.question())

    async def _get(self, number: int) -> None:
        if self.memory_ids:
            name = self.memory_ids[number % len(self.memory_ids)]
            await self.skein.memories.GetMemory(memory_pb2.GetMemoryRequest(memory_id=name))

    async def _append(self, number: int) -> None:
        await self.skein.sessions.AppendMessages(
            session_pb2.AppendMessagesRequest(
                session_id=_session(number), messages=[self.material.message()], create_session=True
            )
        )

    async def _list(self, _number: int) -> None:
        await self.skein.memories.ListMemories(memory_pb2.ListMemoriesRequest(page_size=50))


class Watcher:
    """Looks at the cluster from outside, and at what the load has counted since the last look."""

    def __init__(self, subject: Subject, load: Load) -> None:
        self._subject = subject
        self._load = load
        self._before: Counter[str] = Counter()

    async def sample(self, seconds: float) -> Sample:
        latencies, self._load.latencies = self._load.latencies, []
        metrics = await asyncio.to_thread(_metrics, self._subject.admin)
        family = processes.family(self._subject.pid)
        own = next(process for process in family if process.pid == self._subject.pid)
        lag, lags = (
            metrics[name] - self._before[name]
            for name in ("skein_event_loop_lag_seconds_sum", "skein_event_loop_lag_seconds_count")
        )
        self._before = metrics
        return Sample(
            seconds=seconds,
            calls=len(latencies),
            errors=self._load.errors.total(),
            p95_ms=percentile(latencies, 0.95) * 1e3,
            memory_mib=own.resident_bytes / 2**20,
            postgres_mib=sum(process.private_bytes for process in family if process.name == "postgres") / 2**20,
            open_files=own.open_files,
            threads=own.threads,
            connections=round(metrics["skein_database_pool_connections"]),
            lag_ms=1e3 * lag / lags if lags else 0.0,
        )


@click.command()
@click.option("--minutes", type=click.FloatRange(min=0.05), default=10.0, show_default=True, help="How long.")
def main(*, minutes: float) -> None:
    """Print what a cluster under moderate mixed load uses over time, and whether any of it grows."""
    try:
        uvloop.run(_soak(minutes * 60))
    except DidNotStart as error:
        raise click.ClickException(str(error)) from None


async def _soak(seconds: float) -> None:
    out = report.console()
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    with data_folder() as folder:
        async with running(folder, ONE_PROCESS) as subject:
            samples, errors = await _under_load(subject, seconds, stopping, out)
        out.print()
        out.print(_verdict(samples))
        kinds = ", ".join(f"{count} {name}" for name, count in errors.most_common())
        out.print(f"{sum(sample.calls for sample in samples):,} calls; errors: {kinds or 'none'}.")


async def _under_load(
    subject: Subject, seconds: float, stopping: asyncio.Event, out: Console
) -> tuple[list[Sample], Counter[str]]:
    errors: Counter[str] = Counter()
    samples: list[Sample] = []
    every = min(SAMPLE_SECONDS, seconds / 6)
    started = time.monotonic()
    async with Client(endpoint=subject.addresses["gateway"], api_key=subject.api_key) as skein:
        load = Load(skein=skein, material=Material((), _SEED))
        watcher = Watcher(subject, load)
        callers = [asyncio.create_task(load.caller()) for _ in range(_CALLERS)]
        asked = asyncio.create_task(stopping.wait())
        try:
            while time.monotonic() - started < seconds and not asked.done():
                await asyncio.wait([asked, *callers], timeout=every, return_when=asyncio.FIRST_COMPLETED)
                for caller in callers:
                    if caller.done():
                        caller.result()
                if asked.done() and samples:
                    # A sample of less than its time would not compare.
                    break
                samples.append(await watcher.sample(time.monotonic() - started))
                errors.update(load.errors)
                load.errors.clear()
                out.print(_line(samples[-1]))
        finally:
            for task in (asked, *callers):
                task.cancel()
            await asyncio.gather(asked, *callers, return_exceptions=True)
    return samples, errors


def _metrics(admin: str) -> Counter[str]:
    """Return the process's metrics, each summed over its labels."""
    with urllib.request.urlopen(f"http://{admin}/metrics", timeout=10) as answer:
        text: str = answer.read().decode()
    found: Counter[str] = Counter()
    for metric in text_string_to_metric_families(text):
        for sample in metric.samples:
            found[sample.name] += sample.value  # type: ignore[assignment]  # A Counter holds any number.
    return found


def _line(sample: Sample) -> str:
    return (
        f"{sample.seconds:5.0f} s {sample.calls:5,} calls {sample.errors:3} errors  p95 {sample.p95_ms:5.0f} ms  "
        f"lag {sample.lag_ms:4.1f} ms  {sample.memory_mib:4.0f} MiB + Postgres {sample.postgres_mib:4.0f}  "
        f"{sample.open_files} files {sample.threads} threads {sample.connections} connections"
    )


def _verdict(samples: Sequence[Sample]) -> Table:
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="First third against last third", title_justify="left")
    made.add_column("measure")
    for name in ("first third", "last third"):
        made.add_column(name, justify="right")
    made.add_column("verdict")
    lines = [sample.measures() for sample in samples]
    for name in lines[0] if lines else ():
        means = thirds([line[name] for line in lines])
        if means is None:
            made.add_row(name, "–", "–", "too few samples")
        else:
            made.add_row(name, f"{means[0]:,.1f}", f"{means[1]:,.1f}", verdict(*means, tolerated=_TOLERATED))
    return made


def _session(number: int) -> str:
    return f"soak-{number % _SESSIONS}"


if __name__ == "__main__":
    main()
