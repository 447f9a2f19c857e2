"""/account: what the links in mails lead to. A token is spent by a form alone, because mail scanners follow links."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skein.auth.v1 import accounts_pb2
from skein.tenancy.v1 import members_pb2
from skein_gateway.oauth.browser import Browser
from skein_gateway.oauth.forms import FormInvalid, Parameters
from skein_gateway.oauth.login import device_token_of, login_form_error
from skein_gateway.oauth.pages import here, message_for_user, page, page_status, problem_page, see_other
from skein_gateway.oauth.request_handler import OAuthError, error_reason, problem_of, read_form, status_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from skein.auth.v1 import auth_pb2_grpc
    from skein.tenancy.v1 import tenancy_pb2_grpc
    from skein_gateway.oauth.login import BrowserLogin
    from skein_gateway.oauth.metadata import ServerMetadata
    from skein_gateway.oauth.request_handler import RequestHandler
    from skein_kit.calls.call import Call


class AccountPages:
    """The handlers of the pages: verify an address, set a new password, take an invitation."""

    def __init__(
        self,
        entry: RequestHandler,
        metadata: ServerMetadata,
        people: BrowserLogin,
        auth: auth_pb2_grpc.AuthServiceAsyncStub,
        tenancy: tenancy_pb2_grpc.TenancyServiceAsyncStub,
    ) -> None:
        """Call auth for accounts and tenancy for memberships."""
        self._entry = entry
        self._metadata = metadata
        self._people = people
        self._auth = auth
        self._tenancy = tenancy

    async def verify(self, request: Request) -> Response:
        """Show that an address is the account's."""

        async def show(_call: Call, browser: Browser, token: str) -> Response:
            _must_be_there(token)
            return _form(request, browser, "verify", "Verify your e-mail address")

        async def act(_call: Call, _browser: Browser, token: str, _form: Parameters) -> Response:
            await self._auth.VerifyEmail(accounts_pb2.VerifyEmailRequest(token=token))
            return _message(request, "Verified", "Your e-mail address is verified. You can close this page.")

        return await self._page(request, show, act)

    async def reset(self, request: Request) -> Response:
        """Send a link that sets a new password, or take what the person filled in there."""

        async def show(_call: Call, browser: Browser, token: str) -> Response:
            if not token:
                return _form(request, browser, "reset_request", "Forgotten password")
            return _form(request, browser, "reset", "Set a new password")

        async def act(_call: Call, browser: Browser, token: str, form: Parameters) -> Response:
            if not token:
                email = form.get("email").strip()
                await self._auth.RequestPasswordReset(
                    accounts_pb2.RequestPasswordResetRequest(email=email, device_token=device_token_of(browser))
                )
                return _message(
                    request,
                    "Look into your mail",
                    "If there is an account with this address, a link is on its way to it.",
                )
            try:
                await self._auth.ResetPassword(
                    accounts_pb2.ResetPasswordRequest(token=token, new_password=form.get("new_password"))
                )
            except Exception as error:
                status = status_of(error)
                if status is None or error_reason(error) != "PASSWORD_TOO_SHORT":
                    raise
                return _form(request, browser, "reset", "Set a new password", problem_of(status))
            done = _message(request, "Done", "Your new password is set, and everybody who was signed in is signed out.")
            browser.sign_out(done)
            return done

        return await self._page(request, show, act)

    async def invitation(self, request: Request) -> Response:
        """Become a member of a tenant, with an account that is there or is made here."""

        async def show(call: Call, browser: Browser, token: str) -> Response:
            _must_be_there(token)
            person = await self._people.who(call, browser)
            if person is None:
                return _form(request, browser, "invitation", "You are invited", email="", name="", asks_code=False)
            return _form(request, browser, "accept", "You are invited", email=person.email)

        async def act(call: Call, browser: Browser, token: str, form: Parameters) -> Response:
            step = form.get("step")
            if step in {"sign_in", "sign_up"}:
                return await self._came_in(request, call, browser, token, form)
            if await self._people.who(call, browser) is None:
                return see_other(here(request))
            if step == "sign_out":
                await self._people.sign_out()
                response = see_other(here(request))
                browser.sign_out(response)
                return response
            return await self._accepted(request, token)

        return await self._page(request, show, act)

    async def _came_in(self, request: Request, call: Call, browser: Browser, token: str, form: Parameters) -> Response:
        """Sign in, after making an account if that is asked for, and take the invitation."""
        try:
            if form.get("step") == "sign_up":
                await self._auth.SignUp(
                    accounts_pb2.SignUpRequest(
                        email=form.get("email").strip(),
                        password=form.get("password"),
                        display_name=form.get("display_name").strip(),
                        invitation_token=token,
                    )
                )
            signed_in = await self._people.sign_in(form, browser)
        except Exception as error:  # noqa: BLE001 - what is no matter of the person's is raised again.
            problem = login_form_error(error)
            return _form(
                request,
                browser,
                "invitation",
                "You are invited",
                problem,
                email=form.get("email"),
                name=form.get("display_name"),
                asks_code=problem.reason == "SECOND_FACTOR_NEEDED",
            )
        browser.session = signed_in.tokens.access_token
        await self._people.who(call, browser)
        try:
            response = await self._accepted(request, token)
        except Exception as error:
            status = status_of(error)
            if status is None:
                raise
            response = problem_page(request, problem_of(status))
        browser.sign_in(response, signed_in)
        return response

    async def _accepted(self, request: Request, token: str) -> Response:
        joined = await self._tenancy.AcceptInvitation(members_pb2.AcceptInvitationRequest(token=token))
        names = {choice.tenant_id: choice.name for choice in await self._people.tenants()}
        name = names.get(joined.tenant_id, joined.tenant_id)
        return _message(request, "Welcome", f"You are a member of {name} now. You can close this page.")

    async def _page(
        self,
        request: Request,
        show: Callable[[Call, Browser, str], Awaitable[Response]],
        act: Callable[[Call, Browser, str, Parameters], Awaitable[Response]],
    ) -> Response:
        async def work(call: Call) -> Response:
            browser = Browser(request, await self._metadata.issuer())
            token = Parameters.of_bytes(request.scope["query_string"]).get("token")
            if request.method != "POST":
                return await show(call, browser, token)
            form = await read_form(request)
            browser.check(form, token)
            return await act(call, browser, token, form)

        is_form = request.method == "POST"
        return await self._entry.answered(request, work, lambda problem: problem_page(request, problem, again=is_form))


def _must_be_there(token: str) -> None:
    if not token:
        raise FormInvalid("The link is not whole: open it as it stands in the mail.")


def _form(
    request: Request,
    browser: Browser,
    template: str,
    title: str,
    problem: OAuthError | None = None,
    **values: Any,
) -> Response:
    token = Parameters.of_bytes(request.scope["query_string"]).get("token")
    shown = page(
        template,
        request,
        status=200 if problem is None else page_status(problem),
        title=title,
        problem="" if problem is None else message_for_user(problem),
        form_token=browser.form_token(token),
        **values,
    )
    if problem is not None:
        shown.headers.update(problem.headers)
    browser.remember_form(shown)
    return shown


def _message(request: Request, title: str, text: str) -> Response:
    return page("message", request, title=title, problem="", paragraphs=[text], again="")
