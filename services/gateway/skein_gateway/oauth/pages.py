"""Renders the OAuth pages: templates, one style sheet, no script, strict security headers."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import Any
from urllib.parse import quote, urlencode

import jinja2
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from skein_gateway.oauth.browser import TOKEN_FIELD
from skein_gateway.oauth.request_handler import OAuthError
from skein_kit.identity.permissions import PERMISSION_DESCRIPTIONS

STYLE_PATH = "/oauth/style.css"
_HEADERS = {
    "cache-control": "no-store",
    "pragma": "no-cache",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
_POLICY = "default-src 'none'; style-src 'self'; form-action {}; frame-ancestors 'none'; base-uri 'none'"
# Sources of a Content-Security-Policy: "https://app.example:8443" or "com.example.app:".
_SOURCE = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:(?://[A-Za-z0-9._-]+(?::[0-9]{1,5})?)?")
# Meanings of the scopes that are not permissions.
_OPENID = {
    "openid": "Know which account is yours",
    "profile": "See your name",
    "email": "See your e-mail address",
    "offline_access": "Keep its access while you are away, until you revoke it",
}
# Messages for people, in place of those for software, by reason.
_MESSAGES = {
    "SIGN_IN_REFUSED": "This did not work: the e-mail address, the password or the code is wrong.",
    "SECOND_FACTOR_REQUIRED": "Your account has a second factor. Enter the password once more, and the code with it.",
    "PASSWORD_TOO_SHORT": "The password is too short: at least 10 characters.",
    "ONE_TIME_TOKEN_INVALID": "This link was already used, or it has expired. Request a new one.",
    "MAIL_NOT_CONFIGURED": "This server sends no mail. Ask its operator for a link.",
    "TOO_MANY_ATTEMPTS": "Too many attempts. Wait a while, or enter your second factor along with the password.",
    "OVERLOADED": "The server is overloaded. Wait a moment, then try again.",
    "ACCOUNT_EXISTS": "An account with this address already exists: sign in instead.",
    "SIGN_UP_CLOSED": "You cannot create an account here: the invitation is for another address, or it has expired.",
    "INVITATION_NOT_FOUND": "This invitation has expired, or it is for another address than your account's.",
    "DEVICE_CODE_NOT_FOUND": "This code is wrong or has expired. Check the device for the current one.",
    "TENANT_NOT_FOUND": "You are no longer a member of this tenant.",
    "INVALID_FIELD": "A value in the form is invalid. Check the form and send it again.",
}


def page(template: str, request: Request, *, status: int = 200, leads_to: str = "", **values: Any) -> HTMLResponse:
    """Render a template. Its forms may submit to us and redirect to the origin `leads_to`."""
    text = (
        _templates()
        .get_template(f"{template}.html")
        .render(
            style=STYLE_PATH, current_path=current_path(request), token_field=TOKEN_FIELD, **{"problem": "", **values}
        )
    )
    return HTMLResponse(
        text, status_code=status, headers={**_HEADERS, "content-security-policy": page_policy(leads_to)}
    )


def page_policy(leads_to: str = "") -> str:
    """Return the Content-Security-Policy of a page whose forms may submit to us and redirect to an origin."""
    source = _source(leads_to)
    return _POLICY.format(f"'self' {source}" if source else "'self'")


def problem_page(request: Request, problem: OAuthError, *, can_retry: bool = True) -> Response:
    """Render an error, with a link to the same page if `can_retry` is set."""
    response = page(
        "message",
        request,
        status=page_status(problem),
        title="Request failed",
        problem=message_for_user(problem),
        paragraphs=[],
        retry_url=current_path(request) if can_retry else "",
    )
    response.headers.update(problem.headers)
    return response


def page_status(problem: OAuthError) -> int:
    """Return the HTTP status of an error's page. 401 becomes 403, because browsers send no authorization header."""
    return 403 if problem.status == 401 else problem.status  # noqa: PLR2004 - as HTTP calls it.


def message_for_user(problem: OAuthError) -> str:
    """Return the error's message for a person."""
    return _MESSAGES.get(problem.reason, problem.description)


def meanings(scopes: list[str]) -> list[tuple[str, str]]:
    """Return each scope with its meaning for a person."""
    texts = {**PERMISSION_DESCRIPTIONS, **_OPENID}
    return [(texts.get(scope, scope), scope) for scope in scopes]


def current_path(request: Request) -> str:
    """Return path and query of a request, for a link to the same page."""
    query = request.url.query
    return f"{request.url.path}?{query}" if query else request.url.path


def see_other(url: str) -> Response:
    """Redirect with 303, after a form."""
    return _redirect(url, 303)


def redirect_found(url: str) -> Response:
    """Redirect with 302."""
    return _redirect(url, 302)


def with_parameters(url: str, values: dict[str, str]) -> str:
    """Return a redirect URI with parameters appended to its own."""
    return f"{url}{'&' if '?' in url else '?'}{urlencode(values, quote_via=quote)}"


def style(_request: Request) -> Response:
    """Return the style sheet."""
    headers = {"cache-control": "public, max-age=3600", "x-content-type-options": "nosniff"}
    return Response(_style(), media_type="text/css", headers=headers)


def _redirect(url: str, status: int) -> Response:
    # Keep the URI as registered; encode only what a header cannot hold.
    return Response(status_code=status, headers={**_HEADERS, "location": quote(url, safe=":/%#?=@[]!$&'()*+,;~")})


def _source(origin: str) -> str:
    """Return an origin as a CSP source. CSP has no brackets, so for an IPv6 host only the scheme remains."""
    if "[" in origin:
        origin = origin.partition("//")[0]
    return origin if _SOURCE.fullmatch(origin) else ""


@cache
def _style() -> str:
    return (resources.files("skein_gateway.oauth") / "templates" / "style.css").read_text("utf-8")


@cache
def _templates() -> jinja2.Environment:
    loader = jinja2.PackageLoader("skein_gateway.oauth")
    return jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, auto_reload=False, trim_blocks=True
    )
