"""Several processes that share the gateway's ports: `skein up --processes`."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from fix_cluster import test_environment
from fix_command import all_gone, descendants, erase, skein, status, up
from fix_http import get
from fix_identities import without_certificates

from skein.auth.v1 import auth_pb2
from skein.memory.v1 import memory_pb2
from skein_client.client import Client
from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_cluster.processes.admin_probe import is_ready
from skein_cluster.processes.shared_ports import shared_port_cluster
from skein_cluster.processes.single_process import LocalCluster
from skein_kit.host.process import PortTaken

pytestmark = pytest.mark.timeout(240)
PROCESSES = ("process-1", "process-2")


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    """Return a new data folder; what lies elsewhere for root goes as well."""
    yield tmp_path / "data"
    erase(tmp_path / "data")


async def answered(cluster: LocalCluster, process: str, method: str) -> float:
    """Return how many public calls of a method a process has answered."""
    _, text = await get(cluster.admins[process], "/metrics")
    lines = [line for line in text.splitlines() if line.startswith("skein_rpc_requests_total{")]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if f'method="{method}"' in line)


async def call(cluster: LocalCluster) -> None:
    """Call once over a connection of its own."""
    async with Client(endpoint=cluster.credentials.endpoint, api_key=cluster.credentials.api_key) as client:
        await client.auth.GetMe(auth_pb2.GetMeRequest())


async def call_over_http(cluster: LocalCluster) -> None:
    """Call once over HTTP, which needs no credential to reach a process."""
    host, _, port = cluster.addresses["http"].rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    body = b"{}"
    writer.write(
        b"POST /skein.memory.v1.MemoryService/ListMemories HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
        b"content-type: application/json\r\nauthorization: Bearer " + cluster.credentials.api_key.encode() + b"\r\n"
        b"content-length: " + str(len(body)).encode() + b"\r\n\r\n" + body
    )
    assert b" 200 " in await reader.readline()
    writer.close()


async def test_every_process_answers_and_one_that_is_killed_is_started_again(data_dir: Path) -> None:
    async with shared_port_cluster(
        data_dir, processes=2, environment=without_certificates(test_environment()), durable=False, ready_seconds=120
    ) as cluster:
        async with asyncio.timeout(60):
            # The kernel chooses by the caller's port.
            while not all([await answered(cluster, process, "GetMe") for process in PROCESSES]):
                await call(cluster)
            while not all([await answered(cluster, process, "ListMemories") for process in PROCESSES]):
                await call_over_http(cluster)
        async with Client(endpoint=cluster.credentials.endpoint, api_key=cluster.credentials.api_key) as client:
            memory = memory_pb2.Memory(content="The gate code is 4711")
            stored = await client.memories.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))

        # The console's port is of one process alone.
        console_status, _ = await get(cluster.addresses["console"], "/healthz")

        killed = cluster.processes["process-1"]
        os.kill(killed, signal.SIGKILL)
        # Meanwhile the other one answers every call.
        for _ in range(10):
            await call(cluster)
        async with asyncio.timeout(120):
            while cluster.processes["process-1"] == killed or not await is_ready(cluster.admins["process-1"]):
                await asyncio.sleep(0.1)
            while not await answered(cluster, "process-1", "GetMe"):
                await call(cluster)
        async with Client(endpoint=cluster.credentials.endpoint, api_key=cluster.credentials.api_key) as client:
            request = memory_pb2.GetMemoryRequest(memory_id=stored.memory.memory_id)
            shown = await client.memories.GetMemory(request)

        # A port of this cluster is no other cluster's to share.
        port = cluster.addresses["gateway"].rpartition(":")[2]
        with pytest.raises(PortTaken, match=f"^Port {port} is in use"):
            async with shared_port_cluster(
                data_dir.with_name("other"),
                processes=2,
                environment={**test_environment(), "SKEIN_GATEWAY_PORT": port},
                durable=False,
            ):
                pass

    assert console_status == 200
    assert shown.memory.content == "The gate code is 4711"
    assert len({cluster.processes[name] for name in (*PROCESSES, "worker")}) == 3
    assert cluster.processes["worker"] == cluster.processes["pc2"] == os.getpid()
    assert await all_gone({cluster.processes[name] for name in PROCESSES} | {cluster.postgres.pid})


async def test_up_shows_its_processes_and_ends_them_all_after_their_drain(data_dir: Path) -> None:
    async with up(data_dir, "--processes", "2", SKEIN_DRAIN_SECONDS="0.5") as running:
        started = descendants(running.process.pid)
        result = await status("--json", environment=running.environment)
        table = await status(environment=running.environment)
        code = await running.stop()
    logs = [(data_dir / "logs" / f"{name}.log").read_text("utf-8") for name in PROCESSES]

    assert [(one["name"], one["ready"]) for one in result.json["processes"]] == [(name, True) for name in PROCESSES]
    assert all(one["metrics"].startswith("http://127.0.0.1:") for one in result.json["processes"])
    empty_cache = {"exact_tenants": 0, "approximate_tenants": 0, "bytes": 0}
    assert all(one["vector_cache"] == empty_cache for one in result.json["processes"])
    assert all(name in table.out and name in running.panel for name in PROCESSES)
    assert code == ExitCode.OK
    assert await all_gone(started)
    assert not any("shutdown_forced" in text for text in logs)


async def test_up_refuses_processes_whose_connections_do_not_fit(data_dir: Path) -> None:
    result = await skein("up", "--processes", "4", environment={**test_environment(), "SKEIN_DATA_DIR": str(data_dir)})

    assert result.code == ExitCode.CANNOT_START
    assert "Set SKEIN_POOL_SIZE to" in result.err
    assert not (data_dir / "postgres").exists()


async def test_a_process_that_cannot_start_is_quoted(data_dir: Path) -> None:
    environment = {**test_environment(), "SKEIN_SYSTEM_KEY": "too short"}

    with pytest.raises(
        CommandError, match=r"^process-[12] ended with 3\. SKEIN_SYSTEM_KEY (needs|should hold) at least"
    ):
        async with shared_port_cluster(data_dir, processes=2, environment=environment, durable=False):
            pass
