"""The ports of the voice assistants, with real REQ and DEALER sockets."""

from __future__ import annotations

import asyncio
import io
import json
import socket
from typing import Any

import pytest
import zmq
import zmq.asyncio
from fix_catalogue import over
from fix_cluster import Cluster, Tenant
from fix_expiry import expire
from fix_pc2 import HEALTH_PORTS, MAIN_PORTS, ORCHESTRATOR_PORTS, Assistant, assert_healthy, assistant_of, error_reply

from skein.memory.v1 import memory_pb2
from skein.tenancy.v1 import tenancy_pb2
from skein_cluster import registry
from skein_kit.host.process import NotReady
from skein_pc2.protocol.frames import Frames
from skein_pc2.transport.listener import listen
from skein_pc2.transport.router import REPLIES, PortConfig, Router


@pytest.mark.parametrize("port", ORCHESTRATOR_PORTS)
async def test_a_created_memory_is_read_back_as_it_was_sent(assistant: Assistant, port: int) -> None:
    content = {"text": "Ana drinks green tea", "source_agent": "CoordinatorAgent", "metadata": {"mood": "calm", "n": 3}}
    request: dict[str, Any] = {
        "session_id": "session-123456",
        "request_id": "req-78901234",
        "timestamp": "2023-06-15T08:30:45.123Z",
        "unknown": ["is", "ignored"],
        "payload": {
            "memory_type": "user_preference",
            "content": content,
            "tags": ["tea", "ana"],
            "ttl": 3600,
            "priority": 8,
        },
    }

    created = await assistant.request("create", port=port, **request)
    read = await assistant.request("read", port=port, payload={"memory_id": created["data"]["memory_id"]})

    assert created["status"] == "success"
    assert (created["action"], created["request_id"]) == ("create", "req-78901234")
    assert created["timestamp"].endswith("Z")
    assert set(created["data"]) == {"memory_id", "created_at"}
    data = read["data"]
    assert data["memory_id"] == created["data"]["memory_id"]
    assert data["memory_id"].startswith("mem-")
    assert len(data["memory_id"]) == len("mem-") + 16
    assert data["content"] == content
    assert (data["memory_type"], data["priority"], data["tags"]) == ("user_preference", 8, ["tea", "ana"])
    assert data["created_at"] == created["data"]["created_at"]
    assert data["created_at"] < data["expires_at"]
    assert data["session_id"] == "session-123456"


async def test_a_typed_client_reads_a_memory_of_an_assistant(assistant: Assistant, tenant: Tenant) -> None:
    content = {"text": "The boiler was serviced", "source_agent": "Maintenance", "metadata": {"room": "cellar"}}
    created = await assistant.request(
        "create",
        session_id="s-1",
        payload={"memory_type": "context", "content": content, "priority": 10, "tags": ["b"]},
    )

    request = memory_pb2.GetMemoryRequest(memory_id=created["data"]["memory_id"])
    memory = (await tenant.memory.GetMemory(request)).memory

    assert memory.external_id == created["data"]["memory_id"]
    assert (memory.content, memory.type, memory.source_agent) == ("The boiler was serviced", "context", "Maintenance")
    assert (memory.importance, list(memory.tags), memory.session_id) == (1.0, ["b"], "s-1")
    assert memory.metadata["room"] == "cellar"
    assert not memory.HasField("data")


@pytest.mark.system
async def test_an_assistant_reads_a_memory_of_a_typed_client(assistant: Assistant, tenant: Tenant) -> None:
    memory = memory_pb2.Memory(content="Stored by RPC", type="fact", importance=0.5)
    stored = (await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))).memory

    reply = await assistant.request("read", payload={"memory_id": stored.memory_id})

    assert reply["data"]["memory_id"] == stored.memory_id
    assert reply["data"]["content"] == {"text": "Stored by RPC"}
    assert (reply["data"]["memory_type"], reply["data"]["priority"]) == ("fact", 5)
    assert reply["data"]["expires_at"] is None


async def test_large_whole_numbers_of_a_typed_client_reach_an_assistant_as_whole_numbers(
    assistant: Assistant, tenant: Tenant
) -> None:
    memory = memory_pb2.Memory(content="Stored by RPC")
    memory.metadata["places"] = 1.2345678901234568e20
    stored = (await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))).memory

    reply = await assistant.request("read", payload={"memory_id": stored.memory_id})

    places = reply["data"]["content"]["metadata"]["places"]
    assert (places, type(places)) == (123456789012345680000, int)


