"""The routes of the console."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from skein.auth.v1 import auth_pb2_grpc
from skein.tenancy.v1 import tenancy_pb2_grpc
from skein_gateway.console import (
    api_keys,
    approvals,
    blocks,
    certificates,
    conflicts,
    context_preview,
    fact_pages,
    graph,
    jobs,
    ledgers,
    lineage,
    members,
    memories,
    memory_edit,
    overview,
    policy,
    receipt_difference,
    receipts,
    refused_facts,
    search,
    sessions,
    spaces,
    start,
    timeline,
    usage,
    webhooks,
)
from skein_gateway.console.browser_sessions import KeySessions
from skein_gateway.console.changes import ChangesPage
from skein_gateway.console.login import LoginPages
from skein_gateway.console.page_handler import PageHandler
from skein_gateway.console.pages import STATIC_PATH, static
from skein_gateway.identity.credential_cache import IdentityCache
from skein_gateway.identity.trusted_proxies import TrustedProxies
from skein_gateway.oauth.login import BrowserLogin
from skein_gateway.oauth.metadata import ServerMetadata
from skein_gateway.oauth.request_handler import RequestHandler
from skein_kit.host.process import Host
from skein_kit.rpc.channel import InProcessHandlers

if TYPE_CHECKING:
    from skein_gateway.console.page_handler import ShowHandler, SubmitHandler


# The pages of a tenant: path, handler of GET, handler of POST.
_PAGES: Sequence[tuple[str, ShowHandler, SubmitHandler | None]] = (
    ("", overview.show, None),
    ("start", start.show, start.submit),
    ("search", search.show, None),
    ("context", context_preview.show, None),
    ("ledgers", ledgers.list_ledgers, None),
    ("ledger", ledgers.show_ledger, None),
    ("receipts", receipts.list_receipts, None),
    ("receipt", receipts.show_receipt, receipts.submit),
    ("receipt/file", receipts.download, None),
    ("difference", receipt_difference.show, None),
    ("memories", memories.list_memories, None),
    ("memory", memories.show_memory, None),
    ("edit", memory_edit.show, memory_edit.submit),
    ("pages", fact_pages.list_pages, fact_pages.create),
    ("page", fact_pages.show_page, fact_pages.submit),
    ("graph", graph.show, None),
    ("timeline", timeline.show, None),
    ("lineage", lineage.show, None),
    ("blocks", blocks.list_blocks, blocks.create),
    ("block", blocks.show_block, blocks.submit),
    ("sessions", sessions.list_sessions, None),
    ("session", sessions.show_session, None),
    ("conflicts", conflicts.show, conflicts.submit),
    ("approvals", approvals.show, approvals.submit),
    ("refused-facts", refused_facts.show, refused_facts.submit),
    ("webhooks", webhooks.list_webhooks, webhooks.create),
    ("webhook", webhooks.show_webhook, webhooks.submit),
    ("spaces", spaces.list_spaces, spaces.create),
    ("space", spaces.show_space, spaces.submit),
    ("members", members.show, members.submit),
    ("usage", usage.show, None),
    ("policy", policy.show, policy.submit),
    ("jobs", jobs.show, jobs.submit),
    ("keys", api_keys.show, api_keys.submit),
    ("certificates", certificates.list_certificates, None),
    ("certificate", certificates.download, None),
    ("certificate-keys", certificates.download_keys, None),
)


@dataclass(frozen=True, slots=True)
class Console:
    """The console's routes, and the handler of / for browsers."""

    routes: Sequence[Route]
    home: Callable[[Request], Awaitable[Response]]

    @classmethod
    def of(
        cls,
        host: Host,
        credentials: IdentityCache,
        metadata: ServerMetadata,
        proxies: TrustedProxies,
        handlers: InProcessHandlers,
    ) -> Console:
        """Build the console; `handlers` are the public RPCs behind their interceptors."""
        request_handler = RequestHandler(proxies, host.settings.default_deadline_seconds)
        login = BrowserLogin(
            credentials,
            auth_pb2_grpc.AuthServiceStub(host.channel("auth", caller="gateway")),
            tenancy_pb2_grpc.TenancyServiceStub(host.channel("tenancy", caller="gateway")),
        )
        handler = PageHandler(request_handler, metadata, credentials, handlers, KeySessions())
        login_pages = LoginPages(handler, login)

        routes = [
            Route(STATIC_PATH + "/{name}", static),
            *login_pages.routes(),
            *(route for name, show, submit in _PAGES for route in handler.routes(name, show, submit)),
            *ChangesPage(handler).routes(),
            handler.not_found_route(),
        ]
        return cls(routes, login_pages.show)
