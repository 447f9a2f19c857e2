"""What MCP has since 2026-07-28, with the SDK's own client: questions, tasks, subscriptions, apps and trace links."""

from __future__ import annotations

import asyncio
import secrets
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import httpx2
import pytest
from fix_cluster import Cluster, Tenant
from fix_mcp import HANDSHAKE, LATEST, Mcp
from mcp.client.client import Client
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, ElicitRequestFormParams, ElicitResult, Result
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from skein.memory.v1 import memory_pb2, snapshots_pb2
from skein_gateway.mcp.toolsets import TOOLS
from skein_kit.telemetry.metrics import TRACING
from skein_memory.snapshots import store as snapshot_store

TASKS = "io.modelcontextprotocol/tasks"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
VERSION = "io.modelcontextprotocol/protocolVersion"


@pytest.fixture
async def mcp(cluster: Cluster, tenant: Tenant) -> AsyncIterator[Mcp]:
    async with Mcp.of(cluster.addresses["http"], tenant.api_key, "?toolsets=all") as client:
        yield client


@asynccontextmanager
async def connected(cluster: Cluster, tenant: Tenant, **options: Any) -> AsyncIterator[Client]:
    """Connect the SDK's client with all toolsets."""
    url = f"http://{cluster.addresses['http']}/mcp?toolsets=all"
    headers = {"authorization": f"Bearer {tenant.api_key}"}
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False, timeout=httpx2.Timeout(60)) as http,
        Client(streamable_http_client(url, http_client=http), mode="auto", **options) as client,
    ):
        yield client


async def ask(
    mcp: Mcp, method: str, params: dict[str, Any], *, header: str = "", **capabilities: Any
) -> dict[str, Any]:
    """Send a message of the newest version, with the header mcp-name of its name; return its whole answer."""
    name = header or params.get("name") or params.get("uri") or params.get("taskId")
    headers = {"mcp-protocol-version": LATEST, "mcp-method": method, **({"mcp-name": name} if name else {})}
    meta = {VERSION: LATEST, CAPABILITIES: capabilities, **params.pop("_meta", {})}
    answer: dict[str, Any] = (await mcp.send(method, {**params, "_meta": meta}, **headers)).json()
    return answer


async def remember(tenant: Tenant, content: str = "tea") -> str:
    request = memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content=content))
    return (await tenant.memory.CreateMemory(request)).memory.memory_id


async def is_purged(tenant: Tenant, memory_id: str) -> bool:
    request = memory_pb2.ListMemoriesRequest()
    return memory_id not in {memory.memory_id for memory in (await tenant.memory.ListMemories(request)).memories}


@pytest.mark.parametrize("answer", ["accept", "decline", "unchecked"])
async def test_a_purge_is_confirmed_by_a_person(cluster: Cluster, tenant: Tenant, answer: str) -> None:
    memory_id = await remember(tenant)
    questions: list[str] = []

    async def elicit(_context: Any, params: Any) -> ElicitResult:
        assert isinstance(params, ElicitRequestFormParams)
        questions.append(params.message)
        if answer == "decline":
            return ElicitResult(action="decline")
        return ElicitResult(action="accept", content={"confirm": answer == "accept"})

    async with connected(cluster, tenant, elicitation_callback=elicit) as client:
        result = await client.call_tool("forget", {"memory_ids": [memory_id], "purge": True})

    assert len(questions) == 1
    assert memory_id in questions[0]
    assert (bool(result.is_error), await is_purged(tenant, memory_id)) == (
        (False, True) if answer == "accept" else (True, False)
    )


@pytest.mark.system
async def test_only_what_is_final_is_asked_about(cluster: Cluster, tenant: Tenant) -> None:
    memory_id = await remember(tenant)

    async def elicit(_context: Any, _params: Any) -> ElicitResult:
        pytest.fail("asked")

    async with connected(cluster, tenant, elicitation_callback=elicit) as client:
        dry = await client.call_tool("purge_memories", {"memory_ids": [memory_id], "dry_run": True})
        soft = await client.call_tool("forget", {"memory_ids": [memory_id]})

    assert not dry.is_error
    assert not soft.is_error