async def test_a_request_sent_again_after_a_timeout_stores_nothing_twice(assistant: Assistant) -> None:
    request: dict[str, Any] = {"request_id": "req-1", "payload": {"content": {"text": "once"}, "ttl": 60}}

    first = await assistant.request("create", **request)
    again = await assistant.request("create", **request)
    other = await assistant.request("create", request_id="req-1", payload={"content": {"text": "another"}})

    assert again["data"] == first["data"]
    assert other["data"]["memory_id"] != first["data"]["memory_id"]


async def test_the_same_text_without_a_request_id_is_two_memories(assistant: Assistant) -> None:
    assert await assistant.create("twice") != await assistant.create("twice")


@pytest.mark.parametrize("search_type", ["semantic", "keyword", "hybrid"])
async def test_search_finds_what_was_created(assistant: Assistant, search_type: str) -> None:
    expected_id = await assistant.create("Ana likes green tea in the morning")
    await assistant.create("The boiler was serviced in May")

    payload = {"query": "green tea in the morning", "search_type": search_type, "filters": {"min_similarity": 0.4}}
    # A port answers in time, with or without memories that have no vector yet.
    async with asyncio.timeout(60):
        while not (reply := await assistant.request("search", payload=payload))["data"]["results"]:
            await asyncio.sleep(0.05)

    data = reply["data"]
    assert data["results"][0]["memory_id"] == expected_id
    assert data["results"][0]["content"]["text"] == "Ana likes green tea in the morning"
    assert 0 < data["results"][0]["similarity_score"] <= 1
    assert data["total_count"] == len(data["results"])
    metadata = data["search_metadata"]
    assert metadata["search_type"] == search_type
    # A search by words alone embeds nothing.
    assert metadata["query_embedding_dimension"] == (None if search_type == "keyword" else 384)


async def test_semantic_search_excludes_dissimilar_memories(assistant: Assistant) -> None:
    await assistant.create("The boiler was serviced in May")

    meaning = await assistant.request("search", payload={"query": "boiler jokes", "search_type": "semantic"})
    words = await assistant.request("search", payload={"query": "boiler jokes", "search_type": "keyword"})

    assert meaning["data"]["results"] == []
    assert words["data"]["total_count"] == 1


@pytest.mark.system
async def test_search_filters(assistant: Assistant) -> None:
    expected_id = await assistant.create("tea at four", memory_type="user_preference", tags=["drink"])
    await assistant.create("tea at five", memory_type="context", tags=["drink"])
    await assistant.create("tea at six", memory_type="user_preference", tags=["time"])

    async def search(**filters: Any) -> list[str]:
        reply = await assistant.request("search", payload={"query": "tea", "filters": filters})
        return [result["memory_id"] for result in reply["data"]["results"]]

    assert await search(memory_types=["user_preference"], tags=["drink"]) == [expected_id]
    assert len(await search(limit=2)) == 2
    assert len(await search(time_range={"start": "2024-01-01T00:00:00Z"})) == 3
    assert await search(time_range={"end": "2024-01-01T00:00:00Z"}) == []


async def test_an_expired_memory_is_not_found(assistant: Assistant, tenant: Tenant) -> None:
    stored = (
        await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="gone")))
    ).memory
    await expire(tenant.snapshots, stored)

    reply = await assistant.request("read", payload={"memory_id": stored.memory_id})

    assert reply["error"]["code"] == "memory_not_found"


