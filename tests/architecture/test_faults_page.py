"""The tests that deploy/faults.md names exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "deploy/faults.md").read_text("utf-8")
NAMED = set(re.findall(r"`(tests/[\w/]+\.py::test_\w+)`", PAGE))


def found_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text("utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    names = {node.name for node in tree.body if isinstance(node, kinds) and node.name.startswith("test_")}
    return {f"{path.relative_to(ROOT).as_posix()}::{name}" for name in names}


def test_every_test_that_the_page_names_exists() -> None:
    existing = {name for named in NAMED for name in found_in(ROOT / named.partition("::")[0])}

    assert NAMED - existing == set()
