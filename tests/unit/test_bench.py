from __future__ import annotations

import itertools
import xml.etree.ElementTree as ET

import pytest
from bench.figures import Cell, Figures, growth, percentile, ratio
from bench.load import Limits, measured, whole_seconds
from bench.plot import svg
from bench.report import goal
from bench.sentences import Sentences
from bench.ways import GATEWAY, RECALL, SQL
from fix_catalogue import over


def figures(*milliseconds: float, cpu: float = 0.0) -> Figures:
    return Figures(
        in_flight=1,
        seconds=2.0,
        latencies=tuple(value / 1e3 for value in milliseconds),
        server_cpu=cpu,
        client_cpu=0.0,
    )


@over(
    ("values", "share", "expected"),
    [([], 0.5, 0.0), ([3.0], 0.95, 3.0), ([4.0, 1.0, 3.0, 2.0], 0.5, 2.0), (list(range(100, 0, -1)), 0.95, 95)],
)
def test_a_percentile_is_a_value_that_was_measured(values: list[float], share: float, expected: float) -> None:
    assert percentile(values, share) == expected


def test_figures_are_given_per_call_and_per_second() -> None:
    measured_figures = figures(1.0, 2.0, 3.0, 10.0, cpu=0.02)

    assert (measured_figures.per_second, measured_figures.p50, measured_figures.p95) == (2.0, 2.0, 10.0)
    assert measured_figures.server_cpu_per_thousand == pytest.approx(5.0)


def test_calls_are_counted_by_the_second_in_which_they_ended() -> None:
    assert whole_seconds([0.1, 0.9, 1.0, 3.5, 4.2], 4.3) == (2, 1, 0, 1)
    assert whole_seconds([0.1], 0.2) == ()


def test_rounds_are_put_together() -> None:
    whole = Figures.of_rounds([figures(1.0, 2.0, cpu=0.01), figures(3.0, 10.0, cpu=0.03)])

    assert (whole.calls, whole.per_second, whole.p50) == (4, 1.0, 2.0)
    assert whole.server_cpu_per_thousand == pytest.approx(10.0)


def test_figures_of_no_calls_divide_by_nothing() -> None:
    assert (figures().per_second, figures().p50, figures().server_cpu_per_thousand) == (0.0, 0.0, 0.0)
    assert ratio(1.0, 0.0) is None


@over(
    ("values", "expected"),
    [
        ([5.0] * 9, 0.0),
        ([float(n) for n in range(9)], 8.0),
        ([5.0] * 4 + [90.0] + [5.0] * 4, 0.0),
        ([5.0], 0.0),
        ([], 0.0),
    ],
)
def test_growth_is_what_most_samples_agree_on(values: list[float], expected: float) -> None:
    assert growth([10.0 * n for n in range(len(values))], values) == pytest.approx(expected)


def test_sentences_repeat_with_their_seed_and_never_within_it() -> None:
    one, same, other = Sentences(1), Sentences(1), Sentences(2)

    sentences = [one.statement() for _ in range(500)] + [one.question() for _ in range(500)]

    assert sentences == [same.statement() for _ in range(500)] + [same.question() for _ in range(500)]
    assert len(set(sentences)) == len(sentences)
    assert other.statement() not in sentences


async def test_the_requested_number_of_calls_is_made() -> None:
    numbers: list[int] = []

    async def call(number: int) -> None:
        numbers.append(number)

    result = await measured(
        call,
        itertools.count(),
        in_flight=3,
        limits=Limits(calls=20, seconds=60.0),
        server_cpu=lambda: 0.0,
    )

    assert (result.calls, sorted(numbers)) == (20, list(range(20)))


def test_the_goal_compares_medians_of_one_cluster() -> None:
    cells = [
        Cell(operation=RECALL, way=SQL, form="one process", figures=figures(10.0)),
        Cell(operation=RECALL, way=GATEWAY, form="one process", figures=figures(26.0)),
        Cell(operation=RECALL, way=GATEWAY, form="one each", figures=figures(1.0)),
    ]

    (line,) = goal(cells)

    assert "2.60 ×" in line
    assert "missed" in line


def test_a_drawing_has_a_bar_of_each_cell_as_long_as_its_latency() -> None:
    cells = [
        Cell(operation=RECALL, way=way, form="one process", figures=figures(*latencies))
        for way, latencies in ((SQL, (1.0, 2.0)), (GATEWAY, (2.0, 4.0)))
    ]

    drawing = ET.fromstring(svg([cell.as_json() for cell in cells]))  # noqa: S314 - our own drawing.

    widths = [float(bar.attrib["width"]) for bar in drawing.iter("{http://www.w3.org/2000/svg}rect")]
    # The 95th percentile and the median of each way.
    assert widths == pytest.approx([widths[2] / 2, widths[2] / 4, widths[2], widths[2] / 2], abs=0.1)
    assert any(SQL in (text.text or "") for text in drawing.iter("{http://www.w3.org/2000/svg}text"))