@over(
    ("request_text", "code"),
    [
        ("{", "invalid_request"),
        ("", "invalid_request"),
        ("[1, 2]", "invalid_request"),
        ("null", "invalid_request"),
        ('{"a": NaN}', "invalid_request"),
        ("[" * 100_000, "invalid_request"),
        ("{}", "invalid_request"),
        ('{"action": 7}', "invalid_request"),
        ('{"action": "dance"}', "invalid_request"),
        ('{"action": "update", "payload": {"memory_id": "x"}}', "validation_error"),
        ('{"action": "create", "payload": []}', "invalid_request"),
        ('{"action": "create"}', "validation_error"),
        ('{"action": "create", "payload": {"content": {"text": "  "}}}', "validation_error"),
        ('{"action": "create", "payload": {"content": {"text": 5}}}', "validation_error"),
        ('{"action": "create", "payload": {"content": {"text": "a", "x": 1e999}}}', "invalid_request"),
        ('{"action": "create", "payload": {"content": {"text": "\\ud800"}}}', "validation_error"),
        ('{"action": "create", "payload": {"content": {"text": "a\\u0000b"}}}', "validation_error"),
        ('{"action": "create", "payload": {"content": {"text": "a"}, "priority": 11}}', "validation_error"),
        ('{"action": "create", "payload": {"content": {"text": "a"}, "ttl": -1}}', "validation_error"),
        ('{"action": "create", "payload": {"content": {"text": "a"}, "ttl": 1e300}}', "validation_error"),
        ('{"action": "create", "payload": {"content": {"text": "a"}, "memory_type": "no/pe"}}', "validation_error"),
        (
            '{"action": "create", "payload": {"content": {"text": "a"}, "tags": "é", "priority": true}}',
            "validation_error",
        ),
        ('{"action": "create", "session_id": 5, "payload": {"content": {"text": "a"}}}', "validation_error"),
        ('{"action": "read", "payload": {}}', "validation_error"),
        ('{"action": "read", "payload": {"memory_id": "mem-0000000000000000"}}', "memory_not_found"),
        ('{"action": "search", "session_id": "s", "payload": {"query": " "}}', "validation_error"),
        (
            '{"action": "search", "session_id": "s", "payload": {"query": "a", "search_type": "magic"}}',
            "validation_error",
        ),
        (
            '{"action": "search", "session_id": "s", "payload": {"query": "a", "filters": {"limit": 0}}}',
            "validation_error",
        ),
    ],
)
async def test_a_bad_request_is_answered_with_its_code(assistant: Assistant, request_text: str, code: str) -> None:
    reply = await assistant.send(5570, request_text.encode())

    assert reply["status"] == "error"
    assert reply["error"]["code"] == code, reply
    assert reply["error"]["message"]
    assert reply["request_id"].startswith("req-")


async def test_content_nested_too_deeply_is_rejected(assistant: Assistant) -> None:
    nested: Any = "x"
    for _ in range(200):
        nested = {"a": nested}

    reply = await assistant.request("create", payload={"content": {"text": "deep", "nested": nested}})

    assert reply["error"]["code"] == "validation_error"


@over("port", MAIN_PORTS)
@over("body", [b"{", b"\xff\xfe", b"", b"[]", b'{"action": "nonsense"}', b'{"command": "BOGUS"}'])
async def test_every_main_port_answers_everything(assistant: Assistant, port: int, body: bytes) -> None:
    reply = await assistant.send(port, body)

    assert reply["status"] in {"error", "ERROR"}


async def test_each_dialect_refuses_in_its_own_form(assistant: Assistant) -> None:
    assert (await assistant.send(5596, b'{"action": "x"}'))["reason"] == "Unknown action"
    assert await assistant.send(5596, b'{"command": "BOGUS"}') == error_reply("Unknown command: BOGUS", status="ERROR")
    assert (await assistant.send(5596, b"{"))["message"] == "Invalid JSON in message"
    assert (await assistant.send(5574, b'{"action": "x", "request_id": "r9"}'))["request_id"] == "r9"
    assert await assistant.send(7140, b'{"action": "x"}') == {"status": "error", "message": "Unknown action: x"}


@over("action", ["health_check", "ping", "health"])
@over("port", MAIN_PORTS)
async def test_a_main_port_answers_its_health(assistant: Assistant, port: int, action: str) -> None:
    status = "success" if port == 5574 and action != "ping" else "ok"
    assert_healthy(await assistant.send(port, json.dumps({"action": action}).encode()), status=status)


@over("body", [b"", b"ping", b"\xff", b'{"action": "create"}'])
@over("port", HEALTH_PORTS)
async def test_a_health_port_answers_anything_with_its_health(assistant: Assistant, port: int, body: bytes) -> None:
    assert_healthy(await assistant.send(port, body))


async def test_the_upper_case_dialect_answers_its_health(assistant: Assistant) -> None:
    reply = await assistant.send(5596, b'{"command": "HEALTH_CHECK"}')

    assert reply["status"] == "success"
    assert reply["version"] == "1.0"
    assert_healthy(reply["health"])


async def test_a_dealer_without_the_empty_frame_is_answered_without_it(assistant: Assistant) -> None:
    async with assistant.socket(zmq.DEALER, 5570) as peer:
        await peer.send(b'{"action": "ping"}')
        plain = await peer.recv_multipart()
        await peer.send_multipart([b"", b'{"action": "ping"}'])
        delimited = await peer.recv_multipart()
        await peer.send(b"")
        empty = await peer.recv_multipart()

    assert len(plain) == 1
    assert json.loads(plain[0])["status"] == "ok"
    assert (len(delimited), delimited[0]) == (2, b"")
    assert len(empty) == 1
    assert json.loads(empty[0])["status"] == "error"


