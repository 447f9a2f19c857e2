"""/account: the targets of links in mails. Only a submitted form spends a token, because mail scanners follow links."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from skein.auth.v1 import accounts_pb2, auth_pb2_grpc
from skein.tenancy.v1 import members_pb2, tenancy_pb2_grpc
from skein_gateway.oauth.browser import Browser
from skein_gateway.oauth.form_pages import form_page, sign_out
from skein_gateway.oauth.forms import FormInvalid, Parameters
from skein_gateway.oauth.login import BrowserLogin, device_token_of, login_form_error
from skein_gateway.oauth.metadata import ServerMetadata
from skein_gateway.oauth.pages import current_path, page, problem_page, see_other
from skein_gateway.oauth.request_handler import (
    OAuthError,
    RequestHandler,
    error_reason,
    oauth_error,
    read_form,
    status_of,
)
from skein_kit.calls.call import Call


class AccountPages:
    """The handlers of the pages: verify an address, set a new password, accept an invitation."""

    def __init__(
        self,
        request_handler: RequestHandler,
        metadata: ServerMetadata,
        login: BrowserLogin,
        auth: auth_pb2_grpc.AuthServiceAsyncStub,
        tenancy: tenancy_pb2_grpc.TenancyServiceAsyncStub,
    ) -> None:
        """Call auth for accounts and tenancy for memberships."""
        self._request_handler = request_handler
        self._metadata = metadata
        self._login = login
        self._auth = auth
        self._tenancy = tenancy

    async def verify(self, request: Request) -> Response:
        """Verify an e-mail address."""

        async def show(_call: Call, browser: Browser, token: str) -> Response:
            _check_token(token)
            return _form(request, browser, "verify", "Verify your e-mail address")

        async def submit(_call: Call, _browser: Browser, token: str, _form: Parameters) -> Response:
            await self._auth.VerifyEmail(accounts_pb2.VerifyEmailRequest(token=token))
            return _message(request, "Verified", "Your e-mail address is verified. You can close this page.")

        return await self._page(request, show, submit)

    async def reset(self, request: Request) -> Response:
        """Send a link for a new password, or set the password with the link's token."""

        async def show(_call: Call, browser: Browser, token: str) -> Response:
            if not token:
                return _form(request, browser, "reset_request", "Forgotten password")
            return _form(request, browser, "reset", "Set a new password")

        async def submit(_call: Call, browser: Browser, token: str, form: Parameters) -> Response:
            if not token:
                email = form.get("email").strip()
                await self._auth.RequestPasswordReset(
                    accounts_pb2.RequestPasswordResetRequest(email=email, device_token=device_token_of(browser))
                )
                return _message(
                    request,
                    "Check your mail",
                    "If an account with this address exists, we have sent a link to it.",
                )
            try:
                await self._auth.ResetPassword(
                    accounts_pb2.ResetPasswordRequest(token=token, new_password=form.get("new_password"))
                )
            except Exception as error:
                status = status_of(error)
                if status is None or error_reason(error) != "PASSWORD_TOO_SHORT":
                    raise
                return _form(request, browser, "reset", "Set a new password", oauth_error(status))
            response = _message(
                request, "Done", "Your new password is set, and all sessions of your account are signed out."
            )
            browser.sign_out(response)
            return response

        return await self._page(request, show, submit)

    async def invitation(self, request: Request) -> Response:
        """Accept an invitation with an existing account or a new one."""

        async def show(call: Call, browser: Browser, token: str) -> Response:
            _check_token(token)
            caller = await self._login.current_caller(call, browser)
            if caller is None:
                return _form(request, browser, "invitation", "You are invited", email="", name="", asks_code=False)
            return _form(request, browser, "accept", "You are invited", email=caller.email)

        async def submit(call: Call, browser: Browser, token: str, form: Parameters) -> Response:
            step = form.get("step")
            if step in {"sign_in", "sign_up"}:
                return await self._log_in_and_accept(request, call, browser, token, form)
            if await self._login.current_caller(call, browser) is None:
                return see_other(current_path(request))
            if step == "sign_out":
                return await sign_out(request, browser, self._login)
            return await self._accept(request, token)

        return await self._page(request, show, submit)

    async def _log_in_and_accept(
        self, request: Request, call: Call, browser: Browser, token: str, form: Parameters
    ) -> Response:
        """Sign in, after creating an account if the form says so, and accept the invitation."""
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
            login = await self._login.sign_in(form, browser)
        except Exception as error:  # noqa: BLE001 - login_form_error raises other errors again.
            problem = login_form_error(error)
            return _form(
                request,
                browser,
                "invitation",
                "You are invited",
                problem,
                email=form.get("email"),
                name=form.get("display_name"),
                asks_code=problem.reason == "SECOND_FACTOR_REQUIRED",
            )
        browser.session = login.tokens.access_token
        await self._login.current_caller(call, browser)
        try:
            response = await self._accept(request, token)
        except Exception as error:
            status = status_of(error)
            if status is None:
                raise
            response = problem_page(request, oauth_error(status))
        browser.sign_in(response, login)
        return response

    async def _accept(self, request: Request, token: str) -> Response:
        membership = await self._tenancy.AcceptInvitation(members_pb2.AcceptInvitationRequest(token=token))
        names = {choice.tenant_id: choice.name for choice in await self._login.tenants()}
        name = names.get(membership.tenant_id, membership.tenant_id)
        return _message(request, "Welcome", f"You are now a member of {name}. You can close this page.")

    async def _page(
        self,
        request: Request,
        show: Callable[[Call, Browser, str], Awaitable[Response]],
        submit: Callable[[Call, Browser, str, Parameters], Awaitable[Response]],
    ) -> Response:
        async def work(call: Call) -> Response:
            browser = Browser(request, await self._metadata.issuer())
            token = Parameters.of_bytes(request.scope["query_string"]).get("token")
            if request.method != "POST":
                return await show(call, browser, token)
            form = await read_form(request)
            browser.check(form, token)
            return await submit(call, browser, token, form)

        is_form = request.method == "POST"
        return await self._request_handler.handle(
            request, work, lambda problem: problem_page(request, problem, can_retry=is_form)
        )


def _check_token(token: str) -> None:
    if not token:
        raise FormInvalid("The link is incomplete: open it exactly as it is in the mail.")


def _form(
    request: Request,
    browser: Browser,
    template: str,
    title: str,
    problem: OAuthError | None = None,
    **values: Any,
) -> Response:
    token = Parameters.of_bytes(request.scope["query_string"]).get("token")
    return form_page(template, request, browser, problem, title=title, form_token=browser.form_token(token), **values)


def _message(request: Request, title: str, text: str) -> Response:
    return page("message", request, title=title, problem="", paragraphs=[text], retry_url="")
