"""The memories pages: a filtered list, and all details of one memory."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from skein.memory.v1 import access_log_pb2, history_pb2, memory_pb2, scores_pb2
from skein_gateway.console import formats
from skein_gateway.console.browser_sessions import PageContext
from skein_gateway.console.item_names import memory_names
from skein_gateway.console.pages import list_page, page
from skein_gateway.console.problems import PageError, or_page_error
from skein_gateway.oauth.forms import Parameters

_PAGE = 25
_LINKS = 50
_VERSIONS = 20
_ACCESSES = 15
# Smallest term that three decimals can show.
_MIN_SHOWN = 0.0005
ORDERS = {
    "": "newest first",
    "create_time": "oldest first",
    "update_time desc": "changed last first",
    "importance desc": "most important first",
}
SCOPES = ("global", "agent", "user", "session")
# Query parameters of the list that filter it.
_FILTERS = ("type", "tag", "scope", "subject", "agent", "session", "source", "where")
# What the page says of filters that are set.
_LABELS = {
    "type": "type", "tag": "tags", "scope": "scope", "subject": "subject", "agent": "agent", "session": "session",
    "source": "source", "where": "condition", "archived": "with archived", "deleted": "with deleted",
}  # fmt: skip


async def list_memories(request: Request, context: PageContext, parameters: Parameters) -> Response:
    """List the memories that match the filter."""
    order = parameters.get("order") if parameters.get("order") in ORDERS else ""
    rpc_request = memory_pb2.ListMemoriesRequest(
        page_size=_PAGE,
        page_token=parameters.get("page"),
        filter=filter_of(parameters),
        show_archived=parameters.get("archived") == "on",
        show_deleted=parameters.get("deleted") == "on",
        order_by=order,
    )
    response = await or_page_error(context.api.memory.ListMemories(rpc_request))
    filters = {name: parameters.get(name) for name in (*_FILTERS, "order", "archived", "deleted")}

    return list_page(
        "memories",
        request,
        context,
        parameters,
        response,
        title="Memories",
        filters=filters,
        is_narrowed=any(filters[name] for name in _FILTERS),
        scopes=SCOPES,
        labels=_LABELS,
        orders=ORDERS,
    )


async def show_memory(request: Request, context: PageContext, parameters: Parameters) -> Response:
    """Show one memory, even archived or deleted. A section whose call fails shows the error instead."""
    rpc_request = memory_pb2.GetMemoryRequest(memory_id=parameters.get("id"), show_deleted=True)
    memory = (await context.api.memory.GetMemory(rpc_request)).memory
    api, memory_id = context.api, memory.memory_id
    scores, links, versions, changes, accesses = await asyncio.gather(
        or_page_error(api.memory.ExplainScore(scores_pb2.ExplainScoreRequest(memory_id=memory_id))),
        or_page_error(_links(context, memory_id)),
        or_page_error(
            api.memory.ListMemoryVersions(
                memory_pb2.ListMemoryVersionsRequest(memory_id=memory_id, page_size=_VERSIONS)
            )
        ),
        or_page_error(
            api.history.ListChanges(
                history_pb2.ListChangesRequest(
                    page_size=_VERSIONS, filter=history_pb2.ChangeFilter(entity_id=memory_id)
                )
            )
        ),
        or_page_error(_accesses(context, memory_id)),
    )
    return page(
        "memory",
        request,
        context,
        at="memories",
        title=formats.name_of(memory),
        memory=memory,
        scores=scores,
        bars={} if isinstance(scores, PageError) else _bars(scores),
        links=links,
        versions=versions,
        changes=changes,
        accesses=accesses,
        # The page of the form that undeletes it.
        edit_token=context.browser.form_token(context.url("edit")),
        may_write=context.may("memory.write"),
    )


async def _accesses(context: PageContext, memory_id: str) -> access_log_pb2.ListAccessLogResponse | None:
    if not context.may("audit.read"):
        return None
    return await context.api.history.ListAccessLog(
        access_log_pb2.ListAccessLogRequest(memory_id=memory_id, page_size=_ACCESSES)
    )


async def _links(context: PageContext, memory_id: str) -> dict[str, Any]:
    """Return the links in both directions, each with the display name of the memory at its other end."""
    links_request = memory_pb2.ListLinksRequest(memory_id=memory_id, page_size=_LINKS)
    links_response = await context.api.links.ListLinks(links_request)
    names = await memory_names(
        context, [end for link in links_response.links for end in (link.from_memory_id, link.to_memory_id)]
    )
    rows = []
    for link in links_response.links:
        is_out = link.from_memory_id == memory_id
        other_id = link.to_memory_id if is_out else link.from_memory_id
        name = names.get(other_id, "A memory that you cannot see")
        rows.append({"link": link, "is_out": is_out, "other_id": other_id, "name": name})
    return {"rows": rows, "more": bool(links_response.next_page_token)}


def filter_of(parameters: Parameters) -> memory_pb2.MemoryFilter:
    """Return the filter that query parameters of a list or a search describe."""
    scope = parameters.get("scope")
    return memory_pb2.MemoryFilter(
        types=[parameters.get("type").strip()] if parameters.get("type").strip() else [],
        tags_all=[tag for text in parameters.get("tag").split(",") if (tag := text.strip())],
        scopes=[f"SCOPE_{scope.upper()}"] if scope in SCOPES else [],
        subject_id=parameters.get("subject").strip(),
        agent_id=parameters.get("agent").strip(),
        session_id=parameters.get("session").strip(),
        source=parameters.get("source").strip(),
        where=parameters.get("where").strip(),
    )


def _bars(scores: scores_pb2.ExplainScoreResponse) -> dict[str, dict[str, Any]]:
    """Return the terms of both formulas with start and width of their bars, on a scale of 200 with zero at 100.

    Terms below _MIN_SHOWN are listed as negligible.
    """
    lists = {"confidence": scores.confidence_components, "importance": scores.importance_components}
    widest = max((abs(term.value) for terms in lists.values() for term in terms), default=0.0) or 1.0
    return {
        name: {
            "terms": [
                {
                    "term": term,
                    "start": 100 + 100 * min(0.0, term.value) / widest,
                    "width": 100 * abs(term.value) / widest,
                }
                for term in terms
                if abs(term.value) >= _MIN_SHOWN
            ],
            "negligible": [term for term in terms if abs(term.value) < _MIN_SHOWN],
        }
        for name, terms in lists.items()
    }
