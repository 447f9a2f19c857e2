"""`python tests/bench/optimizations.py FORM…`: prints what each optimization buys against its plain form.

Two clusters with the same data are up, one as it is and one with the plain form (tests/bench/plain_forms.py). The same
mixed load goes to them in turns; the ratio of each turn is printed as its median, with the middle half of all turns.
"""

from __future__ import annotations

import itertools
import statistics
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

# The folder of the tests, so that what lies in this one has a name.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import click
import uvloop
from bench import household, processes, report, ways
from bench.figures import Figures
from bench.household import SeededTenant
from bench.load import Limits, measured
from bench.plain_forms import FORMS, SETTINGS
from bench.subject import ONE_PROCESS, Subject, data_folder, running
from bench.ways import Way

_PLAIN = str(Path(__file__).with_name("plain_forms.py"))
# A busy machine must make both clusters slower, not make one of them refuse calls.
_SETTINGS = {"SKEIN_ADVANCED_ADMISSION_CALLS": "1000000"}
# Of five calls two are recalls, two are creates, one reads a memory.
_MIX = (ways.RECALL, ways.CREATE, ways.RECALL, ways.CREATE, ways.GET)


@click.command()
@click.argument("forms", nargs=-1, type=click.Choice(list(FORMS)))
@click.option("--memories", default=4000, show_default=True, help="Memories of the tenant before the load.")
@click.option("--turns", default=20, show_default=True, help="Turns of each cluster.")
@click.option("--seconds", default=2.0, show_default=True, help="Length of a turn.")
@click.option("--in-flight", default=8, show_default=True, help="Calls under way at the same time.")
@click.option("--call", "mix", multiple=True, default=_MIX, show_default=True, help="Calls of the load, in turns.")
def main(
    *, forms: Sequence[str], memories: int, turns: int, seconds: float, in_flight: int, mix: Sequence[str]
) -> None:
    """Print calls per second and processor time per call of the plain form, over those of the cluster as it is."""
    load = _Load(mix, in_flight, Limits(calls=1_000_000, seconds=seconds))
    with data_folder() as folder:
        home = uvloop.run(_stored(folder, memories))
        for form in forms or FORMS:
            uvloop.run(_compare(form, folder, home, turns=turns, load=load))


class _Load(NamedTuple):
    """The calls of one turn."""

    mix: Sequence[str]
    in_flight: int
    limits: Limits


async def _stored(folder: Path, memories: int) -> SeededTenant:
    """Store the data that each cluster gets a copy of."""
    async with running(folder, ONE_PROCESS, **_SETTINGS) as subject:
        return await household.moved_in(subject, memories=memories, messages=memories // 8)


async def _compare(form: str, folder: Path, home: SeededTenant, *, turns: int, load: _Load) -> None:
    async with AsyncExitStack() as stack:
        pairs: list[tuple[Subject, Way]] = []
        for name in ("as-it-is", form):
            copy = stack.enter_context(data_folder())
            # Nothing else runs meanwhile.
            subprocess.run(["/bin/cp", "--archive", f"{folder}/.", str(copy)], check=True)  # noqa: ASYNC221
            settings = _SETTINGS | SETTINGS.get(name, {})
            cluster = running(copy, ONE_PROCESS, program=(_PLAIN, name), **settings)
            subject = await stack.enter_async_context(cluster)
            material = ways.Material(home.memory_ids, 3)
            pairs.append((subject, await stack.enter_async_context(ways.gateway(subject, material))))
        rates: list[float] = []
        costs: list[float] = []
        for turn in range(turns + 1):
            # Which of them comes first changes from turn to turn.
            order = pairs if turn % 2 else pairs[::-1]
            figures = [await _go(subject, way, load) for subject, way in order]
            normal, plain = figures if turn % 2 else figures[::-1]
            # The first turn warms up.
            if turn:
                rates.append(plain.per_second / normal.per_second)
                costs.append((plain.server_cpu / plain.calls) / (normal.server_cpu / normal.calls))
        report.console().print(
            f"{form}: calls per second × {_spread(rates)}, processor time per call × {_spread(costs)}"
        )


async def _go(subject: Subject, way: Way, load: _Load) -> Figures:
    async def call(number: int) -> object:
        return await way.operations[load.mix[number % len(load.mix)]](number)

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
