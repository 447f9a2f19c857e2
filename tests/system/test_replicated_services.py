"""Several processes of one service on one machine: `skein cluster --replicas`."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import grpc
import pytest
from click.testing import CliRunner
from fix_cluster import AuthorizedChannel, Stubs, test_environment
from fix_http import get
from fix_identities import without_certificates
from grpc import aio

from skein.memory.v1 import memory_pb2 as pb
from skein_client.client import Client
from skein_cluster import registry
from skein_cluster.main import skein
from skein_cluster.processes.multi_process import multi_process_cluster
from skein_cluster.processes.single_process import LocalCluster
from skein_cluster.service_certificates import authority
from skein_kit.rpc.channel import ServiceChannel
from skein_kit.settings import ProcessSettings
from skein_kit.tls.mutual_tls import MutualTlsFiles

CALLS = 60


@pytest.fixture(scope="module")
async def cluster() -> AsyncIterator[LocalCluster]:
    folder = Path(tempfile.mkdtemp(prefix="skein-replicated-"))
    folder.chmod(0o711)
    replicas = {"memory": 2, "gateway": 2}
    # The cluster makes its own certificates.
    environment = without_certificates(test_environment())
    try:
        async with multi_process_cluster(
            folder, environment=environment, durable=False, ready_seconds=300, replicas=replicas
        ) as running:
            yield running
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def answered(cluster: LocalCluster, process: str, service: str, method: str) -> float:
    """Return how many calls of a method a process has answered."""
    _, text = await get(cluster.admins[process], "/metrics")
    labels = (f'service="{service}"', f'method="{method}"')
    lines = [line for line in text.splitlines() if line.startswith("skein_rpc_requests_total{")]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if all(label in line for label in labels))


async def listings(cluster: LocalCluster) -> list[float]:
    """Return how many listings each replica of the memory service has answered."""
    return [
        await answered(cluster, process, "skein.memory.v1.MemoryService", "ListMemories")
        for process in ("memory", "memory-2")
    ]


async def test_the_calls_of_one_connection_go_to_all_replicas_alike(cluster: LocalCluster) -> None:
    async with Client(endpoint=cluster.credentials.endpoint, api_key=cluster.credentials.api_key) as skein:
        async with asyncio.timeout(60):
            # The gateway comes to both of them, to one perhaps a little later.
            while not all(before := await listings(cluster)):
                await skein.memories.ListMemories(pb.ListMemoriesRequest())
        for _ in range(CALLS):
            await skein.memories.ListMemories(pb.ListMemoriesRequest())

    counts = [after - already for after, already in zip(await listings(cluster), before, strict=True)]

    assert sum(counts) >= CALLS
    assert min(counts) >= CALLS * 0.4, counts


@pytest.mark.essential
async def test_a_memory_that_one_replica_stores_is_read_from_the_other(cluster: LocalCluster) -> None:
    async with Client(endpoint=cluster.credentials.endpoint, api_key=cluster.credentials.api_key) as skein:
        stored = await skein.memories.CreateMemory(pb.CreateMemoryRequest(memory=pb.Memory(content="shared by all")))
        request = pb.GetMemoryRequest(memory_id=stored.memory.memory_id)

        responses = await asyncio.gather(*(skein.memories.GetMemory(request) for _ in range(4)))

    assert {one.memory.content for one in responses} == {"shared by all"}


async def test_every_gateway_answers_with_the_same_key(cluster: LocalCluster) -> None:
    memory = pb.Memory(content="for every gateway")
    async with Client(endpoint=cluster.credentials.endpoint, api_key=cluster.credentials.api_key) as skein:
        await skein.memories.CreateMemory(pb.CreateMemoryRequest(memory=memory))

    for name in ("gateway", "gateway-2"):
        async with aio.insecure_channel(cluster.addresses[name]) as channel:
            stubs = Stubs(cast("aio.Channel", AuthorizedChannel(channel, cluster.credentials.api_key)))

            answer = await stubs.memory.ListMemories(pb.ListMemoriesRequest(page_size=1))

            assert len(answer.memories) == 1


@pytest.mark.parametrize("option", ["memory", "memory=", "memory=0", "memory=9", "pc2=2", "nobody=2", "memory=-1"])
def test_replicas_that_cannot_be_are_refused_before_anything_starts(option: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(skein, ["cluster", "--data-dir", str(tmp_path / "data"), "--replicas", option])

    assert result.exit_code == 2
    assert "should be SERVICE=N" in result.output
    assert not (tmp_path / "data").exists()


async def test_each_process_has_a_certificate_of_its_own_service_alone(cluster: LocalCluster) -> None:
    path = "/skein.auth.v1.AuthInternalService/GetCheckKeys"
    folder = cluster.logs["auth"].parent.parent / "mtls"
    codes: dict[str, grpc.StatusCode] = {}
    for caller in registry.NAMES:
        settings = ProcessSettings.read(authority.settings(folder, caller))
        channel = ServiceChannel(
            lambda: cluster.addresses["auth"], {}, mutual=MutualTlsFiles.from_settings(settings), service="auth"
        )
        try:
            await channel.unary_unary(path)(b"")
        except aio.AioRpcError as error:
            codes[caller] = error.code()
        await channel.close()

    assert codes == dict.fromkeys(set(registry.NAMES) - {"gateway"}, grpc.StatusCode.PERMISSION_DENIED)


def test_keys_of_certificates_are_for_their_user_alone(cluster: LocalCluster) -> None:
    folder = cluster.logs["auth"].parent.parent / "mtls"

    keys = sorted(folder.rglob("*.key"))

    assert len(keys) == len(registry.NAMES) + 1
    assert {path.stat().st_mode & 0o777 for path in keys} == {0o600}
