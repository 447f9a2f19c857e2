"""The listening socket of an HTTP port, which limits the connections of uvicorn and their phases.

uvicorn has a timeout for idle connections only, and counts none before the end of its TLS handshake. Therefore this
module accepts the connections, and its protocol reports the phase of each.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from skein_kit.http_server.connections import Connection, ConnectionTable, HttpLimits, Phase, Reason
from skein_kit.http_server.strict_lines import require_line_ends
from skein_kit.network.tcp_keepalive import enable_keepalive

# Connections that wait to be accepted, and that are accepted in one round of the event loop.
_BACKLOG = 2_048
_ACCEPTS_PER_TURN = 64
# Pause in accepting when the process or the machine has no file or memory left.
_PAUSE_SECONDS = 0.1
_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
# Seconds that a client has to complete the end of TLS.
_TLS_SHUTDOWN_SECONDS = 2.0


class Listener:
    """Accepts the connections of one port for a uvicorn."""

    def __init__(
        self, server: uvicorn.Server, listener: socket.socket, limits: HttpLimits, *, on_accept: Callable[[], None]
    ) -> None:
        """`start` begins to accept; `on_accept` is called with each accepted connection."""
        self._on_accept = on_accept
        self._server = server
        self._listener = listener
        self._connections = ConnectionTable(limits)
        self._stalled_seconds = limits.stalled_seconds
        self._loop = asyncio.get_running_loop()
        # Connections without a transport yet: with TLS, until the end of the handshake.
        self._handshakes: set[asyncio.Task[Any]] = set()

    def start(self) -> None:
        """Begin to accept."""
        self._listener.settimeout(0)
        self._listener.listen(_BACKLOG)
        self._loop.add_reader(self._listener.fileno(), self._accept)

    def stop(self) -> None:
        """Close the socket, and the connections in their handshake."""
        self._loop.remove_reader(self._listener.fileno())
        self._listener.close()
        for task in self._handshakes:
            task.cancel()

    def close_expired(self) -> None:
        """Close the connections that have waited too long."""
        self._connections.close_expired(self._loop.time())

    def has_connections(self) -> bool:
        """Return whether any connection is open."""
        return not self._connections.is_empty()

    def _accept(self) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            try:
                client_socket, (address, *_) = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._connections.make_room()
                    self._pause()
                    return
                # The client hung up before it was accepted.
                continue
            self._admit(client_socket, address)

    def _pause(self) -> None:
        self._loop.remove_reader(self._listener.fileno())
        self._loop.call_later(_PAUSE_SECONDS, self._resume)

    def _resume(self) -> None:
        if not self._server.should_exit:
            self._loop.add_reader(self._listener.fileno(), self._accept)

    def _admit(self, client_socket: socket.socket, address: str) -> None:
        protocol = _Protocol(self._server, self._connections, client_socket, address)
        if not self._connections.admit(protocol.connection, self._loop.time(), descriptor=client_socket.fileno()):
            client_socket.close()
            return
        self._on_accept()
        client_socket.settimeout(0)
        client_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        enable_keepalive(client_socket, unanswered_seconds=self._stalled_seconds)
        task = self._loop.create_task(self._start_connection(protocol, client_socket, self._server.config.ssl))
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)

    async def _start_connection(
        self, protocol: _Protocol, client_socket: socket.socket, context: ssl.SSLContext | None
    ) -> None:
        # The deadline of the headers is that of the handshake too.
        seconds: dict[str, float] = {} if context is None else {"ssl_shutdown_timeout": _TLS_SHUTDOWN_SECONDS}
        try:
            await self._loop.connect_accepted_socket(lambda: protocol, client_socket, ssl=context, **seconds)
        except (OSError, asyncio.CancelledError):
            # The handshake failed, the connection was evicted or late, or the server stops.
            self._connections.remove(protocol.connection)
            client_socket.close()


class _Protocol(H11Protocol):
    """uvicorn's protocol of one connection, which reports the phase of the connection."""

    def __init__(
        self, server: uvicorn.Server, connections: ConnectionTable, client_socket: socket.socket, address: str
    ) -> None:
        super().__init__(config=server.config, server_state=server.server_state, app_state=server.lifespan.state)
        self.connection = Connection(address, self._close)
        self._connections = connections
        # Until the handshake is over and there is a transport.
        self._handshake_socket: socket.socket | None = client_socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._handshake_socket = None
        super().connection_made(cast("asyncio.Transport", transport))
        require_line_ends(self.conn)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._report_phase()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._report_phase()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.remove(self.connection)
        super().connection_lost(exc)

    def _report_phase(self) -> None:
        self._connections.set_phase(self.connection, self._phase(), self.loop.time())

    def _phase(self) -> Phase:
        if self.conn.their_state is h11.SEND_BODY:
            return Phase.BODY
        if self.conn.their_state is not h11.IDLE:
            return Phase.RESPONSE
        is_idle = self.cycle is not None and not self.conn.trailing_data[0]
        return Phase.IDLE if is_idle else Phase.HEADERS

    def _close(self, reason: Reason) -> None:
        if self._handshake_socket is not None:
            # The transport detects the end of input, and ends the handshake.
            with suppress(OSError):
                self._handshake_socket.shutdown(socket.SHUT_RDWR)
            return
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if reason is Reason.EVICTED or self.conn.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
            self.transport.abort()
            return
        headers = [(b"content-length", b"0"), (b"connection", b"close")]
        response = h11.Response(status_code=408, reason=b"Request Timeout", headers=headers)
        self.transport.write((self.conn.send(response) or b"") + (self.conn.send(h11.EndOfMessage()) or b""))
        self.transport.close()
