"""Ports 7240 and 5598: changes of a tenant's memory, published to SUB sockets."""

from __future__ import annotations

import asyncio
import io
import json
import re
import socket
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import zmq
import zmq.asyncio
import zmq.auth
from fix_catalogue import over
from fix_cluster import Cluster, Tenant
from fix_database import all_told
from fix_pc2 import Assistant, assistant_of

from skein.memory.v1 import history_pb2, memory_pb2, scores_pb2
from skein_kit.settings import SettingInvalid
from skein_pc2.settings import is_reply_only
from skein_pc2.transport import listener as ports
from skein_pc2.transport.curve import SERVER, CurveCertificates, create_certificate, run_zap_handler
from skein_pc2.transport.publisher import DROPPED_PUBLICATIONS, Publisher
from skein_pc2.transport.router import PortConfig, PortInUse

EVENT_PORTS = (7240, 5598)
SECONDS = 30.0
FRAME = re.compile(r"(memory_added|memory_updated|memory_deleted) (\{.*\})")


class Listener:
    """A SUB socket whose subscription has arrived."""

    def __init__(self, socket: zmq.asyncio.Socket) -> None:
        self.socket = socket

    async def next(self) -> tuple[str, dict[str, Any]]:
        (frame,) = await self.socket.recv_multipart()
        result = FRAME.fullmatch(frame.decode())
        assert result is not None, frame
        return result[1], json.loads(result[2])

    async def next_events(self, count: int) -> list[tuple[str, str]]:
        """Return the next events as pairs of topic and memory id."""
        async with asyncio.timeout(SECONDS):
            result = [await self.next() for _ in range(count)]
        return [(topic, event["memory_id"]) for topic, event in result]


async def store(tenant: Tenant, content: str = "tea", **fields: Any) -> memory_pb2.Memory:
    request = memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content=content, **fields))
    return (await tenant.memory.CreateMemory(request)).memory


@asynccontextmanager
async def listening(assistant: Assistant, tenant: Tenant, port: int, topic: bytes = b"") -> AsyncIterator[Listener]:
    """Subscribe, and wait until an event arrives: a subscription takes a while to take effect."""
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


@pytest.mark.system
@pytest.mark.parametrize("port", EVENT_PORTS)
async def test_changes_by_any_client_are_published_in_order(assistant: Assistant, tenant: Tenant, port: int) -> None:
    async with listening(assistant, tenant, port) as listener:
        here = (await assistant.request("add_memory", port=7140, data={"content": "tea"}))["memory_id"]
        there = await assistant.create("coffee")
        typed = await store(tenant)
        await assistant.request("update_memory", port=7140, data={"memory_id": here, "update_data": {"content": "x"}})
        reinforce = scores_pb2.ReinforceMemoryRequest(memory_id=there)
        await tenant.memory.ReinforceMemory(reinforce)
        await assistant.request("delete_memory", port=7140, data={"memory_id": here})
        await tenant.memory.UndeleteMemory(memory_pb2.UndeleteMemoryRequest(memory_id=here))
        ids = memory_pb2.MemorySelection(memory_ids=[there])
        await tenant.memory.DeleteMemories(memory_pb2.DeleteMemoriesRequest(selection=ids))
        await tenant.memory.PurgeMemories(memory_pb2.PurgeMemoriesRequest(selection=ids))

        events = await listener.next_events(9)

    assert events == [
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


async def test_an_event_has_its_type_time_and_position(cluster: Cluster, assistant: Assistant, tenant: Tenant) -> None:
    async with listening(assistant, tenant, 7240) as listener:
        memory = await store(tenant, external_id="mem-1")
        topic, event = await listener.next()
        await store(tenant, external_id="mem-2")

    await all_told(cluster.postgres)
    changes = await tenant.history.ListChanges(history_pb2.ListChangesRequest(position=event["position"]))
    assert topic == "memory_added"
    assert set(event) == {"memory_id", "event_type", "timestamp", "position"}
    assert (event["memory_id"], event["event_type"]) == ("mem-1", "memory_created")
    assert event["timestamp"].endswith("Z")
    assert memory.content not in json.dumps(event)
    # A reader of the log continues from there.
    assert [change.event_type for change in changes.changes] == ["memory_created"]


async def test_a_subscriber_gets_its_topics_alone(assistant: Assistant, tenant: Tenant) -> None:
    async with listening(assistant, tenant, 7240, b"memory_deleted") as listener:
        memory = await store(tenant)
        await tenant.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id=memory.memory_id))

        assert (await listener.next())[0] == "memory_deleted"


