"""RPCs of sessions: their fields, states, lists and deletion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.session.v1 import session_pb2 as pb
from skein_kit.calls.call import Context, caller
from skein_kit.idempotency.key import IdempotencyKey
from skein_kit.ids import now
from skein_kit.rpc.pagination import fit_items, read_token, resolve_page_size, write_token
from skein_kit.rpc.row_times import ImportTimes, read_past_time, require_keep_times
from skein_session.sessions import convert
from skein_session.sessions.lifecycle import Transition
from skein_session.sessions.listing import ListCursor, SessionFilter
from skein_session.sessions.model import SessionChange, SessionDraft

if TYPE_CHECKING:
    from skein_session.sessions.store import SessionStore


class SessionRpc:
    """Creates, reads, changes and deletes sessions."""

    def __init__(self, sessions: SessionStore) -> None:
        self._sessions = sessions

    async def CreateSession(self, request: pb.CreateSessionRequest, context: Context) -> pb.CreateSessionResponse:
        identity, at = caller(context), now()
        times = None
        if request.keep_times:
            times = ImportTimes.of(request.session, identity, at, keep_times=True)
        draft = SessionDraft.of(request.session, at=at, agent_id=identity.agent_id, times=times)
        return await self._sessions.create_session(identity, IdempotencyKey.of(identity, request), draft, at)

    async def GetSession(self, request: pb.GetSessionRequest, context: Context) -> pb.GetSessionResponse:
        row = await self._sessions.get_session(caller(context).tenant(), request.session_id)
        return pb.GetSessionResponse(session=convert.session(row))

    async def ListSessions(self, request: pb.ListSessionsRequest, context: Context) -> pb.ListSessionsResponse:
        tenant_id, at = caller(context).tenant(), now()
        cursor = ListCursor.of(read_token(request.page_token, tenant_id, request))
        size = resolve_page_size(request.page_size)
        scan = await self._sessions.list_sessions(tenant_id, SessionFilter.of(request), cursor, limit=size + 1)
        sessions = fit_items(convert.session(row) for row in scan.rows[:size])
        response = pb.ListSessionsResponse(sessions=sessions)
        next_cursor = scan.next_cursor(cursor, page_length=len(sessions), at=at)
        if next_cursor is not None:
            response.next_page_token = write_token(next_cursor.to_page_token(), tenant_id, request)
        return response

    async def UpdateSession(self, request: pb.UpdateSessionRequest, context: Context) -> pb.UpdateSessionResponse:
        identity = caller(context)
        change = SessionChange.of(request)
        return await self._sessions.update_session(
            identity.tenant(), IdempotencyKey.of(identity, request), change, now()
        )

    async def EndSession(self, request: pb.EndSessionRequest, context: Context) -> pb.EndSessionResponse:
        identity, at = caller(context), now()
        end_time = at
        if request.keep_times:
            require_keep_times(identity)
            end_time = read_past_time(request, "end_time", at) or at
        transition = Transition(
            at=end_time, end_time=end_time, end_reason=request.reason or None, summary=request.summary or None
        )
        return await self._sessions.end_session(
            identity.tenant(), IdempotencyKey.of(identity, request), request.session_id, transition
        )

    async def ArchiveSession(self, request: pb.ArchiveSessionRequest, context: Context) -> pb.ArchiveSessionResponse:
        identity, at = caller(context), now()
        archive_time = at
        if request.keep_times:
            require_keep_times(identity)
            archive_time = read_past_time(request, "archive_time", at) or at
        transition = Transition(at=archive_time, archive_time=archive_time)
        return await self._sessions.hide_session(
            identity.tenant(), IdempotencyKey.of(identity, request), request.session_id, transition
        )

    async def UnarchiveSession(
        self, request: pb.UnarchiveSessionRequest, context: Context
    ) -> pb.UnarchiveSessionResponse:
        identity = caller(context)
        return await self._sessions.unhide_session(
            identity.tenant(), IdempotencyKey.of(identity, request), request.session_id, Transition(at=now())
        )

    async def DeleteSession(self, request: pb.DeleteSessionRequest, context: Context) -> pb.DeleteSessionResponse:
        identity = caller(context)
        return await self._sessions.delete_session(
            identity.tenant(), IdempotencyKey.of(identity, request), request.session_id, now()
        )
