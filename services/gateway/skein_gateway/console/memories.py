"""Memories: a list that can be narrowed, and everything about one of them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from skein.memory.v1 import access_log_pb2, history_pb2, memory_pb2, scores_pb2
from skein_gateway.console.pages import page
from skein_gateway.console.problems import PageError, attempted

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from skein_gateway.console.page_handler import PageHandler
    from skein_gateway.console.visitors import PageContext
    from skein_gateway.oauth.forms import Parameters

_PAGE = 25
_LINKS = 50
_VERSIONS = 20
_ACCESSES = 15
# What three decimals show.
_SHOWN = 0.0005
ORDERS = {
    "": "newest first",
    "create_time": "oldest first",
    "update_time desc": "changed last first",
    "importance desc": "most important first",
}
SCOPES = ("global", "agent", "user", "session")
# Parameters of the list's address that narrow it.
_FILTERS = ("type", "tag", "scope", "subject", "agent", "session", "source", "where")


class Memories:
    """The handlers of the list and of one memory."""

    def routes(self, desk: PageHandler) -> list[Route]:
        """Return the routes."""
        return [*desk.routes("memories", self.list), *desk.routes("memory", self.show)]

    async def list(self, request: Request, visit: PageContext, asked: Parameters) -> Response:
        """List what passes the filter."""
        order = asked.get("order") if asked.get("order") in ORDERS else ""
        wanted = memory_pb2.ListMemoriesRequest(
            page_size=_PAGE,
            page_token=asked.get("page"),
            filter=filter_of(asked),
            show_archived=asked.get("archived") == "on",
            show_deleted=asked.get("deleted") == "on",
            order_by=order,
        )
        found = await attempted(visit.api.memory.ListMemories(wanted))
        chosen = {name: asked.get(name) for name in (*_FILTERS, "order", "archived", "deleted")}
        more = "" if isinstance(found, PageError) else found.next_page_token
        return page(
            "memories",
            request,
            visit,
            status=found.status if isinstance(found, PageError) else 200,
            at="memories",
            title="Memories",
            found=found,
            chosen=chosen,
            is_narrowed=any(chosen[name] for name in _FILTERS),
            scopes=SCOPES,
            orders=ORDERS,
            first=visit.url("memories", **chosen) if asked.get("page") else "",
            more=visit.url("memories", **chosen, page=more) if more else "",
        )

    async def show(self, request: Request, visit: PageContext, asked: Parameters) -> Response:
        """Show one memory, also one that is archived or deleted; a part that fails says so in its place."""
        wanted = memory_pb2.GetMemoryRequest(memory_id=asked.get("id"), show_deleted=True)
        memory = (await visit.api.memory.GetMemory(wanted)).memory
        api, memory_id = visit.api, memory.memory_id
        scores, links, versions, changes, accesses = await asyncio.gather(
            attempted(api.memory.ExplainScore(scores_pb2.ExplainScoreRequest(memory_id=memory_id))),
            attempted(self._links(visit, memory_id)),
            attempted(
                api.memory.ListMemoryVersions(
                    memory_pb2.ListMemoryVersionsRequest(memory_id=memory_id, page_size=_VERSIONS)
                )
            ),
            attempted(
                api.history.ListChanges(
                    history_pb2.ListChangesRequest(
                        page_size=_VERSIONS, filter=history_pb2.ChangeFilter(entity_id=memory_id)
                    )
                )
            ),
            attempted(self._accesses(visit, memory_id)),
        )
        return page(
            "memory",
            request,
            visit,
            at="memories",
            title=memory.title or memory.key or "Memory",
            memory=memory,
            scores=scores,
            bars={} if isinstance(scores, PageError) else _bars(scores),
            links=links,
            versions=versions,
            changes=changes,
            accesses=accesses,
        )

    async def _accesses(self, visit: PageContext, memory_id: str) -> access_log_pb2.ListAccessLogResponse | None:
        if not visit.may("audit.read"):
            return None
        return await visit.api.history.ListAccessLog(
            access_log_pb2.ListAccessLogRequest(memory_id=memory_id, page_size=_ACCESSES)
        )

    async def _links(self, visit: PageContext, memory_id: str) -> dict[str, Any]:
        """Return the links of both directions, each with what the memory at its other end is called.

        The names come with the graph: to read these memories would count as using them.
        """
        asked = memory_pb2.ListLinksRequest(memory_id=memory_id, page_size=_LINKS)
        around = memory_pb2.GetSubgraphRequest(memory_ids=[memory_id], radius=1, max_nodes=500)
        answer, near = await asyncio.gather(visit.api.links.ListLinks(asked), visit.api.links.GetSubgraph(around))
        names = {node.memory_id: node.title for node in near.nodes}
        rows = []
        for link in answer.links:
            is_out = link.from_memory_id == memory_id
            end = link.to_memory_id if is_out else link.from_memory_id
            rows.append({"link": link, "is_out": is_out, "end": end, "name": names.get(end) or end})
        return {"rows": rows, "more": bool(answer.next_page_token)}


def filter_of(asked: Parameters) -> memory_pb2.MemoryFilter:
    """Return what an address narrows a list or a search to."""
    scope = asked.get("scope")
    return memory_pb2.MemoryFilter(
        types=[asked.get("type").strip()] if asked.get("type").strip() else [],
        tags_all=[tag for part in asked.get("tag").split(",") if (tag := part.strip())],
        scopes=[f"SCOPE_{scope.upper()}"] if scope in SCOPES else [],
        subject_id=asked.get("subject").strip(),
        agent_id=asked.get("agent").strip(),
        session_id=asked.get("session").strip(),
        source=asked.get("source").strip(),
        where=asked.get("where").strip(),
    )


def _bars(scores: scores_pb2.ExplainScoreResponse) -> dict[str, dict[str, Any]]:
    """Return the terms of both formulas with where their bars begin and how long they are, of 200 with 0 at 100.

    Terms that neither add nor take away anything are idle.
    """
    lists = {"confidence": scores.confidence_components, "importance": scores.importance_components}
    widest = max((abs(term.value) for terms in lists.values() for term in terms), default=0.0) or 1.0
    return {
        name: {
            "terms": [
                {"term": term, "at": 100 + 100 * min(0.0, term.value) / widest, "width": 100 * abs(term.value) / widest}
                for term in terms
                if abs(term.value) >= _SHOWN
            ],
            "idle": [term for term in terms if abs(term.value) < _SHOWN],
        }
        for name, terms in lists.items()
    }
