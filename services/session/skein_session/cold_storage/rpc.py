"""RPCs of cold storage. StoreSession archives and RestoreSession unarchives in the words of the glossary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.session.v1 import archives_pb2 as pb
from skein_kit.calls.call import Context, caller
from skein_kit.idempotency.key import IdempotencyKey
from skein_kit.ids import now
from skein_kit.rpc.pagination import read_token, resolve_page_size, write_token
from skein_session.cold_storage import convert
from skein_session.page_tokens import time_and_id_from_page_token

if TYPE_CHECKING:
    from skein_kit.search_text.embedding_requests import EmbeddingClient
    from skein_session.cold_storage.store import ColdStorageStore


class ColdStorageRpc:
    """Archives, unarchives and lists sessions."""

    def __init__(self, archives: ColdStorageStore, embeddings: EmbeddingClient) -> None:
        self._archives = archives
        self._embeddings = embeddings

    async def StoreSession(self, request: pb.StoreSessionRequest, context: Context) -> pb.StoreSessionResponse:
        identity = caller(context)
        return await self._archives.archive_session(
            identity.tenant(), IdempotencyKey.of(identity, request), request.session_id, now()
        )

    async def RestoreSession(self, request: pb.RestoreSessionRequest, context: Context) -> pb.RestoreSessionResponse:
        identity = caller(context)
        response, documents = await self._archives.unarchive_session(
            identity.tenant(), IdempotencyKey.of(identity, request), request.session_id, now()
        )
        await self._embeddings.make(documents, remaining=context.time_remaining())
        return response

    async def ListStoredSessions(
        self, request: pb.ListStoredSessionsRequest, context: Context
    ) -> pb.ListStoredSessionsResponse:
        tenant_id = caller(context).tenant()
        before_time, after_id = time_and_id_from_page_token(read_token(request.page_token, tenant_id, request))
        size = resolve_page_size(request.page_size)
        rows = await self._archives.list_archived(tenant_id, before_time=before_time, after_id=after_id, limit=size + 1)
        response = pb.ListStoredSessionsResponse(sessions=map(convert.archived_session, rows[:size]))
        if len(rows) > size:
            last = rows[size - 1]
            response.next_page_token = write_token(
                [last["store_time"].isoformat(), last["session_id"]], tenant_id, request
            )
        return response
