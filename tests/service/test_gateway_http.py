"""The gateway's HTTP API: RPCs as JSON and bytes in the Connect protocol."""

from __future__ import annotations

import asyncio
import http.client
import io
import json
import uuid
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from fix_cluster import Cluster, Tenant
from fix_gateway import gateway_before
from grpc import aio

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2
from skein_gateway.http_api.server import serve_http_api
from skein_kit.calls.call import Call
from skein_kit.host.process import PortTaken, ServicerRegistry

MEMORIES = "/skein.memory.v1.MemoryService"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def reason(self) -> str:
        reason: str = self.json["details"][0]["debug"]["reason"]
        return reason


async def ask(
    address: str, path: str, body: bytes | dict[str, Any] | None = None, *, method: str = "POST", **headers: str
) -> Answer:
    """Make one request; a dict goes as JSON. Underscores in the names of headers are hyphens."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    if isinstance(body, dict):
        sent = {"content-type": "application/json", **sent}
        body = json.dumps(body).encode()

    def do() -> Answer:
        connection = http.client.HTTPConnection(address, timeout=60)
        try:
            connection.request(method, path, body, sent)
            response = connection.getresponse()
            return Answer(
                response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
            )
        finally:
            connection.close()

    return await asyncio.to_thread(do)


@pytest.fixture
def address(cluster: Cluster) -> str:
    return cluster.addresses["http"]


@pytest.fixture
def bearer(tenant: Tenant) -> dict[str, str]:
    return {"authorization": f"Bearer {tenant.api_key}"}


async def test_a_memory_is_stored_and_read_as_json(address: str, bearer: dict[str, str]) -> None:
    created = await ask(address, f"{MEMORIES}/CreateMemory", {"memory": {"content": "Grüße, 茶"}}, **bearer)
    memory_id = created.json["memory"]["memoryId"]

    reply = await ask(address, f"{MEMORIES}/GetMemory", {"memory_id": memory_id}, **bearer)

    assert (created.status, reply.status) == (200, 200)
    assert reply.headers["content-type"] == "application/json"
    assert reply.json["memory"]["content"] == "Grüße, 茶"


async def test_a_memory_is_stored_and_read_as_bytes(address: str, bearer: dict[str, str]) -> None:
    request = memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="tea"))

    answer = await ask(
        address, f"{MEMORIES}/CreateMemory", request.SerializeToString(), content_type="application/proto", **bearer
    )

    assert answer.status == 200
    assert answer.headers["content-type"] == "application/proto"
    assert memory_pb2.CreateMemoryResponse.FromString(answer.body).memory.content == "tea"


@pytest.mark.parametrize("content_type", ["application/json", "application/proto"])
async def test_the_gateways_own_methods_answer_in_both_forms(
    address: str, bearer: dict[str, str], content_type: str
) -> None:
    path = "/skein.gateway.v1.GatewayService/GetClusterStatus"

    body = b"{}" if content_type == "application/json" else b""
    answer = await ask(address, path, body, content_type=content_type, **bearer)

    assert answer.status == 200
    if content_type == "application/json":
        assert answer.json["version"]
    else:
        assert gateway_pb2.GetClusterStatusResponse.FromString(answer.body).version


async def test_a_refusal_is_connects_error_json(address: str, bearer: dict[str, str]) -> None:
    answer = await ask(address, f"{MEMORIES}/GetMemory", {"memoryId": str(uuid.uuid4())}, **bearer)

    assert answer.status == 404
    assert answer.json["code"] == "not_found"
    assert answer.reason == "MEMORY_NOT_FOUND"


async def test_broken_rules_are_named(address: str, bearer: dict[str, str]) -> None:
    answer = await ask(address, f"{MEMORIES}/GetMemory", {}, **bearer)

    assert answer.status == 400
    assert answer.json["details"][1]["debug"]["fieldViolations"][0]["field"] == "memory_id"


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"{", "application/json"),
        (b'{"memory": {"contnt": "tea"}}', "application/json; charset=utf-8"),
        (b'{"memory": 1}', "application/json"),
        (b"\xff\xff", "application/proto"),
    ],
    ids=["cut", "unknown field", "wrong type", "no message"],
)
async def test_a_malformed_message_is_refused(
    address: str, bearer: dict[str, str], body: bytes, content_type: str
) -> None:
    answer = await ask(address, f"{MEMORIES}/CreateMemory", body, content_type=content_type, **bearer)

    assert (answer.status, answer.json["code"], answer.reason) == (400, "invalid_argument", "INVALID_FIELD")


async def test_without_a_credential_nothing_is_answered(address: str) -> None:
    answer = await ask(address, f"{MEMORIES}/ListMemories", {})

    assert (answer.status, answer.reason) == (401, "CREDENTIAL_MISSING")


async def test_a_wrong_credential_is_refused(address: str) -> None:
    answer = await ask(address, f"{MEMORIES}/ListMemories", {}, authorization="Bearer nonsense")

    assert (answer.status, answer.reason) == (401, "CREDENTIAL_INVALID")


async def test_public_methods_need_no_credential(address: str) -> None:
    answer = await ask(address, "/skein.auth.v1.AuthService/ListSigningKeys", {})

    assert answer.json["signingKeys"]


@pytest.mark.parametrize(
    "path", ["/skein.auth.v1.AuthInternalService/Exchange", "/skein.memory.v1.MemoryService/Invent"]
)
async def test_internal_rpcs_do_not_exist(address: str, bearer: dict[str, str], path: str) -> None:
    answer = await ask(address, path, {}, **bearer)

    assert (answer.status, answer.reason) == (501, "METHOD_NOT_FOUND")


@pytest.mark.parametrize("content_type", ["application/json", "application/proto"])
async def test_more_than_4_mib_is_refused(address: str, bearer: dict[str, str], content_type: str) -> None:
    answer = await ask(
        address, f"{MEMORIES}/CreateMemory", b" " * (4 * 1024 * 1024 + 1), content_type=content_type, **bearer
    )

    assert (answer.status, answer.reason) == (429, "MESSAGE_TOO_LARGE")


async def test_a_large_body_is_read(address: str, bearer: dict[str, str]) -> None:
    body = b'{"memory": {"content": "tea"}}' + b" " * 1_000_000

    answer = await ask(address, f"{MEMORIES}/CreateMemory", body, content_type="application/json", **bearer)

    assert answer.status == 200


@pytest.mark.parametrize("content_type", ["text/plain", "application/connect+json", "application/grpc-web", ""])
async def test_another_content_type_is_refused(address: str, content_type: str) -> None:
    answer = await ask(address, f"{MEMORIES}/ListMemories", b"{}", content_type=content_type)

    assert answer.status == 415
    assert answer.headers["accept-post"] == "application/json, application/proto"


@pytest.mark.parametrize("path", [f"{MEMORIES}/ListMemories", "/mcp", "/oauth/token", "/console/keys"])
async def test_another_encoding_is_refused_before_it_is_known_who_sends_it(address: str, path: str) -> None:
    answer = await ask(address, path, {}, content_encoding="gzip", authorization="Bearer nobody's")

    assert (answer.status, answer.headers["accept-encoding"]) == (415, "identity")


async def test_an_encoding_that_changes_nothing_is_none(address: str, bearer: dict[str, str]) -> None:
    answer = await ask(address, f"{MEMORIES}/ListMemories", {}, content_encoding="Identity", **bearer)

    assert answer.status == 200


async def test_an_rpc_is_posted(address: str) -> None:
    answer = await ask(address, f"{MEMORIES}/ListMemories", method="GET")

    assert (answer.status, answer.headers["allow"]) == (405, "POST")


async def test_a_request_with_a_credential_is_not_redirected(address: str, bearer: dict[str, str]) -> None:
    answer = await ask(address, f"{MEMORIES}/ListMemories/", {}, **bearer)

    assert (answer.status, "location" in answer.headers) == (404, False)


async def test_the_request_id_comes_back(address: str) -> None:
    answer = await ask(address, f"{MEMORIES}/ListMemories", {}, skein_request_id="mine")

    assert answer.headers["skein-request-id"] == "mine"


async def test_a_time_limit_ends_the_call(cluster: Cluster, tenant: Tenant, bearer: dict[str, str]) -> None:
    async def never(_request: recall_pb2.RecallRequest, _call: Call) -> recall_pb2.RecallResponse:
        await asyncio.Event().wait()
        raise AssertionError

    async with gateway_before(cluster, tenant, {"Recall": never}) as gateway:
        answer = await ask(
            gateway.host.addresses["http"],
            "/skein.recall.v1.RecallService/Recall",
            {"query": "tea"},
            connect_timeout_ms="150",
            **bearer,
        )

    assert (answer.status, answer.reason) == (504, "DEADLINE_EXCEEDED")


@pytest.mark.parametrize(
    "header", [{"connect_timeout_ms": "soon"}, {"connect_protocol_version": "2"}], ids=["time limit", "version"]
)
async def test_a_header_of_the_protocol_that_is_wrong_is_named(
    address: str, bearer: dict[str, str], header: dict[str, str]
) -> None:
    answer = await ask(address, f"{MEMORIES}/ListMemories", {}, **bearer, **header)

    assert (answer.status, answer.reason) == (400, "INVALID_FIELD")
    (violation,) = answer.json["details"][1]["debug"]["fieldViolations"]
    assert violation["field"] == next(iter(header)).replace("_", "-")


async def test_hanging_up_cancels_the_work(cluster: Cluster, tenant: Tenant) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def endless(_request: recall_pb2.RecallRequest, _call: Call) -> recall_pb2.RecallResponse:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    async with gateway_before(cluster, tenant, {"Recall": endless}) as gateway:
        host, _, port = gateway.host.addresses["http"].partition(":")
        _reader, writer = await asyncio.open_connection(host, int(port))
        body = b'{"query": "tea"}'
        head = (
            f"POST /skein.recall.v1.RecallService/Recall HTTP/1.1\r\nhost: {host}\r\ncontent-length: {len(body)}\r\n"
            f"content-type: application/json\r\nauthorization: Bearer {tenant.api_key}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        await asyncio.wait_for(begun.wait(), 30)

        writer.close()

        await asyncio.wait_for(ended.wait(), 30)


async def begun_request(
    address: str, *, length: int, **headers: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send the head of a request whose body is still to come."""
    host, _, port = address.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    sent = {"host": host, "content-length": str(length), "content-type": "application/json", **headers}
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in sent.items())
    writer.write(f"POST {MEMORIES}/CreateMemory HTTP/1.1\r\n{lines}\r\n".encode())
    await writer.drain()
    return reader, writer


