"""One method per RPC: parse, one call, reply. What each promises stands in session.proto."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from skein.session.v1 import archives_pb2
from skein.session.v1 import session_pb2 as pb
from skein.session.v1 import session_pb2_grpc as rpc
from skein_kit.calls.call import Context, caller
from skein_kit.database.tenant_purge import purge_tenant_rows
from skein_kit.errors import FieldInvalid
from skein_kit.idempotency.store import IdempotencyKey, IdempotencyStore
from skein_kit.ids import now
from skein_kit.rpc.row_times import ImportTimes, require_keep_times
from skein_kit.rpc.well_known_types import to_timestamp
from skein_session.agent_states.rpc import StateRpcs
from skein_session.maintenance import tenant_tables
from skein_session.messages.model import MessageBatch, MessageChange
from skein_session.sessions.model import Change, Draft

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from skein_kit.database.monthly_partitions import MonthlyPartitions
    from skein_kit.database.transactions import Database
    from skein_session.agent_states.store import StateStore
    from skein_session.cold_storage.store import ColdStorageStore
    from skein_session.parts import Parts
    from skein_session.sessions.idle_store import IdleStore
    from skein_session.sessions.participants import ParticipantStore

_DEFAULT_MONTHS_AHEAD = 3
_DEFAULT_IDLE = 500
_DEFAULT_STORED = 20
_DEFAULT_INHERITED = 10_000


class SessionServicer(StateRpcs, rpc.SessionServiceServicer):
    """SessionService."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(states=parts.states, erasing=parts.erasing, exporting=parts.exporting)
        self._settings = parts.settings
        self._sessions = parts.sessions
        self._messages = parts.messages
        self._transcripts = parts.transcripts
        self._searcher = parts.searcher
        self._summarizer = parts.summarizer
        self._embeddings = parts.embeddings
        self._following = parts.following
        self._archives = parts.archives
        self._pages = parts.pages

    async def CreateSession(self, request: pb.CreateSessionRequest, context: Context) -> pb.CreateSessionResponse:
        who, at = caller(context), now()
        times = None
        if request.keep_times:
            times = ImportTimes.of(request.session, who, at, keep_times=True)
        draft = Draft.of(request.session, at=at, agent_id=who.agent_id, times=times)
        return await self._sessions.create(who, IdempotencyKey.of(who, request), draft, at)

    async def GetSession(self, request: pb.GetSessionRequest, context: Context) -> pb.GetSessionResponse:
        session = await self._sessions.get(caller(context).tenant(), request.session_id)
        return pb.GetSessionResponse(session=session)

    async def ListSessions(self, request: pb.ListSessionsRequest, context: Context) -> pb.ListSessionsResponse:
        return await self._sessions.page(caller(context).tenant(), request, now())

    async def UpdateSession(self, request: pb.UpdateSessionRequest, context: Context) -> pb.UpdateSessionResponse:
        who = caller(context)
        return await self._sessions.update(who, IdempotencyKey.of(who, request), Change.of(request), now())

    async def EndSession(self, request: pb.EndSessionRequest, context: Context) -> pb.EndSessionResponse:
        who = caller(context)
        if request.keep_times:
            require_keep_times(who)
        return await self._sessions.end(who.tenant(), IdempotencyKey.of(who, request), request, now())

    async def ArchiveSession(self, request: pb.ArchiveSessionRequest, context: Context) -> pb.ArchiveSessionResponse:
        who = caller(context)
        if request.keep_times:
            require_keep_times(who)
        return await self._sessions.archive(who.tenant(), IdempotencyKey.of(who, request), request, now())

    async def UnarchiveSession(
        self, request: pb.UnarchiveSessionRequest, context: Context
    ) -> pb.UnarchiveSessionResponse:
        who = caller(context)
        return await self._sessions.unarchive(who.tenant(), IdempotencyKey.of(who, request), request, now())

    async def DeleteSession(self, request: pb.DeleteSessionRequest, context: Context) -> pb.DeleteSessionResponse:
        who = caller(context)
        return await self._sessions.delete(who.tenant(), IdempotencyKey.of(who, request), request.session_id, now())

    async def AppendMessages(self, request: pb.AppendMessagesRequest, context: Context) -> pb.AppendMessagesResponse:
        who = caller(context)
        if request.keep_times:
            require_keep_times(who)
        once = IdempotencyKey.of(who, request)
        batch = MessageBatch.of(
            request,
            at=now(),
            by=who.principal,
            max_content=self._settings.max_content_characters,
            agent_id=who.agent_id,
        )
        expected = self._embeddings.expected_pending(batch.documents, deferred=request.defer_embedding)
        appended = await self._messages.append(who, once, batch, pending=expected)
        response = appended.response
        if not appended.is_first:
            return response
        pending = await self._embeddings.make(
            batch.documents, remaining=context.time_remaining(), deferred=request.defer_embedding
        )
        if pending != expected:
            response.pending_embedding_count = pending
            if once.request_id:
                await self._messages.correct(who, once, response)
        return response

    async def GetMessage(self, request: pb.GetMessageRequest, context: Context) -> pb.GetMessageResponse:
        message = await self._messages.get(caller(context).tenant(), request.message_id)
        return pb.GetMessageResponse(message=message)

    async def ListMessages(self, request: pb.ListMessagesRequest, context: Context) -> pb.ListMessagesResponse:
        return await self._pages.messages(caller(context).tenant(), request)

    async def SearchMessages(self, request: pb.SearchMessagesRequest, context: Context) -> pb.SearchMessagesResponse:
        tenant_id, remaining = caller(context).tenant(), context.time_remaining()
        return await self._searcher.search(tenant_id, request, at=now(), remaining=remaining)

    async def ListAgentMessages(
        self, request: pb.ListAgentMessagesRequest, context: Context
    ) -> pb.ListAgentMessagesResponse:
        if not (request.agent_id or request.subject_id):
            raise FieldInvalid(violations=[("agent_id", "or subject_id says whose messages")])
        return await self._transcripts.of_agent(caller(context).tenant(), request, now())

    async def GetRecentWindow(self, request: pb.GetRecentWindowRequest, context: Context) -> pb.GetRecentWindowResponse:
        return await self._transcripts.window(caller(context).tenant(), request)

    async def SummarizeSession(
        self, request: pb.SummarizeSessionRequest, context: Context
    ) -> pb.SummarizeSessionResponse:
        who = caller(context)
        once, remaining = IdempotencyKey.of(who, request), context.time_remaining()
        return await self._summarizer.summarize(who, once, request, at=now(), remaining=remaining)

    async def UpdateMessage(self, request: pb.UpdateMessageRequest, context: Context) -> pb.UpdateMessageResponse:
        who = caller(context)
        correction = MessageChange.of(request, max_content=self._settings.max_content_characters)
        corrected = await self._messages.update(who, IdempotencyKey.of(who, request), correction, now())
        response = corrected.response
        if corrected.document is not None:
            pending = await self._embeddings.make([corrected.document], remaining=context.time_remaining())
            response.embedding_pending = pending > 0
        return response

    async def StreamMessages(
        self, request: pb.StreamMessagesRequest, context: Context
    ) -> AsyncGenerator[pb.StreamMessagesResponse]:
        after = request.after_sequence if request.HasField("after_sequence") else None
        async with aclosing(self._following.follow(caller(context).tenant(), request.session_id, after)) as said:
            async for answer in said:
                yield answer

    async def StoreSession(
        self, request: archives_pb2.StoreSessionRequest, context: Context
    ) -> archives_pb2.StoreSessionResponse:
        who = caller(context)
        return await self._archives.store(who.tenant(), IdempotencyKey.of(who, request), request.session_id, now())

    async def RestoreSession(
        self, request: archives_pb2.RestoreSessionRequest, context: Context
    ) -> archives_pb2.RestoreSessionResponse:
        who = caller(context)
        response, documents = await self._archives.restore(
            who.tenant(), IdempotencyKey.of(who, request), request.session_id, now()
        )
        await self._embeddings.make(documents, remaining=context.time_remaining())
        return response

    async def ListStoredSessions(
        self, request: archives_pb2.ListStoredSessionsRequest, context: Context
    ) -> archives_pb2.ListStoredSessionsResponse:
        return await self._pages.stored_sessions(caller(context).tenant(), request)

    async def DeleteMessage(self, request: pb.DeleteMessageRequest, context: Context) -> pb.DeleteMessageResponse:
        who = caller(context)
        return await self._messages.delete(who.tenant(), IdempotencyKey.of(who, request), request.message_id)


