"""What a cut by relevance costs and saves: recall, precision and abstention at each threshold, and a drawing. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from skein_cluster.bench.exactness import Cut, CutMeasure, ExactAnswer, Exactness

# Most hits that help nothing lie below 0.05, so the steps are finer there. 0 keeps all hits.
THRESHOLDS = (0.0, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
_WIDTH, _HEIGHT, _MARGIN = 760, 360, 48
_COLOURS = {"recall": "#3f51b5", "precision": "#e65100", "abstention": "#2e7d32"}
# The background keeps the text readable where a page is dark.
_STYLE = "svg{background:#fff}text{font:12px sans-serif;fill:#444}polyline{fill:none;stroke-width:2}"


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """All answers with the hits of at least this relevance."""

    threshold: float
    figures: Exactness

    def as_json(self) -> dict[str, float | None]:
        """Return it for a program."""
        return {"min_relevance": self.threshold, **self.figures.as_json()}


def relevance_curve(answers: Sequence[ExactAnswer]) -> list[CurvePoint]:
    """Return a point for each threshold; empty without answers. The answers should hold all hits, without a cut."""
    if not answers:
        return []
    return [
        CurvePoint(threshold, Exactness.of([answer.after(Cut(CutMeasure.RELEVANCE, threshold)) for answer in answers]))
        for threshold in THRESHOLDS
    ]


def svg(points: Sequence[CurvePoint], title: str) -> str:
    """Draw the curve; the drawing needs no script and no font of another host. `points` are those of a curve."""
    side_x, side_y = _WIDTH - 2 * _MARGIN, _HEIGHT - 2 * _MARGIN
    step = side_x / (len(points) - 1)

    def place(index: int, share: float) -> str:
        return f"{_MARGIN + index * step:.1f},{_HEIGHT - _MARGIN - share * side_y:.1f}"

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" role="img">',
        f"<style>{_STYLE}</style>",
        f"<title>{escape(title)}</title>",
        f'<text x="{_MARGIN}" y="20" font-weight="bold">{escape(title)}</text>',
        f'<text x="{_WIDTH / 2}" y="{_HEIGHT - 8}" text-anchor="middle">least relevance of a hit</text>',
    ]
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        lines.append(f'<polyline points="{place(0, share)} {place(len(points) - 1, share)}" stroke="#ddd"/>')
        y = _HEIGHT - _MARGIN - share * side_y + 4
        lines.append(f'<text x="{_MARGIN - 8}" y="{y:.1f}" text-anchor="end">{share:g}</text>')
    for index, point in enumerate(points):
        x = _MARGIN + index * step
        lines.append(f'<text x="{x:.1f}" y="{_HEIGHT - _MARGIN + 18}" text-anchor="middle">{point.threshold:g}</text>')
    for row, (name, colour) in enumerate(_COLOURS.items()):
        shares = [getattr(point.figures, name) for point in points]
        if any(share is None for share in shares):
            continue
        coordinates = " ".join(place(index, share) for index, share in enumerate(shares))
        lines.append(f'<polyline points="{coordinates}" stroke="{colour}"/>')
        lines.append(f'<text x="{_WIDTH - _MARGIN - 90 * (3 - row)}" y="20" style="fill:{colour}">{name}</text>')
    return "\n".join([*lines, "</svg>\n"])
