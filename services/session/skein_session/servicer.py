"""One method per RPC: parse, one call, reply. What each promises stands in session.proto."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.session.v1 import session_pb2 as pb
from skein.session.v1 import session_pb2_grpc as rpc
from skein_kit.call import Context, caller
from skein_kit.ids import now
from skein_kit.purging import purge
from skein_kit.requests import Once, Requests
from skein_kit.wire import time
from skein_session import purging
from skein_session.messages import Batch
from skein_session.sessions import Change, Draft

if TYPE_CHECKING:
    from skein_kit.database import Database
    from skein_kit.embeddings import Embeddings
    from skein_kit.months import Months
    from skein_session.settings import SessionSettings
    from skein_session.store.messages import MessageStore
    from skein_session.store.search import SearchStore
    from skein_session.store.sessions import SessionStore

_DEFAULT_MONTHS_AHEAD = 3


class SessionServicer(rpc.SessionServiceServicer):
    """SessionService."""

    def __init__(
        self,
        *,
        settings: SessionSettings,
        sessions: SessionStore,
        messages: MessageStore,
        search: SearchStore,
        embeddings: Embeddings,
    ) -> None:
        self._settings = settings
        self._sessions = sessions
        self._messages = messages
        self._search = search
        self._embeddings = embeddings

    async def CreateSession(self, request: pb.CreateSessionRequest, context: Context) -> pb.CreateSessionResponse:
        who, at = caller(context), now()
        draft = Draft.of(request.session, at=at, agent_id=who.agent_id)
        return await self._sessions.create(who, Once.of(who, request), draft, at)

    async def GetSession(self, request: pb.GetSessionRequest, context: Context) -> pb.GetSessionResponse:
        session = await self._sessions.get(caller(context).tenant(), request.session_id)
        return pb.GetSessionResponse(session=session)

    async def ListSessions(self, request: pb.ListSessionsRequest, context: Context) -> pb.ListSessionsResponse:
        return await self._sessions.page(caller(context).tenant(), request)

    async def UpdateSession(self, request: pb.UpdateSessionRequest, context: Context) -> pb.UpdateSessionResponse:
        who = caller(context)
        return await self._sessions.update(who, Once.of(who, request), Change.of(request), now())

    async def EndSession(self, request: pb.EndSessionRequest, context: Context) -> pb.EndSessionResponse:
        who = caller(context)
        return await self._sessions.end(who.tenant(), Once.of(who, request), request, now())

    async def DeleteSession(self, request: pb.DeleteSessionRequest, context: Context) -> pb.DeleteSessionResponse:
        who = caller(context)
        return await self._sessions.delete(who.tenant(), Once.of(who, request), request.session_id, now())

    async def AppendMessages(self, request: pb.AppendMessagesRequest, context: Context) -> pb.AppendMessagesResponse:
        who = caller(context)
        once = Once.of(who, request)
        batch = Batch.of(
            request,
            at=now(),
            by=who.principal,
            max_content=self._settings.max_content_characters,
            agent_id=who.agent_id,
        )
        expected = self._embeddings.expected_pending(batch.documents)
        appended = await self._messages.append(who, once, batch, pending=expected)
        response = appended.response
        if not appended.is_first:
            return response
        pending = await self._embeddings.make(batch.documents, remaining=context.time_remaining())
        if pending != expected:
            response.pending_embedding_count = pending
            if once.request_id:
                await self._messages.correct(who, once, response)
        return response

    async def GetMessage(self, request: pb.GetMessageRequest, context: Context) -> pb.GetMessageResponse:
        message = await self._messages.get(caller(context).tenant(), request.message_id)
        return pb.GetMessageResponse(message=message)

    async def ListMessages(self, request: pb.ListMessagesRequest, context: Context) -> pb.ListMessagesResponse:
        return await self._messages.page(caller(context).tenant(), request)

    async def SearchMessages(self, request: pb.SearchMessagesRequest, context: Context) -> pb.SearchMessagesResponse:
        return await self._search.search(caller(context).tenant(), request)

    async def DeleteMessage(self, request: pb.DeleteMessageRequest, context: Context) -> pb.DeleteMessageResponse:
        who = caller(context)
        return await self._messages.delete(who.tenant(), Once.of(who, request), request.message_id)


class UpkeepServicer(rpc.UpkeepServiceServicer):
    """UpkeepService, for the worker."""

    def __init__(self, database: Database, requests: Requests, months: Months) -> None:
        self._database = database
        self._requests = requests
        self._months = months

    async def EnsurePartitions(
        self, request: pb.EnsurePartitionsRequest, context: Context
    ) -> pb.EnsurePartitionsResponse:
        ahead = request.months_ahead or _DEFAULT_MONTHS_AHEAD
        made, horizon = await self._months.ensure_ahead(now(), ahead)
        return pb.EnsurePartitionsResponse(created_count=made, horizon_time=time(horizon))

    async def DeleteExpired(self, request: pb.DeleteExpiredRequest, context: Context) -> pb.DeleteExpiredResponse:
        tenant_id = caller(context).tenant()
        async with self._database.tenant(tenant_id) as tx:
            count = await self._requests.delete_expired(tx, tenant_id, now())
        return pb.DeleteExpiredResponse(deleted_count=count)

    async def PurgeTenant(self, request: pb.PurgeTenantRequest, context: Context) -> pb.PurgeTenantResponse:
        counts, more = await purge(self._database, caller(context).tenant(), purging.TABLES, request.limit)
        return pb.PurgeTenantResponse(deleted_counts=counts, more=more)
