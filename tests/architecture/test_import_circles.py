"""No files of a package import each other in a circle; imports for types count."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = sorted(path for folder in ("libs", "services") for path in (ROOT / folder).glob("*/skein_*"))


def imports(package: Path) -> dict[str, set[str]]:
    """Return the modules of a package, each with those of the same package that it imports."""
    files = {".".join(path.relative_to(package.parent).with_suffix("").parts): path for path in package.rglob("*.py")}
    files = {name.removesuffix(".__init__"): path for name, path in files.items()}
    graph: dict[str, set[str]] = {}
    for name, path in files.items():
        needed: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                needed |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                members = {f"{node.module}.{alias.name}" for alias in node.names}
                needed |= {m if m in files else node.module for m in members}
        graph[name] = needed & files.keys() - {name}
    return graph


def circle(package: Path) -> list[str]:
    """Return one circle of imports, from a module back to itself; empty when there is none."""
    try:
        TopologicalSorter(imports(package)).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_the_files_of_a_package_import_each_other_in_no_circle() -> None:
    circles = {package.name: circle(package) for package in PACKAGES}

    assert {"skein_kit", "skein_memory"} <= circles.keys()
    assert {name: match for name, match in circles.items() if match} == {}
