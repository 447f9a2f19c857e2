"""Form pages that several OAuth pages share: login, consent, and sign-out for another account."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from skein.auth.v1 import oauth_pb2
from skein_gateway.oauth.browser import Browser
from skein_gateway.oauth.forms import Parameters
from skein_gateway.oauth.login import BrowserLogin, needs_tenant
from skein_gateway.oauth.pages import current_path, meanings, message_for_user, page, page_status, see_other
from skein_gateway.oauth.request_handler import OAuthError
from skein_kit.identity.identity_token import Caller


def form_page(
    template: str,
    request: Request,
    browser: Browser,
    problem: OAuthError | None = None,
    *,
    leads_to: str = "",
    **values: Any,
) -> Response:
    """Render a template with a form of `browser`, and with the error of its last submission if there is one."""
    response = page(
        template,
        request,
        status=200 if problem is None else page_status(problem),
        leads_to=leads_to,
        problem="" if problem is None else message_for_user(problem),
        **values,
    )
    if problem is not None:
        response.headers.update(problem.headers)
    browser.remember_form(response)
    return response


def login_page(
    request: Request,
    browser: Browser,
    purpose: str,
    *,
    form: Parameters | None = None,
    problem: OAuthError | None = None,
    leads_to: str = "",
) -> Response:
    """Return the login form. Its CSRF token is about "sign_in"."""
    return form_page(
        "sign_in",
        request,
        browser,
        problem,
        leads_to=leads_to,
        title="Sign in",
        purpose=purpose,
        email="" if form is None else form.get("email"),
        asks_code=problem is not None and problem.reason == "SECOND_FACTOR_REQUIRED",
        form_token=browser.form_token("sign_in"),
    )


async def consent_page(
    request: Request,
    browser: Browser,
    login: BrowserLogin,
    caller: Caller,
    client: oauth_pb2.AuthorizationPrompt | oauth_pb2.GetDeviceAuthorizationResponse,
    *,
    field: tuple[str, str],
    redirect_host: str = "",
    leads_to: str = "",
) -> Response:
    """Return the consent form for a client. `field` is the hidden field that its CSRF token is about."""
    needs = needs_tenant(client.scopes)
    return form_page(
        "consent",
        request,
        browser,
        leads_to=leads_to,
        title=f"Give {client.client_name or client.client_id} access?",
        client=client,
        redirect_host=redirect_host,
        meanings=meanings(list(client.scopes)),
        needs_tenant=needs,
        tenants=await login.tenants() if needs else [],
        email=caller.email,
        hidden=dict([field]),
        form_token=browser.form_token(field[1]),
        sign_out_token=browser.form_token("sign_out"),
    )


async def sign_out(request: Request, browser: Browser, login: BrowserLogin) -> Response:
    """Sign out and show the same page again, for another account."""
    await login.sign_out()
    response = see_other(current_path(request))
    browser.sign_out(response)
    return response
