"""The console's templates with strict security headers, its navigation, and its static files."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import jinja2
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from skein_gateway import VERSION
from skein_gateway.console import formats
from skein_gateway.console.browser_sessions import PageContext
from skein_gateway.console.problems import PageError
from skein_gateway.oauth.browser import TOKEN_FIELD
from skein_gateway.oauth.forms import Parameters
from skein_gateway.oauth.pages import current_path
from skein_kit.identity.permissions import ACCESS_RULES
from skein_kit.text.invisible import show_invisible_in_html

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
# Confirmations after a form, by the query parameter `done`.
_DONE = {
    "resolved": "The conflict is resolved.",
    "approved": "The memory is approved.",
    "refused": "The memory is refused and removed.",
    "fact-accepted": "The fact is a memory now.",
    "fact-dismissed": "The fact is dismissed.",
    "unresolved": "The conflict stays open.",
    "saved": "The policy is saved.",
    "edit-waits": "The change waits for approval.",
    "edited": "The memory is saved.",
    "deleted": "The memory is deleted. It can be undeleted until its purge.",
    "undeleted": "The memory is back.",
    "remembered": "The memory is stored. Now recall it.",
    "page-create": "The page is created.",
    "page-pin": "The page is pinned.",
    "page-unpin": "The page is no longer pinned.",
    "page-delete": "The page is deleted. Its facts stay.",
    "webhook-save": "The webhook is saved.",
    "webhook-retry": "The delivery is tried again now.",
    "webhook-delete": "The webhook and its deliveries are purged.",
    "space-chosen": "Your pages act there from now on.",
    "space-created": "The space is created. Grant it to those who should see it.",
    "space-deleted": "The space is deleted.",
    "space-grant": "The space is granted. It shows within five seconds.",
    "space-revoke": "The grant is revoked, with what was passed on by it.",
    "member-invite": "The invitation is mailed.",
    "member-revoke": "The invitation is revoked.",
    "member-role": "The role is changed. It takes effect within five seconds.",
    "member-remove": "The person is no longer a member.",
    "block-created": "The block is created.",
    "block-save": "The block is saved.",
    "block-revert": "The block has the text of the earlier revision again.",
    "block-attach": "The agent carries the block from now on.",
    "block-detach": "The agent no longer carries the block.",
    "block-delete": "The block is deleted. It can be undeleted until its purge.",
    "block-undelete": "The block is back.",
    "job-pause": "The job is paused. The batch that runs ends.",
    "job-resume": "The job continues within about a minute.",
    "job-limit": "The limits are saved.",
    "unchanged": "Nothing was changed.",
    "revoked": "The key is revoked. It is refused everywhere within five seconds.",
    "adopted": "The key is adopted. It stays valid when the application's access ends.",
    "signed-out": "You are signed out.",
    "signed-in": "You are signed in.",
}
# Any number of so many digits fits into an int64.
_MAX_REVISION_DIGITS = 17


def page(
    template: str,
    request: Request,
    context: PageContext | None = None,
    *,
    status: int = 200,
    at: str = "",
    **values: Any,
) -> HTMLResponse:
    """Render a template; `at` marks the current entry of the navigation."""
    common: dict[str, Any] = {
        "context": context,
        "navigation": [] if context is None else entries_for(context.may),
        "at": at,
        "waiting_count": "" if context is None else context.waiting_count,
        "current_path": current_path(request),
        "token_field": TOKEN_FIELD,
        "static": _static_url,
        "version": VERSION,
        "now": time.time(),
        "done": _DONE.get(request.query_params.get("done", ""), ""),
        "problem": "",
    }
    text = _templates().get_template(f"{template}.html").render({**common, **values})
    response = HTMLResponse(show_invisible_in_html(text), status_code=status, headers=dict(HEADERS))
    if context is not None:
        context.browser.remember_form(response)
    return response


def form_page(
    template: str,
    request: Request,
    context: PageContext,
    *,
    failure: PageError | None = None,
    status: int = 200,
    **values: Any,
) -> HTMLResponse:
    """Render a page with forms; `failure` says why the form that was sent last changed nothing."""
    return page(
        template,
        request,
        context,
        status=status if failure is None else failure.status,
        problem="" if failure is None else failure.text,
        form_token=context.browser.form_token(request.url.path),
        **values,
    )


def list_page(
    template: str,
    request: Request,
    context: PageContext,
    parameters: Parameters,
    response: Any,
    *,
    at: str = "",
    filters: Mapping[str, object] | None = None,
    **values: Any,
) -> HTMLResponse:
    """Render one page of a list, with its forms and links to further pages; `at` is its path if not the template's."""
    at = at or template
    links = page_links(context, at, response, parameters, **filters or {})
    status = http_status(response)
    return form_page(
        template, request, context, status=status, at=at, response=response, filters=filters, **links, **values
    )


