"""`python tests/bench/optimizations.py FORM…`: prints what each optimization buys against its plain form.

Clusters with the same data are up, one as it is and one with each plain form (tests/bench/plain_forms.py). The same
loads go to them in turns; the ratio of each turn is printed as its median, with the middle half of all turns.
"""

from __future__ import annotations

import itertools
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

# The folder of the tests, so that what lies in this one has a name.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import click
import uvloop
from bench import household, large_tenants, processes, report, ways
from bench.figures import Figures
from bench.large_tenants import LargeTenant
from bench.load import Limits, measured
from bench.plain_forms import FORMS, SETTINGS
from bench.subject import ONE_PROCESS, Subject, data_folder, running
from bench.ways import Way

from skein.auth.v1 import auth_pb2
from skein_client.client import Client

_AS_IT_IS = "as-it-is"
# They load the caches.
_WARM_UP_TURNS = 2
_PLAIN = str(Path(__file__).with_name("plain_forms.py"))
# A busy machine must make both clusters slower, not make one of them refuse calls.
_SETTINGS = {"SKEIN_ADVANCED_ADMISSION_CALLS": "1000000", "SKEIN_CANARY_SECONDS": "0"}
_LOADS = {
    # Of five calls two are recalls, two are creates, one reads a memory.
    "mixed": (ways.RECALL, ways.CREATE, ways.RECALL, ways.CREATE, ways.GET),
    "recalls": (ways.RECALL,),
    "creates": (ways.CREATE,),
    "reads": (ways.GET,),
}


@click.command()
@click.argument("forms", nargs=-1, type=click.Choice(list(FORMS)))
@click.option("--memories", default=4000, show_default=True, help="Memories of the tenant before the load.")
@click.option("--turns", default=20, show_default=True, help="Turns of each cluster.")
@click.option("--seconds", default=2.0, show_default=True, help="Length of a turn.")
@click.option("--in-flight", default=8, show_default=True, help="Calls under way at the same time.")
@click.option("--load", "loads", multiple=True, type=click.Choice(list(_LOADS)), default=["mixed"], show_default=True)
@click.option("--by-copy", is_flag=True, help="Write the memories past the services, for a large tenant.")
def main(
    *,
    forms: Sequence[str],
    memories: int,
    turns: int,
    seconds: float,
    in_flight: int,
    loads: Sequence[str],
    by_copy: bool,
) -> None:
    """Print calls per second and processor time per call of each plain form, over those of the cluster as it is."""
    load = _Load(in_flight, Limits(calls=1_000_000, seconds=seconds), turns)
    with data_folder() as folder:
        folder.chmod(0o711)
        home = uvloop.run(_copied(folder, memories) if by_copy else _stored(folder, memories))
        uvloop.run(_compare(list(forms or FORMS), folder, home, loads=loads, load=load))


class _Load(NamedTuple):
    """How one load is sent."""

    in_flight: int
    limits: Limits
    turns: int


class _Home(NamedTuple):
    """The tenant that each cluster has; `large` is what its questions are about, if it was copied."""

    memory_ids: Sequence[str]
    large: LargeTenant | None = None


class _LargeMaterial(ways.Material):
    """Calls whose questions are words of a large tenant's entries."""

    def __init__(self, large: LargeTenant, memory_ids: Sequence[str], seed: int) -> None:
        super().__init__(memory_ids, seed)
        self._large = large
        self._numbers = itertools.count()

    def question(self) -> str:
        return self._large.question(next(self._numbers))