async def test_changes_of_another_tenant_are_not_published(
    assistant: Assistant, tenant: Tenant, other_tenant: Tenant
) -> None:
    async with listening(assistant, tenant, 7240) as listener:
        await store(other_tenant, external_id="theirs")
        await store(tenant, external_id="mine")

        assert await listener.next_events(1) == [("memory_added", "mine")]


@pytest.mark.system
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


@pytest.mark.system
async def test_events_resume_after_an_interrupted_stream(cluster: Cluster, tenant: Tenant) -> None:
    async with (
        tcp_proxy(cluster.endpoint) as proxy,
        assistant_of({"SKEIN_PC2_API_KEY": tenant.api_key}, gateway=proxy.address) as dedicated,
        listening(dedicated, tenant, 7240) as listener,
    ):
        events = []
        for number in range(3):
            proxy.close()
            names = [f"m-{number}-{n}" for n in range(5)]
            for name in names:
                await store(tenant, external_id=name)
            proxy.open()
            await store(tenant, external_id=f"after-{number}")
            events += [(name, await listener.next_events(1)) for name in [*names, f"after-{number}"]]

    assert all(heard == [("memory_added", name)] for name, heard in events)


class TcpProxy:
    """A proxy to the gateway that can be closed with all its connections."""

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

    async def forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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
async def tcp_proxy(endpoint: str) -> AsyncIterator[TcpProxy]:
    proxy = TcpProxy(endpoint)
    server = await asyncio.start_server(proxy.forward, "127.0.0.1", 0)
    proxy.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        server.close()
        proxy.close()


@asynccontextmanager
async def publisher(kind: type[PortConfig] = PortConfig) -> AsyncIterator[tuple[Publisher, Assistant]]:
    """Open a publishing port for one test."""
    context = zmq.asyncio.Context()
    # Subscribers keep little themselves.
    context.rcvhwm = 5
    try:
        config = kind(number=1, host="127.0.0.1", port=0, networks=())
        event_publisher = Publisher(context, config, max_queued_messages=10)
        async with ports.listen(config, publisher=event_publisher) as opened:
            yield event_publisher, Assistant(context, {1: opened.address})
    finally:
        context.term()


async def wait_subscribed(event_publisher: Publisher, peer: zmq.asyncio.Socket, word: str) -> None:
    """Wait until a subscriber gets messages, and has read all of them."""
    last = f"{word} {uuid.uuid4()}"
    async with asyncio.timeout(SECONDS):
        while not await peer.poll(20):
            event_publisher.publish(word)
        event_publisher.publish(last)
        while (await peer.recv()).decode() != last:
            pass


@pytest.mark.system
async def test_a_subscriber_that_never_reads_loses_its_own_messages_and_losses_are_counted() -> None:
    before = DROPPED_PUBLICATIONS.labels("1")._value.get()
    async with (
        publisher() as (event_publisher, assistant),
        assistant.socket(zmq.SUB, 1) as silent,
        assistant.socket(zmq.SUB, 1) as reader,
    ):
        for peer in (silent, reader):
            peer.subscribe(b"")
            await wait_subscribed(event_publisher, peer, "probe")
        heard = []
        for number in range(1000):
            event_publisher.publish(f"{number} " + "x" * 50_000)
            heard.append(int((await reader.recv()).partition(b" ")[0]))
        dropped = DROPPED_PUBLICATIONS.labels("1")._value.get() - before
        received: list[int] = []
        async with asyncio.timeout(SECONDS):
            while len(received) + dropped < 1000:
                word = (await silent.recv()).partition(b" ")[0]
                received += [int(word)] if word != b"probe" else []
        more = await silent.poll(0)

    assert not more
    assert heard == list(range(1000))
    assert dropped > 0
    # Up to where its queue was full it lost nothing.
    assert received == list(range(len(received)))


async def test_a_disconnected_subscriber_frees_its_slot() -> None:
    async with publisher() as (event_publisher, assistant):
        for _ in range(3):
            async with assistant.socket(zmq.SUB, 1) as peer:
                peer.subscribe(b"")
                await wait_subscribed(event_publisher, peer, "here")
                assert event_publisher.has_subscribers
            async with asyncio.timeout(SECONDS):
                while event_publisher.has_subscribers:
                    await asyncio.sleep(0.01)


