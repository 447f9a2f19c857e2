"""/device: a person types the code that a device without a browser shows, and says whether it may act for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.auth.v1 import oauth_pb2
from skein_gateway.oauth.browser import Browser
from skein_gateway.oauth.forms import Parameters
from skein_gateway.oauth.login import login_form_error, needs_tenant
from skein_gateway.oauth.pages import here, meanings, message_for_user, page, page_status, problem_page, see_other
from skein_gateway.oauth.request_handler import OAuthError, error_reason, problem_of, read_form, status_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from skein.auth.v1 import oauth_pb2_grpc
    from skein_gateway.oauth.login import BrowserLogin
    from skein_gateway.oauth.metadata import ServerMetadata
    from skein_gateway.oauth.request_handler import RequestHandler
    from skein_kit.calls.call import Call
    from skein_kit.identity.identity_token import Caller

_UNKNOWN = "DEVICE_CODE_NOT_FOUND"
_ASK_AGAIN = frozenset({_UNKNOWN, "TOO_MANY_ATTEMPTS", "INVALID_FIELD"})


class DevicePage:
    """The handler: sign in, type the code, look at who asks, answer. The code is never taken from a link alone."""

    def __init__(
        self,
        entry: RequestHandler,
        metadata: ServerMetadata,
        people: BrowserLogin,
        oauth: oauth_pb2_grpc.OAuthServiceAsyncStub,
    ) -> None:
        """Ask auth which device a code belongs to."""
        self._entry = entry
        self._metadata = metadata
        self._people = people
        self._oauth = oauth

    async def show(self, request: Request) -> Response:
        """Ask the person to sign in, or for the code."""

        async def work(call: Call) -> Response:
            browser = Browser(request, await self._metadata.issuer())
            if await self._people.who(call, browser) is None:
                return _sign_in(request, browser)
            asked = Parameters.of_bytes(request.scope["query_string"])
            return _ask_code(request, browser, asked.get("user_code"))

        return await self._entry.answered(request, work, lambda problem: problem_page(request, problem, again=False))

    async def act(self, request: Request) -> Response:
        """Take what the person filled in."""
        return await self._entry.answered(
            request, lambda call: self._act(request, call), lambda problem: problem_page(request, problem)
        )

    async def _act(self, request: Request, call: Call) -> Response:
        form = await read_form(request)
        browser = Browser(request, await self._metadata.issuer())
        step = form.get("step")
        browser.check(form, form.get("user_code") if step == "answer" else step)
        if step == "sign_in":
            return await self._signed_in(request, browser, form)
        person = await self._people.who(call, browser)
        if person is None:
            return see_other(here(request))
        if step == "sign_out":
            await self._people.sign_out()
            response = see_other(here(request))
            browser.sign_out(response)
            return response
        if step == "answer":
            return await self._answered(request, form)
        return await self._found(request, browser, form.get("user_code"), person)

    async def _signed_in(self, request: Request, browser: Browser, form: Parameters) -> Response:
        try:
            answer = await self._people.sign_in(form, browser)
        except Exception as error:  # noqa: BLE001 - what is no matter of the person's is raised again.
            return _sign_in(request, browser, form=form, problem=login_form_error(error))
        response = see_other(here(request))
        browser.sign_in(response, answer)
        return response

    async def _found(self, request: Request, browser: Browser, user_code: str, person: Caller) -> Response:
        try:
            device = await self._oauth.GetDeviceAuthorization(
                oauth_pb2.GetDeviceAuthorizationRequest(user_code=user_code)
            )
        except Exception as error:
            status = status_of(error)
            if status is None or error_reason(error) not in _ASK_AGAIN:
                raise
            return _ask_code(request, browser, user_code, problem_of(status))
        needed = needs_tenant(device.scopes)
        shown = page(
            "consent",
            request,
            title=f"Let {device.client_name or device.client_id} in?",
            client=device,
            goes_to="",
            meanings=meanings(list(device.scopes)),
            needs_tenant=needed,
            tenants=await self._people.tenants() if needed else [],
            email=person.email,
            hidden={"user_code": user_code},
            form_token=browser.form_token(user_code),
            sign_out_token=browser.form_token("sign_out"),
        )
        browser.remember_form(shown)
        return shown

    async def _answered(self, request: Request, form: Parameters) -> Response:
        approved = form.get("decision") == "allow"
        await self._oauth.ApproveDevice(
            oauth_pb2.ApproveDeviceRequest(
                user_code=form.get("user_code"), approved=approved, tenant_id=form.get("tenant_id")
            )
        )
        said = "The device may act for you now." if approved else "The device was not let in."
        return page(
            "message",
            request,
            title="Done",
            problem="",
            paragraphs=[f"{said} You can go back to it, and close this page."],
            again="",
        )


def _ask_code(request: Request, browser: Browser, user_code: str, problem: OAuthError | None = None) -> Response:
    shown = page(
        "device",
        request,
        status=200 if problem is None else page_status(problem),
        title="Connect a device",
        problem="" if problem is None else message_for_user(problem),
        user_code=user_code,
        form_token=browser.form_token("find"),
    )
    if problem is not None:
        shown.headers.update(problem.headers)
    browser.remember_form(shown)
    return shown


def _sign_in(
    request: Request, browser: Browser, *, form: Parameters | None = None, problem: OAuthError | None = None
) -> Response:
    shown = page(
        "sign_in",
        request,
        status=200 if problem is None else page_status(problem),
        title="Sign in",
        problem="" if problem is None else message_for_user(problem),
        why="Then you can connect your device.",
        email="" if form is None else form.get("email"),
        asks_code=problem is not None and problem.reason == "SECOND_FACTOR_NEEDED",
        form_token=browser.form_token("sign_in"),
    )
    if problem is not None:
        shown.headers.update(problem.headers)
    browser.remember_form(shown)
    return shown
