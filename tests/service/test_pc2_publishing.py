"""Ports 7240 and 5598: what happens in a tenant's memory, told over SUB sockets."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import uuid
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import zmq
import zmq.asyncio
import zmq.auth
from fix_database import all_told
from fix_pc2 import Assistant, assistant_of

from skein.memory.v1 import history_pb2, memory_pb2, scores_pb2
from skein_kit.settings import SettingInvalid
from skein_pc2.settings import is_reply_only
from skein_pc2.transport import listener as ports
from skein_pc2.transport.curve import SERVER, CurveCertificates, create_certificate, run_zap_handler
from skein_pc2.transport.publisher import DROPPED, Publisher
from skein_pc2.transport.router import PortConfig, PortInUse

if TYPE_CHECKING:
    import io
    from collections.abc import AsyncIterator
    from pathlib import Path

    from fix_cluster import Cluster, Tenant

EVENT_PORTS = (7240, 5598)
SECONDS = 30.0
FRAME = re.compile(r"(memory_added|memory_updated|memory_deleted) (\{.*\})")


class Listener:
    """A SUB socket that is known to hear."""

    def __init__(self, socket: zmq.asyncio.Socket) -> None:
        self.socket = socket

    async def next(self) -> tuple[str, dict[str, Any]]:
        (frame,) = await self.socket.recv_multipart()
        result = FRAME.fullmatch(frame.decode())
        assert result is not None, frame
        return result[1], json.loads(result[2])

    async def next_events(self, count: int) -> list[tuple[str, str]]:
        """Return the next events: what happened, and to what."""
        async with asyncio.timeout(SECONDS):
            results = [await self.next() for _ in range(count)]
        return [(topic, result["memory_id"]) for topic, result in results]


async def store(tenant: Tenant, content: str = "tea", **fields: Any) -> memory_pb2.Memory:
    request = memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content=content, **fields))
    return (await tenant.memory.CreateMemory(request)).memory


@asynccontextmanager
async def listening(assistant: Assistant, tenant: Tenant, port: int, topic: bytes = b"") -> AsyncIterator[Listener]:
    """Subscribe, and wait until what is stored is heard: a subscription takes its time to arrive."""
    async with assistant.socket(zmq.SUB, port) as peer:
        peer.setsockopt(zmq.RCVTIMEO, int(SECONDS * 1000))
        peer.subscribe(topic)
        peer.subscribe(b"memory_added")
        poller = zmq.asyncio.Poller()
        poller.register(peer, zmq.POLLIN)
        names: list[str] = []
        async with asyncio.timeout(SECONDS):
            while not names or not await poller.poll(100):
                names.append(f"probe-{uuid.uuid4()}")
                await store(tenant, "probe", external_id=names[-1])
            listener = Listener(peer)
            while (await listener.next())[1]["memory_id"] != names[-1]:
                pass
        if topic:
            peer.unsubscribe(b"memory_added")
        yield listener


@pytest.mark.parametrize("port", EVENT_PORTS)
async def test_changes_through_any_port_are_published_in_order(assistant: Assistant, tenant: Tenant, port: int) -> None:
    async with listening(assistant, tenant, port) as listener:
        here = (await assistant.ask("add_memory", port=7140, data={"content": "tea"}))["memory_id"]
        there = await assistant.create("coffee")
        typed = await store(tenant)
        await assistant.ask("update_memory", port=7140, data={"memory_id": here, "update_data": {"content": "x"}})
        reinforce = scores_pb2.ReinforceMemoryRequest(memory_id=there)
        await tenant.memory.ReinforceMemory(reinforce)
        await assistant.ask("delete_memory", port=7140, data={"memory_id": here})
        await tenant.memory.UndeleteMemory(memory_pb2.UndeleteMemoryRequest(memory_id=here))
        ids = memory_pb2.MemorySelection(memory_ids=[there])
        await tenant.memory.ForgetMemories(memory_pb2.ForgetMemoriesRequest(selection=ids))
        await tenant.memory.PurgeMemories(memory_pb2.PurgeMemoriesRequest(selection=ids))

        received_events = await listener.next_events(9)

    assert received_events == [
        ("memory_added", here),
        ("memory_added", there),
        ("memory_added", typed.memory_id),
        ("memory_updated", here),
        ("memory_updated", there),
        ("memory_deleted", here),
        ("memory_added", here),
        ("memory_deleted", there),
        ("memory_deleted", there),
    ]


async def test_a_frame_says_what_happened_when_and_where_in_the_log(
    cluster: Cluster, assistant: Assistant, tenant: Tenant
) -> None:
    async with listening(assistant, tenant, 7240) as listener:
        memory = await store(tenant, external_id="mem-1")
        topic, said = await listener.next()
        await store(tenant, external_id="mem-2")

    await all_told(cluster.postgres)
    changes = await tenant.history.ListChanges(history_pb2.ListChangesRequest(position=said["position"]))
    assert topic == "memory_added"
    assert set(said) == {"memory_id", "event_type", "timestamp", "position"}
    assert (said["memory_id"], said["event_type"]) == ("mem-1", "memory_created")
    assert said["timestamp"].endswith("Z")
    assert memory.content not in json.dumps(said)
    # A reader of the log goes on from there.
    assert [change.event_type for change in changes.changes] == ["memory_created"]


async def test_a_subscriber_hears_the_topics_that_it_asked_for(assistant: Assistant, tenant: Tenant) -> None:
    async with listening(assistant, tenant, 7240, b"memory_deleted") as listener:
        memory = await store(tenant)
        await tenant.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id=memory.memory_id))

        assert (await listener.next())[0] == "memory_deleted"


async def test_another_tenants_memory_is_not_told_of(
    assistant: Assistant, tenant: Tenant, other_tenant: Tenant
) -> None:
    async with listening(assistant, tenant, 7240) as listener:
        await store(other_tenant, external_id="theirs")
        await store(tenant, external_id="mine")

        assert await listener.next_events(1) == [("memory_added", "mine")]


async def test_five_hundred_events_arrive_each_once_and_in_order_at_every_subscriber(
    assistant: Assistant, tenant: Tenant
) -> None:
    async with AsyncExitStack() as stack:
        listeners = [await stack.enter_async_context(listening(assistant, tenant, port)) for port in EVENT_PORTS]
        await store(tenant, external_id="mark")
        for listener in listeners:
            # The other one's probes come before.
            while (await listener.next())[1]["memory_id"] != "mark":
                pass
        position = (await tenant.history.ListChanges(history_pb2.ListChangesRequest(page_size=1000))).position

        async def write(writer: int) -> None:
            for batch in range(5):
                memories = [memory_pb2.Memory(content="x", external_id=f"m-{writer}-{batch}-{n}") for n in range(25)]
                await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=memories))

        _, *heard = await asyncio.gather(
            asyncio.gather(*(write(writer) for writer in range(4))), *(one.next_events(500) for one in listeners)
        )

    page = history_pb2.ListChangesRequest(position=position, page_size=1000)
    log = (await tenant.history.ListChanges(page)).changes
    listed = await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest(page_size=1000))
    names = {memory.memory_id: memory.external_id for memory in listed.memories}
    expected = [("memory_added", names[change.entity_id]) for change in log]
    assert len(expected) == 500
    assert heard == [expected, expected]


async def test_events_go_on_where_they_were_when_the_stream_is_cut(cluster: Cluster, tenant: Tenant) -> None:
    async with (
        gate(cluster.endpoint) as shut,
        assistant_of({"SKEIN_PC2_API_KEY": tenant.api_key}, gateway=shut.address) as assistant,
        listening(assistant, tenant, 7240) as listener,
    ):
        received_events = []
        for number in range(3):
            shut.close()
            names = [f"m-{number}-{n}" for n in range(5)]
            for name in names:
                await store(tenant, external_id=name)
            shut.open()
            await store(tenant, external_id=f"after-{number}")
            received_events += [(name, await listener.next_events(1)) for name in [*names, f"after-{number}"]]

    assert all(heard == [("memory_added", name)] for name, heard in received_events)


class GatewayLink:
    """A way to the gateway that can be shut, with everything that is on it."""

    def __init__(self, endpoint: str) -> None:
        self._host, _, port = endpoint.rpartition(":")
        self._port = int(port)
        self._is_open = True
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.address = ""

    def close(self) -> None:
        self._is_open = False
        for writer in self._writers:
            writer.transport.abort()

    def open(self) -> None:
        self._is_open = True

    async def pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._is_open:
            writer.transport.abort()
            return
        other_reader, other_writer = await asyncio.open_connection(self._host, self._port)
        self._writers |= {writer, other_writer}
        ways = [pump(reader, other_writer), pump(other_reader, writer)]
        await asyncio.gather(*ways, return_exceptions=True)
        self._writers -= {writer, other_writer}


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()


@asynccontextmanager
async def gate(endpoint: str) -> AsyncIterator[GatewayLink]:
    result = GatewayLink(endpoint)
    server = await asyncio.start_server(result.pass_on, "127.0.0.1", 0)
    result.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield result
    finally:
        server.close()
        result.close()


@asynccontextmanager
async def publisher(kind: type[PortConfig] = PortConfig) -> AsyncIterator[tuple[Publisher, Assistant]]:
    """Open a port of the test's own."""
    context = zmq.asyncio.Context()
    # Subscribers keep little themselves.
    context.rcvhwm = 5
    try:
        config = kind(number=1, host="127.0.0.1", port=0, networks=())
        result = Publisher(context, config, queued=10)
        async with ports.listen(config, publisher=result) as opened:
            yield result, Assistant(context, {1: opened.address})
    finally:
        context.term()


