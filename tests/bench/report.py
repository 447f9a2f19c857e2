"""Prints figures as tables for a person."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.figures import Cell, ratio
from bench.ways import GATEWAY, RECALL, SQL, SQL_ONE_SEARCH
from rich import box
from rich.console import Console
from rich.table import Table

# For a pipe or a file, where rich would assume 80.
_WIDTH = 120
GOAL = 2.5


def console() -> Console:
    """Return the console of standard output."""
    made = Console(highlight=False)
    return made if made.is_terminal else Console(highlight=False, width=_WIDTH)


def table(operation: str, cells: Sequence[Cell]) -> Table:
    """Lay out the cells of one operation: a row for each number in flight, way and form of the cluster."""
    made = Table(title=operation, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    made.add_column("in flight", justify="right")
    made.add_column("way", no_wrap=True)
    made.add_column("processes", no_wrap=True)
    for name in ("req/s", "p50 ms", "p95 ms", "p50 × SQL", "CPU s/1,000", "client CPU"):
        made.add_column(name, justify="right")
    before = cells[0].figures.in_flight
    for cell in sorted(cells, key=lambda cell: cell.figures.in_flight):
        if cell.figures.in_flight != before:
            made.add_section()
            before = cell.figures.in_flight
        base = _find(cells, operation, SQL, cell.form, before)
        made.add_row(str(before), cell.way, cell.form, *_columns(cell, base))
    return made


def goal(cells: Sequence[Cell]) -> Iterable[str]:
    """Return the lines that matter: what a recall through the gateway costs over the same work done directly."""
    for form in dict.fromkeys(cell.form for cell in cells):
        gateway = _find(cells, RECALL, GATEWAY, form, 1)
        for base in (SQL, SQL_ONE_SEARCH):
            direct = _find(cells, RECALL, base, form, 1)
            if gateway is None or direct is None:
                continue
            times = ratio(gateway.figures.p50, direct.figures.p50) or 0.0
            what = "both branches" if base == SQL else "one search over both kinds"
            verdict = f"goal ≤ {GOAL}: {'met' if times <= GOAL else 'missed'}" if base == SQL else "for comparison"
            yield (
                f"{form}: gateway Recall p50 {gateway.figures.p50:.1f} ms = {times:.2f} × SQL + embedding directly, "
                f"{what}, {direct.figures.p50:.1f} ms ({verdict})"
            )


def _columns(cell: Cell, base: Cell | None) -> list[str]:
    figures = cell.figures
    times = ratio(figures.p50, base.figures.p50) if base is not None and base is not cell else None
    return [
        f"{figures.per_second:,.0f}",
        f"{figures.p50:.2f}",
        f"{figures.p95:.2f}",
        "" if times is None else f"{times:.2f}",
        f"{figures.server_cpu_per_thousand:.2f}",
        f"{figures.client_cpu_per_thousand:.2f}" if figures.client_cpu else "",
    ]


def _find(cells: Sequence[Cell], operation: str, way: str, form: str, in_flight: int) -> Cell | None:
    for cell in cells:
        key = (cell.operation, cell.way, cell.form, cell.figures.in_flight)
        if key == (operation, way, form, in_flight):
            return cell
    return None
