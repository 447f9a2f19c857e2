"""Bodies of calls that wait for their turn at the gateway: they count in the budget until they are parsed."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from fix_cluster import Cluster, Tenant
from fix_gateway import Gateway, gateway_before

from skein.session.v1 import session_pb2
from skein_gateway.oauth import request_handler
from skein_kit.admission.body_memory import BodyMemory
from skein_kit.calls.call import Call
from skein_kit.rpc import request_body

APPEND = "/skein.session.v1.SessionService/AppendMessages"
SIGN_IN = "/skein.auth.v1.AuthService/SignIn"
SECONDS = 60.0
MEBIBYTE = 1024 * 1024
# One call at a time has its turn, and a waiting call is not refused for the time it waits.
ONE_CALL_AT_ONCE: dict[str, Any] = {
    "SKEIN_ADVANCED_ADMISSION_CALLS": "1",
    "SKEIN_ADVANCED_ADMISSION_WAIT_SECONDS": "60",
}
APPENDED = {"session_id": "s", "messages": [{"role": "MESSAGE_ROLE_USER", "content": "tea"}]}
SIGNED_IN = {"email": "none@x.invalid", "password": "wrong wrong wrong"}
RECALL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "recall", "arguments": {"query": "tea"}},
}


@dataclass(frozen=True)
class BusyGateway:
    """A gateway whose only turn is taken, until `released` is set."""

    gateway: Gateway
    released: asyncio.Event

    async def refused(self, path: str, content: dict[str, Any], size: int, *, key: str = "") -> tuple[int, bytes]:
        """Announce a body for which there is no room, and return the answer; the body itself is not sent."""
        return await (await self.post(path, content, size, key=key, is_sent=False)).answer()

    async def post(
        self, path: str, content: dict[str, Any], size: int, *, key: str = "", is_sent: bool = True, **headers: str
    ) -> PostRequest:
        """Send a JSON body of `size` bytes; spaces fill it."""
        body = json.dumps(content).encode().ljust(size)
        host, _, port = self.gateway.host.addresses["http"].partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        named = {
            "host": host,
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "content-length": str(len(body)),
            "connection": "close",
            # A call of the default deadline may end on a busy machine, and give up its room.
            "connect-timeout-ms": str(int(SECONDS * 1000)),
            **({"authorization": f"Bearer {key}"} if key else {}),
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
        writer.write(f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode() + (body if is_sent else b""))
        return PostRequest(reader, writer)


@dataclass(frozen=True)
class PostRequest:
    """A request over a connection of its own."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def answer(self) -> tuple[int, bytes]:
        async with asyncio.timeout(SECONDS):
            received = await self.reader.read()
        self.writer.close()
        return int(received.split(b" ", 2)[1]), received

    def hang_up(self) -> None:
        self.writer.close()


@asynccontextmanager
async def busy_gateway(cluster: Cluster, tenant: Tenant) -> AsyncIterator[BusyGateway]:
    released, begun = asyncio.Event(), asyncio.Event()

    async def append(_request: Any, _call: Call) -> session_pb2.AppendMessagesResponse:
        begun.set()
        await released.wait()
        return session_pb2.AppendMessagesResponse()

    async with gateway_before(cluster, tenant, {"AppendMessages": append}, **ONE_CALL_AT_ONCE) as gateway:
        message = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="tea")
        request = session_pb2.AppendMessagesRequest(session_id="s", messages=[message])
        call = asyncio.ensure_future(gateway.sessions.AppendMessages(request, timeout=SECONDS))
        try:
            async with asyncio.timeout(SECONDS):
                await begun.wait()
            yield BusyGateway(gateway, released)
        finally:
            released.set()
            await call


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not holds():
            await asyncio.sleep(0.01)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> BodyMemory:
    """Give callers with an identity a budget of 20 MiB, of which one tenant has half."""
    budget = BodyMemory(20 * MEBIBYTE, preempt_after_seconds=SECONDS, wait_seconds=0.5)
    monkeypatch.setattr(request_body, "AUTHENTICATED_BODIES", budget)
    return budget


@pytest.fixture
def anonymous(monkeypatch: pytest.MonkeyPatch) -> BodyMemory:
    """Give callers without an identity a budget of 256 KiB, of which one source has half."""
    budget = BodyMemory(256 * 1024, preempt_after_seconds=SECONDS, wait_seconds=0.5)
    monkeypatch.setattr(request_body, "ANONYMOUS_BODIES", budget)
    monkeypatch.setattr(request_handler, "ANONYMOUS_BODIES", budget)
    return budget


