"""CORS by path: discovery for every origin, the API for listed origins, nothing for the gateway's own pages."""

from __future__ import annotations

import re
from collections.abc import Sequence

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from skein_kit.settings import SettingInvalid

# Open to every origin: these documents do not depend on the caller.
OPEN = ("/.well-known/", "/jwks.json", "/openapi.json")
# Open to the origins in SKEIN_CORS_ORIGINS.
LISTED = ("/skein.", "/token", "/register", "/revoke", "/introspect", "/userinfo", "/mcp")
_HEADERS = (
    "authorization",
    "content-type",
    "connect-protocol-version",
    "connect-timeout-ms",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "skein-agent-id",
    "skein-min-revision",
    "skein-request-id",
    "skein-session-id",
    "skein-space-id",
    "skein-tenant-id",
    "skein-toolsets",
)
_EXPOSED = ("www-authenticate", "retry-after", "skein-request-id", "skein-revision")
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?")
_REMEMBERED_SECONDS = 600


def origins_of(text: str) -> tuple[str, ...]:
    """Parse SKEIN_CORS_ORIGINS: exact origins, separated by commas. Raises SettingInvalid."""
    origins = tuple(part.strip().rstrip("/") for part in text.split(",") if part.strip())
    for origin in origins:
        if not _ORIGIN.fullmatch(origin):
            message = f"SKEIN_CORS_ORIGINS should be a list of origins such as https://app.example, not {origin!r}."
            raise SettingInvalid(message)
    return origins


class CorsMiddleware:
    """Applies Starlette's CORSMiddleware with the rule of the request's path."""

    def __init__(self, app: ASGIApp, origins: Sequence[str]) -> None:
        """Let pages of `origins` call the API, always without cookies."""
        self._app = app
        self._open = CORSMiddleware(
            app, allow_origins=["*"], allow_methods=["GET"], allow_headers=_HEADERS, max_age=_REMEMBERED_SECONDS
        )
        self._listed = CORSMiddleware(
            app,
            allow_origins=origins,
            allow_methods=["GET", "POST", "PUT", "DELETE"],
            allow_headers=_HEADERS,
            expose_headers=_EXPOSED,
            max_age=_REMEMBERED_SECONDS,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        path = str(scope.get("path", ""))
        if path.startswith(OPEN):
            await self._open(scope, receive, send)
        elif path.startswith(LISTED):
            await self._listed(scope, receive, send)
        else:
            await self._app(scope, receive, send)
