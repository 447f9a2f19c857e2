"""Ports that publish to SUB sockets and answer REQ and DEALER sockets."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
import zmq
import zmq.asyncio
from fix_catalogue import over
from fix_cluster import Cluster, Tenant
from fix_pc2 import Assistant, assert_healthy, assistant_of

from skein.memory.v1 import memory_pb2
from skein_pc2 import service as pc2_service
from skein_pc2.transport import listener

SHARED_PORTS = (5598, 5599, 6583, 7240)
EVENT_PORTS = (5598, 5599, 7240)


@pytest.fixture(autouse=True)
def frequent_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the session agent publish every 50 ms."""
    monkeypatch.setattr(pc2_service, "HEARTBEAT_SECONDS", 0.05)


async def receive_events(assistant: Assistant, tenant: Tenant, port: int) -> str:
    """Subscribe, and store memories until an event arrives."""
    async with assistant.socket(zmq.SUB, port) as peer:
        peer.subscribe(b"")
        async with asyncio.timeout(30):
            while not await peer.poll(50):
                request = memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="tea"))
                await tenant.memory.CreateMemory(request)
            frame: bytes = await peer.recv()
            return frame.decode()


async def test_a_request_to_the_jarvis_port_is_answered_by_default(assistant: Assistant) -> None:
    command = {
        "type": "custom_command",
        "trigger_phrase": "lights out",
        "action_type": "scene",
        "action_value": "night",
    }

    added = await assistant.request("add_memory", port=5598, user_id="ana", memory=command)
    reply = await assistant.request("get_memories", port=5598, user_id="ana")

    assert added["status"] == reply["status"] == "ok"
    assert [memory["memory"] for memory in reply["memories"]] == [command]


@pytest.mark.parametrize("port", EVENT_PORTS)
async def test_a_subscriber_hears_events_while_requests_are_answered(
    assistant: Assistant, tenant: Tenant, port: int
) -> None:
    async with assistant.socket(zmq.REQ, port) as peer:
        await peer.send(b'{"action": "ping"}')
        before = json.loads(await peer.recv())
        frame = await receive_events(assistant, tenant, port)
        await peer.send(b'{"action": "ping"}')
        after = json.loads(await peer.recv())

    assert before["status"] == after["status"] == "ok"
    assert frame.startswith("memory_added {")


async def test_shared_ports_open_where_temporary_files_have_a_long_path(
    cluster: Cluster, tenant: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ("d" * 120)
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    environment = {"SKEIN_PC2_API_KEY": tenant.api_key}

    async with assistant_of(environment, patient=True, gateway=cluster.endpoint) as assistant:
        frame = await receive_events(assistant, tenant, 5598)
        reply = await assistant.send(5598, b'{"action": "ping"}')

    assert frame.startswith("memory_added {")
    assert reply["status"] == "ok"


async def test_port_7240_answers_as_7140_does(assistant: Assistant) -> None:
    added = await assistant.request("add_memory", port=7240, data={"content": "tea at four"})
    result = await assistant.request("get_memory", port=7140, data={"memory_id": added["memory_id"]})

    assert result["memory"]["content"] == "tea at four"


async def test_port_6583_publishes_to_subscribers_and_tells_its_health_to_others(
    cluster: Cluster, tenant: Tenant
) -> None:
    environment = {"SKEIN_PC2_API_KEY": tenant.api_key}
    async with assistant_of(environment, patient=True, gateway=cluster.endpoint) as assistant:
        async with assistant.socket(zmq.SUB, 6583) as peer:
            peer.subscribe(b"")
            pulse = json.loads(await peer.recv())
        document = await assistant.send(6583, b"")

    assert (pulse["component"], pulse["status"]) == ("session_memory_agent", "running")
    assert_healthy(document)


@pytest.mark.parametrize(("port", "role"), [(5598, "jarvis"), (6583, "rep")])
async def test_a_port_that_answers_alone_publishes_nothing(
    cluster: Cluster, tenant: Tenant, port: int, role: str
) -> None:
    environment = {
        "SKEIN_PC2_API_KEY": tenant.api_key,
        f"SKEIN_PC2_{port}": role,
    }
    async with assistant_of(environment, patient=True, gateway=cluster.endpoint) as assistant:
        reply = await assistant.send(port, b'{"action": "ping"}')
        async with assistant.socket(zmq.SUB, port) as peer:
            peer.subscribe(b"")
            frames = await peer.poll(300)

    assert reply["status"] == "ok"
    assert not frames


@over("port", SHARED_PORTS)
async def test_dealers_and_many_requests_at_once_are_answered(assistant: Assistant, port: int) -> None:
    async with assistant.socket(zmq.DEALER, port) as peer:
        for _ in range(50):
            await peer.send(b'{"action": "ping"}')
        replies = [json.loads((await peer.recv_multipart())[-1]) for _ in range(50)]

    assert {reply["status"] for reply in replies} == {"ok"}


@pytest.mark.parametrize("port", SHARED_PORTS)
@pytest.mark.parametrize("opening", [b"", b"GET / HTTP/1.1\r\n\r\n", b"\xff" + b"\0" * 8, b"\xff" * 200])
async def test_a_connection_without_a_handshake_is_closed(
    assistant: Assistant, port: int, opening: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "HANDSHAKE_MILLISECONDS", 200)
    host, _, number = assistant.ports[port].rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(number))
    try:
        writer.write(opening)

        async with asyncio.timeout(30):
            try:
                while await reader.read(1000):
                    pass
            except ConnectionResetError:
                pass
        reply: Any = await assistant.send(port, b'{"action": "ping"}')
    finally:
        writer.close()

    assert reply["status"] == "ok"


@pytest.mark.parametrize("port", [5598, 5570, 5617])
async def test_connections_of_one_address_are_limited(
    assistant: Assistant, monkeypatch: pytest.MonkeyPatch, port: int
) -> None:
    monkeypatch.setattr(listener, "MAX_CONNECTIONS_PER_ADDRESS", 3)
    host, _, number = assistant.ports[port].rpartition(":")
    writers = []
    try:
        # This machine has many loopback addresses.
        for _ in range(4):
            reader, writer = await asyncio.open_connection(host, int(number), local_addr=("127.0.0.2", 0))
            writers.append(writer)

        async with asyncio.timeout(30):
            assert await reader.read() == b""
        reply = await assistant.send(port, b'{"action": "ping"}')
    finally:
        for writer in writers:
            writer.close()

    assert reply["status"] == "ok"
