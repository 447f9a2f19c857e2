"""The login pages: sign in with an account or an API key, choose a tenant, sign out. Redirects only to own pages."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from skein_gateway.console.browser_sessions import ConsoleBrowser, safe_redirect_path
from skein_gateway.console.page_handler import PageHandler, call_auth
from skein_gateway.console.pages import error_page, page
from skein_gateway.console.problems import PageError, or_page_error
from skein_gateway.identity.credential_cache import MAX_CREDENTIAL
from skein_gateway.oauth.forms import Parameters
from skein_gateway.oauth.login import BrowserLogin, login_form_error
from skein_gateway.oauth.pages import message_for_user, page_status, see_other
from skein_gateway.oauth.request_handler import OAuthError, read_form
from skein_kit.calls.call import Call
from skein_kit.identity.permissions import ACCOUNT

# Subjects of the CSRF tokens of the two forms.
_LOGIN_FORM = "/"
_LOGOUT_FORM = "/console/sign-out"
_KEY_REFUSED = "This key is unknown, revoked or expired. Copy all of it: it begins with “skein_”."
_KEY_WITHOUT_TENANT = (
    "This is an operator’s key, which belongs to no tenant. Use a key of the tenant that you want to open."
)
_COOKIES_DELETED = "You are signed out of this browser; the session itself expires within an hour."


class LoginPages:
    """The handlers of the pages outside a tenant."""

    def __init__(self, handler: PageHandler, login: BrowserLogin) -> None:
        """Share the login with the OAuth pages."""
        self._handler = handler
        self._login = login

    def routes(self) -> list[Route]:
        """Return the routes. ConnectHandler serves GET /, because only browsers get the console there."""
        return [
            Route("/", self.log_in, methods=["POST"]),
            Route("/console", self.show),
            Route("/console/sign-out", self.log_out, methods=["POST"]),
        ]

    async def show(self, request: Request) -> Response:
        """Show the login form, or redirect a signed-in caller to a tenant or the list of tenants."""

        async def work(call: Call) -> Response:
            browser = await self._handler.browser(request)
            credential = self._handler.credential(browser)
            caller = await self._handler.identify(call, credential) if credential else None
            if caller is None or (credential == browser.session and ACCOUNT not in caller.permissions):
                return _login_form(request, browser)
            redirect_path = safe_redirect_path(request.query_params.get("next", ""))
            if caller.account_id is None:
                tenant_path = f"/console/{caller.tenant_id}"
                return see_other(redirect_path if redirect_path.startswith(tenant_path) else tenant_path)
            if redirect_path != "/":
                return see_other(redirect_path)
            await self._login.current_caller(call, browser)
            tenants = await self._login.tenants()
            if len(tenants) == 1 and "choose" not in request.query_params:
                return see_other(f"/console/{tenants[0].tenant_id}")
            response = page(
                "tenants",
                request,
                title="Your tenants",
                tenants=tenants,
                email=caller.email,
                sign_out_token=browser.form_token(_LOGOUT_FORM),
            )
            browser.remember_form(response)
            return response

        return await self._handler.handle(request, work, retry_url="/")

    async def log_in(self, request: Request) -> Response:
        """Sign in with the submitted form."""

        async def work(call: Call) -> Response:
            form = await read_form(request)
            browser = await self._handler.browser(request)
            browser.check(form, _LOGIN_FORM)
            if form.get("step") == "key":
                return await self._log_in_with_key(request, call, browser, form)
            return await self._log_in_account(request, browser, form)

        return await self._handler.handle(request, work, retry_url="/")

    async def log_out(self, request: Request) -> Response:
        """Sign out and revoke the key session."""

        async def work(call: Call) -> Response:
            form = await read_form(request)
            browser = await self._handler.browser(request)
            browser.check(form, _LOGOUT_FORM)
            self._handler.key_sessions.revoke(browser.key_session_id)
            response = await or_page_error(call_auth(self._log_out(call, browser)))
            if isinstance(response, PageError):
                response = error_page(request, replace(response, text=f"{response.text} {_COOKIES_DELETED}"))
            # Delete the cookies even if auth failed: the next user may share this machine.
            browser.sign_out(response)
            return response

        return await self._handler.handle(request, work, retry_url="/")

    async def _log_out(self, call: Call, browser: ConsoleBrowser) -> Response:
        if await self._login.current_caller(call, browser) is not None:
            await self._login.sign_out()
        return see_other("/?done=signed-out")

    async def _log_in_account(self, request: Request, browser: ConsoleBrowser, form: Parameters) -> Response:
        try:
            login_response = await call_auth(self._login.sign_in(form, browser))
        except Exception as error:  # noqa: BLE001 - login_form_error raises other errors again.
            return _login_form(request, browser, form, login_form_error(error))
        response = see_other(_redirect_url(form))
        browser.sign_out(response)
        browser.sign_in(response, login_response)
        self._handler.key_sessions.revoke(browser.key_session_id)
        return response

    async def _log_in_with_key(
        self, request: Request, call: Call, browser: ConsoleBrowser, form: Parameters
    ) -> Response:
        key = form.get("key").strip()
        problem = ""
        is_text = key.isascii() and key.isprintable() and " " not in key and 0 < len(key) <= MAX_CREDENTIAL
        caller = await self._handler.identify(call, key) if is_text else None
        # An account's access token must not outlive its auth session in a key session.
        if caller is None or caller.account_id is not None:
            problem = _KEY_REFUSED
        elif caller.tenant_id is None or caller.is_tenant_deleted:
            problem = _KEY_WITHOUT_TENANT
        if caller is None or problem:
            error = OAuthError(status=403, error="access_denied", description=problem)
            return _login_form(request, browser, form, error)
        response = see_other(_redirect_url(form))
        self._handler.key_sessions.revoke(browser.key_session_id)
        browser.set_key_session(response, self._handler.key_sessions.create(key, str(caller.tenant_id)))
        return response


def _redirect_url(form: Parameters) -> str:
    """Return the URL after a login: the start page, which checks `next` against the caller's tenants."""
    redirect_path = safe_redirect_path(form.get("next"))
    return "/" if redirect_path == "/" else f"/?next={quote(redirect_path, safe='')}"


def _login_form(
    request: Request, browser: ConsoleBrowser, form: Parameters | None = None, problem: OAuthError | None = None
) -> Response:
    redirect_path = request.query_params.get("next", "") if form is None else form.get("next")
    response = page(
        "sign_in",
        request,
        status=200 if problem is None else page_status(problem),
        title="Sign in",
        problem="" if problem is None else message_for_user(problem),
        email="" if form is None else form.get("email"),
        with_key=form is not None and form.get("step") == "key",
        asks_code=problem is not None and problem.reason == "SECOND_FACTOR_REQUIRED",
        redirect_path="" if safe_redirect_path(redirect_path) == "/" else redirect_path,
        form_token=browser.form_token(_LOGIN_FORM),
    )
    if problem is not None:
        response.headers.update(problem.headers)
    browser.remember_form(response)
    return response
