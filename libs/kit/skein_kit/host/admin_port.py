"""The admin port of a process: /metrics for Prometheus, /livez and /readyz for supervisors and load balancers."""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
from typing import TYPE_CHECKING

import uvicorn
from prometheus_client import REGISTRY
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from skein_kit.http_server.framing import FramingGuard
from skein_kit.http_server.listener import Listener

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from starlette.requests import Request
    from starlette.types import ASGIApp

    from skein_kit.host.readiness import Readiness
    from skein_kit.http_server.connections import HttpLimits
    from skein_kit.tls.server_tls import ServerTls


# Seconds between uvicorn's ticks, and the ticks that it counts as a second.
_TICK_SECONDS = 0.1
_TICKS = 10
_GRACE_SECONDS = 5.0


class ManagedUvicorn(uvicorn.Server):
    """A uvicorn that leaves signals to its process, and stops after a drain once no request is in flight."""

    def __init__(self, config: uvicorn.Config, listener: socket.socket, limits: HttpLimits) -> None:
        """Serve until `drain` is called."""
        super().__init__(config)
        self._drain_requested = asyncio.Event()
        self._listener = Listener(self, listener, limits)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to serve."""
        # uvicorn accepts no connections itself.
        await super().startup(sockets or [])
        self._listener.start()

    def drain(self) -> None:
        """Stop once the requests in flight are answered."""
        self.should_exit = True
        self._drain_requested.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield

    async def main_loop(self) -> None:
        """Tick until `drain` is called."""
        ticks = 0
        while not await self.on_tick(ticks):
            self._listener.close_late()
            ticks = (ticks + 1) % _TICKS
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK_SECONDS):
                    await self._drain_requested.wait()

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
) -> AsyncIterator[str]:
    """Serve an application until the block ends; yield "host:port". Raises OSError when the port is taken.

    Requests in flight get `grace_seconds` to finish.
    """
    listener = socket.create_server((host, port))
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


@contextlib.asynccontextmanager
async def serve_admin(host: str, port: int, ready: Mapping[str, Readiness], limits: HttpLimits) -> AsyncIterator[str]:
    """Serve the admin port of services whose readiness is in `ready`; yield "host:port"."""

    async def live(_request: Request) -> PlainTextResponse:
        return PlainTextResponse("ok\n")

    async def readiness(_request: Request) -> JSONResponse:
        states: dict[str, object] = {name: not each.why for name, each in ready.items()}
        why = {name: each.why for name, each in ready.items() if each.why}
        return JSONResponse({**states, "why": why}, status_code=503) if why else JSONResponse(states)

    async def metrics(request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        # In a thread: a megabyte of text would delay the calls of this loop.
        text = await asyncio.to_thread(encode, REGISTRY)
        return Response(text, headers={"content-type": content_type})

    app = Starlette(routes=[Route("/livez", live), Route("/readyz", readiness), Route("/metrics", metrics)])
    async with serve_http(app, host, port, limits) as address:
        yield address
