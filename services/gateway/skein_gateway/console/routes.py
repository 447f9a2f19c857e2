"""Which path leads to which page of the console."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.routing import Route

from skein.auth.v1 import auth_pb2_grpc
from skein.tenancy.v1 import tenancy_pb2_grpc
from skein_gateway.console.api_keys import ApiKeys
from skein_gateway.console.changes import Changes
from skein_gateway.console.conflicts import Conflicts
from skein_gateway.console.graph import Graph
from skein_gateway.console.login import LoginPages
from skein_gateway.console.memories import Memories
from skein_gateway.console.overview import Overview
from skein_gateway.console.page_handler import PageHandler
from skein_gateway.console.pages import STATIC_PATH, static
from skein_gateway.console.policy import PolicyPage
from skein_gateway.console.search import SearchPage
from skein_gateway.console.sessions import Sessions
from skein_gateway.console.visitors import KeyTickets
from skein_gateway.oauth.login import BrowserLogin
from skein_gateway.oauth.request_handler import RequestHandler

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from skein_gateway.identity.credential_cache import IdentityCache
    from skein_gateway.identity.trusted_proxies import TrustedProxies
    from skein_gateway.oauth.metadata import ServerMetadata
    from skein_kit.host.process import Host
    from skein_kit.rpc.channel import InProcessHandlers


@dataclass(frozen=True, slots=True)
class Console:
    """The console's routes, and what it answers a browser that asks for /."""

    routes: Sequence[Route]
    home: Callable[[Request], Awaitable[Response]]

    @classmethod
    def of(
        cls,
        host: Host,
        credentials: IdentityCache,
        metadata: ServerMetadata,
        proxies: TrustedProxies,
        answers: InProcessHandlers,
    ) -> Console:
        """Put the console together; `answers` are the public RPCs behind their interceptors."""
        entry = RequestHandler(proxies, host.settings.default_deadline_seconds)
        people = BrowserLogin(
            credentials,
            auth_pb2_grpc.AuthServiceStub(host.channel("auth")),
            tenancy_pb2_grpc.TenancyServiceStub(host.channel("tenancy")),
        )
        desk = PageHandler(entry, metadata, credentials, answers, KeyTickets())
        entrance = LoginPages(desk, people)
        pages = (Overview(), SearchPage(), Memories(), Graph(), Sessions(), Conflicts(), PolicyPage(), ApiKeys())
        routes = [
            Route(STATIC_PATH + "/{name}", static),
            *entrance.routes(),
            *(route for page in pages for route in page.routes(desk)),
            *Changes(desk).routes(),
            desk.nowhere(),
        ]
        return cls(routes, entrance.show)