@pytest.mark.parametrize("no", ["false", "FALSE", False])
async def test_a_purge_that_only_looks_like_a_trial_is_asked_about(mcp: Mcp, tenant: Tenant, no: object) -> None:
    memory_id = await remember(tenant)
    calls = [
        ("purge_memories", {"memory_ids": [memory_id], "dry_run": no}),
        ("forget", {"memory_ids": [memory_id], "purge": True, "dry_run": no}),
        ("forget_person", {"subject_id": "ann", "dry_run": no}),
    ]

    for name, arguments in calls:
        answer = await ask(mcp, "tools/call", {"name": name, "arguments": arguments}, elicitation={})
        assert answer["result"]["resultType"] != "complete" or answer["result"]["isError"]

    assert not await is_purged(tenant, memory_id)


async def test_a_purge_that_a_person_cannot_read_is_refused(mcp: Mcp, tenant: Tenant) -> None:
    memory_id = await remember(tenant)
    arguments = {"memory_ids": [memory_id, *(f"{memory_id[:-4]}{number:04}" for number in range(90))], "purge": True}

    answer = await ask(mcp, "tools/call", {"name": "forget", "arguments": arguments}, elicitation={})

    assert answer["result"]["isError"]
    assert not await is_purged(tenant, memory_id)


async def test_an_answer_counts_for_the_arguments_that_were_asked_about(mcp: Mcp, tenant: Tenant) -> None:
    one, two = await remember(tenant), await remember(tenant, "coffee")
    purge = {"name": "forget", "arguments": {"memory_ids": [one], "purge": True}}
    other = {"name": "forget", "arguments": {"memory_ids": [two], "purge": True}}
    yes = {"confirm": {"action": "accept", "content": {"confirm": True}}}

    asked = (await ask(mcp, "tools/call", purge, elicitation={}))["result"]
    moved = (
        await ask(
            mcp,
            "tools/call",
            {**other, "inputResponses": yes, "requestState": asked["requestState"]},
            elicitation={"form": {}},
        )
    )["result"]

    assert asked["resultType"] == moved["resultType"] == "input_required"
    assert asked["inputRequests"]["confirm"]["params"]["requestedSchema"]["required"] == ["confirm"]
    assert not await is_purged(tenant, two)


async def test_a_client_that_cannot_ask_is_not_asked(mcp: Mcp, tenant: Tenant) -> None:
    one, two, three = await remember(tenant), await remember(tenant, "coffee"), await remember(tenant, "water")

    plain = (await ask(mcp, "tools/call", {"name": "forget", "arguments": {"memory_ids": [one], "purge": True}}))[
        "result"
    ]
    by_url = await ask(
        mcp,
        "tools/call",
        {"name": "forget", "arguments": {"memory_ids": [two], "purge": True}},
        elicitation={"url": {}},
    )
    await mcp.ask(
        "initialize",
        {
            "protocolVersion": HANDSHAKE,
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "t", "version": "1"},
        },
    )
    await mcp.call("forget", memory_ids=[three], purge=True)

    assert plain["resultType"] == by_url["result"]["resultType"] == "complete"
    assert await is_purged(tenant, one)
    assert await is_purged(tenant, three)


class Task(Result):
    """A task, as the extension has it."""

    result_type: Literal["task"] = "task"
    task_id: str
    status: str
    poll_interval_ms: int


class TaskExtension(ClientExtension):
    """The extension on the client's side, which waits for the end of a task."""

    identifier = TASKS

    def __init__(self, mcp: Mcp) -> None:
        self._mcp = mcp
        self.states: list[str] = []

    def claims(self) -> list[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=Task, resolve=self._wait)]

    async def _wait(self, task: Task, _context: ClaimContext) -> CallToolResult:
        self.states.append(task.status)
        while True:
            state = (await ask(self._mcp, "tasks/get", {"taskId": task.task_id}, extensions={TASKS: {}}))["result"]
            self.states.append(state["status"])
            if state["status"] == "completed":
                return CallToolResult.model_validate(state["result"])
            await asyncio.sleep(0.01)


