"""gRPC calls at the least cost: requests and headers are made once, answers are told apart by a few bytes. Linux alone.

A client that only measures should not be what is measured: grpc's own takes some 300 µs of processor time a call, this
one some 30. It speaks as much of HTTP/2 as gRPC servers do to it, over plain text, and asks the server not to compress
headers, so that they can be searched instead of decoded.
"""

from __future__ import annotations

import asyncio
import struct
from typing import TYPE_CHECKING, Self, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    # Called with grpc's status code, -1 for a call that was cut off, and with the bytes that hold the reason.
    Answered = Callable[[int, bytes], None]

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY, _WINDOW, _CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
_END_STREAM, _ACK, _END_HEADERS = 1, 1, 4
_HEADER_TABLE_SIZE, _INITIAL_WINDOW_SIZE, _TRUE_BINARY = 1, 4, 0xFE03
_LARGEST_WINDOW = 2**31 - 1
_FIRST_WINDOW = 65535
# So much of what came in is acknowledged at once.
_REFILL = 1 << 24
# With the length before it, because grpc-status-details-bin begins alike.
_STATUS = b"\x0bgrpc-status"
_CUT_OFF = -1
_SHORT = 127
# Later streams get a connection of their own.
_LAST_STREAM = 2**31 - 1
_FRAME = struct.Struct(">HBBBI")


def headers_of(path: str, authority: str, metadata: Mapping[str, str], *, seconds: float) -> bytes:
    """Return the header block of a call, the same for each one."""
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": path,
        ":authority": authority,
        "te": "trailers",
        "content-type": "application/grpc",
        "user-agent": "skein-bench",
        "grpc-timeout": f"{round(seconds * 1000)}m",
        **metadata,
    }
    return b"".join(b"\x00" + _text(name.encode()) + _text(value.encode()) for name, value in fields.items())


def message_of(request: bytes) -> bytes:
    """Return a request as it stands in the stream."""
    return b"\x00" + struct.pack(">I", len(request)) + request


class Wire(asyncio.Protocol):
    """One connection."""

    def __init__(self) -> None:
        """Wait for a transport."""
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._next = 1
        self._answers: dict[int, Answered] = {}
        # The header frames of a stream that has not ended.
        self._trailers: dict[int, bytes] = {}
        self._unacknowledged = 0
        self._window = _FIRST_WINDOW
        self._waiting: list[tuple[bytes, bytes, Answered]] = []
        self.is_closed = False

    @classmethod
    async def open(cls, address: str) -> Self:
        """Connect to "host:port"."""
        host, _, port = address.rpartition(":")
        _, wire = await asyncio.get_running_loop().create_connection(cls, host, int(port))
        return wire

    def call(self, headers: bytes, message: bytes, answered: Answered) -> None:
        """Send a call; `answered` is called once."""
        if self.is_closed or self._transport is None:
            answered(_CUT_OFF, b"")
            return
        if len(message) > self._window:
            self._waiting.append((headers, message, answered))
            return
        self._window -= len(message)
        stream, self._next = self._next, self._next + 2
        self._answers[stream] = answered
        self._transport.write(
            _frame(_HEADERS, _END_HEADERS, stream, headers) + _frame(_DATA, _END_STREAM, stream, message)
        )
        if self._next >= _LAST_STREAM:
            self.is_closed = True

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()
        self.connection_lost(None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say how this side speaks."""
        # uvloop's is none by its class.
        self._transport = cast("asyncio.Transport", transport)
        settings = struct.pack(">HIHIHI", _HEADER_TABLE_SIZE, 0, _INITIAL_WINDOW_SIZE, _LARGEST_WINDOW, _TRUE_BINARY, 1)
        grown = struct.pack(">I", _LARGEST_WINDOW - _FIRST_WINDOW)
        self._transport.write(_PREFACE + _frame(_SETTINGS, 0, 0, settings) + _frame(_WINDOW, 0, 0, grown))

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell everybody who waits; may be repeated."""
        self.is_closed = True
        answers, self._answers = self._answers, {}
        for answered in answers.values():
            answered(_CUT_OFF, b"")
        waiting, self._waiting = self._waiting, []
        for _, _, answered in waiting:
            answered(_CUT_OFF, b"")

    def data_received(self, data: bytes) -> None:
        """Take the frames that are whole."""
        self._buffer += data
        buffer, start = self._buffer, 0
        while len(buffer) - start >= _FRAME.size:
            high, low, kind, flags, stream = _FRAME.unpack_from(buffer, start)
            size = (high << 8) + low
            end = start + _FRAME.size + size
            if len(buffer) < end:
                break
            self._take(kind, flags, stream & _LARGEST_WINDOW, bytes(buffer[start + _FRAME.size : end]))
            start = end
        del buffer[:start]

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == _DATA:
            self._unacknowledged += len(payload)
            if self._unacknowledged >= _REFILL:
                self._write(_frame(_WINDOW, 0, 0, struct.pack(">I", self._unacknowledged)))
                self._unacknowledged = 0
        elif kind in (_HEADERS, _CONTINUATION):
            self._trailers[stream] = self._trailers.get(stream, b"") + payload
        elif kind == _RESET:
            self._answer(stream, _CUT_OFF)
        else:
            self._take_of_connection(kind, flags, stream, payload)
        if flags & _END_STREAM and kind in (_DATA, _HEADERS):
            self._answer(stream, _status(self._trailers.get(stream, b"")))

    def _take_of_connection(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind in (_SETTINGS, _PING) and not flags & _ACK:
            self._write(_frame(kind, _ACK, 0, payload if kind == _PING else b""))
        elif kind == _WINDOW and stream == 0:
            self._window += struct.unpack(">I", payload)[0]
            waiting, self._waiting = self._waiting, []
            for headers, message, answered in waiting:
                self.call(headers, message, answered)
        elif kind == _GOAWAY:
            # What is under way is finished; whoever holds this opens another.
            self.is_closed = True

    def _answer(self, stream: int, code: int) -> None:
        told = self._trailers.pop(stream, b"")
        answered = self._answers.pop(stream, None)
        if answered is not None:
            answered(code, told)

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)


def _status(told: bytes) -> int:
    """Find grpc's status code in headers that are neither indexed nor compressed."""
    _, found, rest = told.rpartition(_STATUS)
    if not found or not rest:
        return _CUT_OFF
    return int(rest[1 : 1 + (rest[0] & _SHORT)])


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    size = len(payload)
    return _FRAME.pack(size >> 8, size & 0xFF, kind, flags, stream) + payload


def _text(value: bytes) -> bytes:
    """Write a string of HPACK, uncompressed."""
    if len(value) < _SHORT:
        return bytes([len(value)]) + value
    rest, written = len(value) - _SHORT, bytearray([_SHORT])
    while rest > _SHORT:
        written.append(rest & _SHORT | 128)
        rest >>= 7
    written.append(rest)
    return bytes(written) + value
