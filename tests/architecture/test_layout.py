"""All services look the same, and the repository holds nothing that belongs elsewhere."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest
from fix_catalogue import over

from skein_cluster import registry

ROOT = Path(__file__).parents[2]
SERVICES = sorted(registry.NAMES)
NEEDED = {"__init__.py", "py.typed", "service.py"}
TOP_LEVEL = {
    "protos", "libs", "services", "deploy", "docs", "tests", "changes", ".ci", ".github",
    "README.md", "Makefile", "docker-compose.yml", "buf.yaml", "buf.gen.yaml", "CONTRIBUTING.md", "SECURITY.md",
    "pyproject.toml", "requirements.in", "requirements.lock", "excludes.txt", "LICENSE", "CHANGELOG.md", ".gitignore",
    ".pre-commit-config.yaml",
    ".dockerignore",
}  # fmt: skip
MAX_FILE_LINES = 600
# A suite may tell its whole subject in one place.
MAX_TEST_LINES = 650


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],  # noqa: S607 - git of the machine.
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    return [ROOT / name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()]


FILES = tracked()
OURS = [path for path in FILES if path.suffix == ".py" and not path.stem.endswith(("_pb2", "_pb2_grpc"))]


@over("service", SERVICES)
def test_a_service_has_the_files_that_every_service_has(service: str) -> None:
    folder = ROOT / "services" / service

    assert (folder / "README.md").is_file()
    assert (folder / "pyproject.toml").is_file()
    assert {file.name for file in (folder / f"skein_{service}").iterdir()} >= NEEDED


@over("service", SERVICES)
def test_a_service_declares_every_service_that_it_calls(service: str) -> None:
    package = ROOT / "services" / service / f"skein_{service}"
    code = "\n".join(file.read_text("utf-8") for file in package.rglob("*.py"))
    called = set(re.findall(r'\.channel\(\s*"([a-z0-9]+)"', code))

    (loaded,) = registry.load([service])

    assert called <= set(loaded.depends_on)
    assert (loaded.name, loaded.port) == (service, registry.PORTS[service])


def test_nothing_unexpected_lies_at_the_top() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in FILES} - TOP_LEVEL == set()


@pytest.mark.system
@over(
    "path", [path for path in OURS if not path.name.startswith("test_")], name=lambda path: str(path.relative_to(ROOT))
)
def test_a_module_opens_by_saying_what_it_knows(path: Path) -> None:
    text = path.read_text("utf-8")

    assert not text.strip() or ast.get_docstring(ast.parse(text)), "the first statement is no docstring"


def test_no_file_grows_past_a_sitting() -> None:
    def longest(path: Path) -> int:
        return MAX_TEST_LINES if path.name.startswith("test_") else MAX_FILE_LINES

    lines = {path: path.read_text("utf-8").count("\n") for path in OURS}

    assert {str(path.relative_to(ROOT)): count for path, count in lines.items() if count > longest(path)} == {}


@pytest.mark.system
def test_no_file_names_a_package_index_or_a_place_of_one_machine() -> None:
    forbidden = re.compile(
        r"pypi\.org|pythonhosted|registry\.npmjs|deb\.debian|index-url"
        r"|(?<![\w.])/(?:work|home/\w+|root)/(?!x y/)"  # Places of one machine.
    )
    this = Path(__file__)
    results = [
        f"{path.relative_to(ROOT)}: {match.group(0)}"
        for path in FILES
        if path != this and path.suffix not in {".onnx", ".png"}
        for match in forbidden.finditer(path.read_text("utf-8", errors="replace"))
    ]

    assert results == []


def test_no_module_sends_memory_content_to_the_log() -> None:
    calls = re.compile(r"log\w*\.(?:debug|info|warning|error|exception)\(([^()]*(?:\([^()]*\)[^()]*)*)\)")
    results = [
        f"{path.relative_to(ROOT)}: {match.group(0)}"
        for path in OURS
        if "tests" not in path.relative_to(ROOT).parts
        for match in calls.finditer(path.read_text("utf-8"))
        if re.search(r"\b(?:content|text|query|secret|api_key|token|credential)=", match.group(1))
    ]

    assert results == []