async def arrived(publisher_: Publisher, peer: zmq.asyncio.Socket, word: str) -> None:
    """Wait until a subscriber hears, and has heard all of it."""
    last = f"{word} {uuid.uuid4()}"
    async with asyncio.timeout(SECONDS):
        while not await peer.poll(20):
            publisher_.publish(word)
        publisher_.publish(last)
        while (await peer.recv()).decode() != last:
            pass


async def test_a_subscriber_that_never_reads_costs_itself_alone_and_its_losses_are_counted() -> None:
    before = DROPPED.labels("1")._value.get()
    async with (
        publisher() as (result, assistant),
        assistant.socket(zmq.SUB, 1) as silent,
        assistant.socket(zmq.SUB, 1) as reader,
    ):
        for peer in (silent, reader):
            peer.subscribe(b"")
            await arrived(result, peer, "probe")
        received = []
        for number in range(1000):
            result.publish(f"{number} " + "x" * 50_000)
            received.append(int((await reader.recv()).partition(b" ")[0]))
        dropped = DROPPED.labels("1")._value.get() - before
        kept: list[int] = []
        async with asyncio.timeout(SECONDS):
            while len(kept) + dropped < 1000:
                word = (await silent.recv()).partition(b" ")[0]
                kept += [int(word)] if word != b"probe" else []
        more = await silent.poll(0)

    assert not more
    assert received == list(range(1000))
    assert dropped > 0
    # Up to where its queue was full it lost nothing.
    assert kept == list(range(len(kept)))


