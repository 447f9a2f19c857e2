"""In which order several workers run the tests."""

from __future__ import annotations

from pathlib import Path

from fix_catalogue import over
from fix_order import SLOW, ordered

ROOT = Path(__file__).parents[2]
COUNTS = {"a": 3, "b": 1, "c": 2, "d": 4, "e": 1, "f": 5}
MODULES = {name: [f"{name}{number}" for number in range(count)] for name, count in COUNTS.items()}


@over(
    ("parts", "expected"),
    [
        (1, ["f0 f1 f2 f3 f4 b0 e0 a0 a1 a2 c0 c1 d0 d1 d2 d3"]),
        (2, ["f0 f1 f2 f3 f4 e0 a0 a1", "b0 a2 c0 c1 d0 d1 d2 d3"]),
        (3, ["f0 f1 f2 f3 f4", "b0 a0 a1 a2 c0", "e0 c1 d0 d1 d2 d3"]),
    ],
)
def test_each_workers_part_begins_with_its_share_of_the_slow_modules(parts: int, expected: list[str]) -> None:
    result = ordered(MODULES, ("f", "not selected", "b", "e"), parts)

    assert result == " ".join(expected).split()


def test_no_test_is_lost_where_the_slow_modules_are_more_than_a_part() -> None:
    result = ordered(MODULES, ("f", "d", "a"), 4)

    assert sorted(result) == sorted(item for items in MODULES.values() for item in items)


def test_the_slow_modules_exist() -> None:
    assert [name for name in SLOW if not (ROOT / name).is_file()] == []
    assert len(SLOW) == len(set(SLOW))
