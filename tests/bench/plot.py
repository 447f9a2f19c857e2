"""Draws figures as an SVG: latencies of each operation, a bar for each way and form of the cluster."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.figures import Cell

_WIDTH = 760
_LABEL_WIDTH = 260
_VALUE_WIDTH = 170
_ROW_HEIGHT = 22
_BAR_HEIGHT = 14
# Of the part until the median, and of the part from there to the 95th percentile.
_MEDIAN_COLOUR, _TAIL_COLOUR = "#3f51b5", "#9fa8da"
_STYLE = "text{font:12px sans-serif;fill:#444}.title{font-weight:bold}"


def svg(cells: Sequence[Cell]) -> str:
    """Return a drawing that needs no script and no font of another host. Bars are in milliseconds."""
    lines: list[str] = []
    top = _ROW_HEIGHT
    for operation in dict.fromkeys(cell.operation for cell in cells):
        group = [cell for cell in cells if cell.operation == operation]
        lines.append(f'<text class="title" x="4" y="{top}">{escape(operation)}: p50 and p95 in ms</text>')
        top += 8
        longest = max(cell.figures.p95 for cell in group) or 1.0
        for cell in sorted(group, key=lambda cell: cell.figures.in_flight):
            lines += _row(cell, top, longest)
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


def _row(cell: Cell, top: float, longest: float) -> Iterator[str]:
    figures = cell.figures
    scale = (_WIDTH - _LABEL_WIDTH - _VALUE_WIDTH) / longest
    baseline = top + _BAR_HEIGHT - 2
    label = f"{cell.way}, {cell.form}, {figures.in_flight} in flight"
    yield f'<text x="{_LABEL_WIDTH - 8}" y="{baseline}" text-anchor="end">{escape(label)}</text>'
    for value, colour in ((figures.p95, _TAIL_COLOUR), (figures.p50, _MEDIAN_COLOUR)):
        size = f'width="{value * scale:.1f}" height="{_BAR_HEIGHT}"'
        yield f'<rect x="{_LABEL_WIDTH}" y="{top}" {size} fill="{colour}"/>'
    shown = f"{figures.p50:.1f} / {figures.p95:.1f} ms, {figures.per_second:,.0f} req/s"
    yield f'<text x="{_LABEL_WIDTH + figures.p95 * scale + 6:.1f}" y="{baseline}">{shown}</text>'
