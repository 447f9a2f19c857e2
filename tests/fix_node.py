"""Scripts for Node, which run other people's clients; what those are is in tests/edge/package.json."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import shutil
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ROOT / ".edge/node"
PATIENCE_SECONDS = 100.0


def tool(name: str) -> str:
    """Find a program; a missing one fails the test, because a skipped one would go unnoticed."""
    program = shutil.which(name)
    if program is None:
        pytest.fail(f"{name} is not on the search path; run these tests with: make test-edge")
    return program


def version_of(package: str) -> str:
    """Return the version of an installed package; one that is missing fails the test."""
    path = PACKAGES / "node_modules" / package / "package.json"
    if not path.exists():
        pytest.fail(f"{package} is not in .edge; run these tests with: make test-edge")
    return str(json.loads(path.read_text("utf-8"))["version"])


def newer_node() -> Path:
    """Return the Node that came with the packages; some want a newer one than systems have."""
    machine = {"x86_64": "x64", "aarch64": "arm64"}[platform.machine()]
    version_of(f"node-linux-{machine}")
    return PACKAGES / f"node_modules/node-linux-{machine}/bin/node"


async def command(script: str, *arguments: str) -> str:
    """Run a package's own command with the newer Node, and return what it says, whatever it thinks of it."""
    process = await asyncio.create_subprocess_exec(
        str(newer_node()),
        str(PACKAGES / "node_modules" / script),
        *arguments,
        cwd=PACKAGES,
        env={**os.environ, "NO_COLOR": "1"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return output.decode()


async def run(
    script: Path,
    environment: Mapping[str, str],
    answer: Callable[[Any], Awaitable[str]] | None = None,
    *,
    folder: Path = PACKAGES,
    node: Path | None = None,
    before: Path | None = None,
    patience_seconds: float = PATIENCE_SECONDS,
) -> dict[str, Any]:
    """Run a script and return the last thing that it says; `answer` is called for each {"ask": …} of it.

    The text of `before` stands before that of the script. Its packages are looked for from `folder`. None: the
    machine's Node.
    """
    process = await asyncio.create_subprocess_exec(
        tool("node") if node is None else str(node),
        "--input-type=module",
        "--eval",
        ("" if before is None else before.read_text("utf-8")) + script.read_text("utf-8"),
        cwd=folder,
        env={**{name: value for name, value in os.environ.items() if not name.startswith("SKEIN_")}, **environment},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=1024 * 1024,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    complaints = asyncio.create_task(process.stderr.read())
    report: dict[str, Any] = {}
    try:
        async with asyncio.timeout(patience_seconds):
            async for line in process.stdout:
                report = json.loads(line)
                if "ask" in report and answer is not None:
                    process.stdin.write((await answer(report["ask"])).encode() + b"\n")
                    await process.stdin.drain()
            code = await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert code == 0, (await complaints).decode()
    return report
