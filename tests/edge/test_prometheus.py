"""Prometheus itself reads our configuration, our rules and what a running cluster exposes."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from fix_cluster import Cluster, Tenant
from fix_http import get

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein_cluster.ports import free_ports

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy/prometheus"
PATIENCE_SECONDS = 60.0


def tool(name: str) -> str:
    """Find a program; a missing one fails the test, because nobody would notice a skipped one."""
    found = shutil.which(name)
    if found is None:
        pytest.fail(f"{name} is not on the search path; run these tests with: make test-edge")
    return found


def promtool(*arguments: str | Path, text: str | None = None) -> str:
    """Run promtool; return what it says, or fail with it."""
    ran = subprocess.run([tool("promtool"), *arguments], input=text, check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


async def use(tenant: Tenant) -> None:
    """Make calls of several kinds, so that every metric has something to show."""
    memory = memory_pb2.Memory(content="the kettle is descaled on the first of the month")
    await tenant.gateway.Remember(gateway_pb2.RememberRequest(memories=[memory]))
    await tenant.gateway.Recall(gateway_pb2.RecallRequest(query="when is the kettle descaled?"))
    await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest())


def test_the_configuration_is_valid() -> None:
    assert "SUCCESS" in promtool("check", "config", FOLDER / "prometheus.yml")


def test_the_rules_are_valid_and_free_of_lint() -> None:
    promtool("check", "rules", "--lint=all", "--lint-fatal", FOLDER / "rules.yml")


def test_each_alert_fires_when_it_should_and_is_quiet_when_not() -> None:
    assert "SUCCESS" in promtool("test", "rules", ROOT / "tests/edge/rules_test.yml")


def test_every_query_of_a_dashboard_is_valid(tmp_path: Path) -> None:
    queries = [
        target["expr"].replace("$__rate_interval", "1m").replace("$process", ".*")
        for file in (ROOT / "deploy/grafana/dashboards").glob("*.json")
        for panel in json.loads(file.read_text("utf-8"))["panels"]
        for target in panel["targets"]
    ]
    rules = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(queries)]
    file = tmp_path / "queries.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}), "utf-8")

    assert queries
    promtool("check", "rules", "--lint=none", file)


async def test_promtool_finds_nothing_to_say_about_the_metrics(cluster: Cluster, tenant: Tenant) -> None:
    await use(tenant)

    for address in sorted(set(cluster.admins.values())):
        status, metrics = await get(address, "/metrics")
        assert status == 200
        assert "skein_rpc_requests_total" in metrics
        assert promtool("check", "metrics", text=metrics) == ""


async def test_a_real_prometheus_scrapes_the_cluster_and_evaluates_every_rule(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    processes = {address: name for name, address in cluster.admins.items()}
    async with scraping(processes, tmp_path) as prometheus:
        await use(tenant)

        up = await until(prometheus, 'up{job="skein"} == 1', every=len(processes))
        calls = await until(prometheus, 'skein_rpc_requests_total{service="skein.gateway.v1.GatewayService"} > 0')
        rules = await evaluated(prometheus)

    assert {series["metric"]["instance"] for series in up} == set(processes)
    assert {"Remember", "Recall"} <= {series["metric"]["method"] for series in calls}
    assert {series["metric"]["code"] for series in calls} == {"OK"}
    expected = set(re.findall(r"- (?:alert|record): (\S+)", (FOLDER / "rules.yml").read_text("utf-8")))
    assert {rule["name"] for rule in rules} == expected


@asynccontextmanager
async def scraping(processes: dict[str, str], folder: Path) -> AsyncIterator[str]:
    """Run a Prometheus with our configuration, pointed at these admin ports, four times a second; yield its address."""
    config: dict[str, Any] = yaml.safe_load((FOLDER / "prometheus.yml").read_text("utf-8"))
    config["global"] = {"scrape_interval": "250ms", "scrape_timeout": "250ms", "evaluation_interval": "250ms"}
    config["rule_files"] = [str(FOLDER / "rules.yml")]
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
    address = f"127.0.0.1:{free_ports(['prometheus'], '127.0.0.1')['prometheus']}"
    with (folder / "prometheus.log").open("wb") as log:
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


async def ask(address: str, path: str) -> dict[str, Any]:
    """Ask Prometheus; empty while it does not answer yet."""
    try:
        status, body = await get(address, path)
    except OSError:
        return {}
    return dict(json.loads(body)["data"]) if status == 200 else {}


async def until(address: str, query: str, *, every: int = 1) -> list[dict[str, Any]]:
    """Ask a query until there are that many series."""
    result: list[dict[str, Any]] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(result) < every:
            await asyncio.sleep(0.1)
            result = (await ask(address, f"/api/v1/query?query={quote(query)}")).get("result", [])
    return result


async def evaluated(address: str) -> list[dict[str, Any]]:
    """Ask until every rule was evaluated; return them when all are well."""
    rules: list[dict[str, Any]] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not rules or any(rule["health"] == "unknown" for rule in rules):
            await asyncio.sleep(0.1)
            groups = (await ask(address, "/api/v1/rules")).get("groups", [])
            rules = [rule for group in groups for rule in group["rules"]]
    assert [rule for rule in rules if rule["health"] != "ok"] == []
    return rules
