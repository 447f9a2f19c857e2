"""The pages that people see: templates, one style sheet, no script, and headers that let nothing else happen."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import jinja2
from starlette.responses import HTMLResponse, Response

from skein_gateway.oauth.browser import TOKEN_FIELD
from skein_kit.identity.permissions import PERMISSION_DESCRIPTIONS

if TYPE_CHECKING:
    from starlette.requests import Request

    from skein_gateway.oauth.request_handler import OAuthError

STYLE_PATH = "/oauth/style.css"
_HEADERS = {
    "cache-control": "no-store",
    "pragma": "no-cache",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
_POLICY = "default-src 'none'; style-src 'self'; form-action {}; frame-ancestors 'none'; base-uri 'none'"
# What may stand in a policy: "https://app.example:8443" or "com.example.app:".
_SOURCE = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:(?://[A-Za-z0-9._-]+(?::[0-9]{1,5})?)?")
# What the scopes that are no permission let an application know.
_OPENID = {
    "openid": "Know which account is yours",
    "profile": "See your name",
    "email": "See your e-mail address",
    "offline_access": "Keep its access while you are away, until you end it",
}
# Said to a person where the refusal's own words are for software.
_WORDS = {
    "SIGN_IN_REFUSED": "This did not work: the e-mail address, the password or the code is wrong.",
    "SECOND_FACTOR_NEEDED": "Your account has a second factor. Enter the password once more, and the code with it.",
    "PASSWORD_TOO_SHORT": "The password is too short: at least 10 characters.",
    "ONE_TIME_TOKEN_INVALID": "This link was used before, or its time is over.",
    "MAIL_NOT_CONFIGURED": "This server sends no mail. Ask whoever runs it for a link.",
    "TOO_MANY_ATTEMPTS": "Too many attempts. Wait a while, or show your second factor along with the password.",
    "OVERLOADED": "More is asked of this server than it can do now. Wait a moment, then try again.",
    "ACCOUNT_EXISTS": "There is an account with this address already: sign in instead.",
    "SIGN_UP_CLOSED": "New accounts are not open to you here: the invitation is not for this address, or is over.",
    "INVITATION_NOT_FOUND": "This invitation is over, or for another address than that of your account.",
    "DEVICE_CODE_NOT_FOUND": "There is no such code, or its time is over. Look at the device again.",
    "TENANT_NOT_FOUND": "You are no member of this tenant any more.",
    "INVALID_FIELD": "Something in the form is not as it should be.",
}


def page(template: str, request: Request, *, status: int = 200, leads_to: str = "", **values: Any) -> HTMLResponse:
    """Return a page; its forms may lead to us and, by a redirect, to `leads_to`."""
    text = (
        _templates()
        .get_template(f"{template}.html")
        .render(style=STYLE_PATH, here=here(request), token_field=TOKEN_FIELD, **{"problem": "", **values})
    )
    return HTMLResponse(
        text, status_code=status, headers={**_HEADERS, "content-security-policy": page_policy(leads_to)}
    )


def page_policy(leads_to: str = "") -> str:
    """Return the Content-Security-Policy of a page whose forms may lead to us and, by a redirect, to an origin."""
    source = _source(leads_to)
    return _POLICY.format(f"'self' {source}" if source else "'self'")


def problem_page(request: Request, problem: OAuthError, *, again: bool = True) -> Response:
    """Tell a person what went wrong, with a way to start again."""
    shown = page(
        "message",
        request,
        status=page_status(problem),
        title="This did not work",
        problem=message_for_user(problem),
        paragraphs=[],
        again=here(request) if again else "",
    )
    shown.headers.update(problem.headers)
    return shown


def page_status(problem: OAuthError) -> int:
    """Return the status of a page: 401 belongs to what is asked for by a header, which a person is not."""
    return 403 if problem.status == 401 else problem.status  # noqa: PLR2004 - as HTTP calls it.


def message_for_user(problem: OAuthError) -> str:
    """Return what a person is told."""
    return _WORDS.get(problem.reason, problem.description)


def meanings(scopes: list[str]) -> list[tuple[str, str]]:
    """Return each scope with what it means to a person."""
    known = {**PERMISSION_DESCRIPTIONS, **_OPENID}
    return [(known.get(scope, scope), scope) for scope in scopes]


def here(request: Request) -> str:
    """Return the path and the query of a request, for a link to the same page."""
    query = request.url.query
    return f"{request.url.path}?{query}" if query else request.url.path


def see_other(url: str) -> Response:
    """Send a browser on after a form, by GET."""
    return _redirect(url, 303)


def found(url: str) -> Response:
    """Send a browser on."""
    return _redirect(url, 302)


def with_parameters(url: str, values: dict[str, str]) -> str:
    """Return a redirect address with more parameters, those that it has kept."""
    return f"{url}{'&' if '?' in url else '?'}{urlencode(values, quote_via=quote)}"


def style(_request: Request) -> Response:
    """Return the style sheet."""
    headers = {"cache-control": "public, max-age=3600", "x-content-type-options": "nosniff"}
    return Response(_style(), media_type="text/css", headers=headers)


def _redirect(url: str, status: int) -> Response:
    # As it was registered: only what cannot stand in a header is encoded.
    return Response(status_code=status, headers={**_HEADERS, "location": quote(url, safe=":/%#?=@[]!$&'()*+,;~")})


def _source(origin: str) -> str:
    """Return what a policy calls an origin: browsers know no brackets there, so such an origin counts by its scheme."""
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
