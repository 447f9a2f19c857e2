"""`make soak`: the resource use of a cluster under moderate load over every port does not grow.

The cluster is a `skein cluster` of its own, a process for each service, on free ports and a new data folder. After a
warm-up everything that a process may leak is looked at again and again; what grows by more than its bound fails the
soak. Ctrl-C ends the load early; the verdict is then of what was seen.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from bench.subject import Subject
from rich.console import Console

# The folder of the tests, so that what lies in this one has a name: `python tests/bench/soak.py` is how it is run.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import click
import uvloop
from bench import processes, report
from bench.figures import growth, percentile
from bench.soaking import Load, Receiver
from bench.subject import FORMS, PROCESSES, DidNotStart, data_folder, running
from bench.ways import Material
from prometheus_client.parser import text_string_to_metric_families
from rich import box
from rich.table import Table

from skein_client.client import Client
from skein_cluster import registry
from skein_cluster.processes.ports import free_ports

_SEED = 7
_CALLERS = 6
_SAMPLES = 60
_WARM_UP = 0.4
_HOST = "127.0.0.1"
_PC2_PORT = 5570
_TRIES = 50
POSTGRES, CLUSTER = "postgres", "cluster"
# How much a measure may grow between warm-up and end: by so much, and by this share of its median.
BOUNDS: Mapping[str, tuple[float, float]] = {
    "memory MiB": (12.0, 0.05),
    "files": (6.0, 0.1),
    "threads": (3.0, 0.1),
    "tasks": (10.0, 0.2),
    "connections": (4.0, 0.25),
}
# Each of the server's processes remembers tables and plans and keeps their files open, and ends with its connection.
_OF_POSTGRES: Mapping[str, tuple[float, float]] = {
    "memory MiB": (64.0, 0.3),
    "files": (1000.0, 0.3),
    "threads": (10.0, 0.2),
}
# Calls that may be refused: none is meant to be, but a machine that is busy with something else may be late.
_ERROR_SHARE = 0.001


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """What everything used at one moment, and what the callers saw since the last one."""

    seconds: float
    calls: int
    errors: int
    p95_ms: float
    # By process and measure: ("memory", "memory MiB").
    uses: Mapping[tuple[str, str], float]


@dataclass(kw_only=True)
class Watcher:
    """Looks at the cluster's processes from outside."""

    subject: Subject
    load: Load
    # "host:port" of each process's metrics.
    admins: Mapping[str, str]
    _errors: int = field(default=0)

    async def sample(self, seconds: float) -> Sample:
        latencies, self.load.latencies = self.load.latencies, []
        errors, self._errors = self.load.errors.total() - self._errors, self.load.errors.total()
        return Sample(
            seconds=seconds,
            calls=len(latencies),
            errors=errors,
            p95_ms=percentile(latencies, 0.95) * 1e3,
            uses=await asyncio.to_thread(self._uses),
        )

    def _uses(self) -> dict[tuple[str, str], float]:
        results: defaultdict[tuple[str, str], float] = defaultdict(float)
        for process in processes.family(self.subject.pid):
            name = _service_of(process.pid) or (POSTGRES if process.name == POSTGRES else CLUSTER)
            memory = process.private_bytes if name == POSTGRES else process.resident_bytes
            results[name, "memory MiB"] += memory / 2**20
            results[name, "files"] += process.open_files
            results[name, "threads"] += process.threads
        for name, admin in self.admins.items():
            metrics = _metrics(admin)
            results[name, "tasks"] = metrics["skein_event_loop_tasks"]
            results[name, "connections"] = metrics["skein_database_pool_connections"]
        return results


@click.command()
@click.option("--seconds", type=click.FloatRange(min=5.0), default=600.0, show_default=True, help="How long.")
@click.option(
    "--form", type=click.Choice(list(FORMS)), default=PROCESSES, show_default=True, help="How many processes."
)
def main(*, seconds: float, form: str) -> None:
    """Print what a cluster under moderate load over every port uses; exit with 1 when a part of it grows."""
    try:
        is_stable = uvloop.run(_soak(seconds, form))
    except DidNotStart as error:
        raise click.ClickException(str(error)) from None
    sys.exit(0 if is_stable else 1)


async def _soak(seconds: float, form: str) -> bool:
    out = report.console()
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(data_folder())
        receiver = await stack.enter_async_context(Receiver.listening())
        settings = {
            "SKEIN_OUTBOUND_ALLOW": receiver.url.removesuffix("/hook"),
            "SKEIN_ADMIN_PORT": str(_ports_in_a_row(len(registry.NAMES))),
            **stack.enter_context(free_ports([f"SKEIN_PC2_PORT_{_PC2_PORT}", "SKEIN_HTTP_PORT"], _HOST)),
        }
        subject = await stack.enter_async_context(running(folder, form, **settings))
        first = int(settings["SKEIN_ADMIN_PORT"])
        names = registry.NAMES if form == PROCESSES else (CLUSTER,)
        admins = {name: f"{_HOST}:{first + number}" for number, name in enumerate(names)}
        skein = await stack.enter_async_context(
            Client(endpoint=subject.addresses["gateway"], api_key=subject.api_key, timeout=30)
        )
        load = await stack.enter_async_context(
            Load.on(
                skein,
                Material((), _SEED),
                api_key=subject.api_key,
                http=f"{_HOST}:{settings['SKEIN_HTTP_PORT']}",
                pc2=f"{_HOST}:{settings[f'SKEIN_PC2_PORT_{_PC2_PORT}']}",
                receiver=receiver,
            )
        )
        samples = await _under_load(Watcher(subject=subject, load=load, admins=admins), seconds, stopping, out)
        return _judged(samples, load, out)


