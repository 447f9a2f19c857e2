"""The changes page: the change log, newest first, and new changes as server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from skein.memory.v1 import history_pb2
from skein_gateway.console import formats
from skein_gateway.console.browser_sessions import PageContext
from skein_gateway.console.item_names import memory_names
from skein_gateway.console.page_handler import PageHandler
from skein_gateway.console.pages import HEADERS, http_status, page, page_links
from skein_gateway.console.problems import PageError, or_page_error, page_error_of
from skein_gateway.oauth.forms import Parameters
from skein_gateway.oauth.request_handler import OAuthError
from skein_kit.calls.call import Call
from skein_kit.text.invisible import show_invisible

_PAGE = 50
# Entity types of the filter, each with the page that shows it.
KINDS = {
    "memory": "memory",
    "link": "",
    "block": "blocks",
    "alias": "",
    "conflict": "conflicts",
    "snapshot": "",
    "webhook": "webhooks",
    "page": "pages",
}
# Milliseconds until a disconnected browser reconnects.
_RETRY_MS = 2000
# An import makes more changes than there are calls for their names: one change in this time has its name.
_NAMES_SECONDS = 0.2
# Payload fields with the two ends of a link.
_LINK_END_FIELDS = ("from_memory_id", "to_memory_id")

log = structlog.get_logger("gateway")


class ChangesPage:
    """The handlers."""

    def __init__(self, handler: PageHandler) -> None:
        """Show pages through `handler`."""
        self._handler = handler

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            *self._handler.routes("changes", self.show),
            Route("/console/{tenant_id}/changes/live", self.live),
        ]

    async def show(self, request: Request, context: PageContext, parameters: Parameters) -> Response:
        """List changes."""
        list_request = history_pb2.ListChangesRequest(
            page_size=_PAGE, page_token=parameters.get("page"), filter=_filter(parameters), newest_first=True
        )
        response = await or_page_error(context.api.history.ListChanges(list_request))
        changes = [] if isinstance(response, PageError) else response.changes
        names = await memory_names(context, [memory_id for change in changes for memory_id in memory_ids_of(change)])
        filters = {"kind": _kind(parameters), "id": parameters.get("id").strip()}
        is_first = not parameters.get("page")

        return page(
            "changes",
            request,
            context,
            status=http_status(response),
            at="changes",
            title="Changes",
            response=response,
            names=names,
            memory_ids_of=memory_ids_of,
            entity_url=entity_url,
            filters=filters,
            kinds=KINDS,
            live=""
            if isinstance(response, PageError) or not is_first
            else context.url("changes/live", **filters, after=response.position),
            **page_links(context, "changes", response, parameters, **filters),
        )

    async def live(self, request: Request) -> Response:
        """Stream changes after a position until the browser disconnects."""

        async def work(call: Call) -> Response:
            context = await self._handler.context(call, request)
            if context is None or isinstance(context, PageError):
                # 204 stops the browser's reconnects.
                return Response(status_code=204, headers=dict(HEADERS))
            parameters = Parameters.of_bytes(request.scope["query_string"])
            position = request.headers.get("last-event-id") or parameters.get("after")
            list_request = history_pb2.StreamChangesRequest(position=position, filter=_filter(parameters))
            revoked = self._handler.key_sessions.revocation(context.browser.key_session_id)
            if context.is_key and revoked is None:
                # The key session was revoked in the meantime.
                return Response(status_code=204, headers=dict(HEADERS))
            return EventStream(_events(context, list_request), revoked)

        def refuse(problem: OAuthError) -> Response:
            return Response(status_code=problem.status, headers=dict(HEADERS))

        return await self._handler.request_handler.handle(request, work, refuse)


class EventStream(Response):
    """A response that lasts until the events end, the browser disconnects, or its key session is revoked."""

    def __init__(self, events: AsyncGenerator[bytes], revoked: asyncio.Event | None) -> None:
        """Send `events` and close them, at the latest when `revoked` is set."""
        super().__init__(media_type="text/event-stream", headers={**HEADERS, "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._events = events
        self._revoked = revoked or asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until one of the three ends the response."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})

        async def pump() -> None:
            async with aclosing(self._events) as events:
                async for event in events:
                    await send({"type": "http.response.body", "body": event, "more_body": True})

        async def watch_disconnect() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        tasks = [asyncio.ensure_future(work) for work in (pump(), watch_disconnect(), self._revoked.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            error, *_ = await asyncio.gather(*tasks, return_exceptions=True)
        # A disconnect while sending is no error.
        if isinstance(error, Exception) and not isinstance(error, OSError):
            log.error("internal_error", method="console/changes/live", exc_info=error)
        else:
            # The server drops this message if the browser is gone.
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _events(context: PageContext, list_request: history_pb2.StreamChangesRequest) -> AsyncGenerator[bytes]:
    """Yield changes as resumable server-sent events. An error becomes one last event with its message."""
    yield f"retry: {_RETRY_MS}\n\n".encode()
    loop, next_names_time = asyncio.get_running_loop(), 0.0
    try:
        async with aclosing(context.api.history.StreamChanges(list_request)) as responses:  # type: ignore[type-var]
            async for response in responses:
                if response.HasField("change"):
                    names = {}
                    if loop.time() >= next_names_time:
                        next_names_time = loop.time() + _NAMES_SECONDS
                        names = await memory_names(context, memory_ids_of(response.change))
                    body = json.dumps(_event_data(context, response.change, names))
                    yield f"id: {response.position}\nevent: change\ndata: {body}\n\n".encode()
                else:
                    yield f"id: {response.position}\nevent: quiet\ndata: {{}}\n\n".encode()
    except Exception as error:  # noqa: BLE001 - page_error_of raises unexpected errors again.
        yield f"event: ended\ndata: {json.dumps({'text': page_error_of(error).text})}\n\n".encode()


def _event_data(context: PageContext, change: history_pb2.Change, names: Mapping[str, str]) -> dict[str, str]:
    # Of many changes at once, some are shown without a name.
    name = " → ".join(names[memory_id] for memory_id in memory_ids_of(change) if memory_id in names)
    return {
        "stamp": formats.stamp(change.create_time),
        "exact": formats.exact(change.create_time),
        "event": change.event_type,
        "summary": change.summary,
        "entity": show_invisible(name) or change.entity_type,
        "url": entity_url(context, change),
        "principal": formats.who(change.principal),
    }


def entity_url(context: PageContext, change: history_pb2.Change) -> str:
    """Return the URL of the changed entity's page; empty without one."""
    if change.entity_type in {"memory", "block", "webhook"}:
        return context.url(change.entity_type, id=change.entity_id)
    return context.url(KINDS[change.entity_type]) if KINDS.get(change.entity_type) else ""


def memory_ids_of(change: history_pb2.Change) -> list[str]:
    """Return the ids of the changed memory, or of both ends of a changed link."""
    if change.entity_type == "memory":
        return [change.entity_id]
    ids = [change.payload.fields[field].string_value for field in _LINK_END_FIELDS if field in change.payload.fields]
    return ids if len(ids) == len(_LINK_END_FIELDS) else []


def _kind(parameters: Parameters) -> str:
    return parameters.get("kind") if parameters.get("kind") in KINDS else ""


def _filter(parameters: Parameters) -> history_pb2.ChangeFilter:
    return history_pb2.ChangeFilter(entity_type=_kind(parameters), entity_id=parameters.get("id").strip())