async def test_a_subscriber_that_leaves_is_forgotten_and_another_may_come() -> None:
    async with publisher() as (result, assistant):
        for _ in range(3):
            async with assistant.socket(zmq.SUB, 1) as peer:
                peer.subscribe(b"")
                await arrived(result, peer, "here")
                assert result.has_subscribers
            async with asyncio.timeout(SECONDS):
                while result.has_subscribers:
                    await asyncio.sleep(0.01)


async def test_a_peer_that_does_not_speak_zeromq_is_disconnected_or_waits_alone() -> None:
    async with publisher() as (result, assistant):
        host, _, port = assistant.ports[1].rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET / HTTP/1.1\r\n\r\n" * 10)
        await writer.drain()
        async with assistant.socket(zmq.SUB, 1) as peer:
            peer.subscribe(b"")
            await arrived(result, peer, "still here")
        writer.close()
        del reader


class ClosedPort(PortConfig):
    """A port that admits no peer."""

    def admits(self, address: str) -> bool:
        return not address


async def test_a_peer_that_is_not_admitted_gets_nothing() -> None:
    async with publisher(ClosedPort) as (result, assistant), assistant.socket(zmq.SUB, 1) as peer:
        peer.subscribe(b"")
        for _ in range(10):
            result.publish("not for you")
            assert not await peer.poll(20)

        assert not result.has_subscribers


