"""Framing of HTTP/1.1 requests: refuses requests with two lengths (RFC 9112, 6.1 and 6.3), against smuggling.

h11 refuses lengths that differ, lengths that are no numbers, and encodings other than one `chunked`. It lets
Transfer-Encoding override Content-Length. A proxy in front may have used the length, and the rest of the body would
become the next caller's request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import PlainTextResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_LENGTH = b"content-length"
_ENCODING = b"transfer-encoding"
# HTTP/1.0 has no transfer encoding, so an intermediary has passed the header on without reading it.
_WITHOUT_ENCODINGS = "1.0"


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
    names = {name for name, _ in scope["headers"]}
    if _ENCODING not in names:
        return None
    if _LENGTH in names:
        return "Send Content-Length or Transfer-Encoding, not both."
    return "HTTP/1.0 has no Transfer-Encoding." if scope["http_version"] == _WITHOUT_ENCODINGS else None


def _reject(problem: str) -> ASGIApp:
    return PlainTextResponse(f"{problem}\n", status_code=400, headers={"connection": "close"})
