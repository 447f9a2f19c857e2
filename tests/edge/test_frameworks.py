"""libs/adapters with the real frameworks, in an environment of their own, against a cluster: files of `frameworks`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from fix_cluster import Cluster, Tenant, test_environment

ROOT = Path(__file__).parents[2]
CHECKS = Path(__file__).with_name("frameworks")
# What CrewAI needs excludes what the others need.
ENVIRONMENTS = {"check_crewai": "crewai"}
LIBRARIES = [ROOT / "libs" / name for name in ("adapters", "client", "protos")]

pytestmark = pytest.mark.timeout(600)


async def run(environment: str, *command: str, **settings: str) -> str:
    """Run a module of an environment; return what it prints."""
    python = ROOT / ".edge" / environment / "bin/python"
    if not python.exists():
        pytest.fail(f"{python.relative_to(ROOT)} is missing; run these tests with: make test-edge")
    process = await asyncio.create_subprocess_exec(
        *(str(python), "-m", *command),
        cwd=ROOT,
        env={**test_environment(), "PYTHONPATH": ":".join(map(str, LIBRARIES)), **settings},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed = (await process.communicate())[0].decode()
    assert process.returncode == 0, printed
    return printed


@pytest.mark.parametrize("path", sorted(CHECKS.glob("check_*.py")), ids=lambda path: path.stem)
async def test_an_adapter_does_what_its_framework_asks_for(cluster: Cluster, tenant: Tenant, path: Path) -> None:
    printed = await run(
        ENVIRONMENTS.get(path.stem, "frameworks"),
        *("pytest", "-q", "-c", str(CHECKS / "pytest.ini"), "--confcutdir", str(CHECKS), str(path)),
        SKEIN_ENDPOINT=cluster.endpoint,
        SKEIN_API_KEY=tenant.api_key,
        # CrewAI reports its runs otherwise.
        CREWAI_DISABLE_TELEMETRY="true",
    )

    assert " passed" in printed
    assert "skipped" not in printed


async def test_the_types_of_the_adapters_are_those_of_the_frameworks() -> None:
    modules = (
        "-p",
        "skein_adapters.google_adk",
        "-p",
        "skein_adapters.llama_index",
        "-p",
        "skein_adapters.model_clients",
        "-p",
        "skein_adapters.openai_agents",
        "-p",
        "skein_adapters.pydantic_ai",
        "-p",
        "skein_adapters.tools",
    )

    await run(
        "frameworks",
        *("mypy", "--strict", "--python-version", "3.11", "--config-file", "", "--follow-imports", "silent"),
        *("--cache-dir", str(ROOT / ".edge/frameworks/mypy"), *modules),
    )