class SessionInternalServicer(rpc.UpkeepServiceServicer):
    """UpkeepService, for the worker."""

    def __init__(
        self,
        database: Database,
        requests: IdempotencyStore,
        months: MonthlyPartitions,
        idle: IdleStore,
        states: StateStore,
        archives: ColdStorageStore,
        inheritance: ParticipantStore,
    ) -> None:
        self._database = database
        self._inheritance = inheritance
        self._archives = archives
        self._states = states
        self._idle = idle
        self._requests = requests
        self._months = months

    async def EnsurePartitions(
        self, request: pb.EnsurePartitionsRequest, context: Context
    ) -> pb.EnsurePartitionsResponse:
        ahead = request.months_ahead or _DEFAULT_MONTHS_AHEAD
        made, horizon = await self._months.ensure_ahead(now(), ahead)
        return pb.EnsurePartitionsResponse(created_count=made, horizon_time=to_timestamp(horizon))

    async def DeleteExpired(self, request: pb.DeleteExpiredRequest, context: Context) -> pb.DeleteExpiredResponse:
        tenant_id = caller(context).tenant()
        async with self._database.tenant(tenant_id) as tx:
            count = await self._requests.delete_expired(tx, tenant_id, now())
        count += await self._states.delete_expired(tenant_id, now())
        return pb.DeleteExpiredResponse(deleted_count=count)

    async def EndIdleSessions(self, request: pb.EndIdleSessionsRequest, context: Context) -> pb.EndIdleSessionsResponse:
        most = request.limit or _DEFAULT_IDLE
        count = await self._idle.end_some(caller(context).tenant(), now(), count=most)
        return pb.EndIdleSessionsResponse(ended_count=count, more=count == most)

    async def InheritParticipants(
        self, request: pb.InheritParticipantsRequest, context: Context
    ) -> pb.InheritParticipantsResponse:
        changed, more = await self._inheritance.some(
            caller(context).tenant(), count=request.limit or _DEFAULT_INHERITED
        )
        return pb.InheritParticipantsResponse(changed_count=changed, more=more)

    async def StoreArchived(
        self, request: archives_pb2.StoreArchivedRequest, context: Context
    ) -> archives_pb2.StoreArchivedResponse:
        who = caller(context)
        stored, more = await self._archives.store_some(
            who.tenant(), at=now(), by=who.principal, count=request.limit or _DEFAULT_STORED
        )
        return archives_pb2.StoreArchivedResponse(stored_count=stored, more=more)

    async def PurgeTenant(self, request: pb.PurgeTenantRequest, context: Context) -> pb.PurgeTenantResponse:
        counts, more = await purge_tenant_rows(
            self._database, caller(context).tenant(), tenant_tables.TENANT_TABLES, request.limit
        )
        # Each time, for a call that was cut off may have written one meanwhile.
        await self._archives.delete_files(caller(context).tenant())
        return pb.PurgeTenantResponse(deleted_counts=counts, more=more)