async def test_a_stranger_is_refused_before_the_body_is_read(address: str) -> None:
    reader, writer = await begun_request(address, length=4_000_000)

    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)

    writer.close()
    assert head.startswith(b"HTTP/1.1 401")


async def test_a_body_that_does_not_come_ends_with_the_calls_time(address: str, bearer: dict[str, str]) -> None:
    reader, writer = await begun_request(address, length=100, connect_timeout_ms="150", **bearer)

    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)

    writer.close()
    assert head.startswith(b"HTTP/1.1 504")


async def test_hanging_up_in_the_middle_of_a_body_is_no_fault(
    cluster: Cluster, tenant: Tenant, bearer: dict[str, str], log: io.StringIO
) -> None:
    async with gateway_before(cluster, tenant, {}) as gateway:
        address = gateway.host.addresses["http"]
        _reader, writer = await begun_request(address, length=100, **bearer)
        writer.write(b'{"memory": ')
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        answer = await ask(address, f"{MEMORIES}/ListMemories", {}, **bearer)

    assert answer.status == 200
    assert "internal_error" not in log.getvalue()


async def test_an_answer_too_large_to_send_says_so(
    cluster: Cluster, tenant: Tenant, bearer: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skein_gateway.http_api.server.MAX_ANSWER_BYTES", 10)

    # A gateway in this process, whatever the cluster's form: its limit is what was changed.
    async with gateway_before(cluster, tenant, {}) as gateway:
        address = gateway.host.addresses["http"]
        answer = await ask(address, f"{MEMORIES}/CreateMemory", {"memory": {"content": "tea"}}, **bearer)

    assert (answer.status, answer.reason) == (429, "MESSAGE_TOO_LARGE")
    assert answer.json["details"][0]["debug"]["metadata"]["limit"] == "10"


async def healthy(address: str) -> None:
    """Wait until a gateway says that it can serve, which a machine that stands still delays."""
    async with asyncio.timeout(30):
        while (await ask(address, "/healthz", method="GET")).status != 200:
            await asyncio.sleep(0.05)


@pytest.mark.system
async def test_while_it_drains_it_says_that_it_takes_no_more(cluster: Cluster, tenant: Tenant) -> None:
    async def wait_for_drain(address: str) -> None:
        while (await ask(address, "/healthz", method="GET")).status != 503:
            await asyncio.sleep(0.05)

    # Longer than a machine pauses: a request that comes too late finds no listener.
    async with gateway_before(cluster, tenant, {}, SKEIN_DRAIN_SECONDS="5") as gateway:
        address = gateway.host.addresses["http"]
        await healthy(address)
        listening = asyncio.create_task(wait_for_drain(address))
    await asyncio.wait_for(listening, 30)


async def test_the_root_says_what_this_is(cluster: Cluster, address: str) -> None:
    text = await ask(address, "/", method="GET")
    listed = await ask(address, "/", method="GET", accept="application/json")

    assert cluster.endpoint in text.body.decode()
    assert listed.json["grpc"] == cluster.endpoint
    assert f"{MEMORIES}/CreateMemory" in listed.json["methods"]


async def test_it_says_whether_it_can_serve(address: str) -> None:
    await healthy(address)


async def test_a_gateway_that_cannot_reach_auth_says_that_it_cannot_serve(cluster: Cluster, tenant: Tenant) -> None:
    async def unreachable() -> bool:
        raise aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, aio.Metadata(), aio.Metadata())

    servicers = ServicerRegistry()
    servicers.ready_checks.append(unreachable)
    async with gateway_before(cluster, tenant, {}) as gateway:
        servicers.handlers.update(gateway.host.in_process_handlers["gateway"])
        async with serve_http_api(gateway.host, 0, servicers):
            answer = await ask(gateway.host.addresses["http"], "/healthz", method="GET")

    assert (answer.status, answer.body) == (503, b"not ready\n")


async def test_a_port_that_is_taken_is_named_with_its_setting(cluster: Cluster, tenant: Tenant) -> None:
    async with gateway_before(cluster, tenant, {}) as gateway, AsyncExitStack() as stack:
        port = int(gateway.host.addresses["http"].rpartition(":")[2])

        with pytest.raises(PortTaken, match=rf"{port} is in use; set SKEIN_HTTP_PORT"):
            await stack.enter_async_context(serve_http_api(gateway.host, port, ServicerRegistry()))


@pytest.mark.system
async def test_a_failure_while_it_serves_is_not_taken_for_a_port_in_use(cluster: Cluster, tenant: Tenant) -> None:
    async with gateway_before(cluster, tenant, {}) as gateway:
        with pytest.raises(TimeoutError, match="of the block"):
            async with serve_http_api(gateway.host, 0, ServicerRegistry()):
                raise TimeoutError("of the block")
