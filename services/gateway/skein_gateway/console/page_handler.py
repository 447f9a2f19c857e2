"""How a request for a page of a tenant is answered: who asks, what came of it, and in which words it failed."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING
from urllib.parse import quote

from grpc import aio
from starlette.routing import Route

from skein.tenancy.v1 import tenancy_pb2
from skein_gateway.console.pages import trouble_page
from skein_gateway.console.problems import PageError, attempted, refusal_of
from skein_gateway.console.rpc_client import Api
from skein_gateway.console.visitors import ConsoleBrowser, PageContext
from skein_gateway.oauth.forms import Parameters
from skein_gateway.oauth.pages import here, see_other
from skein_gateway.oauth.request_handler import OAuthError, read_form
from skein_gateway.oauth.request_handler import error_reason as reason_of_refusal
from skein_kit.calls.call import ADDRESS_KEY, AGENT_KEY, AUTHORIZATION_KEY, REQUEST_ID_KEY, TENANT_KEY
from skein_kit.identity.permissions import ACCOUNT
from skein_kit.rpc.interceptors import translate_upstream

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import TypeVar

    from starlette.requests import Request
    from starlette.responses import Response

    from skein_gateway.console.visitors import KeyTickets
    from skein_gateway.identity.credential_cache import IdentityCache
    from skein_gateway.oauth.metadata import ServerMetadata
    from skein_gateway.oauth.request_handler import RequestHandler
    from skein_kit.calls.call import Call
    from skein_kit.identity.identity_token import Caller
    from skein_kit.rpc.channel import InProcessHandlers

    Answer = TypeVar("Answer")
    # Return a page, given who asks, what the address says and, of a form that was sent, what it says.
    Show = Callable[[Request, PageContext, Parameters], Awaitable[Response]]
    Act = Callable[[Request, PageContext, Parameters, Parameters], Awaitable[Response]]

NO_TENANT = PageError(title="Not found", text="There is no such tenant, or you are no member of it.", status=404)
_NO_PAGE = PageError(title="Not found", text="There is no such page.", status=404)
# A credential that is not good any more: its holder signs in again.
_OVER = frozenset({"CREDENTIAL_INVALID", "CREDENTIAL_EXPIRED", "CREDENTIAL_MISSING"})


class PageHandler:
    """Where every page of a tenant is asked for."""

    def __init__(
        self,
        entry: RequestHandler,
        metadata: ServerMetadata,
        credentials: IdentityCache,
        answers: InProcessHandlers,
        keys: KeyTickets,
    ) -> None:
        """Call what the gateway's doors answer with, in the visitor's name."""
        self.entry = entry
        self._metadata = metadata
        self._credentials = credentials
        self._answers = answers
        self.keys = keys

    def routes(self, name: str, show: Show, act: Act | None = None) -> list[Route]:
        """Return the routes of a page of a tenant; `act` takes its forms."""
        path = "/console/{tenant_id}" + (f"/{name}" if name else "")

        async def shown(request: Request) -> Response:
            return await self._answered(request, show, None)

        async def acted(request: Request) -> Response:
            return await self._answered(request, show, act)

        routes = [Route(path, shown, methods=["GET"])]
        return routes if act is None else [*routes, Route(path, acted, methods=["POST"])]

    def nowhere(self) -> Route:
        """Return the route of what is no page of a tenant."""

        async def show(request: Request, visit: PageContext, _asked: Parameters) -> Response:
            rest = str(request.path_params["rest"])
            if not rest or rest.endswith("/"):
                return see_other(visit.url(rest.rstrip("/")))
            return trouble_page(request, _NO_PAGE, visit)

        async def shown(request: Request) -> Response:
            return await self._answered(request, show, None)

        return Route("/console/{tenant_id:uuid}/{rest:path}", shown, methods=["GET"])

    async def visitor(self, request: Request) -> ConsoleBrowser:
        """Return whose browser asks."""
        return ConsoleBrowser(request, await call_auth(self._metadata.issuer()))

    def credential(self, visitor: ConsoleBrowser) -> str:
        """Return what a browser's calls are made with: the key behind its ticket, or its person's sign-in."""
        return (self.keys.find(visitor.ticket) if visitor.ticket else "") or visitor.session

    async def identify(self, call: Call, credential: str, tenant_id: str = "") -> Caller | None:
        """Return who a credential is, in a tenant if one is named; None when it is nobody's any more."""
        call.metadata = {**call.metadata, AUTHORIZATION_KEY: f"Bearer {credential}", TENANT_KEY: tenant_id}
        try:
            caller = await call_auth(self._credentials.identify(call))
        except Exception as error:
            if reason_of_refusal(error) in _OVER:
                return None
            raise
        return caller

    def api(self, call: Call, credential: str, tenant_id: str = "") -> Api:
        """Return the RPCs as a credential's holder may call them."""
        headers = {
            AUTHORIZATION_KEY: f"Bearer {credential}",
            REQUEST_ID_KEY: call.request_id,
            ADDRESS_KEY: call.client_address,
            AGENT_KEY: call.user_agent,
        }
        return Api(self._answers, headers | ({TENANT_KEY: tenant_id} if tenant_id else {}))

    async def visit(self, call: Call, request: Request) -> PageContext | PageError | None:
        """Return who asks for a page of the tenant in the address; None when nobody is signed in."""
        visitor = await self.visitor(request)
        credential = self.credential(visitor)
        if not credential:
            return None
        try:
            tenant_id = str(uuid.UUID(str(request.path_params["tenant_id"])))
            caller = await self.identify(call, credential, tenant_id)
        except Exception as error:
            if isinstance(error, ValueError) or reason_of_refusal(error) == "TENANT_NOT_FOUND":
                return NO_TENANT
            raise
        if caller is None and await self.identify(call, credential) is not None:
            # The key is good, in its own tenant.
            return NO_TENANT
        # A cookie of a sign-in that holds something else is nobody's sign-in.
        if caller is None or (credential == visitor.session and ACCOUNT not in caller.permissions):
            return None
        # A form belongs to its address, so there is one address of a page.
        is_plain = str(request.path_params["tenant_id"]) == tenant_id
        if caller.closed or str(caller.tenant_id) != tenant_id or not is_plain:
            return NO_TENANT
        api = self.api(call, credential, tenant_id)
        found = await attempted(api.tenancy.GetTenant(tenancy_pb2.GetTenantRequest(tenant_id=tenant_id)))
        name = tenant_id[:8] if isinstance(found, PageError) else found.tenant.display_name or found.tenant.slug
        return PageContext(
            visitor=visitor, caller=caller, tenant_id=tenant_id, tenant_name=name or tenant_id[:8], api=api
        )

    async def _answered(self, request: Request, show: Show, act: Act | None) -> Response:
        visits: list[PageContext] = []

        async def work(call: Call) -> Response:
            try:
                return await self._worked(request, call, visits, show, act)
            except Exception as error:
                trouble = refusal_of(error)
                if trouble is None:
                    raise
                return trouble_page(request, trouble, *visits, back=here(request))

        def refuse(problem: OAuthError) -> Response:
            said = PageError(title="This did not work", text=problem.description, status=problem.status)
            return trouble_page(request, said, *visits, back=here(request))

        return await self.entry.answered(request, work, refuse)

    async def _worked(
        self, request: Request, call: Call, visits: list[PageContext], show: Show, act: Act | None
    ) -> Response:
        visit = await self.visit(call, request)
        if visit is None:
            return see_other(f"/?next={quote(here(request), safe='')}")
        if isinstance(visit, PageError):
            return trouble_page(request, visit)
        visits.append(visit)
        asked = Parameters.of_bytes(request.scope["query_string"])
        if act is None:
            return await show(request, visit, asked)
        form = await read_form(request)
        visit.visitor.check(form, request.url.path)
        return await act(request, visit, asked, form)


async def call_auth(work: Awaitable[Answer]) -> Answer:
    """Await what auth answers, and name it when it does not."""
    try:
        return await work
    except aio.AioRpcError as error:
        raise translate_upstream(error, service="auth") from None
