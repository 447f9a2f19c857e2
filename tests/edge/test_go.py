"""The Go module of the contract is built, and the program of the Go guide runs with it."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from fix_cluster import Cluster, Tenant

ROOT = Path(__file__).parents[2]
HOME = ROOT / ".edge/go"
GUIDE = ROOT / "docs/guides/go.md"
MODULE = "example.org/skein"

# A busy machine compiles gRPC slowly.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of the guide, compiled against the built module and Debian's libraries."""
    if not (HOME / "ready").exists():
        pytest.fail("Go is not in .edge; run these tests with: make test-edge")
    folder = tmp_path_factory.mktemp("go")
    plugins = {**os.environ, "PATH": f"{HOME / 'usr/bin'}:{os.environ['PATH']}"}
    module = folder / "src" / MODULE
    subprocess.run([sys.executable, ROOT / "libs/go/tools/go_module.py", module], env=plugins, check=True)
    assert f"module {MODULE}\n" in (module / "go.mod").read_text("utf-8")
    (text,) = re.findall(r"^```go\n(.*?)^```$", GUIDE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    main = folder / "src/example.org/agent/main.go"
    main.parent.mkdir()
    main.write_text(text, "utf-8")
    # No module proxy is needed in a GOPATH.
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "GO111MODULE": "off",
        "GOPATH": f"{folder}:{HOME / 'usr/share/gocode'}",
        "GOCACHE": str(HOME / "cache"),
        "GOTOOLCHAIN": "local",
        "CGO_ENABLED": "0",
    }
    command = [str(HOME / "toolchain/go/bin/go"), "build", "-o", str(folder / "agent"), "."]
    subprocess.run(command, cwd=main.parent, env=environment, check=True)
    return folder / "agent"


async def test_the_program_of_the_go_guide_recalls_its_message_however_often_it_runs(
    cluster: Cluster, tenant: Tenant, program: Path
) -> None:
    environment = {"SKEIN_ENDPOINT": cluster.endpoint, "SKEIN_API_KEY": tenant.api_key}

    printed = [
        (await asyncio.to_thread(subprocess.run, program, env=environment, check=True, capture_output=True)).stdout
        for _ in range(2)
    ]

    for text in printed:
        *hits, reason = text.decode().splitlines()
        assert reason == "MEMORY_NOT_FOUND"
        assert hits[0].partition(" ")[2] == "I drink green tea in the morning."
