"""`make test-changed`: runs the tests that the difference from a commit touches.

A test file is chosen when it imports a changed file, names it, or calls an RPC whose servicer reaches it by imports.
What only composes services reaches all of them, so imports are not followed through it.
"""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parents[2]
TIERS = {
    "fast": ("architecture", "attacks", "schema", "service", "unit"),
    "system": ("system",),
    "edge": ("edge",),
}
# They put services together: each of them imports all that a service has.
_COMPOSERS = re.compile(r"(^|/)(service|registry|__main__)\.py$|/skein_cluster/processes/")
# Every test depends on them; a change of theirs chooses the whole tier.
_SHARED = re.compile(r"^(tests/(conftest|fix_cluster|fix_folders)\.py|pyproject\.toml|requirements\.lock)$")
_RPC = re.compile(r"^[A-Z][a-z]\w+$")
# What has more than this share of all RPCs behind it is a part of every call.
_COMMON = 0.5


@click.command()
@click.option("--base", default="", help="The commit to compare with; by default where this branch left main.")
@click.option("--tier", type=click.Choice(["fast", "system", "edge", "all"]), default="fast", show_default=True)
@click.option("--names", is_flag=True, help="Print the files and run nothing.")
@click.argument("arguments", nargs=-1)
def main(base: str, tier: str, names: bool, arguments: tuple[str, ...]) -> None:  # noqa: FBT001 - click passes it by name.
    """Run the tests of a tier that the working tree's difference from a commit touches."""
    changed = differing(base or _fork_point())
    chosen = touched(changed, tier)
    click.echo(f"{len(changed)} files changed, {len(chosen)} test files touched", err=True)
    if names or not chosen:
        click.echo("\n".join(chosen))
        return
    sys.exit(subprocess.run([sys.executable, "-m", "pytest", *arguments, *chosen], cwd=ROOT, check=False).returncode)


def differing(base: str) -> list[str]:
    """Return the paths that differ from a commit, those that git does not track yet included."""
    tracked = _git("diff", "--name-only", base)
    return sorted({*tracked, *_git("ls-files", "--others", "--exclude-standard")})


def touched(changed: Iterable[str], tier: str) -> list[str]:
    """Return the test files of a tier that a change of these files touches, by path."""
    tests = tests_of(tier)
    chosen: set[str] = set()
    for path in changed:
        if _SHARED.match(path):
            return sorted(tests)
        chosen |= _touched_by(path, tests)
    return sorted(chosen)


def tests_of(tier: str) -> list[str]:
    """Return all test files of a tier, by path."""
    folders = TIERS.get(tier) or tuple(folder for each in TIERS.values() for folder in each)
    return [path for path in Sources.read().files if _is_test(path, folders)]


def _touched_by(path: str, tests: list[str]) -> set[str]:
    sources = Sources.read()
    importers = sources.importers_of(_readers_of(path))
    rpcs = {name for file in importers for name in sources.rpcs[file]}
    if len(rpcs) > _COMMON * len(sources.rpc_names):
        return set(tests)
    # A call, its request, or its name in a table of calls.
    calls = re.compile(rf"""[."']({"|".join(rpcs)})[("']|\b({"|".join(rpcs)})Request\b""") if rpcs else None
    feature = Path(path).parent.name.removeprefix("skein_")
    named = re.compile(rf"{re.escape(Path(path).name)}|{re.escape(path)}")
    is_python = path.endswith(".py")
    return {
        test
        for test in tests
        if test in importers
        or any(
            (calls is not None and calls.search(text)) or (not is_python and named.search(text))
            for text in sources.texts_of(test)
        )
        or (len(feature) > 3 and feature.rstrip("s") in Path(test).stem)
        or test.startswith("tests/architecture/")
    }  # fmt: skip


def _readers_of(path: str) -> set[str]:
    """Return the Python files that a path stands for: itself, or those that read it beside them."""
    if path.endswith(".py"):
        return {path}
    beside = [other for other in Sources.read().files if Path(other).parent == Path(path).parent]
    named = {other for other in beside if Path(path).name in Sources.read().files[other]}
    return named or {other for other in beside if not _COMPOSERS.search(other)}


class Sources:
    """The Python files of the repository: what they say, import and serve."""

    def __init__(self, files: dict[str, str]) -> None:
        """Read the imports and RPCs of files given by path with their texts."""
        self.files = files
        self._modules = {_module(path): path for path in files}
        self._imports: dict[str, set[str]] = defaultdict(set)
        self._reverse: dict[str, set[str]] = defaultdict(set)
        self.rpcs: dict[str, set[str]] = defaultdict(set)
        for path, text in files.items():
            for node in ast.walk(ast.parse(text)):
                self._imports[path].update(self._imported(path, node))
                if isinstance(node, ast.AsyncFunctionDef) and _RPC.match(node.name) and path.startswith("services/"):
                    self.rpcs[path].add(node.name)
            for other in self._imports[path]:
                self._reverse[other].add(path)
        self.rpc_names = {name for names in self.rpcs.values() for name in names}

    @classmethod
    @functools.cache
    def read(cls) -> Sources:
        """Read the working tree once."""
        paths = [*_git("ls-files", "*.py"), *_git("ls-files", "--others", "--exclude-standard", "*.py")]
        return cls({path: (ROOT / path).read_text("utf-8") for path in sorted(set(paths)) if (ROOT / path).is_file()})

    def importers_of(self, paths: Iterable[str]) -> set[str]:
        """Return these files and all that import them, through any number of others but those that compose services."""
        found, waiting = set(paths), list(paths)
        while waiting:
            path = waiting.pop()
            if _COMPOSERS.search(path):
                continue
            new = self._reverse[path] - found
            found |= new
            waiting += new
        return found

    def texts_of(self, test: str) -> Iterator[str]:
        """Yield a test's own text and those of the helpers that it imports."""
        yield self.files[test]
        for path in self._imports[test]:
            if path.startswith("tests/"):
                yield self.files[path]

    def _imported(self, path: str, node: ast.AST) -> Iterator[str]:
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                parents = Path(path).parents[node.level - 1]
                module = ".".join(filter(None, [_module(f"{parents}/__init__.py"), node.module]))
            names = [module, *(f"{module}.{alias.name}" for alias in node.names)]
        return (self._modules[name] for name in names if name in self._modules)


def _module(path: str) -> str:
    """Return the name that a file is imported by: from the folder of its distribution, or from tests/."""
    parts = Path(path.removesuffix(".py").removesuffix("/__init__")).parts
    skip = {"services": 2, "libs": 2, "tests": 1}.get(parts[0], 0)
    return ".".join(parts[skip:])


def _is_test(path: str, folders: Iterable[str]) -> bool:
    return Path(path).name.startswith("test_") and any(path.startswith(f"tests/{folder}/") for folder in folders)


def _fork_point() -> str:
    for branch in ("origin/main", "main"):
        found = subprocess.run(
            ["git", "merge-base", "HEAD", branch],  # noqa: S607 - git of the developer's path.
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if found.returncode == 0:
            return found.stdout.strip()
    return "HEAD"


def _git(*arguments: str) -> list[str]:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


if __name__ == "__main__":
    main()
