"""The handshake of a ZMTP connection."""

from __future__ import annotations

import asyncio

import pytest
from fix_catalogue import over
from hypothesis import given
from hypothesis import strategies as st

from skein_pc2.transport import listener


def reader(data: bytes) -> asyncio.StreamReader:
    """Return a stream that ends after some bytes."""
    stream = asyncio.StreamReader()
    stream.feed_data(data)
    stream.feed_eof()
    return stream


def ready(*properties: tuple[bytes, bytes]) -> bytes:
    """Write the body of a READY."""
    properties_bytes = (bytes([len(name)]) + name + len(value).to_bytes(4, "big") + value for name, value in properties)
    return b"\x05READY" + b"".join(properties_bytes)


@over("kind", ["REQ", "DEALER", "SUB", "XSUB", "PUSH"])
async def test_a_ready_names_the_type_of_its_socket(kind: str) -> None:
    body = ready((b"Identity", b"kitchen"), (b"Socket-Type", kind.encode()))
    frame = bytes([0x04, len(body)]) + body

    assert await listener.read_ready(reader(frame + b"more")) == (frame, kind)


async def test_a_long_ready_is_read_whole() -> None:
    body = ready((b"Identity", b"k" * 255), (b"X-Note", b"n" * 200), (b"socket-type", b"REQ"))
    frame = b"\x06" + len(body).to_bytes(8, "big") + body

    assert await listener.read_ready(reader(frame)) == (frame, "REQ")


@over(
    "body",
    [
        b"",
        b"\x05READY",
        b"\x05ERROR\x00",
        ready((b"Identity", b"kitchen")),
        b"\x05READY\x0bSocket-Type\xff\xff\xff\xffREQ",
        b"\x05READY\xff",
    ],
)
def test_a_ready_without_a_socket_type_is_rejected(body: bytes) -> None:
    with pytest.raises(listener.InvalidHandshake):
        listener.socket_type(body)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_socket_type_or_rejected(body: bytes) -> None:
    try:
        socket_type = listener.socket_type(b"\x05READY" + body)
    except listener.InvalidHandshake:
        return
    assert socket_type.encode("ascii", "replace").decode() or not socket_type


async def test_a_greeting_of_version_three_without_security_is_accepted() -> None:
    assert await listener.read_greeting(reader(listener.GREETING + b"more")) == listener.GREETING
    assert len(listener.GREETING) == listener.GREETING_BYTES


@over(
    "greeting",
    [
        b"GET / HTTP/1.1\r\nHost: kitchen\r\n\r\n".ljust(64),
        # An older version.
        listener.GREETING[:10] + b"\x01" + listener.GREETING[11:],
        listener.GREETING[:12] + b"CURVE".ljust(20, b"\0") + listener.GREETING[32:],
        listener.GREETING[:12] + b"PLAIN".ljust(20, b"\0") + listener.GREETING[32:],
    ],
)
async def test_any_other_greeting_is_rejected(greeting: bytes) -> None:
    with pytest.raises(listener.InvalidHandshake):
        await listener.read_greeting(reader(greeting))


@over("head", [b"\x00\x05READY", b"\x04\xff", b"\x06" + (1 << 40).to_bytes(8, "big")])
async def test_any_other_command_is_rejected_or_incomplete(head: bytes) -> None:
    with pytest.raises((listener.InvalidHandshake, asyncio.IncompleteReadError)):
        await listener.read_ready(reader(head))