@pytest.mark.system
async def test_a_large_snapshot_is_a_task_until_it_is_complete(
    mcp: Mcp, cluster: Cluster, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_store, "_BATCH_SIZE", 1)
    for number in range(25):
        await remember(tenant, f"note {number}")

    taken = (
        await ask(
            mcp, "tools/call", {"name": "create_snapshot", "arguments": {"label": "before"}}, extensions={TASKS: {}}
        )
    )["result"]
    early = (await ask(mcp, "tasks/get", {"taskId": taken["taskId"]}, extensions={TASKS: {}}))["result"]
    snapshots = (await tenant.snapshots.ListSnapshots(snapshots_pb2.ListSnapshotsRequest())).snapshots
    async with cluster.superuser() as connection:
        await connection.execute("UPDATE memory.snapshots SET state = 'ready' WHERE tenant_id = $1", tenant.tenant_id)
    late = (await ask(mcp, "tasks/get", {"taskId": taken["taskId"]}, extensions={TASKS: {}}))["result"]

    assert (taken["resultType"], taken["status"], taken["ttlMs"]) == ("task", "working", None)
    assert (early["resultType"], early["status"], early["createdAt"]) == ("complete", "working", taken["createdAt"])
    assert (late["status"], late["result"]["structuredContent"]["snapshot"]["snapshot_id"]) == (
        "completed",
        snapshots[0].snapshot_id,
    )


@pytest.mark.system
async def test_work_that_ends_at_once_is_no_task(mcp: Mcp, cluster: Cluster, tenant: Tenant) -> None:
    await remember(tenant)
    extension = TaskExtension(mcp)

    async with connected(cluster, tenant, extensions=[extension]) as client:
        snapshot = await client.call_tool("create_snapshot", {"label": "before"})
        forgotten = await client.call_tool("forget_person", {"subject_id": "ann"})

    assert extension.states == []
    assert not snapshot.is_error
    assert not forgotten.is_error


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
async def test_a_header_that_names_another_task_is_refused(mcp: Mcp, method: str) -> None:
    answers = [
        await ask(mcp, method, {"taskId": "a"}, header=header, extensions={TASKS: {}})
        for header in ("b", "=?base64?Yg==?=", "a", "=?base64?YQ==?=")
    ]

    # There is no such task, but its header is right.
    assert [answer["error"]["code"] for answer in answers] == [-32020, -32020, -32602, -32602]


@pytest.mark.system
async def test_a_task_belongs_to_callers_who_may_do_its_work(
    mcp: Mcp, cluster: Cluster, other_tenant: Tenant, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_store, "_BATCH_SIZE", 1)
    for number in range(25):
        await remember(tenant, f"note {number}")
    taken = (
        await ask(
            mcp, "tools/call", {"name": "create_snapshot", "arguments": {"label": "before"}}, extensions={TASKS: {}}
        )
    )["result"]
    task = {"taskId": taken["taskId"]}

    async with Mcp.of(cluster.addresses["http"], other_tenant.api_key, "?toolsets=all") as stranger:
        theirs = (await ask(stranger, "tasks/get", dict(task), extensions={TASKS: {}}))["result"]
    undeclared = (await ask(mcp, "tasks/get", dict(task)))["error"]
    unknown = [
        (await ask(mcp, method, {"taskId": wrong}, extensions={TASKS: {}}))["error"]["code"]
        for method in ("tasks/get", "tasks/update", "tasks/cancel")
        for wrong in (
            "x",
            "forget.1.AA",
            "create_snapshot.x.AA",
            "create_snapshot.1.!",
            f"create_snapshot.1.{'A' * 20000}",
        )
    ]
    cancelled = (await ask(mcp, "tasks/cancel", dict(task), extensions={TASKS: {}}))["result"]

    assert (theirs["status"], theirs["result"]["isError"]) == ("completed", True)
    assert "SNAPSHOT_NOT_FOUND" in theirs["result"]["content"][0]["text"]
    assert undeclared["code"] == -32021
    assert undeclared["data"] == {"requiredCapabilities": {"extensions": {TASKS: {}}}}
    assert set(unknown) == {-32602}
    assert cancelled["resultType"] == "complete"


