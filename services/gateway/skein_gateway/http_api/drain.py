"""HTTP while the gateway leaves off: every answer ends its connection, so that its caller comes back elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send


class DrainMiddleware:
    """An ASGI application around another one.

    A connection that is closed while it is idle may be closed just when its caller sends the next request, which is
    then lost. One that is closed with an answer loses nothing.
    """

    def __init__(self, app: ASGIApp, is_leaving: Callable[[], bool]) -> None:
        """Ask at each answer whether the gateway leaves off."""
        self._app = app
        self._is_leaving = is_leaving

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def answered(message: Message) -> None:
            if message["type"] == "http.response.start" and self._is_leaving():
                message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
            await send(message)

        await self._app(scope, receive, answered if scope["type"] == "http" else send)
