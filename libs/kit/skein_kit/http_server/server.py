"""The HTTP server of a port: uvicorn behind the listener, without ambiguous requests.

h11 rejects lengths that differ, lengths that are no numbers, and encodings other than one `chunked`. It lets
Transfer-Encoding override Content-Length. If a proxy in front used Content-Length, the remaining body would become the
next caller's request (smuggling; RFC 9112, 6.1 and 6.3). Therefore requests with both are rejected. So are requests
with several Authorization headers, of which a proxy may have checked another one than Skein would take.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
from collections.abc import AsyncIterator, Iterator

import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from skein_kit.http_server.connections import HttpLimits
from skein_kit.http_server.listener import Listener
from skein_kit.tls.server_tls import ServerTls

# Seconds between uvicorn's ticks, and the ticks that it counts as a second.
_TICK_SECONDS = 0.1
_TICKS = 10
_GRACE_SECONDS = 5.0
_LENGTH = b"content-length"
_ENCODING = b"transfer-encoding"
_AUTHORIZATION = b"authorization"
# HTTP/1.0 has no transfer encoding, so an intermediary has passed the header on without reading it.
_WITHOUT_ENCODINGS = "1.0"


class ManagedUvicorn(uvicorn.Server):
    """A uvicorn that leaves signals to its process, and stops after a drain once no request is in flight."""

    def __init__(self, config: uvicorn.Config, listener: socket.socket, limits: HttpLimits) -> None:
        """Serve until `drain` is called."""
        super().__init__(config)
        self._drain_requested = asyncio.Event()
        # Set by a drain and by each accepted connection.
        self._woken = asyncio.Event()
        self._listener = Listener(self, listener, limits, on_accept=self._woken.set)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to serve."""
        # uvicorn accepts no connections itself.
        await super().startup(sockets or [])
        self._listener.start()

    def drain(self) -> None:
        """Stop once the requests in flight are answered."""
        self.should_exit = True
        self._drain_requested.set()
        self._woken.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield

    async def main_loop(self) -> None:
        """Tick until `drain` is called: once a second while there is no connection, which could expire."""
        ticks = 0
        while not await self.on_tick(ticks):
            self._listener.close_expired()
            if self._listener.has_connections():
                ticks, seconds, event = (ticks + 1) % _TICKS, _TICK_SECONDS, self._drain_requested
            else:
                # The next tick updates the date of answers.
                ticks, seconds, event = 0, _TICKS * _TICK_SECONDS, self._woken
                self._woken.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await event.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, and wait for open connections."""
        self._listener.stop()
        if self.server_state.connections or self.server_state.tasks:
            await super().shutdown(sockets)


@contextlib.asynccontextmanager
async def serve_http(
    app: ASGIApp,
    host: str,
    port: int,
    limits: HttpLimits,
    *,
    tls: ServerTls | None = None,
    grace_seconds: float = _GRACE_SECONDS,
    is_shared: bool = False,
) -> AsyncIterator[str]:
    """Serve an application until the block ends; yield "host:port". Raises OSError when the port is taken.

    Requests in flight get `grace_seconds` to finish. Processes may listen on one port when `is_shared` in all of them;
    the kernel gives each new connection to one.
    """
    listener = socket.create_server((host, port), reuse_port=is_shared)
    config = uvicorn.Config(
        FramingGuard(app),
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_keep_alive=math.ceil(limits.idle_seconds),
        timeout_graceful_shutdown=math.ceil(grace_seconds),
        server_header=False,
        # The application decides which proxies it trusts about the address of a caller.
        proxy_headers=False,
        ssl_context_factory=None if tls is None else lambda _config, _default: tls.context(),
    )
    server = ManagedUvicorn(config, listener, limits)
    task = asyncio.create_task(server.serve())
    try:
        yield f"{host}:{listener.getsockname()[1]}"
    finally:
        server.drain()
        await asyncio.gather(task, return_exceptions=True)


class FramingGuard:
    """ASGI middleware that refuses ambiguous requests and closes their connections."""

    def __init__(self, app: ASGIApp) -> None:
        """Pass requests with one length to `app`."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        problem = _problem(scope) if scope["type"] == "http" else None
        await (self._app if problem is None else _reject(problem))(scope, receive, send)


def _problem(scope: Scope) -> str | None:
    listed = [name for name, _ in scope["headers"]]
    names = set(listed)
    if listed.count(_AUTHORIZATION) > 1:
        return "Send one Authorization header."
    if _ENCODING not in names:
        return None
    if _LENGTH in names:
        return "Send Content-Length or Transfer-Encoding, not both."
    return "HTTP/1.0 has no Transfer-Encoding." if scope["http_version"] == _WITHOUT_ENCODINGS else None


def _reject(problem: str) -> ASGIApp:
    return PlainTextResponse(f"{problem}\n", status_code=400, headers={"connection": "close"})
