"""The console's pages: templates, and headers that let nothing happen but what the page is for."""

from __future__ import annotations

import hashlib
import time
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import jinja2
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from skein_gateway.cluster_status.rpc import VERSION
from skein_gateway.console import formats
from skein_gateway.oauth.browser import TOKEN_FIELD
from skein_gateway.oauth.pages import here

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

    from skein_gateway.console.problems import PageError
    from skein_gateway.console.visitors import PageContext

STATIC_PATH = "/console/static"
_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'"
)
HEADERS: Mapping[str, str] = {
    "cache-control": "no-store",
    "content-security-policy": _POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "vary": "accept, cookie",
}
_STATIC = {"console.css": "text/css", "console.js": "text/javascript", "icon.svg": "image/svg+xml"}
# What a page says after a form of it was sent; the address names which.
_DONE = {
    "resolved": "The conflict is settled.",
    "kept": "The conflict stays open.",
    "saved": "The policy is saved.",
    "unchanged": "Nothing was changed.",
    "revoked": "The key is revoked. It is refused everywhere within five seconds.",
    "adopted": "The key is adopted. It lives on when the application's access ends.",
    "signed-out": "You are signed out.",
    "signed-in": "You are signed in.",
}
# The pages of a tenant: address, name, and the permission without which it is not offered.
_PAGES = (
    ("", "Overview", ""),
    ("search", "Search", "recall.read"),
    ("memories", "Memories", "memory.read"),
    ("sessions", "Sessions", "session.read"),
    ("conflicts", "Conflicts", "memory.read"),
    ("changes", "Changes", "memory.read"),
    ("policy", "Policy", "tenant.read"),
    ("keys", "API keys", "keys.read"),
)


def page(
    template: str,
    request: Request,
    visit: PageContext | None = None,
    *,
    status: int = 200,
    at: str = "",
    **values: Any,
) -> HTMLResponse:
    """Return a page; `at` is the entry of the navigation that it belongs to."""
    pages = [entry[:2] for entry in _PAGES if visit is not None and (not entry[2] or visit.may(entry[2]))]
    common: dict[str, Any] = {
        "visit": visit,
        "pages": pages,
        "at": at,
        "here": here(request),
        "token_field": TOKEN_FIELD,
        "static": _static_url,
        "version": VERSION,
        "now": time.time(),
        "done": _DONE.get(request.query_params.get("done", ""), ""),
        "problem": "",
    }
    text = _templates().get_template(f"{template}.html").render({**common, **values})
    answer = HTMLResponse(text, status_code=status, headers=dict(HEADERS))
    if visit is not None:
        visit.visitor.remember_form(answer)
    return answer


def trouble_page(request: Request, trouble: PageError, visit: PageContext | None = None, *, back: str = "") -> Response:
    """Tell a person what went wrong, and where to go on."""
    return page(
        "trouble", request, visit, status=trouble.status, at="-", title=trouble.title, trouble=trouble, back=back
    )


def static(request: Request) -> Response:
    """Return a file that pages are made of. Its address changes with what it says, so it may be kept."""
    name = request.path_params["name"]
    if name not in _STATIC:
        return PlainTextResponse("Not found.\n", status_code=404)
    headers = {
        "cache-control": "public, max-age=31536000, immutable",
        "content-security-policy": "default-src 'none'",
        "cross-origin-resource-policy": "same-origin",
        "x-content-type-options": "nosniff",
    }
    return Response(_file(name), media_type=_STATIC[name], headers=headers)


def _static_url(name: str) -> str:
    return f"{STATIC_PATH}/{name}?{_digest(name)}"


@cache
def _digest(name: str) -> str:
    return hashlib.sha256(_file(name)).hexdigest()[:12]


@cache
def _file(name: str) -> bytes:
    return (resources.files("skein_gateway.console") / "static" / name).read_bytes()


@cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("skein_gateway.console"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for one in (
        formats.stamp, formats.exact, formats.ago, formats.enum, formats.number, formats.signal, formats.meaning,
        formats.colour, formats.indented_json, formats.short, formats.name_of,
    ):  # fmt: skip
        environment.filters[one.__name__] = one
    return environment
