"""`make bench`: prints how fast the cluster is, beside the same work done directly on its database.

Nothing here is asserted. The cluster is a `skein up` of its own with the settings that it always has, on free ports and
a new data folder; it and the load client share this machine's cores, which the figures of many in flight show.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from bench.household import SeededTenant
from bench.subject import Subject
from bench.ways import Way

# The folder of the tests, so that what lies in this one has a name: `python tests/bench` is how it is run.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import click
import uvloop
from bench import household, plot, processes, report, ways
from bench.figures import Cell, Figures
from bench.load import Limits, measured
from bench.subject import FORMS, DidNotStart, data_folder, running

OPERATIONS = {"get": ways.GET, "create": ways.CREATE, "append": ways.APPEND, "recall": ways.RECALL}
IN_FLIGHT = (1, 8)
# Writes come last, so that reads find the data as it was loaded.
_ORDER = (ways.GET, ways.RECALL, ways.CREATE, ways.APPEND)


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How much is stored and measured."""

    memories: int
    messages: int
    # The ways take turns, so that what else this machine does in the meantime is fair to all of them.
    rounds: int
    limits: Limits
    # Not counted.
    warm_up: Limits


WHOLE = Size(
    memories=2000,
    messages=2000,
    rounds=5,
    limits=Limits(calls=200, seconds=0.6),
    warm_up=Limits(calls=60, seconds=1.0),
)
QUICK = Size(
    memories=640,
    messages=640,
    rounds=2,
    limits=Limits(calls=150, seconds=0.25),
    warm_up=Limits(calls=20, seconds=0.3),
)


@click.command()
@click.option("--quick", is_flag=True, help="A minute instead of some five: less data, fewer calls, rougher figures.")
@click.option("--only", multiple=True, type=click.Choice(list(OPERATIONS)), help="Measure this operation; repeatable.")
@click.option(
    "--form", "forms", multiple=True, type=click.Choice(["one", "many"]), help="One process, or one per service."
)
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write the figures here.")
@click.option(
    "--plot", "plot_file", type=click.Path(path_type=Path, dir_okay=False), help="Draw the figures here, as SVG."
)
def main(
    *, quick: bool, only: Sequence[str], forms: Sequence[str], json_file: Path | None, plot_file: Path | None
) -> None:
    """Print requests per second, latencies and processor time of the cluster's main calls."""
    size = QUICK if quick else WHOLE
    operations = [OPERATIONS[name] for name in only] or list(OPERATIONS.values())
    names = [form for name, form in zip(("one", "many"), FORMS, strict=True) if not forms or name in forms]
    cells: list[Cell] = []
    try:
        uvloop.run(_bench(cells, size, [name for name in _ORDER if name in operations], names))
    except DidNotStart as error:
        raise click.ClickException(str(error)) from None
    except KeyboardInterrupt:
        raise click.Abort from None
    finally:
        _print(cells)
        figures = [cell.as_json() for cell in cells]
        if json_file is not None:
            json_file.write_text(json.dumps(figures, indent=2) + "\n", "utf-8")
        if plot_file is not None and cells:
            plot_file.write_text(plot.svg(figures), "utf-8")


def _print(cells: Sequence[Cell]) -> None:
    out = report.console()
    out.print()
    for operation in OPERATIONS.values():
        measured_cells = [cell for cell in cells if cell.operation == operation]
        if measured_cells:
            out.print(report.table(operation, measured_cells))
    for line in report.goal(cells):
        out.print(line)
    out.print(
        f"\nThe cluster, its Postgres and the load client share {os.cpu_count()} cores. CPU is the cluster's, "
        "Postgres included; of SQL directly it is this process's and Postgres'. SQL directly is the services' own "
        "stores and the embedded model, without gRPC, interceptors and identities; × SQL compares medians of the same "
        "cluster.",
        style="dim",
    )


async def _bench(cells: list[Cell], size: Size, operations: Sequence[str], forms: Sequence[str]) -> None:
    """Measure into `cells`, so that those measured before something goes wrong are not lost."""
    out = report.console()
    out.print(
        f"Load average of the last minute: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; what else runs here "
        "makes the figures worse.",
        style="dim",
    )
    for number, form in enumerate(forms):
        with data_folder() as folder:
            async with running(folder, form) as subject:
                started = time.perf_counter()
                home = await household.moved_in(subject, memories=size.memories, messages=size.messages)
                out.print(
                    f"{form}: stored {size.memories:,} memories and {size.messages:,} messages in "
                    f"{time.perf_counter() - started:.0f} s",
                    style="dim",
                )
                await _measure(cells, subject, home, operations, size, seed=100 * (number + 1))


async def _measure(
    cells: list[Cell], subject: Subject, home: SeededTenant, operations: Sequence[str], size: Size, *, seed: int
) -> None:
    numbers = itertools.count()
    out = report.console()
    async with AsyncExitStack() as stack:

        def material(offset: int) -> ways.Material:
            return ways.Material(home.memory_ids, seed + offset)

        by: list[Way] = await stack.enter_async_context(ways.directly(subject, home.tenant_id, material(1)))
        by.append(await stack.enter_async_context(ways.services(subject, material(2))))
        by.append(await stack.enter_async_context(ways.gateway(subject, material(3))))
        for operation, in_flight in itertools.product(operations, IN_FLIGHT):
            able = [way for way in by if operation in way.operations]
            rounds: dict[str, list[Figures]] = {way.name: [] for way in able}
            for number in range(size.rounds + 1):
                for way in able:
                    figures = await measured(
                        way.operations[operation],
                        numbers,
                        in_flight=in_flight,
                        limits=size.limits if number else size.warm_up,
                        server_cpu=lambda: processes.cpu_seconds(subject.pid),
                        serves_itself=way.is_here,
                    )
                    if number:
                        rounds[way.name].append(figures)
            made = [
                Cell(operation=operation, way=name, form=subject.form, figures=Figures.of_rounds(measured_rounds))
                for name, measured_rounds in rounds.items()
            ]
            summary = ", ".join(f"{cell.way} {cell.figures.p50:.2f} ms" for cell in made)
            out.print(f"  {subject.form}, {operation}, {in_flight} in flight, p50: {summary}", style="dim")
            cells += made


if __name__ == "__main__":
    main()
