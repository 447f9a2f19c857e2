"""`make size`: how large the product is, and what a call walks through.

Prints lines of the product's Python by kind, files, RPCs and settings, and for three calls of a cluster in one process
how many of the product's files and functions a call enters. Each call is made twice, and the second one is followed.
"""

from __future__ import annotations

import ast
import asyncio
import io
import logging
import statistics
import sys
import tempfile
import threading
import tokenize
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import registries
import structlog

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2
from skein_client.client import Client
from skein_cluster.processes.single_process import single_process_cluster
from skein_kit.rpc.declarations import paths

ROOT = Path(__file__).resolve().parents[2]
# Generated, or written by others.
_GENERATED = ("libs/protos/",)
_PRODUCT = ("libs", "services")
_PORTS = (
    "GATEWAY_PORT", "AUTH_PORT", "TENANCY_PORT", "SESSION_PORT", "MEMORY_PORT", "RECALL_PORT", "WORKER_PORT",
    "PC2_PORT", "PC2_BASE_PORT", "HTTP_PORT", "ADMIN_PORT",
)  # fmt: skip


def main() -> None:
    """Print the tables."""
    files = sources(*_PRODUCT)
    texts = {file: file.read_text("utf-8") for file in files}
    kinds: Counter[str] = Counter()
    for text in texts.values():
        kinds += lines_by_kind(text)
    lengths = [len(line) for text in texts.values() for line in text.splitlines() if line.strip()]
    _table("Product", [
        ("lines of Python", kinds.total()),
        *((f"- {kind}", f"{count} ({count / kinds.total():.1%})") for kind, count in kinds.most_common()),
        ("median length of a line", statistics.median(lengths)),
        ("files of Python", len(files)),
        ("median lines of a file", statistics.median(len(text.splitlines()) for text in texts.values())),
        ("lines of SQL", _lines("*.sql", *_PRODUCT)),
        ("lines of proto", _lines("*.proto", "protos")),
        ("RPCs", sum(1 for _ in paths())),
        ("settings", settings_count()),
    ])  # fmt: skip
    tests = [file for file in sources("tests") if "bench" not in file.relative_to(ROOT).parts]
    _table("Tests without benchmarks", [
        ("lines of Python", sum(len(file.read_text("utf-8").splitlines()) for file in tests)),
        ("files", len(tests)),
    ])  # fmt: skip
    _table("What a call enters, caller's side included", [
        (name, f"{len(files)} files, {len(functions)} functions")
        for name, files, functions in asyncio.run(walks())
    ])  # fmt: skip


def sources(*folders: str) -> list[Path]:
    """Return the Python files of some folders that git tracks and people write."""
    found = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return sorted(
        path for path in found
        if not str(path.relative_to(ROOT)).startswith(_GENERATED) and "node_modules" not in path.parts
    )  # fmt: skip


def lines_by_kind(text: str) -> Counter[str]:
    """Return how many lines of a module are imports, signatures, docstrings, comments, blank, and bodies."""
    kinds = ["blank" if not line.strip() else "bodies" for line in text.splitlines()]

    def mark(start: int, end: int, kind: str) -> None:
        for number in range(start - 1, end):
            if kinds[number] == "bodies":
                kinds[number] = kind

    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and token.line.strip().startswith("#"):
            mark(token.start[0], token.start[0], "comments")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            mark(node.lineno, node.end_lineno or node.lineno, "imports")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            mark(node.lineno, node.body[0].lineno - 1, "signatures")
        if (
            isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and ast.get_docstring(node) is not None
        ):
            first = node.body[0]
            mark(first.lineno, first.end_lineno or first.lineno, "docstrings")
    return Counter(kinds)


def settings_count() -> int:
    """Return how many settings an operator can set."""
    registries.import_everything()
    return sum(len(group.settings) for group in registries.settings_groups())


async def walks() -> list[tuple[str, set[str], set[str]]]:
    """Return the files and functions that each of three calls enters."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    with tempfile.TemporaryDirectory(prefix="skein-size-") as folder:
        environment = {f"SKEIN_{name}": "0" for name in _PORTS} | {
            "SKEIN_CANARY_SECONDS": "0",
        }
        async with (
            single_process_cluster(Path(folder), environment=environment, durable=False) as cluster,
            Client(endpoint=cluster.addresses["gateway"], api_key=cluster.credentials.api_key) as client,
        ):
            calls: dict[str, Callable[[], Awaitable[Any]]] = {
                "CreateMemory": lambda: client.memories.CreateMemory(
                    memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="Tea is kept above the stove."))
                ),
                "Recall": lambda: client.gateway.Recall(gateway_pb2.RecallRequest(query="Where is the tea?")),
                "ListSessions": lambda: client.sessions.ListSessions(session_pb2.ListSessionsRequest()),
            }
            return [(name, *await entered(call)) for name, call in calls.items()]


async def entered(call: Callable[[], Awaitable[Any]]) -> tuple[set[str], set[str]]:
    """Return the product's files and functions that a call enters once everything is warm."""
    await call()
    with _recording() as functions:
        await call()
    return {function.partition(":")[0] for function in functions}, functions


@contextmanager
def _recording() -> Iterator[set[str]]:
    functions: set[str] = set()

    def record(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(ROOT)):
            file = str(Path(frame.f_code.co_filename).relative_to(ROOT))
            if file.startswith(_PRODUCT) and not file.startswith(_GENERATED):
                functions.add(f"{file}:{frame.f_code.co_qualname}")

    sys.setprofile(record)
    threading.setprofile(record)
    try:
        yield functions
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def _lines(pattern: str, *folders: str) -> int:
    found = [path for folder in folders for path in (ROOT / folder).rglob(pattern)]
    return sum(
        len(path.read_text("utf-8").splitlines())
        for path in found
        if not str(path.relative_to(ROOT)).startswith(_GENERATED)
    )


def _table(title: str, rows: Sequence[tuple[str, object]]) -> None:
    width = max(len(name) for name, _ in rows)
    print(f"{title}:")
    for name, value in rows:
        print(f"  {name:<{width}}  {value}")


if __name__ == "__main__":
    main()
