"""deploy/faults.md names tests that exist, and every test of a fault is named there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "deploy/faults.md").read_text("utf-8")
NAMED = set(re.findall(r"`(tests/[\w/]+\.py::test_\w+)`", PAGE))
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith(("| fault |", "| ---"))]
COLUMNS = 5


def found_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text("utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    names = {node.name for node in tree.body if isinstance(node, kinds) and node.name.startswith("test_")}
    return {f"{path.relative_to(ROOT).as_posix()}::{name}" for name in names}


def test_every_test_that_the_page_names_exists() -> None:
    existing = {name for named in NAMED for name in found_in(ROOT / named.partition("::")[0])}

    assert NAMED - existing == set()


def test_every_test_of_a_fault_is_on_the_page() -> None:
    faults = {name for path in ROOT.glob("tests/cluster/test_faults*.py") for name in found_in(path)}

    assert faults - NAMED == set()


def test_every_row_says_all_of_it_and_names_a_test() -> None:
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in ROWS]

    assert ROWS
    assert [row for row in cells if len(row) != COLUMNS or not all(row) or "tests/" not in row[-1]] == []


def test_links_of_the_page_lead_somewhere() -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", PAGE) if "://" not in link]

    assert [link for link in links if not (ROOT / "deploy" / link).exists()] == []