@pytest.mark.system
@pytest.mark.parametrize(("path", "content"), [(APPEND, APPENDED), ("/mcp", RECALL)])
async def test_waiting_bodies_of_a_known_caller_are_refused_beyond_the_budget(
    cluster: Cluster, tenant: Tenant, known: BodyMemory, path: str, content: dict[str, Any]
) -> None:
    async with busy_gateway(cluster, tenant) as busy:
        posts = [await busy.post(path, content, 3 * MEBIBYTE, key=tenant.api_key)]
        await until(lambda: known.used_bytes == 3 * MEBIBYTE)
        posts += [await busy.post(path, content, 7 * MEBIBYTE // 2, key=tenant.api_key)]
        await until(lambda: known.used_bytes == 13 * MEBIBYTE // 2)

        status, refusal = await busy.refused(path, content, 4 * MEBIBYTE, key=tenant.api_key)

        assert (status, b"OVERLOADED" in refusal) == (429, True)
        assert known.used_bytes == 13 * MEBIBYTE // 2

        posts.pop().hang_up()
        await until(lambda: known.used_bytes == 3 * MEBIBYTE)

        busy.released.set()
        answers = [await post.answer() for post in posts]
    assert [status for status, _ in answers] == [200]
    assert known.used_bytes == 0


@pytest.mark.system
async def test_waiting_bodies_of_anonymous_callers_are_refused_beyond_the_budget(
    cluster: Cluster, tenant: Tenant, anonymous: BodyMemory
) -> None:
    size = 60 * 1024
    async with busy_gateway(cluster, tenant) as busy:
        posts = [await busy.post(SIGN_IN, SIGNED_IN, size) for _ in range(2)]
        await until(lambda: anonymous.used_bytes == 2 * size)

        status, refusal = await busy.refused(SIGN_IN, SIGNED_IN, size)

        assert (status, b"OVERLOADED" in refusal) == (429, True)
        assert anonymous.used_bytes == 2 * size

        posts.pop().hang_up()
        await until(lambda: anonymous.used_bytes == size)

        busy.released.set()
        answers = [await post.answer() for post in posts]
    assert [status for status, _ in answers] == [401]
    assert anonymous.used_bytes == 0


@pytest.mark.system
async def test_the_body_of_a_call_whose_time_ends_while_it_waits_is_returned_to_the_budget(
    cluster: Cluster, tenant: Tenant, known: BodyMemory
) -> None:
    async with busy_gateway(cluster, tenant) as busy:
        post = await busy.post(APPEND, APPENDED, MEBIBYTE, key=tenant.api_key, connect_timeout_ms="400")
        status, refusal = await post.answer()

        assert status in {429, 504}
        assert b"OVERLOADED" in refusal or b"DEADLINE_EXCEEDED" in refusal
        assert known.used_bytes == 0


async def test_a_body_that_is_no_message_is_returned_to_the_budget(
    cluster: Cluster, tenant: Tenant, known: BodyMemory
) -> None:
    async with busy_gateway(cluster, tenant) as busy:
        post = await busy.post(APPEND, {"no_field": 1}, MEBIBYTE, key=tenant.api_key)
        await until(lambda: known.used_bytes == MEBIBYTE)

        busy.released.set()
        status, _ = await post.answer()

    assert status == 400
    assert known.used_bytes == 0


async def test_a_form_counts_until_its_call_ends(cluster: Cluster, anonymous: BodyMemory) -> None:
    body = b"grant_type=refresh_token&refresh_token=none&client_id=" + str(uuid.uuid4()).encode()
    host, _, port = cluster.addresses["http"].partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    form = f"content-type: application/x-www-form-urlencoded\r\ncontent-length: {len(body)}\r\nconnection: close"
    writer.write(f"POST /token HTTP/1.1\r\nhost: {host}\r\n{form}\r\n\r\n".encode() + body)
    answer = asyncio.ensure_future(PostRequest(reader, writer).answer())
    seen: set[int] = set()

    while not answer.done():
        seen.add(anonymous.used_bytes)
        # The server is in the same event loop, which runs once between two looks.
        await asyncio.sleep(0)

    status, _ = answer.result()
    assert status == 401
    assert len(body) in seen
    assert anonymous.used_bytes == 0
