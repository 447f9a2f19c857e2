"""The change log: what happened, newest first, and what happens now, as server-sent events."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import aclosing
from typing import TYPE_CHECKING

import structlog
from starlette.responses import Response
from starlette.routing import Route

from skein.memory.v1 import history_pb2, memory_pb2
from skein_gateway.console import formats
from skein_gateway.console.pages import HEADERS, page
from skein_gateway.console.problems import PageError, attempted, refusal_of
from skein_gateway.oauth.forms import Parameters
from skein_gateway.oauth.request_handler import OAuthError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from skein_gateway.console.page_handler import PageHandler
    from skein_gateway.console.visitors import PageContext
    from skein_kit.calls.call import Call

_PAGE = 50
# What changes, as the filter offers it, with the page that shows it.
KINDS = {"memory": "memory", "link": "", "block": "", "alias": "", "conflict": "conflicts", "snapshot": "", "watch": ""}
# After so long a browser that was cut off comes back.
_RETRY_MS = 2000
# Where the payload of a link's change says what it joins.
_ENDS = ("from_memory_id", "to_memory_id")
_ID = re.compile(r"[0-9a-f-]{36}")
# As many ids as a condition has room for.
_MAX_NAMES = 90

log = structlog.get_logger("gateway")


class Changes:
    """The handlers."""

    def __init__(self, desk: PageHandler) -> None:
        """Watch in the visitor's name."""
        self._desk = desk

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            *self._desk.routes("changes", self.show),
            Route("/console/{tenant_id}/changes/live", self.live),
        ]

    async def show(self, request: Request, visit: PageContext, asked: Parameters) -> Response:
        """List what happened."""
        wanted = history_pb2.ListChangesRequest(
            page_size=_PAGE, page_token=asked.get("page"), filter=_filter(asked), newest_first=True
        )
        found = await attempted(visit.api.history.ListChanges(wanted))
        names = {} if isinstance(found, PageError) else await _names(visit, found.changes)
        chosen = {"kind": _kind(asked), "id": asked.get("id").strip()}
        is_first = not asked.get("page")
        more = "" if isinstance(found, PageError) else found.next_page_token
        return page(
            "changes",
            request,
            visit,
            status=found.status if isinstance(found, PageError) else 200,
            at="changes",
            title="Changes",
            found=found,
            names=names,
            ends_of=ends_of,
            chosen=chosen,
            kinds=KINDS,
            live=""
            if isinstance(found, PageError) or not is_first
            else visit.url("changes/live", **chosen, after=found.position),
            first="" if is_first else visit.url("changes", **chosen),
            more=visit.url("changes", **chosen, page=more) if more else "",
        )

    async def live(self, request: Request) -> Response:
        """Send what happens from a position on, for as long as the browser listens."""

        async def work(call: Call) -> Response:
            visit = await self._desk.visit(call, request)
            if visit is None or isinstance(visit, PageError):
                # 204 tells a browser not to come back.
                return Response(status_code=204, headers=dict(HEADERS))
            asked = Parameters.of_bytes(request.scope["query_string"])
            position = request.headers.get("last-event-id") or asked.get("after")
            wanted = history_pb2.WatchChangesRequest(position=position, filter=_filter(asked))
            gone = self._desk.keys.gone(visit.visitor.ticket)
            if visit.is_key and gone is None:
                # The ticket was given up while it was looked at.
                return Response(status_code=204, headers=dict(HEADERS))
            return EventStream(_events(visit, wanted), gone)

        def refuse(problem: OAuthError) -> Response:
            return Response(status_code=problem.status, headers=dict(HEADERS))

        return await self._desk.entry.answered(request, work, refuse)


