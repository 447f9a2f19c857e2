"""RPCs of sessions. A claim saves an empty response, so deletions save none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from google.protobuf.message import Message

from skein.session.v1 import session_pb2 as pb
from skein_kit.calls.call import Call, Context, spaces_of_move
from skein_kit.calls.call import caller as caller_of
from skein_kit.errors import ApprovalRequired
from skein_kit.ids import now
from skein_kit.rpc.pagination import fit_items, read_token, resolve_page_size, write_token
from skein_kit.rpc.row_times import ImportTimes, read_past_time, require_keep_times
from skein_session.idempotency import SessionIdempotencyStore
from skein_session.sessions import convert
from skein_session.sessions.listing import ListCursor
from skein_session.sessions.model import SessionState, Transition
from skein_session.sessions.store import SessionStore
from skein_session.summaries.rpc import SummaryHandlers

if TYPE_CHECKING:
    from skein_kit.approval import Handler


class SessionHandlers:
    """Creates, reads, changes and deletes sessions."""

    def __init__(self, store: SessionStore, idempotency: SessionIdempotencyStore) -> None:
        self._store = store
        self._idempotency = idempotency

    async def CreateSession(self, request: pb.CreateSessionRequest, context: Context) -> pb.CreateSessionResponse:
        caller, at = caller_of(context), now()
        times = None
        if request.keep_times:
            times = ImportTimes.read(request.session, caller, at, keep_times=True)
        draft = convert.draft(request.session, at=at, agent_id=caller.agent_id, times=times)
        async with self._idempotency.begin(caller, request) as write:
            row = await self._store.create_session(
                write.tx, caller.require_tenant(), draft, at=at, created_by=caller.principal
            )
            return await write.save(pb.CreateSessionResponse(session=convert.session(row)))

    async def GetSession(self, request: pb.GetSessionRequest, context: Context) -> pb.GetSessionResponse:
        row = await self._store.get_session(caller_of(context).require_tenant(), request.session_id)
        return pb.GetSessionResponse(session=convert.session(row))

    async def ListSessions(self, request: pb.ListSessionsRequest, context: Context) -> pb.ListSessionsResponse:
        tenant_id, at = caller_of(context).require_tenant(), now()
        cursor = ListCursor.of(read_token(request.page_token, tenant_id, request))
        size = resolve_page_size(request.page_size)
        scan = await self._store.list_sessions(tenant_id, convert.session_filter(request), cursor, limit=size + 1)
        sessions = fit_items(convert.session(row) for row in scan.rows[:size])
        response = pb.ListSessionsResponse(sessions=sessions)
        next_cursor = scan.next_cursor(cursor, page_length=len(sessions), at=at)
        if next_cursor is not None:
            response.next_page_token = write_token(next_cursor.to_page_token(), tenant_id, request)
        return response

    async def UpdateSession(self, request: pb.UpdateSessionRequest, context: Context) -> pb.UpdateSessionResponse:
        caller = caller_of(context)
        change = convert.change(request)
        async with self._idempotency.begin(caller, request) as write:
            row = await self._store.update_session(write.tx, caller.require_tenant(), change, now())
            return await write.save(pb.UpdateSessionResponse(session=convert.session(row)))

    async def EndSession(self, request: pb.EndSessionRequest, context: Context) -> pb.EndSessionResponse:
        caller, end_time = caller_of(context), now()
        if request.keep_times:
            require_keep_times(caller)
            end_time = read_past_time(request, "end_time", end_time) or end_time
        transition = Transition(
            rule=SessionState.end,
            at=end_time,
            end_time=end_time,
            end_reason=request.reason or None,
            summary=request.summary or None,
        )
        async with self._idempotency.begin(caller, request) as write:
            row = await self._store.change_state(write.tx, caller.require_tenant(), request.session_id, transition)
            return await write.save(pb.EndSessionResponse(session=convert.session(row)))

    async def HideSession(self, request: pb.HideSessionRequest, context: Context) -> pb.HideSessionResponse:
        caller, hide_time = caller_of(context), now()
        if request.keep_times:
            require_keep_times(caller)
            hide_time = read_past_time(request, "hide_time", hide_time) or hide_time
        transition = Transition(rule=SessionState.hide, at=hide_time, hide_time=hide_time)
        async with self._idempotency.begin(caller, request) as write:
            row = await self._store.change_state(write.tx, caller.require_tenant(), request.session_id, transition)
            return await write.save(pb.HideSessionResponse(session=convert.session(row)))

    async def UnhideSession(self, request: pb.UnhideSessionRequest, context: Context) -> pb.UnhideSessionResponse:
        caller = caller_of(context)
        transition = Transition(rule=SessionState.unhide, at=now())
        async with self._idempotency.begin(caller, request) as write:
            row = await self._store.change_state(write.tx, caller.require_tenant(), request.session_id, transition)
            return await write.save(pb.UnhideSessionResponse(session=convert.session(row)))

    async def DeleteSession(self, request: pb.DeleteSessionRequest, context: Context) -> pb.DeleteSessionResponse:
        caller = caller_of(context)
        async with self._idempotency.begin(caller, request) as write:
            await self._store.delete_session(write.tx, caller.require_tenant(), request.session_id, now())
        return pb.DeleteSessionResponse()

    async def MoveSession(self, request: pb.MoveSessionRequest, context: Context) -> pb.MoveSessionResponse:
        caller = caller_of(context)
        source_id, target_id = spaces_of_move(caller, request.space_id)
        async with self._idempotency.begin(caller, request) as write:
            await self._store.move_session(write.tx, caller.require_tenant(), request.session_id, source_id, target_id)
        return pb.MoveSessionResponse()


def without_texts(sessions: SessionHandlers, summaries: SummaryHandlers) -> Mapping[str, Handler]:
    """Return the methods that set texts of sessions, for sources whose texts wait for approval.

    They raise ApprovalRequired for a text: lists of sessions show titles, summaries and reasons to every reader, and
    nothing of a session waits for approval.
    """
    return {
        "CreateSession": _guarded(sessions.CreateSession, _names_session),
        "UpdateSession": _guarded(sessions.UpdateSession, _names_session),
        "EndSession": _guarded(sessions.EndSession, lambda request: bool(request.summary or request.reason)),
        "SummarizeSession": _guarded(summaries.SummarizeSession, lambda request: request.store),
    }


def _names_session(request: Any) -> bool:
    return bool(request.session.title or request.session.summary or request.session.end_reason)


def _guarded(method: Handler, has_text: Callable[[Any], bool]) -> Handler:
    async def call(request: Message, context: Call) -> Any:
        if has_text(request):
            raise ApprovalRequired
        return await method(request, context)

    return call
