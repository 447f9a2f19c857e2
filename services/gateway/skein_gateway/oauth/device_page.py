"""/device: a person enters the code that a device shows, and allows or denies its access (RFC 8628)."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from skein.auth.v1 import oauth_pb2, oauth_pb2_grpc
from skein_gateway.oauth.browser import Browser
from skein_gateway.oauth.form_pages import consent_page, form_page, login_page, sign_out
from skein_gateway.oauth.forms import Parameters
from skein_gateway.oauth.login import BrowserLogin, login_form_error
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
from skein_kit.identity.identity_token import Caller

# Errors that the code form shows; others propagate.
_FORM_REASONS = frozenset({"DEVICE_CODE_NOT_FOUND", "TOO_MANY_ATTEMPTS", "INVALID_FIELD"})
_PURPOSE = "Sign in to connect your device."


class DevicePage:
    """The handler: sign in, enter the code, check the client, decide. A link alone never submits a code."""

    def __init__(
        self,
        request_handler: RequestHandler,
        metadata: ServerMetadata,
        login: BrowserLogin,
        oauth: oauth_pb2_grpc.OAuthServiceAsyncStub,
    ) -> None:
        """Call auth for device authorizations."""
        self._request_handler = request_handler
        self._metadata = metadata
        self._login = login
        self._oauth = oauth

    async def show(self, request: Request) -> Response:
        """Show the login form or the code form."""

        async def work(call: Call) -> Response:
            browser = Browser(request, await self._metadata.issuer())
            if await self._login.current_caller(call, browser) is None:
                return login_page(request, browser, _PURPOSE)
            parameters = Parameters.of_bytes(request.scope["query_string"])
            return _ask_code(request, browser, parameters.get("user_code"))

        return await self._request_handler.handle(
            request, work, lambda problem: problem_page(request, problem, can_retry=False)
        )

    async def submit(self, request: Request) -> Response:
        """Handle the submitted form."""
        return await self._request_handler.handle(
            request, lambda call: self._submit(request, call), lambda problem: problem_page(request, problem)
        )

    async def _submit(self, request: Request, call: Call) -> Response:
        form = await read_form(request)
        browser = Browser(request, await self._metadata.issuer())
        step = form.get("step")
        browser.check(form, form.get("user_code") if step == "answer" else step)
        if step == "sign_in":
            return await self._log_in(request, browser, form)
        caller = await self._login.current_caller(call, browser)
        if caller is None:
            return see_other(current_path(request))
        if step == "sign_out":
            return await sign_out(request, browser, self._login)
        if step == "answer":
            return await self._approve(request, form)
        return await self._show_consent(request, browser, form.get("user_code"), caller)

    async def _log_in(self, request: Request, browser: Browser, form: Parameters) -> Response:
        try:
            login_response = await self._login.sign_in(form, browser)
        except Exception as error:  # noqa: BLE001 - login_form_error raises other errors again.
            return login_page(request, browser, _PURPOSE, form=form, problem=login_form_error(error))
        response = see_other(current_path(request))
        browser.sign_in(response, login_response)
        return response

    async def _show_consent(self, request: Request, browser: Browser, user_code: str, caller: Caller) -> Response:
        try:
            device = await self._oauth.GetDeviceAuthorization(
                oauth_pb2.GetDeviceAuthorizationRequest(user_code=user_code)
            )
        except Exception as error:
            status = status_of(error)
            if status is None or error_reason(error) not in _FORM_REASONS:
                raise
            return _ask_code(request, browser, user_code, oauth_error(status))
        field = ("user_code", user_code)
        return await consent_page(request, browser, self._login, caller, device, field=field)

    async def _approve(self, request: Request, form: Parameters) -> Response:
        approved = form.get("decision") == "allow"
        await self._oauth.ApproveDevice(
            oauth_pb2.ApproveDeviceRequest(
                user_code=form.get("user_code"), approved=approved, tenant_id=form.get("tenant_id")
            )
        )
        message = "The device may now act for you." if approved else "You denied the device access."
        return page(
            "message",
            request,
            title="Done",
            problem="",
            paragraphs=[f"{message} You can go back to it, and close this page."],
            retry_url="",
        )


def _ask_code(request: Request, browser: Browser, user_code: str, problem: OAuthError | None = None) -> Response:
    return form_page(
        "device",
        request,
        browser,
        problem,
        title="Connect a device",
        user_code=user_code,
        form_token=browser.form_token("find"),
    )