async def test_a_peer_without_zeromq_does_not_disturb_subscribers() -> None:
    async with publisher() as (event_publisher, assistant):
        host, _, port = assistant.ports[1].rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET / HTTP/1.1\r\n\r\n" * 10)
        await writer.drain()
        async with assistant.socket(zmq.SUB, 1) as peer:
            peer.subscribe(b"")
            await wait_subscribed(event_publisher, peer, "still here")
        writer.close()
        del reader


class Closed(PortConfig):
    """A port that rejects every peer."""

    def allows(self, address: str) -> bool:
        return not address


async def test_a_rejected_peer_gets_no_events() -> None:
    async with publisher(Closed) as (event_publisher, assistant), assistant.socket(zmq.SUB, 1) as peer:
        peer.subscribe(b"")
        for _ in range(10):
            event_publisher.publish("not for you")
            assert not await peer.poll(20)

        assert not event_publisher.has_subscribers


@pytest.mark.system
async def test_a_secured_port_publishes_to_admitted_clients_alone(tmp_path: Path) -> None:
    server, kitchen = create_certificate(tmp_path, SERVER), create_certificate(tmp_path, "kitchen")
    elsewhere = tmp_path / "elsewhere"
    stranger = create_certificate(elsewhere, "stranger")
    certificates = CurveCertificates.read(tmp_path)
    context = zmq.asyncio.Context()
    heard = {}
    try:
        config = PortConfig(number=1, host="127.0.0.1", port=0, networks=(), certificates=certificates)
        event_publisher = Publisher(context, config)
        async with run_zap_handler(context, certificates), ports.listen(config, publisher=event_publisher) as opened:
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
                        event_publisher.publish("in secret")
                        if await peer.poll(20):
                            break
                    heard[secret] = bool(await peer.poll(0))
    finally:
        context.term()

    assert heard == {kitchen: True, stranger: False, None: False}


async def test_a_published_port_in_use_leaves_the_others_open(log: io.StringIO) -> None:
    async with assistant_of({"SKEIN_PC2_API_KEY": "sk"}) as first:
        used_port = first.ports[7240].rpartition(":")[2]
        async with assistant_of({"SKEIN_PC2_API_KEY": "sk", "SKEIN_PC2_PORT_5598": used_port}) as second:
            reply = await second.request("ping", port=7140)

    assert 5598 not in second.ports
    assert 7240 in second.ports
    assert reply["status"] == "ok"
    assert "SKEIN_PC2_PORT_5598" in log.getvalue()


async def test_a_port_in_use_is_an_error_of_its_own() -> None:
    with socket.create_server(("127.0.0.1", 0)) as used_port:
        context = zmq.asyncio.Context()
        config = PortConfig(number=1, host="127.0.0.1", port=used_port.getsockname()[1], networks=())
        try:
            with pytest.raises(PortInUse):
                async with ports.listen(config, publisher=Publisher(context, config)):
                    pass
        finally:
            context.term()


@over(
    ("number", "text", "replies_only"),
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
def test_a_publishing_port_can_be_set_to_answer_alone(number: int, text: str, *, replies_only: bool) -> None:
    assert is_reply_only({f"SKEIN_PC2_{number}": text}, number) is replies_only


@over(("number", "roles"), [(5598, "events or jarvis"), (6583, "pub or rep")])
def test_an_unknown_role_of_a_port_is_rejected(number: int, roles: str) -> None:
    with pytest.raises(SettingInvalid, match=roles):
        is_reply_only({f"SKEIN_PC2_{number}": "x"}, number)


async def test_port_5598_answers_alone_when_it_is_set_to_jarvis(cluster: Cluster, tenant: Tenant) -> None:
    environment = {"SKEIN_PC2_API_KEY": tenant.api_key, "SKEIN_PC2_5598": "jarvis"}
    async with assistant_of(environment, patient=True, gateway=cluster.endpoint) as dedicated:
        added = await dedicated.request(
            "add_memory", port=5598, user_id="ana", memory={"type": "note", "text": "likes tea"}
        )
        reply = await dedicated.request("get_memories", port=5598, user_id="ana")
        async with listening(dedicated, tenant, 7240) as listener:
            await store(tenant, external_id="m")
            events = await listener.next_events(1)

    assert added["status"] == "ok"
    assert [memory["memory"] for memory in reply["memories"]] == [{"type": "note", "text": "likes tea"}]
    assert events == [("memory_added", "m")]
