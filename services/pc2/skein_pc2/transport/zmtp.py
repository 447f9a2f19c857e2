"""The handshake of ZMTP 3 up to the peer's socket type. No sockets.

Source: ZMTP 3.1, https://rfc.zeromq.org/spec/37. With the mechanism NULL, both sides send a greeting of 64 bytes and
then the command READY, unencrypted. Its metadata names the sender's Socket-Type.
"""

from __future__ import annotations

import asyncio

GREETING_BYTES = 64
# Signature, version 3.1, mechanism NULL, a peer that is no server, filler.
GREETING = b"\xff" + b"\0" * 8 + b"\x7f" + b"\x03\x01" + b"NULL".ljust(20, b"\0") + b"\0" * 32

_VERSION = 10
_MECHANISM = slice(12, 32)
_COMMAND, _LONG_COMMAND = 0x04, 0x06
# READY holds a few short properties: the type, an identity of up to 255 bytes.
_MAX_READY_BYTES = 2048
_READY = b"\x05READY"
_SOCKET_TYPE = b"socket-type"


class InvalidHandshake(Exception):
    """The peer does not open a ZMTP 3 connection with the mechanism NULL."""


async def read_greeting(reader: asyncio.StreamReader) -> bytes:
    """Read a peer's greeting. Raises InvalidHandshake and IncompleteReadError."""
    greeting = await reader.readexactly(_VERSION + 1)
    if greeting[0] != GREETING[0] or greeting[9] & 1 == 0 or greeting[_VERSION] < GREETING[_VERSION]:
        raise InvalidHandshake
    greeting += await reader.readexactly(GREETING_BYTES - len(greeting))
    if greeting[_MECHANISM] != GREETING[_MECHANISM]:
        raise InvalidHandshake
    return greeting


async def read_ready(reader: asyncio.StreamReader) -> tuple[bytes, str]:
    """Read a peer's READY: the frame as received, and the socket type. Raises InvalidHandshake, IncompleteReadError."""
    flags = await reader.readexactly(1)
    if flags[0] not in (_COMMAND, _LONG_COMMAND):
        raise InvalidHandshake
    size = await reader.readexactly(1 if flags[0] == _COMMAND else 8)
    length = int.from_bytes(size, "big")
    if length > _MAX_READY_BYTES:
        raise InvalidHandshake
    body = await reader.readexactly(length)
    return flags + size + body, socket_type(body)


def socket_type(body: bytes) -> str:
    """Return the Socket-Type that the body of a READY names: "REQ", "SUB" and so on. Raises InvalidHandshake."""
    if not body.startswith(_READY):
        raise InvalidHandshake
    position = len(_READY)
    while position < len(body):
        name, position = _read_prefixed(body, position, 1)
        value, position = _read_prefixed(body, position, 4)
        if name.lower() == _SOCKET_TYPE:
            return value.decode("ascii", "replace")
    raise InvalidHandshake


def _read_prefixed(body: bytes, position: int, width: int) -> tuple[bytes, int]:
    """Return length-prefixed bytes, and the position after them."""
    start = position + width
    end = start + int.from_bytes(body[position:start], "big")
    if start > len(body) or end > len(body):
        raise InvalidHandshake
    return body[start:end], end
