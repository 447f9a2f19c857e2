"""Draws docs/drawings/*.txt as SVG: what passes between lanes, in order, or what lies in what.

The first line of a text is the title, the second its description. After a blank line there are lanes or a nesting.
Lanes: `lanes: a | b`, then `a -> b: label` (a call), `a --> b: label` (a reply) or `* a: label` (a step of its own). A
nesting: lines `name: remark`, indented by two spaces for each level.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

_WIDTH, _MARGIN, _TOP, _STEP = 880, 24, 84, 36
_INK, _SOFT, _BLUE, _LINE, _PAPER = "#1c1b19", "#5b5953", "#1f4e8c", "#d8d6cf", "#f5f4f0"
# Pixels of a letter at 12.5 px, rounded up: labels must not leave the drawing.
_LETTER = 6.6
_ARROW = re.compile(r"(?P<source>.+?) (?P<kind>-{1,2}>) (?P<target>.+?): (?P<label>.+)")
_NESTED = re.compile(r"(?P<name>[^:]+)(?:: (?P<remark>.+))?")


def drawings(folder: Path) -> dict[Path, str]:
    """Return the SVG of each text of a folder, by the path beside it. Raises ValueError for a line that is no such."""
    return {path.with_suffix(".svg"): drawing(path.read_text("utf-8")) for path in sorted(folder.glob("*.txt"))}


def drawing(text: str) -> str:
    """Return the SVG of one text."""
    title, description, _, *lines = text.rstrip().splitlines()
    height, parts = _sequence(lines) if lines[0].startswith("lanes: ") else _nesting(lines)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
        'font-family="Helvetica, Arial, sans-serif" font-size="12.5">'
    )
    return "\n".join([
        head,
        f"  <title>{escape(title)}</title>",
        f"  <desc>{escape(description)}</desc>",
        f'  <rect width="{_WIDTH}" height="{height}" rx="12" fill="{_PAPER}"/>',
        *(f"  {part}" for part in parts),
        "</svg>",
        "",
    ])  # fmt: skip


def _sequence(lines: Sequence[str]) -> tuple[int, list[str]]:
    names = lines[0].removeprefix("lanes: ").split(" | ")
    spacing = (_WIDTH - 2 * _MARGIN) / len(names)
    middles = {name: _MARGIN + spacing * (number + 0.5) for number, name in enumerate(names)}
    bottom = _TOP + _STEP * len(lines[1:]) - 8
    parts: list[str] = []
    for name, x in middles.items():
        width = min(spacing - 12, 140)
        parts += [
            f'<path d="M{x:.0f} 56V{bottom}" stroke="{_LINE}"/>',
            (
                f'<rect x="{x - width / 2:.0f}" y="20" width="{width:.0f}" height="36" rx="8" '
                f'fill="#fff" stroke="{_LINE}"/>'
            ),
            _text(x, 43, name, _INK, "middle", is_bold=True),
        ]
    for number, line in enumerate(lines[1:]):
        y = _TOP + _STEP * number + 12
        if line.startswith("* "):
            name, label = line[2:].split(": ", 1)
            parts += _own_step(middles[name], y, label)
        elif arrow := _ARROW.fullmatch(line):
            parts += _message(middles[arrow["source"]], middles[arrow["target"]], y, arrow)
        else:
            raise ValueError(line)
    return bottom + 20, parts


def _own_step(x: float, y: float, label: str) -> list[str]:
    width = len(label) * _LETTER + 20
    left = min(max(x - width / 2, _MARGIN), _WIDTH - _MARGIN - width)
    return [
        f'<rect x="{left:.0f}" y="{y - 16:.0f}" width="{width:.0f}" height="24" rx="12" fill="#fff" stroke="{_BLUE}"/>',
        _text(left + width / 2, y, label, _INK, "middle"),
    ]


def _message(source: float, target: float, y: float, arrow: re.Match[str]) -> list[str]:
    way = 1 if target > source else -1
    dashes = ' stroke-dasharray="5 4"' if arrow["kind"] == "-->" else ""
    tip = target - 3 * way
    label = arrow["label"]
    half = len(label) * _LETTER / 2
    middle = min(max((source + target) / 2, _MARGIN + half), _WIDTH - _MARGIN - half)
    return [
        (
            f'<g fill="none" stroke="{_BLUE}" stroke-width="2"><path d="M{source:.0f} {y}H{tip:.0f}"{dashes}/>'
            f'<path d="m{tip - 8 * way:.0f} {y - 6} {8 * way} 6 {-8 * way} 6"/></g>'
        ),
        _text(middle, y - 7, label, _INK, "middle", has_halo=True),
    ]


def _nesting(lines: Sequence[str]) -> tuple[int, list[str]]:
    parts: list[str] = []
    bottom, read = 0, 0
    while read < len(lines):
        bottom, read = _box(lines, read, 0, max(bottom + 8, 20), parts)
    return bottom + 20, parts


def _box(lines: Sequence[str], at: int, depth: int, top: int, parts: list[str]) -> tuple[int, int]:
    """Draw the line `at` with all that lies in it; return its bottom and the first line after it."""
    found = _NESTED.fullmatch(lines[at].strip())
    if found is None:
        raise ValueError(lines[at])
    x, place = _MARGIN + 20 * depth, len(parts)
    remark = ""
    if found["remark"]:
        remark = f'<tspan dx="12" fill="{_SOFT}" font-weight="normal">{escape(found["remark"])}</tspan>'
    parts.append(
        f'<text x="{x + 14}" y="{top + 21}" fill="{_INK}" font-weight="bold">{escape(found["name"])}{remark}</text>'
    )
    bottom, at = top + 32, at + 1
    has_inner = False
    while at < len(lines) and _depth(lines[at]) > depth:
        bottom, at = _box(lines, at, depth + 1, bottom + (8 if has_inner else 2), parts)
        has_inner = True
    bottom += 12 if has_inner else 0
    fill, stroke = ("#fff" if depth % 2 else _PAPER), (_BLUE if depth <= 1 else _LINE)
    rectangle = f'<rect x="{x}" y="{top}" width="{_WIDTH - 2 * x}" height="{bottom - top}" rx="8" '
    parts.insert(place, rectangle + f'fill="{fill}" stroke="{stroke}" stroke-width="{2 if depth == 1 else 1}"/>')
    return bottom, at


def _depth(line: str) -> int:
    return (len(line) - len(line.lstrip())) // 2


def _text(
    x: float, y: float, text: str, colour: str, anchor: str, *, is_bold: bool = False, has_halo: bool = False
) -> str:
    bold = ' font-weight="bold"' if is_bold else ""
    halo = f' paint-order="stroke" stroke="{_PAPER}" stroke-width="4"' if has_halo else ""
    return f'<text x="{x:.0f}" y="{y:.0f}" fill="{colour}" text-anchor="{anchor}"{bold}{halo}>{escape(text)}</text>'
