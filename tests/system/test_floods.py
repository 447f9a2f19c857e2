"""Floods of connections at a process that may open 1,024 files, and what its other clients see meanwhile."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from fix_cluster import Stubs
from fix_command import RunningCluster, erase, up
from fix_connections import HALF, WHOLE, Client
from grpc import aio

from skein.memory.v1 import memory_pb2
from skein_kit.host import open_files

# Each of these starts a whole cluster, on a machine that may be busy.
pytestmark = [pytest.mark.timeout(300), pytest.mark.usefixtures("connections")]

FILES = 1_024
FLOOD = 3_000
LIVE = WHOLE.replace(b"/healthz", b"/livez")
# The token endpoint reads its form before it knows who sends it.
HALF_FORM = (
    b"POST /oauth/token HTTP/1.1\r\nhost: here\r\ncontent-type: application/x-www-form-urlencoded\r\n"
    b"content-length: 1000\r\n\r\ngrant_type="
)
# No deadline ends a flood while a test looks.
SETTINGS = {
    "SKEIN_ADVANCED_HANDSHAKE_SECONDS": "600",
    "SKEIN_ADVANCED_TRANSFER_SECONDS": "600",
}


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    """Return a data folder to start in."""
    yield tmp_path / "data"
    erase(tmp_path / "data")


@pytest.fixture
def files_of_our_own() -> Iterator[None]:
    """Let the test itself open as many files as it makes connections."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert open_files.raise_limit() > FLOOD + FILES
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def ports(running: RunningCluster) -> tuple[str, str, str]:
    """Return the addresses of HTTP, of gRPC and of the admin port."""
    admin = next(line for line in running.panel.splitlines() if "/metrics" in line).partition("http://")[2]
    credentials = running.credentials
    return credentials["http"].removeprefix("http://"), credentials["endpoint"], admin.partition("/")[0]


@asynccontextmanager
async def channel_of(running: RunningCluster) -> AsyncIterator[Stubs]:
    """Open a connection of its own to the gateway's gRPC port, with the tenant's key."""
    options = (("grpc.use_local_subchannel_pool", 1),)
    async with aio.insecure_channel(running.credentials["endpoint"], options=options) as channel:
        yield Stubs.of(channel, running.credentials["api_key"])


async def flood(address: str, first: bytes, *, count: int = FLOOD) -> list[Client]:
    """Open connections from twenty addresses, a hundred at a time, and send the same first bytes on each."""
    made: list[Client] = []
    while len(made) < count:
        sources = [f"127.0.0.{2 + number % 20}" for number in range(100)]
        made += await asyncio.gather(*(Client.connect(address, first, source=source) for source in sources))
    return made


def open_files_of(running: RunningCluster) -> int:
    return len(list(Path(f"/proc/{running.process.pid}/fd").iterdir()))


async def remembers(stubs: Stubs) -> bool:
    """Store a memory, which needs every part of the cluster, and say whether it is there."""
    memory = memory_pb2.Memory(content="The boat is called Bosun")
    created = await stubs.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))
    request = memory_pb2.GetMemoryRequest(memory_id=created.memory.memory_id)
    return (await stubs.memory.GetMemory(request)).memory.content == memory.content


@pytest.mark.essential
@pytest.mark.usefixtures("files_of_our_own")
async def test_three_thousand_half_written_requests_leave_room_for_others(data_dir: Path) -> None:
    async with up(data_dir, ulimit=f"-n {FILES}", **SETTINGS) as running, channel_of(running) as before:
        http, _, admin = ports(running)
        early = await Client.connect(http)

        async def others() -> list[bool]:
            async with channel_of(running) as after:
                return [
                    await (await Client.connect(http)).ask() == 200,
                    await (await Client.connect(http, source="127.0.0.99")).ask() == 200,
                    await (await Client.connect(admin)).ask(LIVE) == 200,
                    await remembers(before),
                    await remembers(after),
                ]

        served = [await early.ask() == 200, await remembers(before)]
        heads = await flood(http, HALF) + await flood(admin, HALF, count=300)
        # A connection between two requests keeps its place before half of a head, and yields it to half of a body.
        served += [await early.ask() == 200, *await others()]
        bodies = await flood(http, HALF_FORM)
        served += await others()
        open_now = open_files_of(running)
        kept = sum(client.is_open for client in (*heads, *bodies))

    assert served == [True] * 13
    # The flood was as large as it may be, and the process kept its reserve.
    assert kept > FILES // 4
    assert open_now < FILES * 7 // 8


@pytest.mark.usefixtures("files_of_our_own")
async def test_connections_to_the_grpc_port_that_say_nothing_leave_room_for_those_who_are_in(data_dir: Path) -> None:
    async with up(data_dir, ulimit=f"-n {FILES}", **SETTINGS) as running, channel_of(running) as stubs:
        http, grpc, _ = ports(running)
        assert await remembers(stubs)

        silent = await flood(grpc, b"")
        await asyncio.gather(*(client.end() for client in silent[FILES:]))
        served = [await (await Client.connect(http)).ask(), await remembers(stubs)]
        open_now = open_files_of(running)

    assert served == [200, True]
    assert open_now < FILES // 2


async def test_a_process_may_open_as_many_files_as_its_hard_limit_says(data_dir: Path) -> None:
    async with up(data_dir, ulimit="-S -n 256") as running:
        limits = Path(f"/proc/{running.process.pid}/limits").read_text("utf-8")
        soft, hard = next(line for line in limits.splitlines() if line.startswith("Max open files")).split()[3:5]

    assert int(soft) == min(int(hard), open_files.MAX_FILES)
