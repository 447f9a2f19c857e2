"""Prometheus itself reads our configuration and rules, scrapes a cluster that is used, and answers every question."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import shutil
import subprocess
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from fix_accounts import new_account
from fix_cluster import Cluster, Tenant, running_cluster, test_environment
from fix_http import get
from fix_watching import ROOT, RULE_FILES, RULES, SHOWN_FILES, Query, panel_queries, runbook_queries
from grpc import aio

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2
from skein_cluster.processes.ports import free_ports

pytestmark = pytest.mark.timeout(600)

FOLDER = ROOT / "deploy/prometheus"
PATIENCE_SECONDS = 240.0
# So that everything that happens at all happens within seconds.
EAGER = {
    "SKEIN_SLOW_QUERY_SECONDS": "0.000001",
    "SKEIN_CANARY_SECONDS": "1",
    "SKEIN_ADVANCED_WORKER_PAUSE_FACTOR": "0.05",
}
PEOPLE_AT_ONCE = 2


def tool(name: str) -> str:
    """Find a program; a missing one fails the test, because a skipped one would go unnoticed."""
    program = shutil.which(name)
    if program is None:
        pytest.fail(f"{name} is not on the search path; run these tests with: make test-edge")
    return program


def promtool(*arguments: str | Path, text: str | None = None) -> str:
    """Run promtool; return what it says, or fail with it."""
    ran = subprocess.run([tool("promtool"), *arguments], input=text, check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


# Without a cluster.


@pytest.mark.essential
def test_the_configuration_is_valid() -> None:
    assert "SUCCESS" in promtool("check", "config", FOLDER / "prometheus.yml")


@pytest.mark.essential
def test_the_rules_are_valid_and_free_of_lint() -> None:
    promtool("check", "rules", "--lint=all", "--lint-fatal", *RULE_FILES)


async def test_each_alert_fires_when_it_should_and_is_quiet_when_not() -> None:
    # At once, because each takes some seconds of one core.
    outputs = await asyncio.gather(*(asyncio.to_thread(promtool, "test", "rules", file) for file in SHOWN_FILES))

    assert len(outputs) > 1
    assert all("SUCCESS" in each for each in outputs)


# With one.


@dataclass(frozen=True)
class MonitoredCluster:
    """A cluster of processes that people use, and the Prometheus that watches it."""

    cluster: Cluster
    prometheus: str


@pytest.fixture(scope="module")
async def monitored(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[MonitoredCluster]:
    """A process for each service, used all the time, and scraped every two seconds."""
    environment = {**test_environment(), **EAGER}
    async with (
        running_cluster(tmp_path_factory.mktemp("monitored"), environment, form="many") as cluster,
        scraping(
            {address: name for name, address in cluster.admins.items()}, tmp_path_factory.mktemp("prom")
        ) as address,
        in_use(cluster),
    ):
        yield MonitoredCluster(cluster, address)


@pytest.mark.essential
async def test_every_process_is_scraped(monitored: MonitoredCluster) -> None:
    processes = monitored.cluster.admins

    up = await until(monitored.prometheus, 'up{job="skein"} == 1', every=len(processes))

    assert {series["metric"]["process"] for series in up} == set(processes)
    assert {series["metric"]["instance"] for series in up} == set(processes.values())


async def test_promtool_finds_nothing_to_say_about_the_metrics(monitored: MonitoredCluster) -> None:
    for address in monitored.cluster.admins.values():
        status, metrics = await get(address, "/metrics")
        assert status == 200
        assert promtool("check", "metrics", text=metrics) == ""


async def test_every_question_of_a_dashboard_has_an_answer(monitored: MonitoredCluster) -> None:
    queries = panel_queries()

    # What cannot happen here, such as a replica, is asked for in a way that answers 0.
    unanswered = await unanswered_of(monitored.prometheus, queries)

    assert len(queries) > 50
    assert unanswered == []


async def test_every_question_of_a_runbook_can_be_asked(monitored: MonitoredCluster) -> None:
    queries = runbook_queries()

    answers = [(query, await ask(monitored.prometheus, query.expr)) for query in queries]

    assert len(queries) > 50
    assert [(query, answer["error"]) for query, answer in answers if answer["status"] != "success"] == []


async def test_every_rule_is_evaluated_without_a_fault(monitored: MonitoredCluster) -> None:
    rules = await evaluated(monitored.prometheus)

    assert sorted(rule["name"] for rule in rules) == sorted(rule.get("alert") or rule["record"] for rule in RULES)
    assert [rule for rule in rules if rule["health"] != "ok"] == []


async def test_the_promises_are_counted_from_the_calls_of_real_people(monitored: MonitoredCluster) -> None:
    series = await until(monitored.prometheus, 'slo:skein_burn:ratio{window="5m"} >= 0', every=4)

    assert {each["metric"]["slo"] for each in series} == {
        "recall_availability",
        "recall_latency",
        "write_availability",
        "write_latency",
    }
    errors = await numbers(monitored.prometheus, 'slo:skein_bad:count{window="5m", slo=~".*availability"}')
    assert errors == [0, 0]


async def test_a_healthy_cluster_raises_no_page(monitored: MonitoredCluster) -> None:
    await until(monitored.prometheus, "sum(skein_canary_probes_total) > 0")

    alerts = await ask(monitored.prometheus, 'ALERTS{severity="page", alertname!~".*Latency.*|SkeinShedding"}')

    # Pending ones are among them. A machine that is busy with other things may well be slow.
    assert alerts["data"]["result"] == []


# What people do.


@asynccontextmanager
async def in_use(cluster: Cluster) -> AsyncIterator[None]:
    """Have some people use the cluster until the block ends; enter it when each has done everything once."""
    tenants = [await cluster.new_tenant() for _ in range(PEOPLE_AT_ONCE)]
    async with asyncio.TaskGroup() as users:
        once = [asyncio.Event() for _ in tenants]
        tasks = [users.create_task(use(cluster, *each)) for each in zip(tenants, once, strict=True)]
        for each in once:
            await each.wait()
        yield
        for task in tasks:
            task.cancel()


async def use(cluster: Cluster, tenant: Tenant, once: asyncio.Event) -> None:
    """Make calls of several kinds for ever, also some that are refused, so that every metric has something to show."""
    session = (await tenant.sessions.CreateSession(session_pb2.CreateSessionRequest())).session.session_id
    for day in range(10**9):
        memory = memory_pb2.Memory(content=f"the kettle is descaled on day {day} of the month")
        await tenant.gateway.Remember(gateway_pb2.RememberRequest(memories=[memory]))
        await tenant.gateway.Recall(gateway_pb2.RecallRequest(query=f"when is the kettle descaled? {day}"))
        question = gateway_pb2.RecallRequest(query="the kettle")
        await tenant.gateway.BuildContext(gateway_pb2.BuildContextRequest(recall=question, token_budget=200))
        turn = gateway_pb2.BuildContextRequest(recall=question, token_budget=200, ledger_id="kettle")
        await tenant.gateway.BuildContext(turn)
        await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))
        message = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=f"and on day {day}?")
        await tenant.sessions.AppendMessages(session_pb2.AppendMessagesRequest(session_id=session, messages=[message]))
        await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest())
        await new_account(cluster)
        with contextlib.suppress(aio.AioRpcError):
            await tenant.memory.GetMemory(memory_pb2.GetMemoryRequest(memory_id=str(uuid.uuid4())))
        with contextlib.suppress(aio.AioRpcError):
            await cluster.with_key(f"nobody's key {day}").memory.ListMemories(memory_pb2.ListMemoriesRequest())
        once.set()


# What Prometheus says.


@asynccontextmanager
async def scraping(processes: dict[str, str], folder: Path) -> AsyncIterator[str]:
    """Run a Prometheus with our configuration, pointed at these admin ports, every two seconds; yield its address."""
    config: dict[str, Any] = yaml.safe_load((FOLDER / "prometheus.yml").read_text("utf-8"))
    config["global"] = {"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "2s"}
    config["rule_files"] = [str(FOLDER / files) for files in config["rule_files"]]
    # Names are found by the compose network's DNS, which is not here.
    config["scrape_configs"] = [
        {
            "job_name": "skein",
            "static_configs": [
                {"targets": [address], "labels": {"process": name}} for address, name in processes.items()
            ],
        }
    ]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config), "utf-8")
    with free_ports(["prometheus"], "127.0.0.1") as ports, (folder / "prometheus.log").open("wb") as log:
        address = f"127.0.0.1:{ports['prometheus']}"
        process = await asyncio.create_subprocess_exec(
            tool("prometheus"),
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={address}",
            stdout=log,
            stderr=log,
        )
        try:
            yield address
        finally:
            process.terminate()
            await process.wait()


async def request(address: str, path: str) -> dict[str, Any]:
    """Ask Prometheus; empty while it does not answer yet."""
    try:
        status, body = await get(address, path)
    except OSError:
        return {}
    return dict(json.loads(body)) if status in {200, 400, 422} else {}


async def ask(address: str, query: str) -> dict[str, Any]:
    """Ask a question: an object with `status`, and `data` or `error`."""
    return await request(address, f"/api/v1/query?query={quote(query)}")


async def numbers(address: str, query: str) -> list[float]:
    """Return the values of the series that a query finds, but those that are none."""
    answer = await ask(address, query)
    if answer.get("status") == "error":
        pytest.fail(f"{query}: {answer['error']}")
    results = [float(series["value"][1]) for series in answer.get("data", {}).get("result", [])]
    return [value for value in results if not math.isnan(value)]


async def unanswered_of(address: str, queries: list[Query]) -> list[Query]:
    """Ask again and again what was not answered yet; return what never is."""
    remaining = queries
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_SECONDS):
            while remaining:
                remaining = [query for query in remaining if not await numbers(address, query.expr)]
                await asyncio.sleep(0.25)
    return remaining


async def until(address: str, query: str, *, every: int = 1) -> list[dict[str, Any]]:
    """Ask a query until there are that many series."""
    result: list[dict[str, Any]] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(result) < every:
            await asyncio.sleep(0.1)
            result = (await ask(address, query)).get("data", {}).get("result", [])
    return result


async def evaluated(address: str) -> list[dict[str, Any]]:
    """Ask until every rule was evaluated."""
    rules: list[dict[str, Any]] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not rules or any(rule["health"] == "unknown" for rule in rules):
            await asyncio.sleep(0.1)
            groups = (await request(address, "/api/v1/rules")).get("data", {}).get("groups", [])
            rules = [rule for group in groups for rule in group["rules"]]
    return rules
