"""The routes of the console, and two of its pages: certificates with their files, and the context of a question.

The page of a context shows the text that an agent would get, line by line, with tokens and source of each.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from skein.auth.v1 import auth_pb2, auth_pb2_grpc, certificates_pb2
from skein.gateway.v1 import gateway_pb2
from skein.tenancy.v1 import tenancy_pb2_grpc
from skein_gateway.console import (
    api_keys,
    approvals,
    blocks,
    conflicts,
    fact_pages,
    graph,
    jobs,
    ledgers,
    lineage,
    members,
    memories,
    memory_edit,
    overview,
    policy,
    receipt_difference,
    receipts,
    refused_facts,
    search,
    sessions,
    spaces,
    start,
    timeline,
    usage,
    webhooks,
)
from skein_gateway.console.browser_sessions import KeySessions, PageContext
from skein_gateway.console.changes import ChangesPage
from skein_gateway.console.login import LoginPages
from skein_gateway.console.page_handler import PageHandler
from skein_gateway.console.pages import HEADERS, STATIC_PATH, http_status, list_page, page, static
from skein_gateway.console.problems import PageError, or_page_error
from skein_gateway.identity.credential_cache import IdentityCache
from skein_gateway.identity.trusted_proxies import TrustedProxies
from skein_gateway.oauth.forms import Parameters
from skein_gateway.oauth.login import BrowserLogin
from skein_gateway.oauth.metadata import ServerMetadata
from skein_gateway.oauth.request_handler import RequestHandler
from skein_kit.calls.call import DEFAULT_DEADLINE_SECONDS
from skein_kit.erasure_certificates import key_set
from skein_kit.host.process import Host
from skein_kit.rpc.channel import InProcessHandlers
from skein_kit.text.token_estimate import DEFAULT_BUDGET, estimate_tokens

if TYPE_CHECKING:
    from skein_gateway.console.page_handler import ShowHandler, SubmitHandler


_PAGE = 25
_KEYS_FILE = "certificate-keys.json"
_KINDS: Mapping[str, str] = {
    "forget": "A person was forgotten",
    "purge_memories": "Memories were purged",
    "purge_subject": "Sessions of a person were purged",
    "tenant_deletion": "The tenant was deleted",
}


async def list_certificates(request: Request, context: PageContext, parameters: Parameters) -> Response:
    """List certificates, newest first."""
    response = await or_page_error(
        context.api.auth.ListErasureCertificates(
            certificates_pb2.ListErasureCertificatesRequest(page_size=_PAGE, page_token=parameters.get("page"))
        )
    )
    return list_page(
        "certificates",
        request,
        context,
        parameters,
        response,
        title="Certificates of erasures",
        kinds=_KINDS,
        keys_file=_KEYS_FILE,
    )


async def download(_request: Request, context: PageContext, parameters: Parameters) -> Response:
    """Return the file of a certificate, byte for byte as `skein certificates get` writes it."""
    rpc_request = certificates_pb2.GetErasureCertificateRequest(certificate_id=parameters.get("id"))
    certificate = (await context.api.auth.GetErasureCertificate(rpc_request)).certificate
    return _file(f"{certificate.certificate_id}.json", certificate.document)


async def download_keys(_request: Request, context: PageContext, _parameters: Parameters) -> Response:
    """Return the published keys, as `skein certificates keys` writes them."""
    request = auth_pb2.ListSigningKeysRequest(purpose=auth_pb2.SIGNING_KEY_PURPOSE_CERTIFICATE)
    published = (await context.api.auth.ListSigningKeys(request)).signing_keys
    return _file(_KEYS_FILE, key_set.write(key.jwk for key in published))


def _file(name: str, text: str) -> Response:
    """Return a file that browsers save; its name has no character to escape."""
    headers = {**HEADERS, "content-disposition": f'attachment; filename="{name}"'}
    return Response(text.encode(), media_type="application/json", headers=headers)


BUDGETS = (250, 500, 1000, 2000, 4000, 8000)
_FILTERS = ("subject", "agent", "session", "budget", "format")
# What the page says of filters that are set.
_LABELS = {"subject": "person", "agent": "agent", "session": "session", "budget": "tokens", "format": "format"}
# A line begins with its citation; further lines of its text are marked, so that none can imitate one.
_CITED = re.compile(r"(?:- )?\[(\d+)\] (.*)", re.DOTALL)
_HEADING = re.compile(r"#+ ")
_FURTHER = "  | "


async def show(request: Request, context: PageContext, parameters: Parameters) -> Response:
    """Show the form and, with a question, the text that BuildContext makes of it."""
    query = parameters.get("q").strip()
    filters = {name: parameters.get(name).strip() for name in _FILTERS}
    budget = int(filters["budget"]) if filters["budget"] in map(str, BUDGETS) else DEFAULT_BUDGET
    filters["budget"] = "" if budget == DEFAULT_BUDGET else str(budget)
    filters["format"] = "text" if filters["format"] == "text" else ""
    response: gateway_pb2.BuildContextResponse | PageError | None = None
    if query:
        context_request = gateway_pb2.BuildContextRequest(
            recall=gateway_pb2.RecallRequest(query=query, subject_id=filters["subject"]),
            token_budget=budget,
            session_id=filters["session"],
            format=gateway_pb2.CONTEXT_FORMAT_TEXT if filters["format"] else gateway_pb2.CONTEXT_FORMAT_MARKDOWN,
        )
        # Blocks that the agent carries are found through the filter alone.
        context_request.recall.filter.agent_id = filters["agent"]
        response = await or_page_error(context.api.gateway.BuildContext(context_request))
    return page(
        "context",
        request,
        context,
        status=http_status(response),
        at="context",
        title="Context: what an agent gets",
        query=query,
        response=response,
        lines=read_lines(response) if isinstance(response, gateway_pb2.BuildContextResponse) else [],
        filters=filters,
        labels=_LABELS,
        budget=budget,
        budgets=BUDGETS,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextLine:
    """A heading, or the text of one cited item."""

    text: str
    # Estimated, with all its characters.
    token_count: int
    # None for a heading.
    citation: gateway_pb2.Citation | None


def read_lines(response: gateway_pb2.BuildContextResponse) -> Sequence[ContextLine]:
    """Return the lines of a context's text, in order; empty lines are left out."""
    citations = {citation.number: citation for citation in response.citations}
    groups: list[list[str]] = []
    for line in response.text.split("\n"):
        if line.startswith(_FURTHER) and groups:
            groups[-1].append(line)
        elif line:
            groups.append([line])
    return [_line("\n".join(group), citations) for group in groups]


