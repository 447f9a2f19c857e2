"""The admin port of a process: /metrics for Prometheus, /livez and /readyz for supervisors and load balancers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping

from prometheus_client import REGISTRY
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from skein_kit.host.readiness import Readiness
from skein_kit.http_server.connections import HttpLimits
from skein_kit.http_server.server import serve_http


@contextlib.asynccontextmanager
async def serve_admin(host: str, port: int, ready: Mapping[str, Readiness], limits: HttpLimits) -> AsyncIterator[str]:
    """Serve the admin port of services whose readiness is in `ready`; yield "host:port"."""

    async def live(_request: Request) -> PlainTextResponse:
        return PlainTextResponse("ok\n")

    async def readiness(_request: Request) -> JSONResponse:
        states: dict[str, object] = {name: not state.reason for name, state in ready.items()}
        reason = {name: state.reason for name, state in ready.items() if state.reason}
        return JSONResponse({**states, "why": reason}, status_code=503) if reason else JSONResponse(states)

    async def metrics(request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        # In a thread: a megabyte of text would delay the calls of this loop.
        text = await asyncio.to_thread(encode, REGISTRY)
        return Response(text, headers={"content-type": content_type})

    app = Starlette(routes=[Route("/livez", live), Route("/readyz", readiness), Route("/metrics", metrics)])
    async with serve_http(app, host, port, limits) as address:
        yield address