def http_status(*results: object) -> int:
    """Return the HTTP status of the first PageError among the results; 200 without one."""
    return next((result.status for result in results if isinstance(result, PageError)), 200)


def page_links(
    context: PageContext, path: str, response: Any, parameters: Parameters, **filters: object
) -> dict[str, Any]:
    """Return `first` and `more`, the URLs of a list's first and next page; empty where there is none."""
    token = "" if isinstance(response, PageError) else response.next_page_token
    return {
        "first": context.url(path, **filters) if parameters.get("page") else "",
        "more": context.url(path, **filters, page=token) if token else "",
    }


def revision_of(form: Parameters) -> int:
    """Return the revision in a form; 0 without one that an int64 holds."""
    text = form.get("revision")
    return int(text) if text.isdecimal() and len(text) <= _MAX_REVISION_DIGITS else 0


def error_page(
    request: Request, failure: PageError, context: PageContext | None = None, *, retry_url: str = ""
) -> Response:
    """Render an error with a link to `retry_url` and to the overview."""
    return page(
        "error",
        request,
        context,
        status=failure.status,
        at="-",
        title=failure.title,
        failure=failure,
        retry_url=retry_url,
    )


def static(request: Request) -> Response:
    """Return a static file. Its URL contains its digest, so browsers may cache it forever."""
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
    for template_filter in (
        formats.stamp, formats.exact, formats.ago, formats.enum, formats.number, formats.signal, formats.meaning,
        formats.colour, formats.indented_json, formats.short, formats.name_of,
        formats.delivery_error, formats.who,
    ):  # fmt: skip
        environment.filters[template_filter.__name__] = template_filter
    return environment


class Entry(NamedTuple):
    """One entry of the navigation."""

    path: str
    title: str
    # The RPC that the page needs, below /skein; empty for none.
    rpc: str

    @property
    def permission(self) -> str:
        """Return the permission that the contract asks of callers of the RPC; empty for none."""
        return (ACCESS_RULES[f"/skein.{self.rpc}"].permission or "") if self.rpc else ""


# A page that is not listed here belongs to the entry that it passes to `page` as `at`.
GROUPS: Sequence[tuple[str, Sequence[Entry]]] = (
    (
        "Memory",
        (
            Entry("", "Overview", ""),
            Entry("start", "First steps", ""),
            Entry("search", "Search", "gateway.v1.GatewayService/Recall"),
            Entry("context", "Context", "gateway.v1.GatewayService/BuildContext"),
            Entry("ledgers", "Ledgers", "session.v1.SessionService/ListContextLedgers"),
            Entry("receipts", "Receipts", "recall.v1.RecallService/ListRecallReceipts"),
            Entry("memories", "Memories", "memory.v1.MemoryService/ListMemories"),
            Entry("pages", "Pages", "memory.v1.CurationService/ListPages"),
            Entry("graph", "Graph", "memory.v1.LinkService/GetSubgraph"),
            Entry("timeline", "Timeline", "memory.v1.CurationService/GetTemporalClusters"),
            Entry("blocks", "Blocks", "memory.v1.BlockService/ListBlocks"),
            Entry("sessions", "Sessions", "session.v1.SessionService/ListSessions"),
            Entry("conflicts", "Conflicts", "memory.v1.CurationService/ListConflicts"),
            Entry("approvals", "Approvals", "memory.v1.CurationService/ListPendingMemories"),
            Entry("refused-facts", "Refused facts", "memory.v1.CurationService/ListRefusedFacts"),
            Entry("changes", "Changes", "memory.v1.HistoryService/ListChanges"),
        ),
    ),
    (
        "Tenant",
        (
            Entry("webhooks", "Webhooks", "memory.v1.HistoryService/ListWebhooks"),
            Entry("spaces", "Spaces", "tenancy.v1.TenancyService/ListSpaces"),
            Entry("members", "Members", "tenancy.v1.TenancyService/ListMembers"),
            Entry("usage", "Usage", "tenancy.v1.TenancyService/GetUsage"),
            Entry("policy", "Policy", "tenancy.v1.TenancyService/GetPolicy"),
            Entry("jobs", "Jobs", "tenancy.v1.TenancyService/GetJobs"),
            Entry("keys", "API keys", "auth.v1.AuthService/ListApiKeys"),
            Entry("certificates", "Certificates", "auth.v1.AuthService/ListErasureCertificates"),
        ),
    ),
)


def entries_for(may: Callable[[str], bool]) -> list[tuple[str, list[Entry]]]:
    """Return the groups with the entries that a caller may open; `may` tells whether it has a permission."""
    groups = [
        (title, [entry for entry in entries if not entry.permission or may(entry.permission)])
        for title, entries in GROUPS
    ]
    return [(title, entries) for title, entries in groups if entries]
