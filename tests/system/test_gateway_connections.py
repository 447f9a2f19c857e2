"""Connections to the gateway's ports as strangers make them: what they get, and when they are ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from fix_cluster import Cluster, Stubs, Tenant, fault_of, reason_in
from fix_connections import HALF, Client
from fix_gateway import gateway_before
from grpc import aio

from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2 as pb

pytestmark = pytest.mark.usefixtures("connections")

LIST = "/skein.memory.v1.MemoryService/ListMemories"
HANDSHAKE_SECONDS = 1.0
IDLE_SECONDS = 1.0
SETTINGS = {
    "SKEIN_ADVANCED_TRANSFER_SECONDS": "1",
    "SKEIN_ADVANCED_HANDSHAKE_SECONDS": str(HANDSHAKE_SECONDS),
    "SKEIN_ADVANCED_IDLE_SECONDS": str(IDLE_SECONDS),
}
# What begins an HTTP/2 connection: the preface, and the frame of settings that the handshake waits for.
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS_FRAMES = bytes.fromhex("000000040000000000" + "000000040100000000")


# From here on the length of a header's value takes another byte.
_LONG = 127


def literal(name: str, value: str) -> bytes:
    """Write a header as HPACK does without its tables."""
    return b"\0" + bytes([len(name)]) + name.encode() + length(value) + value.encode()


def length(value: str) -> bytes:
    """Write the length of a header's value: seven bits, and those beyond in one more byte."""
    return bytes([len(value)]) if len(value) < _LONG else bytes([_LONG, len(value) - _LONG])


def headers_frame(path: str, **more: str) -> bytes:
    """Write the frame that begins a call, whose message is to come."""
    pairs = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "here"}
    pairs |= {"content-type": "application/grpc", "te": "trailers", **more}
    block = b"".join(literal(*pair) for pair in pairs.items())
    return len(block).to_bytes(3, "big") + bytes.fromhex("010400000001") + block


@pytest.fixture(scope="module")
async def addresses(cluster: Cluster) -> AsyncIterator[dict[str, str]]:
    """Run a gateway that does not wait for other services; return the addresses of its ports."""
    async with gateway_before(cluster, await cluster.new_tenant(), {}, in_process=True, **SETTINGS) as gateway:
        yield gateway.host.addresses


