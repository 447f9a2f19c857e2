"""Handles requests for a tenant's pages: identifies the caller, checks forms, and renders errors."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING
from urllib.parse import quote

from grpc import aio
from starlette.routing import Route

from skein.tenancy.v1 import spaces_pb2, tenancy_pb2
from skein_gateway.console.browser_sessions import ConsoleBrowser, PageContext
from skein_gateway.console.pages import error_page
from skein_gateway.console.problems import PageError, or_page_error, page_error_of
from skein_gateway.console.rpc_client import Api
from skein_gateway.console.waiting import WaitingCounts
from skein_gateway.oauth.forms import Parameters
from skein_gateway.oauth.pages import current_path, see_other
from skein_gateway.oauth.request_handler import OAuthError, read_text_form
from skein_gateway.oauth.request_handler import error_reason as reason_of_error
from skein_kit.calls.call import ADDRESS_KEY, AUTHORIZATION_KEY, REQUEST_ID_KEY, TENANT_KEY, USER_AGENT_KEY
from skein_kit.identity.permissions import ACCOUNT
from skein_kit.identity.spaces import DEFAULT_SPACE
from skein_kit.rpc.interceptors import translate_upstream

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from typing import TypeVar

    from starlette.requests import Request
    from starlette.responses import Response

    from skein_gateway.console.browser_sessions import KeySessions
    from skein_gateway.identity.credential_cache import IdentityCache
    from skein_gateway.oauth.metadata import ServerMetadata
    from skein_gateway.oauth.request_handler import RequestHandler
    from skein_kit.calls.call import Call
    from skein_kit.identity.identity_token import Caller
    from skein_kit.rpc.channel import InProcessHandlers

    Reply = TypeVar("Reply")
    # Return a page for a request, its context, its query parameters and, for `SubmitHandler`, its form.
    ShowHandler = Callable[[Request, PageContext, Parameters], Awaitable[Response]]
    SubmitHandler = Callable[[Request, PageContext, Parameters, Parameters], Awaitable[Response]]

NO_TENANT = PageError(title="Not found", text="This tenant does not exist, or you are not a member of it.", status=404)
_NO_PAGE = PageError(title="Not found", text="This page does not exist.", status=404)
# All that a tenant may have.
_MAX_SPACES = 1000
# Reasons after which the caller has to sign in again.
_EXPIRED_REASONS = frozenset({"CREDENTIAL_INVALID", "CREDENTIAL_EXPIRED", "CREDENTIAL_MISSING"})


class PageHandler:
    """Runs the handler of a tenant's page with the caller's context."""

    def __init__(
        self,
        request_handler: RequestHandler,
        metadata: ServerMetadata,
        credentials: IdentityCache,
        handlers: InProcessHandlers,
        key_sessions: KeySessions,
    ) -> None:
        """Call the public RPCs (`handlers`) with the caller's credential."""
        self.request_handler = request_handler
        self._metadata = metadata
        self._credentials = credentials
        self._handlers = handlers
        self.key_sessions = key_sessions
        self._waiting = WaitingCounts()

    def routes(self, name: str, show: ShowHandler, submit: SubmitHandler | None = None) -> list[Route]:
        """Return the routes of a tenant's page: GET runs `show`, POST runs `submit` after the CSRF check."""
        path = "/console/{tenant_id}" + (f"/{name}" if name else "")

        async def show_page(request: Request) -> Response:
            return await self._show(request, show, None)

        async def submit_page(request: Request) -> Response:
            return await self._show(request, show, submit)

        routes = [Route(path, show_page, methods=["GET"])]
        return routes if submit is None else [*routes, Route(path, submit_page, methods=["POST"])]

    def not_found_route(self) -> Route:
        """Return the route of unknown pages. It redirects trailing slashes."""

        async def show(request: Request, context: PageContext, _parameters: Parameters) -> Response:
            path = str(request.path_params["path"])
            if not path or path.endswith("/"):
                return see_other(context.url(path.rstrip("/")))
            return error_page(request, _NO_PAGE, context)

        async def show_page(request: Request) -> Response:
            return await self._show(request, show, None)

        return Route("/console/{tenant_id:uuid}/{path:path}", show_page, methods=["GET"])

    async def browser(self, request: Request) -> ConsoleBrowser:
        """Return the browser with its cookies."""
        return ConsoleBrowser(request, await call_auth(self._metadata.issuer()))

    def credential(self, browser: ConsoleBrowser) -> str:
        """Return the credential of a browser: the key of its key session, or its access token; empty for none."""
        return (self.key_sessions.key_of(browser.key_session_id) if browser.key_session_id else "") or browser.session

    async def identify(self, call: Call, credential: str, tenant_id: str = "") -> Caller | None:
        """Return the caller of a credential, in a tenant if given; None when the credential is no longer valid."""
        call.metadata = {**call.metadata, AUTHORIZATION_KEY: f"Bearer {credential}", TENANT_KEY: tenant_id}
        try:
            caller = await call_auth(self._credentials.identify(call))
        except Exception as error:
            if reason_of_error(error) in _EXPIRED_REASONS:
                return None
            raise
        return caller

    def api(self, call: Call, credential: str, tenant_id: str = "", space_id: str = "") -> Api:
        """Return a client that makes calls with a credential, in a space if given."""
        headers = {
            AUTHORIZATION_KEY: f"Bearer {credential}",
            REQUEST_ID_KEY: call.request_id,
            ADDRESS_KEY: call.client_address,
            USER_AGENT_KEY: call.user_agent,
        }
        return Api(self._handlers, headers | ({TENANT_KEY: tenant_id} if tenant_id else {}), space_id)

    async def context(self, call: Call, request: Request) -> PageContext | PageError | None:
        """Return the context of a page of the tenant in the path; None without a valid sign-in."""
        browser = await self.browser(request)
        credential = self.credential(browser)
        if not credential:
            return None
        try:
            tenant_id = str(uuid.UUID(str(request.path_params["tenant_id"])))
            caller = await self.identify(call, credential, tenant_id)
        except Exception as error:
            if isinstance(error, ValueError) or reason_of_error(error) == "TENANT_NOT_FOUND":
                return NO_TENANT
            raise
        if caller is None and await self.identify(call, credential) is not None:
            # The key is valid, but in another tenant.
            return NO_TENANT
        # The session cookie must hold an account's access token, nothing else.
        if caller is None or (credential == browser.session and ACCOUNT not in caller.permissions):
            return None
        # CSRF tokens depend on the path, so a page has exactly one path.
        is_canonical = str(request.path_params["tenant_id"]) == tenant_id
        if caller.is_tenant_deleted or str(caller.tenant_id) != tenant_id or not is_canonical:
            return NO_TENANT
        seen_ids = [str(space_id) for space_id, _ in caller.spaces or ()]
        # A space that the caller sees no more is no choice any more.
        space_id = browser.space_id if browser.space_id in seen_ids else ""
        api = self.api(call, credential, tenant_id, space_id)
        response, waiting_count, names = await asyncio.gather(
            or_page_error(api.tenancy.GetTenant(tenancy_pb2.GetTenantRequest(tenant_id=tenant_id))),
            self._waiting_count(api, caller, tenant_id),
            _space_names(api, caller),
        )
        name = (
            tenant_id[:8] if isinstance(response, PageError) else response.tenant.display_name or response.tenant.slug
        )
        return PageContext(
            browser=browser,
            caller=caller,
            tenant_id=tenant_id,
            tenant_name=name or tenant_id[:8],
            api=api,
            waiting=self._waiting,
            waiting_count=waiting_count,
            spaces={id_: names.get(id_, id_[:8]) for id_ in seen_ids},
            space_id=space_id,
        )

    async def _waiting_count(self, api: Api, caller: Caller, tenant_id: str) -> str:
        """Return how much waits for the caller's approval; empty for a caller who may not approve."""
        if "memory.approve" not in caller.permissions:
            return ""
        return await self._waiting.get(api, tenant_id, caller.principal)

    async def handle(
        self,
        request: Request,
        work: Callable[[Call], Awaitable[Response]],
        retry_url: str,
        contexts: Sequence[PageContext] = (),
    ) -> Response:
        """Run `work` as a call. An error becomes a page with a link to `retry_url`, in the first context if any."""

        async def work_or_error_page(call: Call) -> Response:
            try:
                return await work(call)
            except Exception as error:  # noqa: BLE001 - page_error_of raises unexpected errors again.
                return error_page(request, page_error_of(error), *contexts, retry_url=retry_url)

        def error_response(problem: OAuthError) -> Response:
            failure = PageError(title="Request failed", text=problem.description, status=problem.status)
            return error_page(request, failure, *contexts, retry_url=retry_url)

        return await self.request_handler.handle(request, work_or_error_page, error_response)

    async def _show(self, request: Request, show: ShowHandler, submit: SubmitHandler | None) -> Response:
        # Known once the caller is identified; an error after that is shown within the tenant's pages.
        contexts: list[PageContext] = []
        return await self.handle(
            request,
            lambda call: self._call_page(request, call, contexts, show, submit),
            current_path(request),
            contexts,
        )

    async def _call_page(
        self, request: Request, call: Call, contexts: list[PageContext], show: ShowHandler, submit: SubmitHandler | None
    ) -> Response:
        context = await self.context(call, request)
        if context is None:
            return see_other(f"/?next={quote(current_path(request), safe='')}")
        if isinstance(context, PageError):
            return error_page(request, context)
        contexts.append(context)
        parameters = Parameters.of_bytes(request.scope["query_string"])
        if submit is None:
            return await show(request, context, parameters)
        form = await read_text_form(request, context.tenant_id)
        context.browser.check(form, request.url.path)
        return await submit(request, context, parameters, form)


async def _space_names(api: Api, caller: Caller) -> dict[str, str]:
    """Return the names of the spaces that a caller sees, by id; without those that it may not list."""
    if caller.spaces is None:
        return {}
    names = {str(DEFAULT_SPACE): "the default space"}
    response = await or_page_error(api.tenancy.ListSpaces(spaces_pb2.ListSpacesRequest(page_size=_MAX_SPACES)))
    if not isinstance(response, PageError):
        names |= {space.space_id: space.display_name for space in response.spaces}
    return names


async def call_auth(rpc: Awaitable[Reply]) -> Reply:
    """Await a call of auth. Its failure names auth as the unavailable service."""
    try:
        return await rpc
    except aio.AioRpcError as error:
        raise translate_upstream(error, service="auth") from None
