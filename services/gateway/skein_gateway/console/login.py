"""/: sign in as a person or with a tenant's API key, choose a tenant, sign out. Leads to nothing but our own pages."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.routing import Route

from skein_gateway.console.page_handler import call_auth
from skein_gateway.console.pages import page, trouble_page
from skein_gateway.console.problems import PageError, attempted, refusal_of
from skein_gateway.console.visitors import safe_redirect_path
from skein_gateway.identity.credential_cache import MAX_CREDENTIAL
from skein_gateway.oauth.login import login_form_error
from skein_gateway.oauth.pages import message_for_user, page_status, see_other
from skein_gateway.oauth.request_handler import OAuthError, read_form
from skein_kit.identity.permissions import ACCOUNT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from skein_gateway.console.page_handler import PageHandler
    from skein_gateway.console.visitors import ConsoleBrowser
    from skein_gateway.oauth.forms import Parameters
    from skein_gateway.oauth.login import BrowserLogin
    from skein_kit.calls.call import Call

# What the forms of the entrance are about.
_ENTER = "/"
_LEAVE = "/console/sign-out"
_KEY_REFUSED = "This key is not known here, or it is revoked or over. Copy it whole: it begins with “skein_”."
_KEY_WITHOUT_TENANT = (
    "This is an operator’s key, which belongs to no tenant. Use a key of the tenant that you want to see."
)
_FORGOTTEN = "This browser has forgotten your sign-in, which is over within an hour."


class LoginPages:
    """The handlers of the pages before a tenant is chosen."""

    def __init__(self, desk: PageHandler, people: BrowserLogin) -> None:
        """Sign people in as OAuth's pages do."""
        self._desk = desk
        self._people = people

    def routes(self) -> list[Route]:
        """Return the routes; GET / itself belongs to the door, which has other answers for other software."""
        return [
            Route("/", self.enter, methods=["POST"]),
            Route("/console", self.show),
            Route("/console/sign-out", self.leave, methods=["POST"]),
        ]

    async def show(self, request: Request) -> Response:
        """Ask who is there, or lead on to their tenants."""

        async def work(call: Call) -> Response:
            visitor = await self._desk.visitor(request)
            credential = self._desk.credential(visitor)
            caller = await self._desk.identify(call, credential) if credential else None
            if caller is None or (credential == visitor.session and ACCOUNT not in caller.permissions):
                return _ask(request, visitor)
            wanted = safe_redirect_path(request.query_params.get("next", ""))
            if caller.account_id is None:
                own = f"/console/{caller.tenant_id}"
                return see_other(wanted if wanted.startswith(own) else own)
            if wanted != "/":
                return see_other(wanted)
            await self._people.who(call, visitor)
            tenants = await self._people.tenants()
            if len(tenants) == 1 and "choose" not in request.query_params:
                return see_other(f"/console/{tenants[0].tenant_id}")
            shown = page(
                "tenants",
                request,
                title="Your tenants",
                tenants=tenants,
                email=caller.email,
                leave_token=visitor.form_token(_LEAVE),
            )
            visitor.remember_form(shown)
            return shown

        return await self._answered(request, work)

    async def enter(self, request: Request) -> Response:
        """Take what the person filled in."""

        async def work(call: Call) -> Response:
            form = await read_form(request)
            visitor = await self._desk.visitor(request)
            visitor.check(form, _ENTER)
            if form.get("step") == "key":
                return await self._with_key(request, call, visitor, form)
            return await self._as_person(request, visitor, form)

        return await self._answered(request, work)

    async def leave(self, request: Request) -> Response:
        """End the sign-in, and forget the key."""

        async def work(call: Call) -> Response:
            form = await read_form(request)
            visitor = await self._desk.visitor(request)
            visitor.check(form, _LEAVE)
            self._desk.keys.drop(visitor.ticket)
            answer = await attempted(call_auth(self._left(call, visitor)))
            if isinstance(answer, PageError):
                answer = trouble_page(request, replace(answer, text=f"{answer.text} {_FORGOTTEN}"))
            # The browser forgets in any case: who leaves may leave the machine to somebody else.
            visitor.sign_out(answer)
            return answer

        return await self._answered(request, work)

    async def _left(self, call: Call, visitor: ConsoleBrowser) -> Response:
        if await self._people.who(call, visitor) is not None:
            await self._people.sign_out()
        return see_other("/?done=signed-out")

    async def _as_person(self, request: Request, visitor: ConsoleBrowser, form: Parameters) -> Response:
        try:
            signed_in = await call_auth(self._people.sign_in(form, visitor))
        except Exception as error:  # noqa: BLE001 - what is no matter of the person's is raised again.
            return _ask(request, visitor, form, login_form_error(error))
        answer = see_other(_onwards(form))
        visitor.sign_out(answer)
        visitor.sign_in(answer, signed_in)
        self._desk.keys.drop(visitor.ticket)
        return answer

    async def _with_key(self, request: Request, call: Call, visitor: ConsoleBrowser, form: Parameters) -> Response:
        key = form.get("key").strip()
        problem = ""
        is_text = key.isascii() and key.isprintable() and " " not in key and 0 < len(key) <= MAX_CREDENTIAL
        caller = await self._desk.identify(call, key) if is_text else None
        # A person's token is good for signing in as a person alone, where it ends with the sign-in.
        if caller is None or caller.account_id is not None:
            problem = _KEY_REFUSED
        elif caller.tenant_id is None or caller.closed:
            problem = _KEY_WITHOUT_TENANT
        if caller is None or problem:
            refused = OAuthError(status=403, error="access_denied", description=problem)
            return _ask(request, visitor, form, refused)
        answer = see_other(_onwards(form))
        self._desk.keys.drop(visitor.ticket)
        visitor.give_ticket(answer, self._desk.keys.keep(key, str(caller.tenant_id)))
        return answer

    async def _answered(self, request: Request, work: Callable[[Call], Awaitable[Response]]) -> Response:
        async def worked(call: Call) -> Response:
            try:
                return await work(call)
            except Exception as error:
                trouble = refusal_of(error)
                if trouble is None:
                    raise
                return trouble_page(request, trouble, back="/")

        def refuse(problem: OAuthError) -> Response:
            said = PageError(title="This did not work", text=problem.description, status=problem.status)
            return trouble_page(request, said, back="/")

        return await self._desk.entry.answered(request, worked, refuse)


def _onwards(form: Parameters) -> str:
    """Return the way after a sign-in: by the entrance, which knows where somebody may go."""
    wanted = safe_redirect_path(form.get("next"))
    return "/" if wanted == "/" else f"/?next={quote(wanted, safe='')}"


def _ask(
    request: Request, visitor: ConsoleBrowser, form: Parameters | None = None, problem: OAuthError | None = None
) -> Response:
    wanted = request.query_params.get("next", "") if form is None else form.get("next")
    shown = page(
        "sign_in",
        request,
        status=200 if problem is None else page_status(problem),
        title="Sign in",
        problem="" if problem is None else message_for_user(problem),
        email="" if form is None else form.get("email"),
        with_key=form is not None and form.get("step") == "key",
        asks_code=problem is not None and problem.reason == "SECOND_FACTOR_NEEDED",
        wanted="" if safe_redirect_path(wanted) == "/" else wanted,
        form_token=visitor.form_token(_ENTER),
    )
    if problem is not None:
        shown.headers.update(problem.headers)
    visitor.remember_form(shown)
    return shown