async def _under_load(watcher: Watcher, seconds: float, stopping: asyncio.Event, out: Console) -> list[Sample]:
    load, samples = watcher.load, list[Sample]()
    started = time.monotonic()
    works = [asyncio.create_task(load.caller()) for _ in range(_CALLERS)]
    works.append(asyncio.create_task(load.listener()))
    stop_requested = asyncio.create_task(stopping.wait())
    try:
        while time.monotonic() - started < seconds and not stop_requested.done():
            await asyncio.wait(
                [stop_requested, *works], timeout=seconds / _SAMPLES, return_when=asyncio.FIRST_COMPLETED
            )
            for work in works:
                if work.done():
                    work.result()
            if not stop_requested.done():
                samples.append(await watcher.sample(time.monotonic() - started))
                out.print(_line(samples[-1]))
    finally:
        for task in (stop_requested, *works):
            task.cancel()
        await asyncio.gather(stop_requested, *works, return_exceptions=True)
    return samples


def _judged(samples: Sequence[Sample], load: Load, out: Console) -> bool:
    """Print the table and the verdict; say whether everything kept to its bounds."""
    kept = samples[round(len(samples) * _WARM_UP) :]
    failures: list[str] = []
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="After the warm-up", title_justify="left")
    for name in ("process", "measure", "median", "most", "growth", "bound", ""):
        made.add_column(name, justify="left" if name in {"process", "measure", ""} else "right")
    keys = sorted({key for sample in kept for key in sample.uses})
    for process, measure in keys:
        values = [sample.uses.get((process, measure), 0.0) for sample in kept]
        median = percentile(values, 0.5)
        grown = growth([sample.seconds for sample in kept], values)
        by, share = (_OF_POSTGRES if process == POSTGRES else BOUNDS)[measure]
        bound = by + share * median
        verdict = "" if grown <= bound else "GREW"
        if verdict:
            failures.append(f"{measure} of {process}")
        cells = (f"{value:,.1f}" for value in (median, max(values, default=0.0), grown, bound))
        made.add_row(process, measure, *cells, verdict)
    out.print()
    out.print(made)
    calls, errors = load.calls.total(), load.errors.total()
    out.print("Calls: " + ", ".join(f"{count:,} {name}" for name, count in load.calls.most_common()) + ".")
    out.print(f"Heard on streams: {load.event_count:,}; told to the webhook: {load.receiver.delivery_count:,}.")
    kinds = ", ".join(f"{count} {name}" for name, count in load.errors.most_common())
    out.print(f"Errors: {kinds or 'none'}.")
    if errors > max(2.0, _ERROR_SHARE * calls):
        failures.append("errors")
    failures += [f"no {name}" for name in load.kinds if not load.calls[name]]
    failures += [
        name for name, count in (("streams", load.event_count), ("webhooks", load.receiver.delivery_count)) if not count
    ]
    out.print(
        f"FAIL: {', '.join(failures)}." if failures else f"PASS: {calls:,} calls, and nothing grew beyond its bound."
    )
    return not failures


def _line(sample: Sample) -> str:
    by_measure: Counter[str] = Counter()
    for (process, measure), value in sample.uses.items():
        if process != POSTGRES:
            by_measure[measure] += value  # type: ignore[assignment]  # A Counter holds any number.
    memory = " ".join(
        f"{process} {value:.0f}" for (process, measure), value in sorted(sample.uses.items()) if measure == "memory MiB"
    )
    rest = ", ".join(f"{value:.0f} {name}" for name, value in by_measure.items() if name != "memory MiB")
    return (
        f"{sample.seconds:4.0f} s {sample.calls:4} calls {sample.errors} errors p95 {sample.p95_ms:4.0f} ms  {rest}  "
        f"MiB: {memory}"
    )


def _metrics(admin: str) -> Counter[str]:
    """Return a process's metrics, each summed over its labels."""
    with urllib.request.urlopen(f"http://{admin}/metrics", timeout=10) as answer:
        text: str = answer.read().decode()
    counts: Counter[str] = Counter()
    for metric in text_string_to_metric_families(text):
        for sample in metric.samples:
            counts[sample.name] += sample.value  # type: ignore[assignment]  # A Counter holds any number.
    return counts


def _service_of(pid: int) -> str:
    """Return which service a process serves; empty for another process, or for one that serves all."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return ""
    return words[words.index("serve") + 1] if "serve" in words else ""


def _ports_in_a_row(count: int) -> int:
    """Return the first of some free ports that follow one another: each process's metrics have one."""
    for _ in range(_TRIES):
        sockets = [socket.socket() for _ in range(count)]
        try:
            sockets[0].bind((_HOST, 0))
            first: int = sockets[0].getsockname()[1]
            for number, one in enumerate(sockets[1:], 1):
                one.bind((_HOST, first + number))
        except (OSError, OverflowError):
            continue
        else:
            return first
        finally:
            for one in sockets:
                one.close()
    message = f"{count} free ports in a row are nowhere."
    raise DidNotStart(message)


if __name__ == "__main__":
    main(default_map={"seconds": os.environ["SECONDS"]} if os.environ.get("SECONDS") else None)
