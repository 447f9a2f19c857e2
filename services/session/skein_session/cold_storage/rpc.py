"""RPCs of cold storage: archive, unarchive and list sessions."""

from __future__ import annotations

from asyncpg import Record

from skein.session.v1 import archives_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.idempotency.store import IdempotencyKey
from skein_kit.ids import now
from skein_kit.rpc.pagination import read_token, resolve_page_size, write_token
from skein_kit.rpc.well_known_types import to_message, to_timestamp
from skein_kit.search_text.embedding_requests import EmbeddingClient
from skein_session.cold_storage.store import ColdStorageStore
from skein_session.idempotency import SessionIdempotencyStore
from skein_session.page_tokens import time_and_id_from_page_token


class ColdStorageHandlers:
    """Archives, unarchives and lists sessions."""

    def __init__(
        self, archives: ColdStorageStore, idempotency: SessionIdempotencyStore, embeddings: EmbeddingClient
    ) -> None:
        self._archives = archives
        self._idempotency = idempotency
        self._embeddings = embeddings

    async def ArchiveSession(self, request: pb.ArchiveSessionRequest, context: Context) -> pb.ArchiveSessionResponse:
        caller, at = caller_of(context), now()
        tenant_id, key = caller.require_tenant(), IdempotencyKey.of(caller, request)
        saved_response = await self._idempotency.saved_response(tenant_id, key)
        if saved_response is not None:
            return pb.ArchiveSessionResponse.FromString(saved_response)
        async with (
            self._archives.pending_file(tenant_id, request.session_id, at) as file,
            self._idempotency.begin_with_key(tenant_id, key) as write,
        ):
            archive_time = await self._archives.archive_session(
                write.tx, tenant_id, request.session_id, file, at=at, archived_by=caller.principal
            )
            return await write.save(pb.ArchiveSessionResponse(archive_time=to_timestamp(archive_time)))

    async def UnarchiveSession(
        self, request: pb.UnarchiveSessionRequest, context: Context
    ) -> pb.UnarchiveSessionResponse:
        caller, at = caller_of(context), now()
        tenant_id, key = caller.require_tenant(), IdempotencyKey.of(caller, request)
        saved_response = await self._idempotency.saved_response(tenant_id, key)
        if saved_response is not None:
            return pb.UnarchiveSessionResponse.FromString(saved_response)
        await self._archives.require_session(tenant_id, request.session_id)
        archived_session = await self._archives.read_to_unarchive(tenant_id, request.session_id)
        async with self._idempotency.begin_with_key(tenant_id, key) as write:
            documents = await self._archives.unarchive_session(
                write.tx, tenant_id, request.session_id, archived_session
            )
            response = await write.save(pb.UnarchiveSessionResponse(pending_embedding_count=len(documents)))
        await self._archives.purge_due_files(tenant_id, at)
        await self._embeddings.request_embeddings(documents, remaining=context.time_remaining())
        return response

    async def ListArchivedSessions(
        self, request: pb.ListArchivedSessionsRequest, context: Context
    ) -> pb.ListArchivedSessionsResponse:
        tenant_id = caller_of(context).require_tenant()
        before_time, after_id = time_and_id_from_page_token(read_token(request.page_token, tenant_id, request))
        size = resolve_page_size(request.page_size)
        rows = await self._archives.list_archived(tenant_id, before_time=before_time, after_id=after_id, limit=size + 1)
        response = pb.ListArchivedSessionsResponse(sessions=map(_archived_session, rows[:size]))
        if len(rows) > size:
            last = rows[size - 1]
            response.next_page_token = write_token(
                [last["archive_time"].isoformat(), last["session_id"]], tenant_id, request
            )
        return response


def _archived_session(record: Record) -> pb.ArchivedSession:
    """Convert a row of the query list_archived_sessions."""
    return to_message(pb.ArchivedSession, record)