@asynccontextmanager
async def channel_to(
    address: str, credential: str, *, compression: grpc.Compression | None = None
) -> AsyncIterator[Stubs]:
    """Open a connection of its own."""
    options = (("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1))
    async with aio.insecure_channel(address, options=options, compression=compression) as channel:
        yield Stubs.of(channel, credential)


async def test_half_of_a_request_to_the_gateway_is_answered_with_408(addresses: dict[str, str]) -> None:
    end = await (await Client.connect(addresses["http"], HALF)).end()

    assert end.startswith(b"HTTP/1.1 408 Request Timeout\r\n")


@pytest.mark.parametrize(
    "first",
    [b"", PREFACE[:8], PREFACE, b"GET / HTTP/1.1\r\n\r\n"],
    ids=["nothing", "half a preface", "no settings", "HTTP/1.1"],
)
async def test_a_grpc_connection_without_a_handshake_ends_in_time(addresses: dict[str, str], first: bytes) -> None:
    begun = time.monotonic()

    await (await Client.connect(addresses["gateway"], first)).end()

    assert time.monotonic() - begun < 20 * HANDSHAKE_SECONDS


@pytest.mark.parametrize(
    "frames",
    [b"", headers_frame(LIST)[:20]],
    ids=["no call", "half of a call's headers"],
)
async def test_a_grpc_connection_without_a_call_ends_in_time(addresses: dict[str, str], frames: bytes) -> None:
    begun = time.monotonic()

    await (await Client.connect(addresses["gateway"], PREFACE + SETTINGS_FRAMES + frames)).end()

    assert time.monotonic() - begun < 20 * (HANDSHAKE_SECONDS + IDLE_SECONDS)


async def test_a_call_whose_message_does_not_come_is_refused_in_time(addresses: dict[str, str], tenant: Tenant) -> None:
    # The message of a caller without a credential would not be waited for.
    frames = headers_frame(LIST, authorization=f"Bearer {tenant.api_key}")
    client = await Client.connect(addresses["gateway"], PREFACE + SETTINGS_FRAMES + frames)

    async with asyncio.timeout(30):
        end = await client.reader.readuntil(b"The deadline has passed")

    assert b"grpc-status" in end


async def test_a_client_that_was_idle_calls_again(addresses: dict[str, str], tenant: Tenant) -> None:
    async with channel_to(addresses["gateway"], tenant.api_key) as stubs:
        await stubs.memory.ListMemories(memory_pb2.ListMemoriesRequest())
        channel: Any = stubs.channel._channel  # type: ignore[attr-defined]  # The connection under the credential.
        async with asyncio.timeout(30):
            while (state := channel.get_state()) is not grpc.ChannelConnectivity.IDLE:
                await channel.wait_for_state_change(state)

        await stubs.memory.ListMemories(memory_pb2.ListMemoriesRequest())


async def say(tenant: Tenant, content: str) -> None:
    """Append a message to the session of this test."""
    message = pb.Message(role=pb.MESSAGE_ROLE_USER, content=content)
    request = pb.AppendMessagesRequest(session_id="s", create_session=True, messages=[message])
    await tenant.sessions.AppendMessages(request)


async def hear(stream: Any, content: str) -> None:
    """Read a stream of messages up to this one."""
    async with asyncio.timeout(30):
        while (await stream.read()).message.content != content:
            pass


async def test_a_stream_outlives_every_limit_of_idle_connections(addresses: dict[str, str], tenant: Tenant) -> None:
    await say(tenant, "hello")
    async with channel_to(addresses["gateway"], tenant.api_key) as stubs:
        stream: Any = stubs.sessions.StreamMessages(pb.StreamMessagesRequest(session_id="s", after_sequence=0))
        await hear(stream, "hello")

        # Another connection without a call is ended meanwhile.
        await (await Client.connect(addresses["gateway"], PREFACE + SETTINGS_FRAMES)).end()
        await say(tenant, "again")

        await hear(stream, "again")
        stream.cancel()


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate], ids=["gzip", "deflate"])
@pytest.mark.parametrize("size", [1_000, 60 * 1024 * 1024])
async def test_a_compressed_message_is_refused_before_it_is_known_who_sends_it(
    cluster: Cluster, compression: grpc.Compression, size: int
) -> None:
    request = memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="0" * size))
    async with channel_to(cluster.endpoint, "nobody's key", compression=compression) as stubs:
        refused = [await fault_of(stubs.memory.CreateMemory(request)) for _ in range(10 if size < 10_000 else 1)]

    assert {fault.code() for fault in refused} == {grpc.StatusCode.UNIMPLEMENTED}
    assert all("is disabled" in (fault.details() or "") for fault in refused)


async def test_a_large_message_with_an_unknown_key_is_refused_with_a_reason(cluster: Cluster) -> None:
    request = memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="0" * 5_000_000))
    async with channel_to(cluster.endpoint, "nobody's key") as stubs:
        fault = await fault_of(stubs.memory.CreateMemory(request))

    assert (fault.code(), reason_in(fault)) == (grpc.StatusCode.UNAUTHENTICATED, "CREDENTIAL_INVALID")


async def test_a_request_without_a_message_is_refused(cluster: Cluster, tenant: Tenant) -> None:
    async with aio.insecure_channel(cluster.endpoint) as channel:
        call: Any = channel.stream_unary(LIST)(metadata=(("authorization", f"Bearer {tenant.api_key}"),), timeout=30)
        await call.done_writing()
        fault = await fault_of(call)

    assert (fault.code(), reason_in(fault)) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD")
