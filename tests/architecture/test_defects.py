"""The catalogue of defects fits the code: each can still be planted, and names test files that are there."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
DEFECTS = tomllib.loads((ROOT / "tests/tools/defects.toml").read_text("utf-8"))["defect"]


def test_each_defect_replaces_a_text_that_occurs_once() -> None:
    occurrences = {each["name"]: (ROOT / each["file"]).read_text("utf-8").count(each["before"]) for each in DEFECTS}

    assert {name: count for name, count in occurrences.items() if count != 1} == {}
    assert all(each["before"] != each["after"] for each in DEFECTS)


def test_each_defect_names_test_files_that_are_there() -> None:
    files = {path.name for path in ROOT.glob("tests/*/test_*.py")}

    assert {name for each in DEFECTS for name in each["expect"].split()} - files == set()


def test_each_area_has_two_defects_at_least() -> None:
    areas = Counter(each["area"] for each in DEFECTS)

    assert len(areas) >= 20
    assert min(areas.values()) >= 2
