"""/authorize: a person says who they are, and whether an application may act for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.auth.v1 import oauth_pb2
from skein_gateway.oauth.browser import Browser
from skein_gateway.oauth.forms import FormInvalid, Parameters
from skein_gateway.oauth.login import login_form_error, needs_tenant
from skein_gateway.oauth.pages import (
    found,
    here,
    meanings,
    message_for_user,
    page,
    page_status,
    problem_page,
    see_other,
    with_parameters,
)
from skein_gateway.oauth.request_handler import OAuthError, read_form

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from skein.auth.v1 import oauth_pb2_grpc
    from skein_gateway.oauth.login import BrowserLogin
    from skein_gateway.oauth.metadata import ServerMetadata
    from skein_gateway.oauth.request_handler import RequestHandler
    from skein_kit.calls.call import Call
    from skein_kit.identity.identity_token import Caller

# OpenID Connect's ways to say the request in a document of its own; we read none.
_UNSUPPORTED = {"request": "request_not_supported", "request_uri": "request_uri_not_supported"}
_SIGN_IN = "sign_in"
# The person shall show who they are, even if the browser is signed in.
_AGAIN = frozenset({"login", "select_account"})


class AuthorizePage:
    """The handler. The request stays in the page's address; what the person answers is in the form, sealed by auth."""

    def __init__(
        self,
        entry: RequestHandler,
        metadata: ServerMetadata,
        people: BrowserLogin,
        oauth: oauth_pb2_grpc.OAuthServiceAsyncStub,
    ) -> None:
        """Ask auth what to ask the person."""
        self._entry = entry
        self._metadata = metadata
        self._people = people
        self._oauth = oauth

    async def show(self, request: Request) -> Response:
        """Ask the person to sign in, or whether they agree."""
        return await self._entry.answered(
            request, lambda call: self._show(request, call), lambda problem: _refused(request, problem)
        )

    async def act(self, request: Request) -> Response:
        """Take what the person filled in."""
        return await self._entry.answered(
            request, lambda call: self._act(request, call), lambda problem: _refused(request, problem, again=True)
        )

    async def _show(self, request: Request, call: Call) -> Response:
        asked = Parameters.of_bytes(request.scope["query_string"])
        created = await self._oauth.CreateAuthorization(authorization_of(asked))
        if created.WhichOneof("result") == "redirect_url":
            return found(created.redirect_url)
        prompt, issuer = created.prompt, await self._metadata.issuer()
        for name, error in _UNSUPPORTED.items():
            if name in asked:
                return found(_error_redirect(asked, error, issuer))
        browser = Browser(request, issuer)
        person = await self._people.who(call, browser)
        if person is None or _AGAIN & set(prompt.prompt.split()):
            return _sign_in(request, browser, prompt)
        return await self._consent(request, browser, prompt, person)

    async def _act(self, request: Request, call: Call) -> Response:
        form = await read_form(request)
        browser = Browser(request, await self._metadata.issuer())
        step = form.get("step")
        browser.check(form, form.get("handle") if step == "answer" else step)
        if step == _SIGN_IN:
            return await self._signed_in(request, browser, form)
        person = await self._people.who(call, browser)
        if person is None:
            return see_other(here(request))
        if step == "sign_out":
            await self._people.sign_out()
            response = see_other(here(request))
            browser.sign_out(response)
            return response
        answer = await self._oauth.ApproveAuthorization(
            oauth_pb2.ApproveAuthorizationRequest(
                handle=form.get("handle"),
                approved=form.get("decision") == "allow",
                tenant_id=form.get("tenant_id"),
            )
        )
        return see_other(answer.redirect_url)

    async def _signed_in(self, request: Request, browser: Browser, form: Parameters) -> Response:
        asked = Parameters.of_bytes(request.scope["query_string"])
        try:
            answer = await self._people.sign_in(form, browser)
        except Exception as error:  # noqa: BLE001 - what is no matter of the person's is raised again.
            problem = login_form_error(error)
            created = await self._oauth.CreateAuthorization(authorization_of(asked))
            if created.WhichOneof("result") == "redirect_url":
                return see_other(created.redirect_url)
            return _sign_in(request, browser, created.prompt, form=form, problem=problem)
        response = see_other(_once_signed_in(request))
        browser.sign_in(response, answer)
        return response

    async def _consent(
        self, request: Request, browser: Browser, prompt: oauth_pb2.AuthorizationPrompt, person: Caller
    ) -> Response:
        needed = needs_tenant(prompt.scopes)
        shown = page(
            "consent",
            request,
            leads_to=prompt.redirect_origin,
            title=f"Let {prompt.client_name or prompt.client_id} in?",
            client=prompt,
            goes_to=prompt.redirect_host,
            meanings=meanings(list(prompt.scopes)),
            needs_tenant=needed,
            tenants=await self._people.tenants() if needed else [],
            email=person.email,
            hidden={"handle": prompt.handle},
            form_token=browser.form_token(prompt.handle),
            sign_out_token=browser.form_token("sign_out"),
        )
        browser.remember_form(shown)
        return shown


def authorization_of(asked: Parameters) -> oauth_pb2.CreateAuthorizationRequest:
    """Return what /authorize was asked."""
    return oauth_pb2.CreateAuthorizationRequest(
        client_id=asked.get("client_id"),
        redirect_uri=asked.get("redirect_uri"),
        response_type=asked.get("response_type"),
        scope=asked.get("scope"),
        state=asked.get("state"),
        code_challenge=asked.get("code_challenge"),
        code_challenge_method=asked.get("code_challenge_method"),
        resources=asked.resources,
        nonce=asked.get("nonce"),
        prompt=asked.get("prompt"),
        response_mode=asked.get("response_mode"),
    )


def _sign_in(
    request: Request,
    browser: Browser,
    prompt: oauth_pb2.AuthorizationPrompt,
    *,
    form: Parameters | None = None,
    problem: OAuthError | None = None,
) -> Response:
    shown = page(
        "sign_in",
        request,
        status=200 if problem is None else page_status(problem),
        leads_to=prompt.redirect_origin,
        title="Sign in",
        problem="" if problem is None else message_for_user(problem),
        why=f"{prompt.client_name or prompt.client_id} asks to act for you.",
        email="" if form is None else form.get("email"),
        asks_code=problem is not None and problem.reason == "SECOND_FACTOR_NEEDED",
        form_token=browser.form_token(_SIGN_IN),
    )
    if problem is not None:
        shown.headers.update(problem.headers)
    browser.remember_form(shown)
    return shown


def _error_redirect(asked: Parameters, error: str, issuer: str) -> str:
    """Return where the browser goes; auth has found the redirect to be the client's."""
    redirect_uri = asked.get("redirect_uri")
    if not redirect_uri:
        raise FormInvalid("The parameter redirect_uri is missing.")
    state = {"state": asked.get("state")} if asked.get("state") else {}
    return with_parameters(redirect_uri, {"error": error, **state, "iss": issuer})


def _once_signed_in(request: Request) -> str:
    """Return the same address, in which nobody is told to sign in any more."""
    parts = request.url.query.split("&")
    left = [part for part in parts if part.partition("=")[0] != "prompt"]
    return f"{request.url.path}?{'&'.join(left)}"


def _refused(request: Request, problem: OAuthError, *, again: bool = False) -> Response:
    """Tell the person, never the client. A client that is not known is a fault of the request here."""
    if problem.error == "invalid_client":
        problem = OAuthError(status=400, error=problem.error, description=problem.description, reason=problem.reason)
    return problem_page(request, problem, again=again)