async def _stored(folder: Path, memories: int) -> _Home:
    """Store the data that each cluster gets a copy of."""
    async with running(folder, ONE_PROCESS, **_SETTINGS) as subject:
        tenant = await household.moved_in(subject, memories=memories, messages=memories // 8)
        return _Home(tenant.memory_ids)


async def _copied(folder: Path, memories: int) -> _Home:
    """Write the data that each cluster gets a copy of as rows."""
    async with (
        running(folder, ONE_PROCESS, **_SETTINGS) as subject,
        Client(endpoint=subject.addresses["gateway"], api_key=subject.api_key) as client,
    ):
        me = await client.auth.GetMe(auth_pb2.GetMeRequest())
        texts = await large_tenants.text_vectors()
        made = LargeTenant.make(UUID(me.tenant_id), memories, texts, folder / "vectors.npy")
        seconds = await made.fill(subject.database_url)
        report.console().print(f"{memories:,} memories were written in {seconds:.0f} s", style="dim")
        return _Home([made.id_of(row) for row in range(0, memories, 100)], made)


async def _compare(forms: Sequence[str], folder: Path, home: _Home, *, loads: Sequence[str], load: _Load) -> None:
    async with AsyncExitStack() as stack:
        pairs: dict[str, tuple[Subject, Way]] = {}
        for name in (_AS_IT_IS, *forms):
            copy = stack.enter_context(data_folder())
            copy.chmod(0o711)
            # Nothing else runs meanwhile.
            subprocess.run(["/bin/cp", "--archive", f"{folder}/.", str(copy)], check=True)  # noqa: ASYNC221
            settings = _SETTINGS | SETTINGS.get(name, {})
            cluster = running(copy, ONE_PROCESS, program=(_PLAIN, name), **settings)
            subject = await stack.enter_async_context(cluster)
            material = (
                ways.Material(home.memory_ids, 3)
                if home.large is None
                else _LargeMaterial(home.large, home.memory_ids, 3)
            )
            label = name if name not in pairs else f"{name}, again"
            pairs[label] = (subject, await stack.enter_async_context(ways.gateway(subject, material)))
        for name in loads:
            await _send(name, pairs, load)


async def _send(name: str, pairs: Mapping[str, tuple[Subject, Way]], load: _Load) -> None:
    """Send one load to all clusters in turns, and print what each costs."""
    figures: dict[str, list[Figures]] = {label: [] for label in pairs}
    machine_loads: list[float] = []
    for turn in range(-_WARM_UP_TURNS, load.turns):
        # Which of them comes first changes from turn to turn.
        labels = list(pairs) if turn % 2 else list(pairs)[::-1]
        for label in labels:
            measured_figures = await _go(*pairs[label], load, _LOADS[name])
            if turn >= 0:
                figures[label].append(measured_figures)
        machine_loads.append(os.getloadavg()[0])
    low, middle, high = (
        f"{each:.1f}" for each in (min(machine_loads), statistics.median(machine_loads), max(machine_loads))
    )
    out = report.console()
    out.print(f"{name}: {load.turns} turns, load average {middle} ({low} to {high})")
    normal = figures.pop(_AS_IT_IS)
    out.print(f"  {_AS_IT_IS}: {statistics.median(map(_cost, normal)) * 1000:.2f} ms of processor time per call")
    for label, plain in figures.items():
        rates = [other.per_second / one.per_second for one, other in zip(normal, plain, strict=True)]
        costs = [_cost(other) / _cost(one) for one, other in zip(normal, plain, strict=True)]
        out.print(f"  {label}: calls per second × {_spread(rates)}, processor time per call × {_spread(costs)}")


def _cost(figures: Figures) -> float:
    """Return the processor time of a call in seconds, Postgres included."""
    return figures.server_cpu / figures.calls


async def _go(subject: Subject, way: Way, load: _Load, mix: Sequence[str]) -> Figures:
    async def call(number: int) -> object:
        return await way.operations[mix[number % len(mix)]](number)

    return await measured(
        call,
        itertools.count(),
        in_flight=load.in_flight,
        limits=load.limits,
        server_cpu=lambda: processes.cpu_seconds(subject.pid),
    )


def _spread(ratios: Sequence[float]) -> str:
    low, middle, high = statistics.quantiles(ratios, n=4)
    return f"{middle:.3f} ({low:.3f} to {high:.3f})"


if __name__ == "__main__":
    main()