def _line(text: str, citations: Mapping[int, gateway_pb2.Citation]) -> ContextLine:
    cited = _CITED.fullmatch(text)
    citation = citations.get(int(cited[1])) if cited else None
    if cited is None or citation is None:
        shown = _HEADING.sub("", text, count=1)
    else:
        shown = cited[2].replace(f"\n{_FURTHER}", "\n")
    return ContextLine(text=shown, token_count=estimate_tokens(f"{text}\n"), citation=citation)


# The pages of a tenant: path, handler of GET, handler of POST.
_PAGES: Sequence[tuple[str, ShowHandler, SubmitHandler | None]] = (
    ("", overview.show, None),
    ("start", start.show, start.submit),
    ("search", search.show, None),
    ("context", show, None),
    ("ledgers", ledgers.list_ledgers, None),
    ("ledger", ledgers.show_ledger, None),
    ("receipts", receipts.list_receipts, None),
    ("receipt", receipts.show_receipt, receipts.submit),
    ("receipt/file", receipts.download, None),
    ("difference", receipt_difference.show, None),
    ("memories", memories.list_memories, None),
    ("memory", memories.show_memory, None),
    ("edit", memory_edit.show, memory_edit.submit),
    ("pages", fact_pages.list_pages, fact_pages.create),
    ("page", fact_pages.show_page, fact_pages.submit),
    ("graph", graph.show, None),
    ("timeline", timeline.show, None),
    ("lineage", lineage.show, None),
    ("blocks", blocks.list_blocks, blocks.create),
    ("block", blocks.show_block, blocks.submit),
    ("sessions", sessions.list_sessions, None),
    ("session", sessions.show_session, None),
    ("conflicts", conflicts.show, conflicts.submit),
    ("approvals", approvals.show, approvals.submit),
    ("refused-facts", refused_facts.show, refused_facts.submit),
    ("webhooks", webhooks.list_webhooks, webhooks.create),
    ("webhook", webhooks.show_webhook, webhooks.submit),
    ("spaces", spaces.list_spaces, spaces.create),
    ("space", spaces.show_space, spaces.submit),
    ("members", members.show, members.submit),
    ("usage", usage.show, None),
    ("policy", policy.show, policy.submit),
    ("jobs", jobs.show, jobs.submit),
    ("keys", api_keys.show, api_keys.submit),
    ("certificates", list_certificates, None),
    ("certificate", download, None),
    ("certificate-keys", download_keys, None),
)


@dataclass(frozen=True, slots=True)
class Console:
    """The console's routes, and the handler of / for browsers."""

    routes: Sequence[Route]
    home: Callable[[Request], Awaitable[Response]]

    @classmethod
    def of(
        cls,
        host: Host,
        credentials: IdentityCache,
        metadata: ServerMetadata,
        proxies: TrustedProxies,
        handlers: InProcessHandlers,
    ) -> Console:
        """Build the console; `handlers` are the public RPCs behind their interceptors."""
        request_handler = RequestHandler(proxies, DEFAULT_DEADLINE_SECONDS)
        login = BrowserLogin(
            credentials,
            auth_pb2_grpc.AuthServiceStub(host.channel("auth", caller="gateway")),
            tenancy_pb2_grpc.TenancyServiceStub(host.channel("tenancy", caller="gateway")),
        )
        handler = PageHandler(request_handler, metadata, credentials, handlers, KeySessions())
        login_pages = LoginPages(handler, login)

        routes = [
            Route(STATIC_PATH + "/{name}", static),
            *login_pages.routes(),
            *(route for name, show, submit in _PAGES for route in handler.routes(name, show, submit)),
            *ChangesPage(handler).routes(),
            handler.not_found_route(),
        ]
        return cls(routes, login_pages.show)
