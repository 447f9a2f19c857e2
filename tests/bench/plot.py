"""Draws the figures of a benchmark as an SVG, from the JSON that it writes.

    .venv/bin/python tests/bench/plot.py deploy/capacity.json deploy/capacity.svg

`tests/bench --json` has latencies of each operation, `tests/bench/capacity.py --json` processor time of each call,
`tests/bench/idle.py --json` that of idleness and of calls by the number of tenants, `tests/bench/scale.py --json` the
same by the size of the population, `tests/bench/vectors.py --json` latencies by the size of a tenant.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

_WIDTH = 760
_LABEL_WIDTH = 260
_VALUE_WIDTH = 170
_ROW_HEIGHT = 22
_BAR_HEIGHT = 14
_FIRST_COLOUR, _SECOND_COLOUR = "#3f51b5", "#9fa8da"
# The background keeps the text readable where a page is dark.
_STYLE = "svg{background:#fff}text{font:12px sans-serif;fill:#444}.title{font-weight:bold}"


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One bar of two parts, both measured from its start."""

    label: str
    first: float
    second: float
    note: str


def svg(figures: Any) -> str:
    """Return a drawing that needs no script and no font of another host; `figures` is a benchmark's JSON."""
    if not isinstance(figures, dict):
        groups = _latencies(figures)
    elif "vectors" in figures:
        groups = _vectors(figures["vectors"])
    elif "scale" in figures:
        groups = _scale(figures["scale"])
    else:
        groups = _idle(figures["idle"]) if "idle" in figures else _capacity(figures)
    lines: list[str] = []
    top = _ROW_HEIGHT
    for title, bars in groups.items():
        lines.append(f'<text class="title" x="4" y="{top}">{escape(title)}</text>')
        top += 8
        longest = max(bar.second for bar in bars) or 1.0
        for bar in bars:
            lines += _row(bar, top, longest)
            top += _ROW_HEIGHT
        top += _ROW_HEIGHT
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{top}" role="img">',
            f"<style>{_STYLE}</style>",
            *lines,
            "</svg>\n",
        ]
    )


def _latencies(cells: Sequence[dict[str, Any]]) -> dict[str, list[Bar]]:
    groups: dict[str, list[Bar]] = {}
    for cell in sorted(cells, key=lambda cell: int(cell["in_flight"])):
        p50, p95 = cell["p50_ms"], cell["p95_ms"]
        bar = Bar(
            label=f"{cell['way']}, {cell['form']}, {cell['in_flight']} in flight",
            first=p50,
            second=p95,
            note=f"{p50:.1f} / {p95:.1f} ms, {cell['per_second']:,.0f} req/s",
        )
        groups.setdefault(f"{cell['operation']}: p50 and p95 in ms", []).append(bar)
    return groups


def _vectors(rows: Sequence[dict[str, Any]]) -> dict[str, list[Bar]]:
    groups: dict[str, list[Bar]] = {}
    for row in rows:
        bar = Bar(
            label=f"{row['entries']:,} entries, {row['path']}",
            first=row["p50_ms"],
            second=row["p95_ms"],
            note=f"{row['p50_ms']:.0f} / {row['p95_ms']:.0f} ms, CPU {row['cpu_ms']:.0f} ms",
        )
        groups.setdefault(f"{row['kind']}: p50 and p95 in ms", []).append(bar)
    return groups


def _capacity(figures: dict[str, Any]) -> dict[str, list[Bar]]:
    bars = [
        Bar(
            label=call["rpc"],
            first=call["python_ms"],
            second=call["python_ms"] + call["postgres_ms"],
            note=f"{call['python_ms']:.1f} + {call['postgres_ms']:.1f} ms",
        )
        for call in figures["calls"]
        # A batch would make every other bar a line.
        if "Batch" not in call["rpc"]
    ]
    return {"Processor time of one call: services, then Postgres": bars}


def _idle(rows: Sequence[dict[str, Any]]) -> dict[str, list[Bar]]:
    groups: dict[str, list[Bar]] = {}
    for row in rows:
        tenants = f"{row['tenants']:,} tenants"
        python, postgres = row["python_share"] * 100, row["postgres_share"] * 100
        bar = Bar(label=tenants, first=python, second=python + postgres, note=f"{python:.2f} + {postgres:.2f} %")
        groups.setdefault("Idle: share of one core, services and then Postgres", []).append(bar)
    for row in rows:
        for call in row["calls"]:
            python, postgres = call["python_ms"], call["postgres_ms"]
            bar = Bar(
                label=f"{row['tenants']:,} tenants",
                first=python,
                second=python + postgres,
                note=f"{python:.1f} + {postgres:.1f} ms, {call['pages']:,.0f} pages",
            )
            groups.setdefault(f"{call['rpc']}: processor time, services and then Postgres", []).append(bar)
    return groups


def _scale(sizes: Sequence[dict[str, Any]]) -> dict[str, list[Bar]]:
    groups: dict[str, list[Bar]] = {}
    for size in sizes:
        label = f"{size['entries']:,} entries"
        label += f", {size['months']} months" if size["months"] else ""
        label += "" if size["is_measured"] else ", by arithmetic"
        for name, values in [("Idle, ms a second", size["idle"]), *((call["rpc"], call) for call in size["calls"])]:
            is_call = "rpc" in values
            python = values["python_ms"] if is_call else values["python_share"] * 1e3
            postgres = values["postgres_ms"] if is_call else values["postgres_share"] * 1e3
            pages = values["pages"] if is_call else values["pages_per_second"]
            bar = Bar(
                label=label,
                first=python,
                second=python + postgres,
                note=f"{python:.1f} + {postgres:.1f} ms, {pages:,.0f} pages",
            )
            groups.setdefault(f"{name}: processor time, services and then Postgres", []).append(bar)
    return groups


def _row(bar: Bar, top: float, longest: float) -> Iterator[str]:
    scale = (_WIDTH - _LABEL_WIDTH - _VALUE_WIDTH) / longest
    baseline = top + _BAR_HEIGHT - 2
    yield f'<text x="{_LABEL_WIDTH - 8}" y="{baseline}" text-anchor="end">{escape(bar.label)}</text>'
    for value, colour in ((bar.second, _SECOND_COLOUR), (bar.first, _FIRST_COLOUR)):
        size = f'width="{value * scale:.1f}" height="{_BAR_HEIGHT}"'
        yield f'<rect x="{_LABEL_WIDTH}" y="{top}" {size} fill="{colour}"/>'
    yield f'<text x="{_LABEL_WIDTH + bar.second * scale + 6:.1f}" y="{baseline}">{escape(bar.note)}</text>'


if __name__ == "__main__":
    source, target = sys.argv[1:]
    Path(target).write_text(svg(json.loads(Path(source).read_text("utf-8"))), "utf-8")