async def test_a_message_of_several_frames_is_answered(assistant: Assistant) -> None:
    async with assistant.socket(zmq.DEALER, 5570) as peer:
        await peer.send_multipart([b'{"action":', b'"ping"}'])
        reply = json.loads((await peer.recv_multipart())[0])

    assert reply["error"]["code"] == "invalid_request"


@over("port", [5570, 5596])
async def test_a_message_of_too_many_frames_is_refused_unread(assistant: Assistant, port: int) -> None:
    async with assistant.socket(zmq.REQ, port) as peer:
        await peer.send_multipart([b'{"action": "ping"}'] * 1000)
        reply = json.loads(await peer.recv())
        await peer.send(b'{"action": "ping"}')
        next_one = json.loads(await peer.recv())

    assert reply["status"] == "error"
    assert "frames" in json.dumps(reply)
    assert next_one["status"] == "ok"


class Stumbling:
    """A dialect that fails at its first refusal."""

    def __init__(self) -> None:
        self.refusals = 0

    async def answer(self, frames: Frames, *, deadline: float) -> dict[str, Any]:
        return {"status": "ok"}

    def error_reply(self, code: str, text: str) -> dict[str, Any]:
        self.refusals += 1
        if self.refusals == 1:
            raise ArithmeticError
        return {"status": "error"}


async def test_an_internal_error_does_not_stop_a_port() -> None:
    config = PortConfig(number=1, host="127.0.0.1", port=0, networks=())
    context = zmq.asyncio.Context()
    try:
        # Room for none: every message is refused.
        async with (
            listen(config, router=Router(context, config, Stumbling(), max_queued_messages=0)) as router,
            Assistant(context, {1: router.address}).socket(zmq.DEALER, 1) as peer,
        ):
            await peer.send(b"first")
            await peer.send(b"second")
            reply = json.loads(await peer.recv())
    finally:
        context.term()

    assert reply == {"status": "error"}


class Unspeakable:
    """A dialect whose replies are no JSON."""

    async def answer(self, frames: Frames, *, deadline: float) -> dict[str, Any]:
        return {"status": float("nan")}

    def error_reply(self, code: str, text: str) -> dict[str, Any]:
        return {"status": code}


