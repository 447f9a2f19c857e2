"""Handlers of the RPCs for the event log."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from uuid import UUID

from skein.memory.v1 import history_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.errors import PageTokenInvalid
from skein_kit.rpc.pagination import fit_items, read_token, resolve_page_size, write_token
from skein_kit.rpc.well_known_types import to_message
from skein_memory.errors import PositionInvalid
from skein_memory.events.model import END, START, Change, EventFilter, Position
from skein_memory.events.store import EventStore
from skein_memory.events.stream import EventStream


class EventHandlers:
    """Lists and streams of events."""

    def __init__(self, store: EventStore, *, stream: EventStream) -> None:
        self._store = store
        self._stream = stream

    async def ListChanges(self, request: pb.ListChangesRequest, context: Context) -> pb.ListChangesResponse:
        tenant_id = caller_of(context).require_tenant()
        start, count = _start_position(request, tenant_id), resolve_page_size(request.page_size)
        event_filter = _filter(request.filter)
        # Changes after this position are newer than the first page.
        end = await self._store.horizon(tenant_id) if request.newest_first else None
        batch = await self._store.list_changes(tenant_id, start, event_filter, count, newest_first=request.newest_first)
        page = fit_items(_change(change) for change in batch.changes)
        is_truncated = len(page) < len(batch.changes)
        position = page[-1].position if is_truncated else str(batch.position)
        has_more = is_truncated or not batch.is_all
        return pb.ListChangesResponse(
            changes=page,
            next_page_token=write_token([position], tenant_id, request) if has_more else "",
            position=position if end is None else str(end),
        )

    async def StreamChanges(
        self, request: pb.StreamChangesRequest, context: Context
    ) -> AsyncGenerator[pb.StreamChangesResponse]:
        position = Position.of(request.position) if request.position else None
        stream = self._stream.watch(caller_of(context).require_tenant(), position, _filter(request.filter))
        async with aclosing(stream):
            async for change, position in stream:
                message = None if change is None else _change(change)
                yield pb.StreamChangesResponse(change=message, position=str(position))


def _filter(message: pb.ChangeFilter) -> EventFilter:
    return EventFilter.of(message.event_types, message.entity_type, message.entity_id)


def _start_position(request: pb.ListChangesRequest, tenant_id: UUID) -> Position:
    position = read_token(request.page_token, tenant_id, request)
    if position is None:
        if request.position:
            return Position.of(request.position)
        return END if request.newest_first else START
    try:
        return Position.of(*position)
    except (PositionInvalid, TypeError):
        raise PageTokenInvalid from None


def _change(value: Change) -> pb.Change:
    return to_message(pb.Change, value, change_id=str(value.position.change_id), position=str(value.position))
