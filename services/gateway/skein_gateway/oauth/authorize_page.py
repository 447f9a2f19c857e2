"""/authorize: a person signs in, and allows or denies an application's access."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

from starlette.requests import Request
from starlette.responses import Response

from skein.auth.v1 import oauth_pb2, oauth_pb2_grpc
from skein_gateway.oauth.browser import Browser
from skein_gateway.oauth.form_pages import consent_page, login_page, sign_out
from skein_gateway.oauth.forms import FormInvalid, Parameters
from skein_gateway.oauth.login import BrowserLogin, login_form_error
from skein_gateway.oauth.metadata import ServerMetadata
from skein_gateway.oauth.pages import current_path, problem_page, redirect_found, see_other, with_parameters
from skein_gateway.oauth.request_handler import OAuthError, RequestHandler, read_form
from skein_kit.calls.call import Call

# OpenID Connect's request objects, which are not supported.
_UNSUPPORTED = {"request": "request_not_supported", "request_uri": "request_uri_not_supported"}
# Prompts that force a login even if the browser is signed in.
_LOGIN_PROMPTS = frozenset({"login", "select_account"})


class AuthorizePage:
    """The handler. The URL keeps the request; the form carries the decision with a handle that auth encrypted."""

    def __init__(
        self,
        request_handler: RequestHandler,
        metadata: ServerMetadata,
        login: BrowserLogin,
        oauth: oauth_pb2_grpc.OAuthServiceAsyncStub,
    ) -> None:
        """Call auth for prompts and decisions."""
        self._request_handler = request_handler
        self._metadata = metadata
        self._login = login
        self._oauth = oauth

    async def show(self, request: Request) -> Response:
        """Show the login form or the consent form."""
        return await self._request_handler.handle(
            request, lambda call: self._show(request, call), lambda problem: _error_page(request, problem)
        )

    async def submit(self, request: Request) -> Response:
        """Handle the submitted form."""
        return await self._request_handler.handle(
            request,
            lambda call: self._submit(request, call),
            lambda problem: _error_page(request, problem, can_retry=True),
        )

    async def _show(self, request: Request, call: Call) -> Response:
        parameters = Parameters.of_bytes(request.scope["query_string"])
        created = await self._oauth.CreateAuthorization(authorization_of(parameters))
        issuer = await self._metadata.issuer()
        browser = Browser(request, issuer)
        caller = await self._login.current_caller(call, browser)
        redirect_url = created.redirect_url
        for name, error in _UNSUPPORTED.items():
            if not redirect_url and name in parameters:
                redirect_url = _error_redirect(parameters, error, issuer)
        if redirect_url:
            return _error_page(request, _error_of(redirect_url)) if caller is None else redirect_found(redirect_url)
        prompt = created.prompt
        if caller is None or _LOGIN_PROMPTS & set(prompt.prompt.split()):
            return _login_page(request, browser, prompt)
        return await consent_page(
            request,
            browser,
            self._login,
            caller,
            prompt,
            field=("handle", prompt.handle),
            redirect_host=prompt.redirect_host,
            leads_to=prompt.redirect_origin,
        )

    async def _submit(self, request: Request, call: Call) -> Response:
        form = await read_form(request)
        browser = Browser(request, await self._metadata.issuer())
        step = form.get("step")
        browser.check(form, form.get("handle") if step == "answer" else step)
        if step == "sign_in":
            return await self._log_in(request, browser, form)
        caller = await self._login.current_caller(call, browser)
        if caller is None:
            return see_other(current_path(request))
        if step == "sign_out":
            return await sign_out(request, browser, self._login)
        response = await self._oauth.ApproveAuthorization(
            oauth_pb2.ApproveAuthorizationRequest(
                handle=form.get("handle"),
                approved=form.get("decision") == "allow",
                tenant_id=form.get("tenant_id"),
            )
        )
        return see_other(response.redirect_url)

    async def _log_in(self, request: Request, browser: Browser, form: Parameters) -> Response:
        parameters = Parameters.of_bytes(request.scope["query_string"])
        try:
            login_response = await self._login.sign_in(form, browser)
        except Exception as error:  # noqa: BLE001 - login_form_error raises other errors again.
            problem = login_form_error(error)
            created = await self._oauth.CreateAuthorization(authorization_of(parameters))
            if created.redirect_url:
                return _error_page(request, _error_of(created.redirect_url))
            return _login_page(request, browser, created.prompt, form=form, problem=problem)
        response = see_other(_path_without_prompt(request))
        browser.sign_in(response, login_response)
        return response


def authorization_of(parameters: Parameters) -> oauth_pb2.CreateAuthorizationRequest:
    """Return the RPC request for the parameters of /authorize."""
    return oauth_pb2.CreateAuthorizationRequest(
        client_id=parameters.get("client_id"),
        redirect_uri=parameters.get("redirect_uri"),
        response_type=parameters.get("response_type"),
        scope=parameters.get("scope"),
        state=parameters.get("state"),
        code_challenge=parameters.get("code_challenge"),
        code_challenge_method=parameters.get("code_challenge_method"),
        resources=parameters.resources,
        nonce=parameters.get("nonce"),
        prompt=parameters.get("prompt"),
        response_mode=parameters.get("response_mode"),
    )


def _login_page(
    request: Request,
    browser: Browser,
    prompt: oauth_pb2.AuthorizationPrompt,
    *,
    form: Parameters | None = None,
    problem: OAuthError | None = None,
) -> Response:
    purpose = f"{prompt.client_name or prompt.client_id} asks to act for you."
    return login_page(request, browser, purpose, form=form, problem=problem, leads_to=prompt.redirect_origin)


def _error_redirect(parameters: Parameters, error: str, issuer: str) -> str:
    """Return the redirect with an error. auth has verified that the redirect URI is the client's."""
    redirect_uri = parameters.get("redirect_uri")
    if not redirect_uri:
        raise FormInvalid("The parameter redirect_uri is missing.")
    state = {"state": parameters.get("state")} if parameters.get("state") else {}
    return with_parameters(redirect_uri, {"error": error, **state, "iss": issuer})


def _error_of(redirect_url: str) -> OAuthError:
    """Return the error that a redirect would tell the client.

    Anybody may register a client. So a browser in which nobody has signed in is led nowhere (RFC 9700, 4.11.2).
    """
    parameters = parse_qs(urlsplit(redirect_url).query)
    error = parameters["error"][0]
    return OAuthError(status=400, error=error, description=parameters.get("error_description", [error])[0])


def _path_without_prompt(request: Request) -> str:
    """Return the path without the prompt parameter, which would ask for another login."""
    parts = request.url.query.split("&")
    others = [part for part in parts if part.partition("=")[0] != "prompt"]
    return f"{request.url.path}?{'&'.join(others)}"


def _error_page(request: Request, problem: OAuthError, *, can_retry: bool = False) -> Response:
    """Show the error to the person, never to the client. An unknown client is a 400 here, not a 401."""
    if problem.error == "invalid_client":
        problem = OAuthError(status=400, error=problem.error, description=problem.description, reason=problem.reason)
    return problem_page(request, problem, can_retry=can_retry)