class EventStream(Response):
    """An answer that goes on until there is nothing more, the browser hangs up, or its ticket is given up."""

    def __init__(self, events: AsyncGenerator[bytes], gone: asyncio.Event | None) -> None:
        """Send `events`, and close them; at the latest when `gone` is set."""
        super().__init__(media_type="text/event-stream", headers={**HEADERS, "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._events = events
        self._gone = gone or asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until one of the three ends."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})

        async def pump() -> None:
            async with aclosing(self._events) as events:
                async for event in events:
                    await send({"type": "http.response.body", "body": event, "more_body": True})

        async def hangs_up() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        tasks = [asyncio.ensure_future(work) for work in (pump(), hangs_up(), self._gone.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            failed, *_ = await asyncio.gather(*tasks, return_exceptions=True)
        # Who hung up while something was sent is no fault.
        if isinstance(failed, Exception) and not isinstance(failed, OSError):
            log.error("fault", method="console/changes/live", exc_info=failed)
        else:
            # To who hung up this is not sent.
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _events(visit: PageContext, wanted: history_pb2.WatchChangesRequest) -> AsyncGenerator[bytes]:
    """Yield changes as events that the browser resumes from; what ends them is told once, in words."""
    yield f"retry: {_RETRY_MS}\n\n".encode()
    try:
        async with aclosing(visit.api.history.WatchChanges(wanted)) as answers:  # type: ignore[type-var]
            async for answer in answers:
                if answer.HasField("change"):
                    body = json.dumps(_told(visit, answer.change))
                    yield f"id: {answer.position}\nevent: change\ndata: {body}\n\n".encode()
                else:
                    yield f"id: {answer.position}\nevent: quiet\ndata: {{}}\n\n".encode()
    except Exception as error:
        trouble = refusal_of(error)
        if trouble is None:
            raise
        yield f"event: ended\ndata: {json.dumps({'text': trouble.text})}\n\n".encode()


def _told(visit: PageContext, change: history_pb2.Change) -> dict[str, str]:
    return {
        "stamp": formats.stamp(change.create_time),
        "exact": formats.exact(change.create_time),
        "event": change.event_type,
        "summary": change.summary,
        "entity": f"{change.entity_type} {change.entity_id}",
        "url": entity_url(visit, change),
        "principal": change.principal,
    }


def entity_url(visit: PageContext, change: history_pb2.Change) -> str:
    """Return the page of what changed; empty when the console has none."""
    if change.entity_type == "memory":
        return visit.url("memory", id=change.entity_id)
    return visit.url(KINDS[change.entity_type]) if KINDS.get(change.entity_type) else ""


def ends_of(change: history_pb2.Change) -> list[str]:
    """Return the memories that a change is about: one, or the two that a link joins."""
    if change.entity_type == "memory":
        return [change.entity_id]
    ends = [change.payload.fields[end].string_value for end in _ENDS if end in change.payload.fields]
    return ends if len(ends) == len(_ENDS) else []


async def _names(visit: PageContext, changes: Iterable[history_pb2.Change]) -> dict[str, str]:
    """Return what the memories of changes are called, those that there still are; a list does not count as using."""
    ids = dict.fromkeys(memory_id for change in changes for memory_id in ends_of(change) if _ID.fullmatch(memory_id))
    wanted = list(ids)[:_MAX_NAMES]
    if not wanted:
        return {}
    asked = memory_pb2.ListMemoriesRequest(
        page_size=len(wanted),
        filter=memory_pb2.MemoryFilter(where=f"memory_id IN ({', '.join(map(json.dumps, wanted))})"),
        show_archived=True,
        show_deleted=True,
    )
    found = await attempted(visit.api.memory.ListMemories(asked))
    return {} if isinstance(found, PageError) else {one.memory_id: formats.name_of(one, 60) for one in found.memories}


def _kind(asked: Parameters) -> str:
    return asked.get("kind") if asked.get("kind") in KINDS else ""


def _filter(asked: Parameters) -> history_pb2.ChangeFilter:
    return history_pb2.ChangeFilter(entity_type=_kind(asked), entity_id=asked.get("id").strip())