def test_what_may_go_on_and_what_is_final_are_declared() -> None:
    assert {name for name, tool in TOOLS.items() if tool.continuation} == {"create_snapshot", "forget_person"}
    assert {name for name, tool in TOOLS.items() if tool.confirmation} == {"forget", "purge_memories", "forget_person"}


@pytest.mark.system
async def test_a_client_hears_of_the_memories_that_it_subscribed_to(cluster: Cluster, tenant: Tenant) -> None:
    one, two = await remember(tenant), await remember(tenant, "coffee")
    mine = f"skein://memories/{one}"

    async with (
        asyncio.timeout(60),
        connected(cluster, tenant) as client,
        client.listen(resource_subscriptions=[mine, "skein://sessions/s1"], resources_list_changed=True) as events,
    ):
        for memory_id in (two, one):
            request = memory_pb2.UpdateMemoryRequest(memory=memory_pb2.Memory(memory_id=memory_id, title="changed"))
            request.update_mask.paths.append("title")
            await tenant.memory.UpdateMemory(request)
        await remember(tenant, "water")
        first, second = [await anext(events), await anext(events)]

    assert (type(first).__name__, getattr(first, "uri", "")) == ("ResourceUpdated", mine)
    assert type(second).__name__ == "ResourcesListChanged"


async def test_a_client_without_the_permission_does_not_listen(mcp: Mcp, cluster: Cluster) -> None:
    async with Mcp.of(cluster.addresses["http"], "skein_invalid", "?toolsets=all") as stranger:
        answer = await stranger.send("subscriptions/listen", {"notifications": {"resourcesListChanged": True}})

    assert answer.status_code == 401
    assert mcp is not None


async def test_apps_are_pages_without_any_address(mcp: Mcp) -> None:
    tools = (await mcp.ask("tools/list"))["tools"]
    apps = {tool["name"]: tool["_meta"]["ui"]["resourceUri"] for tool in tools if "_meta" in tool}
    pages = {uri: (await mcp.ask("resources/read", {"uri": uri}))["contents"][0] for uri in apps.values()}

    assert apps == {"list_pending_memories": "ui://skein/approvals", "replay_recall": "ui://skein/why"}
    for page in pages.values():
        assert page["mimeType"] == "text/html;profile=mcp-app"
        assert page["_meta"] == {"ui": {"csp": {}}}
        assert "ui/initialize" in page["text"]
        assert not any(word in page["text"] for word in ("http:", "https:", "src=", "innerHTML", "@import"))
    assert "error" in (await mcp.send("resources/read", {"uri": "ui://skein/other"})).json()


async def test_the_capabilities_name_the_extensions(mcp: Mcp) -> None:
    discovered = (await ask(mcp, "server/discover", {}))["result"]

    assert set(discovered["capabilities"]["extensions"]) == {TASKS, "io.modelcontextprotocol/ui"}


async def test_a_message_is_linked_to_the_span_that_its_meta_names(mcp: Mcp) -> None:
    trace_id, exporter = secrets.token_hex(16), InMemorySpanExporter()
    meta = {"traceparent": f"00-{trace_id}-{secrets.token_hex(8)}-01"}
    TRACING.start(SimpleSpanProcessor(exporter))
    try:
        call = {"name": "remember", "arguments": {"content": f"tea {uuid.uuid4()}"}}
        linked = (await ask(mcp, "tools/call", {**call, "_meta": meta}))["result"]
        damaged = (await ask(mcp, "tools/call", {**call, "_meta": {"traceparent": "00-x\r\ny"}}))["result"]
    finally:
        TRACING.stop()

    links = [f"{link.context.trace_id:032x}" for span in exporter.get_finished_spans() for link in span.links]
    assert not linked.get("isError")
    assert not damaged.get("isError")
    # Other work of the process may be traced meanwhile.
    assert links.count(trace_id) == 1
