"""The conformance suite of MCP against our server: with the suite's own fixtures behind it, and with Skein behind it.

The suite's fixtures (a tool that returns a picture, one that asks its client for a text) are those of no real server,
so most scenarios need them; they use the same handler, guard and transport as Skein's own tools. The suite cannot
send a credential: before Skein stands a proxy that adds one.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from fix_cluster import Cluster, Tenant
from fix_conformance import serve_conformance
from fix_connections import limits
from fix_node import command, version_of
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from skein.memory.v1 import memory_pb2
from skein_kit.http_server.server import serve_http
from skein_memory.snapshots import store as snapshot_store

RELEASED = "@modelcontextprotocol/conformance"
# The first that knows the protocol's version of 2026-07-28.
NEXT = "conformance-next"
# A server that keeps no session and answers with one JSON document has no way to ask its client for something, nor to
# send it anything before the answer; Skein's tools do neither.
BEYOND_ONE_ANSWER = {
    "tools-call-with-logging",
    "tools-call-with-progress",
    "tools-call-sampling",
    "tools-call-elicitation",
    "elicitation-sep1034-defaults",
    "elicitation-sep1330-enums",
}
# Tasks are an extension, and the suite's fixtures for it sleep, fail and ask at will, as no tool of Skein does.
EXTENSION = "tasks-"
# What any server can be asked for, whatever its tools are.
OF_ANY_SERVER = (
    "server-initialize",
    "ping",
    "completion-complete",
    "tools-list",
    "resources-list",
    "prompts-list",
    "dns-rebinding-protection",
)
OF_ANY_SERVER_2026 = (
    "completion-complete",
    "tools-list",
    "resources-list",
    "prompts-list",
    "dns-rebinding-protection",
    "sep-2164-resource-not-found",
    "caching",
    "http-header-validation",
)
# What can be asked of tasks that do not sleep, fail or ask when they are told to.
OF_TASKS = ("tasks-capability-negotiation", "tasks-request-headers", "tasks-request-state-removal")
# It compares the text of an answer with that of the suite's own tool.
OF_THE_FIXTURE = {"tasks-headers-tolerate-mcp-method-on-tools-call"}
# A tool of the suite, and what is called for it: a tool that answers at once, and one whose work goes on.
CALLED: dict[str, tuple[str, dict[str, Any]]] = {
    "greet": ("recall", {"query": "tea"}),
    "slow_compute": ("create_snapshot", {"label": "task"}),
}


async def suite(package: str, url: str, *arguments: str) -> str:
    """Run the suite on a server; return what it prints."""
    assert version_of(package)
    return await command(f"{package}/dist/index.js", "server", "--url", url, *arguments)


async def outcomes(package: str, url: str, *arguments: str) -> dict[str, tuple[int, int]]:
    """Return how many checks of each scenario passed and failed."""
    result = await suite(package, url, *arguments)
    summary = re.findall(r"^[✓✗] ([a-z0-9-]+): (\d+) passed, (\d+) failed", result, re.MULTILINE)
    if summary:
        return {name: (int(passed), int(failed)) for name, passed, failed in summary}
    one = re.search(r"^Passed: (\d+)/\d+, (\d+) failed", result, re.MULTILINE)
    assert one is not None, result
    return {arguments[arguments.index("--scenario") + 1]: (int(one[1]), int(one[2]))}


def failed(outcomes: dict[str, tuple[int, int]]) -> set[str]:
    return {name for name, (_passed, wrong) in outcomes.items() if wrong}


async def test_the_suite_finds_nothing_wrong_with_our_handler() -> None:
    async with serve_conformance(stateless=False, json_response=False) as url:
        actual_outcomes = await outcomes(RELEASED, url, "--suite", "all")

    assert failed(actual_outcomes) == set()
    assert len(actual_outcomes) == 32
    assert sum(passed for passed, _ in actual_outcomes.values()) >= 44


async def test_the_suite_finds_nothing_wrong_with_independent_requests() -> None:
    async with serve_conformance() as url:
        actual_outcomes = await outcomes(RELEASED, url, "--suite", "all")

    assert failed(actual_outcomes) == BEYOND_ONE_ANSWER
    assert sum(passed for passed, _ in actual_outcomes.values()) >= 28


async def test_the_suite_finds_nothing_wrong_in_the_version_without_handshakes() -> None:
    async with serve_conformance(json_response=False) as url:
        actual_outcomes = await outcomes(NEXT, url, "--requirements", "2026-07-28")

    core = {name: counts for name, counts in actual_outcomes.items() if not name.startswith(EXTENSION)}
    assert failed(core) == set()
    assert len(core) == 40
    assert sum(passed for passed, _ in core.values()) >= 130


@asynccontextmanager
async def with_credential(address: str, credential: str, **added: str) -> AsyncIterator[str]:
    """Stand before a server, add a credential and headers, and call what `CALLED` has for a tool of the suite."""
    async with httpx.AsyncClient(base_url=f"http://{address}", trust_env=False, timeout=30) as client:

        async def forward(request: Request) -> Response:
            headers = [(name, value) for name, value in request.headers.items() if name != "content-length"]
            body = await request.body()
            if any(f'"{tool}"'.encode() in body for tool in CALLED):
                message = json.loads(body)
                called = message["params"].get("name")
                if called in CALLED:
                    name, arguments = CALLED[called]
                    message["params"] |= {"name": name, "arguments": arguments}
                    body = json.dumps(message).encode()
                    headers = [(key, name if (key, value) == ("mcp-name", called) else value) for key, value in headers]
            answer = await client.request(
                request.method,
                str(request.url.path),
                content=body,
                headers=[*headers, *added.items(), ("authorization", f"Bearer {credential}")],
            )
            return Response(answer.content, answer.status_code, media_type=answer.headers.get("content-type"))

        app = Starlette(routes=[Route("/mcp", forward, methods=["GET", "POST", "DELETE"])])
        async with serve_http(app, "127.0.0.1", 0, limits()) as here:
            yield f"http://{here}/mcp"


@pytest.mark.essential
async def test_the_suite_finds_nothing_wrong_with_skeins_own_tools(cluster: Cluster, tenant: Tenant) -> None:
    results: dict[str, tuple[int, int]] = {}
    async with with_credential(cluster.addresses["http"], tenant.api_key) as url:
        for scenario in OF_ANY_SERVER:
            results |= await outcomes(RELEASED, url, "--scenario", scenario)

    assert failed(results) == set()
    assert sum(passed for passed, _ in results.values()) >= len(OF_ANY_SERVER)


async def test_the_suite_finds_nothing_wrong_with_skeins_own_tools_without_handshakes(
    cluster: Cluster, tenant: Tenant
) -> None:
    results: dict[str, tuple[int, int]] = {}
    async with with_credential(cluster.addresses["http"], tenant.api_key) as url:
        for scenario in OF_ANY_SERVER_2026:
            results |= await outcomes(NEXT, url, "--spec-version", "2026-07-28", "--scenario", scenario)

    assert failed(results) == set()
    assert sum(passed for passed, _ in results.values()) >= 30


async def test_the_suite_finds_nothing_wrong_with_skeins_own_tasks(
    cluster: Cluster, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_store, "_BATCH_SIZE", 1)
    memories = [memory_pb2.Memory(content=f"note {number}") for number in range(25)]
    await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=memories))
    checks: dict[str, str] = {}

    async with with_credential(cluster.addresses["http"], tenant.api_key, **{"skein-toolsets": "all"}) as url:
        for scenario in OF_TASKS:
            printed = await suite(NEXT, url, "--spec-version", "2026-07-28", "--force", "--scenario", scenario)
            checks |= re.findall(r"\[([a-z0-9-]+) *\] \S*(SUCCESS|FAILURE)", printed)

    assert {name for name, result in checks.items() if result == "FAILURE"} == OF_THE_FIXTURE
    assert len(checks) >= 10