async def test_a_secured_port_publishes_to_admitted_clients_alone(tmp_path: Path) -> None:
    server, kitchen = create_certificate(tmp_path, SERVER), create_certificate(tmp_path, "kitchen")
    elsewhere = tmp_path / "elsewhere"
    stranger = create_certificate(elsewhere, "stranger")
    certificates = CurveCertificates.read(tmp_path)
    context = zmq.asyncio.Context()
    received = {}
    try:
        config = PortConfig(number=1, host="127.0.0.1", port=0, networks=(), certificates=certificates)
        result = Publisher(context, config)
        async with run_zap_handler(context, certificates), ports.listen(config, publisher=result) as opened:
            for secret in (kitchen, stranger, None):
                with context.socket(zmq.SUB) as peer:
                    peer.linger = 0
                    if secret is not None:
                        peer.curve_publickey, peer.curve_secretkey = zmq.auth.load_certificate(secret)
                        peer.curve_serverkey = zmq.auth.load_certificate(server.with_suffix(".key"))[0]
                    peer.subscribe(b"")
                    peer.connect(f"tcp://{opened.address}")
                    waits = 1000 if secret == kitchen else 10
                    for _ in range(waits):
                        result.publish("in secret")
                        if await peer.poll(20):
                            break
                    received[secret] = bool(await peer.poll(0))
    finally:
        context.term()

    assert received == {kitchen: True, stranger: False, None: False}


async def test_a_published_port_in_use_leaves_the_others_open(log: io.StringIO) -> None:
    async with assistant_of({"SKEIN_PC2_API_KEY": "sk"}) as first:
        taken = first.ports[7240].rpartition(":")[2]
        async with assistant_of({"SKEIN_PC2_API_KEY": "sk", "SKEIN_PC2_PORT_5598": taken}) as second:
            answer = await second.ask("ping", port=7140)

    assert 5598 not in second.ports
    assert 7240 in second.ports
    assert answer["status"] == "ok"
    assert "SKEIN_PC2_PORT_5598" in log.getvalue()


async def test_a_port_in_use_is_an_error_of_its_own() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        context = zmq.asyncio.Context()
        config = PortConfig(number=1, host="127.0.0.1", port=taken.getsockname()[1], networks=())
        try:
            with pytest.raises(PortInUse):
                async with ports.listen(config, publisher=Publisher(context, config)):
                    pass
        finally:
            context.term()


@pytest.mark.parametrize(
    ("number", "text", "answers"),
    [
        (5598, "", False),
        (5598, "events", False),
        (5598, "jarvis", True),
        (5598, " Jarvis ", True),
        (6583, "pub", False),
        (6583, "rep", True),
        (7240, "rep", False),
    ],
)
def test_a_publishing_port_can_be_set_to_answer_alone(number: int, text: str, *, answers: bool) -> None:
    assert is_reply_only({f"SKEIN_PC2_{number}": text}, number) is answers


@pytest.mark.parametrize(("number", "roles"), [(5598, "events or jarvis"), (6583, "pub or rep")])
def test_a_role_that_a_port_does_not_have_is_refused(number: int, roles: str) -> None:
    with pytest.raises(SettingInvalid, match=roles):
        is_reply_only({f"SKEIN_PC2_{number}": "x"}, number)


async def test_port_5598_is_the_jarvis_agents_when_configured_so(cluster: Cluster, tenant: Tenant) -> None:
    environment = {"SKEIN_PC2_API_KEY": tenant.api_key, "SKEIN_PC2_5598": "jarvis"}
    async with assistant_of(environment, patient=True, gateway=cluster.endpoint) as assistant:
        added = await assistant.ask(
            "add_memory", port=5598, user_id="ana", memory={"type": "note", "text": "likes tea"}
        )
        answer = await assistant.ask("get_memories", port=5598, user_id="ana")
        async with listening(assistant, tenant, 7240) as listener:
            await store(tenant, external_id="m")
            received_events = await listener.next_events(1)

    assert added["status"] == "ok"
    assert [memory["memory"] for memory in answer["memories"]] == [{"type": "note", "text": "likes tea"}]
    assert received_events == [("memory_added", "m")]
