"""ASGI middleware around the HTTP API: draining connections, and refusing encoded bodies."""

from __future__ import annotations

from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from skein_gateway.connect import codec

_PLAIN = ("", "identity")


class DrainMiddleware:
    """Adds `connection: close` to responses while draining, so that clients reconnect elsewhere.

    Closing an idle connection can lose a request that its client is just sending. Closing it with a response cannot.
    """

    def __init__(self, app: ASGIApp, is_draining: Callable[[], bool]) -> None:
        """Check `is_draining` at each response."""
        self._app = app
        self._is_draining = is_draining

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""

        async def send_with_close(message: Message) -> None:
            if message["type"] == "http.response.start" and self._is_draining():
                message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
            await send(message)

        await self._app(scope, receive, send_with_close if scope["type"] == "http" else send)


class IdentityEncodingMiddleware:
    """Refuses encoded bodies before identity: a few bytes could decompress to any size."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        app = self._app
        if any(encoding.strip().lower() not in _PLAIN for encoding in Headers(scope=scope).getlist("content-encoding")):
            app = unsupported_media_type(
                "Send the request without a content-encoding.", {"accept-encoding": "identity"}
            )
        await app(scope, receive, send)


def unsupported_media_type(message: str, headers: dict[str, str]) -> Response:
    """Return a 415 with a message that says how to send the request."""
    return Response(codec.unsupported_media_error(message), status_code=415, media_type=codec.JSON, headers=headers)