class Slow:
    """A dialect that waits for an event before it replies."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()

    async def answer(self, frames: Frames, *, deadline: float) -> dict[str, Any]:
        await self.may_answer.wait()
        return {"status": "ok"}

    def error_reply(self, code: str, text: str) -> dict[str, Any]:
        return {"status": code}


async def test_a_reply_that_cannot_be_sent_becomes_an_internal_error() -> None:
    config = PortConfig(number=1, host="127.0.0.1", port=0, networks=())
    context = zmq.asyncio.Context()
    try:
        async with listen(config, router=Router(context, config, Unspeakable(), max_queued_messages=10)) as router:
            reply = await Assistant(context, {1: router.address}).send(1, b"{}")
    finally:
        context.term()

    assert reply == {"status": "internal_error"}


async def test_the_queue_is_bounded_in_bytes_and_one_peer_fills_a_part() -> None:
    # Long enough for any machine: nothing here ends by time.
    config = PortConfig(number=1, host="127.0.0.1", port=0, networks=(), reply_seconds=60)
    context = zmq.asyncio.Context()
    slow = Slow()
    try:
        async with listen(config, router=Router(context, config, slow, max_queued_messages=1000)) as router:
            assistant = Assistant(context, {1: router.address})
            async with assistant.socket(zmq.DEALER, 1) as heavy, assistant.socket(zmq.REQ, 1) as light:
                for _ in range(6):
                    await heavy.send(b"x" * 4 * 1024 * 1024)
                refused = [json.loads(await heavy.recv())["status"] for _ in range(2)]
                await light.send(b"x" * 4 * 1024 * 1024)
                slow.may_answer.set()
                answered = [json.loads(await heavy.recv())["status"] for _ in range(4)]
                other = json.loads(await light.recv())["status"]
    finally:
        context.term()

    assert refused == ["rate_limit_exceeded"] * 2
    assert [*answered, other] == ["ok"] * 5


class Verbose:
    """A dialect whose replies are large."""

    async def answer(self, frames: Frames, *, deadline: float) -> dict[str, Any]:
        return {"status": "ok", "text": "x" * (1 << 20)}

    def error_reply(self, code: str, text: str) -> dict[str, Any]:
        return {"status": code}


@pytest.mark.system
async def test_answers_that_a_peer_does_not_read_are_dropped_beyond_a_bound() -> None:
    message_count = 200
    config = PortConfig(number=1, host="127.0.0.1", port=0, networks=())
    reply_counter, context = REPLIES.labels("1", "ok"), zmq.asyncio.Context()
    context.rcvhwm = 1
    before = reply_counter._value.get()
    try:
        async with (
            listen(config, router=Router(context, config, Verbose(), max_queued_messages=1000)) as listener,
            Assistant(context, {1: listener.address}).socket(zmq.DEALER, 1) as peer,
        ):
            for _ in range(message_count):
                await peer.send(b"{}")
            async with asyncio.timeout(60):
                while reply_counter._value.get() - before < message_count:
                    await asyncio.sleep(0.01)
            read = 0
            while await peer.poll(2000):
                await peer.recv_multipart()
                read += 1
            # Who reads again is answered again.
            await peer.send(b"{}")
            await peer.recv_multipart()
    finally:
        context.term()

    # And the buffers of the systems at both ends.
    assert 64 <= read <= 100


class Deaf(zmq.asyncio.Socket):
    """A socket that cannot receive."""

    def recv_multipart(self, *_: Any, **__: Any) -> Any:
        raise zmq.ZMQError(zmq.ENOTSUP)


class DeafAtFirst(zmq.asyncio.Context):
    """Makes one socket that cannot receive, and then others that can."""

    socket_count = 0

    def socket(self, kind: int, **_: Any) -> Any:  # type: ignore[override]  # As much of it as is used.
        self.socket_count += 1
        return super().socket(kind, socket_class=Deaf if self.socket_count == 1 else zmq.asyncio.Socket)


async def test_a_failed_socket_is_closed_and_the_next_connection_is_answered(log: io.StringIO) -> None:
    config = PortConfig(number=1, host="127.0.0.1", port=0, networks=())
    deaf, context = DeafAtFirst(), zmq.asyncio.Context()
    try:
        async with listen(config, router=Router(deaf, config, Unspeakable(), max_queued_messages=10)) as listener:
            # The client reconnects by itself and sends its queued messages.
            async with Assistant(context, {1: listener.address}).socket(zmq.REQ, 1) as peer:
                peer.setsockopt(zmq.REQ_RELAXED, 1)
                async with asyncio.timeout(30):
                    while deaf.socket_count < 2:
                        await peer.send(b"{}")
                        await peer.poll(50)
            reply = await Assistant(context, {1: listener.address}).send(1, b"{}")
    finally:
        context.term()
        deaf.term()

    assert reply == {"status": "internal_error"}
    assert "internal_error" in log.getvalue()


async def test_one_socket_goes_on_after_garbage(assistant: Assistant) -> None:
    async with assistant.socket(zmq.REQ, 5576) as peer:
        replies = []
        for body in (b"\xff", b"{", b'{"action": "ping"}'):
            await peer.send(body)
            replies.append(json.loads(await peer.recv())["status"])

    assert replies == ["error", "error", "ok"]


async def test_a_message_beyond_the_limit_is_refused_by_name(assistant: Assistant) -> None:
    body = json.dumps({"action": "create", "payload": {"content": {"text": "x" * 10_000_000}}}).encode()

    reply = await assistant.send(5570, body)

    assert reply["error"]["code"] == "invalid_request"
    assert "larger" in reply["error"]["message"]


async def test_a_long_text_is_refused_by_the_tenants_plan(assistant: Assistant) -> None:
    reply = await assistant.request("create", payload={"content": {"text": "x" * 100_001}})

    assert reply["error"]["code"] == "validation_error"
    assert reply["error"]["details"]["reason"] == "CONTENT_TOO_LONG"


@pytest.mark.system
async def test_many_requests_at_once_are_each_answered(assistant: Assistant) -> None:
    async with assistant.socket(zmq.DEALER, 5570) as peer:
        for number in range(100):
            payload = {"memory_type": "context", "content": {"text": f"number {number}"}}
            await peer.send(json.dumps({"action": "create", "request_id": f"r{number}", "payload": payload}).encode())
        replies = [json.loads(await peer.recv()) for _ in range(100)]

    assert {reply["status"] for reply in replies} == {"success"}
    assert {reply["request_id"] for reply in replies} == {f"r{number}" for number in range(100)}


@pytest.mark.system
async def test_a_peer_that_never_reads_does_not_block_others(assistant: Assistant) -> None:
    async with assistant.socket(zmq.DEALER, 5570) as silent:
        for _ in range(3000):
            await silent.send(b'{"action": "ping"}')

        reply = await assistant.request("ping")

    assert reply["status"] == "ok"


async def test_services_that_are_down_are_an_error_within_the_clients_time() -> None:
    async with assistant_of({"SKEIN_PC2_API_KEY": "sk"}, gateway="127.0.0.1:1") as assistant:
        create = await assistant.request("create", payload={"content": {"text": "a"}})
        read = await assistant.request("read", payload={"memory_id": "m"})
        search = await assistant.request("search", payload={"query": "a"})

    assert [reply["error"]["code"] for reply in (create, read, search)] == [
        "storage_error",
        "storage_error",
        "search_error",
    ]


@pytest.mark.system
async def test_a_gateway_that_never_answers_is_an_error() -> None:
    # The system accepts the connection, and no process reads from it.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        async with assistant_of({"SKEIN_PC2_API_KEY": "sk"}, gateway=address) as assistant:
            reply = await assistant.request("read", payload={"memory_id": "m"})

    assert reply["error"]["code"] == "storage_error"


async def test_a_key_that_is_refused_is_permission_denied(cluster: Cluster) -> None:
    async with assistant_of({"SKEIN_PC2_API_KEY": "sk_nobody"}, patient=True, gateway=cluster.endpoint) as assistant:
        reply = await assistant.request("read", payload={"memory_id": "m"})

    assert reply["error"]["code"] == "permission_denied"


@pytest.mark.system
async def test_pc2_is_ready_once_its_key_is_accepted(cluster: Cluster, tenant: Tenant) -> None:
    async with assistant_of({"SKEIN_PC2_API_KEY": "sk_nobody"}, patient=True, gateway=cluster.endpoint) as assistant:
        with pytest.raises(NotReady):
            await assistant.running.wait_ready(0.5)
    async with assistant_of({"SKEIN_PC2_API_KEY": tenant.api_key}, patient=True, gateway=cluster.endpoint) as assistant:
        await assistant.running.wait_ready(60)


async def test_a_port_opens_when_its_api_key_exists(cluster: Cluster, tenant: Tenant) -> None:
    async with assistant_of({}, patient=True, gateway=cluster.endpoint) as assistant:
        open_at_first = set(assistant.ports)
        health = await assistant.send(5617, b"")
        assistant.environment["SKEIN_PC2_API_KEY"] = tenant.api_key
        await assistant.running.wait_ready(60)
        after = await assistant.request("read", payload={"memory_id": "m"})
        open_later = set(assistant.ports)

    # The health ports show that their agents are starting, and so do the ports of SUB sockets.
    assert open_at_first == {*HEALTH_PORTS, 6583}
    assert (health["status"], health["ready"]) == ("ok", False)
    assert after["error"]["code"] == "memory_not_found"
    assert open_later == set(registry.PC2_PORTS)


async def test_a_port_in_use_leaves_the_others_open(log: io.StringIO) -> None:
    async with assistant_of({"SKEIN_PC2_API_KEY": "sk"}) as first:
        used_port = first.ports[5570].rpartition(":")[2]
        async with assistant_of({"SKEIN_PC2_API_KEY": "sk", "SKEIN_PC2_PORT_5576": used_port}) as second:
            reply = await second.request("ping")

    assert 5576 not in second.ports
    assert reply["status"] == "ok"
    assert "SKEIN_PC2_PORT_5576" in log.getvalue()


async def test_the_clusters_own_assistant_acts_for_the_development_tenant(cluster: Cluster) -> None:
    request, development = tenancy_pb2.ListTenantsRequest(page_size=1000), ""
    while not development:
        reply = await cluster.operator.tenancy.ListTenants(request)
        development = next((tenant.tenant_id for tenant in reply.tenants if tenant.slug == "development"), "")
        request.page_token = reply.next_page_token
    acting = cluster.with_key(cluster.operator_key, **{"skein-tenant-id": development})
    context = zmq.asyncio.Context()
    try:
        assistant = Assistant(context, {5570: cluster.addresses["pc2:5570"]})
        memory_id = await assistant.create("said to the house")
    finally:
        context.term()

    result = await acting.memory.GetMemory(memory_pb2.GetMemoryRequest(memory_id=memory_id))

    assert result.memory.content == "said to the house"
