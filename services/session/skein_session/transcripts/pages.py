"""Pages of messages wherever they lie, and of the sessions that lie in cold storage."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from skein.session.v1 import archives_pb2
from skein.session.v1 import session_pb2 as pb
from skein_kit.errors import PageTokenInvalid
from skein_kit.message_rows import message as wired
from skein_kit.rpc.pagination import PAGE_BYTES, read_token, resolve_page_size, write_token
from skein_kit.rpc.well_known_types import to_timestamp
from skein_session.errors import SessionArchived
from skein_session.messages.model import sequence_of

if TYPE_CHECKING:
    from uuid import UUID

    from asyncpg import Record

    from skein_session.cold_storage.store import ArchivedSession, ColdStorageStore
    from skein_session.messages.store import MessageStore

# Messages made of a file's rows at once, so that a page of the longest ones is never held whole.
_SLICE = 64
_AFTER_ALL = datetime.max.replace(tzinfo=UTC)


class MessagePages:
    """Pages, from the tables or from files."""

    def __init__(self, messages: MessageStore, archives: ColdStorageStore) -> None:
        self._messages = messages
        self._archives = archives

    async def messages(self, tenant_id: UUID, request: pb.ListMessagesRequest) -> pb.ListMessagesResponse:
        """Read a page of a session. Raises SessionArchived unless stored messages are wanted; else ArchiveDamaged."""
        try:
            return await self._messages.page(tenant_id, request)
        except SessionArchived:
            if not request.show_stored:
                raise
        stored = await self._archives.read(tenant_id, request.session_id)
        if stored is None:
            # It was brought back meanwhile.
            return await self._messages.page(tenant_id, request)
        return await self._stored(tenant_id, request, stored)

    async def stored_sessions(
        self, tenant_id: UUID, request: archives_pb2.ListStoredSessionsRequest
    ) -> archives_pb2.ListStoredSessionsResponse:
        """Read a page of the sessions that lie in cold storage, what was stored last first."""
        before, after_id = _place(read_token(request.page_token, tenant_id, request))
        size = resolve_page_size(request.page_size)
        rows = await self._archives.listed(tenant_id, before=before, after_id=after_id, count=size + 1)
        response = archives_pb2.ListStoredSessionsResponse(sessions=map(_session, rows[:size]))
        if len(rows) > size:
            last = rows[size - 1]
            place = [last["store_time"].isoformat(), last["session_id"]]
            response.next_page_token = write_token(place, tenant_id, request)
        return response

    async def _stored(
        self, tenant_id: UUID, request: pb.ListMessagesRequest, stored: ArchivedSession
    ) -> pb.ListMessagesResponse:
        sequence = sequence_of(read_token(request.page_token, tenant_id, request))
        rows = [
            row
            for row in stored.rows.messages
            if row["is_active"]
            and (
                sequence is None or (row["sequence"] < sequence if request.newest_first else row["sequence"] > sequence)
            )
        ]
        if request.newest_first:
            rows.reverse()
        size, taken = resolve_page_size(request.page_size), 0
        response = pb.ListMessagesResponse()
        for start in range(0, min(size, len(rows)), _SLICE):
            for row in await self._archives.records(tenant_id, rows[start : min(start + _SLICE, size)]):
                message = wired(row)
                taken += message.ByteSize()
                if response.messages and taken > PAGE_BYTES:
                    return _cut(response, tenant_id, request)
                response.messages.append(message)
        return _cut(response, tenant_id, request) if len(rows) > size else response


def _cut(
    response: pb.ListMessagesResponse, tenant_id: UUID, request: pb.ListMessagesRequest
) -> pb.ListMessagesResponse:
    response.next_page_token = write_token([str(response.messages[-1].sequence)], tenant_id, request)
    return response


def _place(token: list[str] | None) -> tuple[datetime, str]:
    """Read after which session a list goes on."""
    if token is None:
        return _AFTER_ALL, ""
    try:
        before, after_id = token
        moment = datetime.fromisoformat(before)
    except ValueError:
        raise PageTokenInvalid from None
    if moment.tzinfo is None:
        raise PageTokenInvalid
    return moment, after_id


def _session(row: Record) -> archives_pb2.StoredSession:
    return archives_pb2.StoredSession(
        session_id=row["session_id"],
        title=row["title"],
        message_count=row["message_count"],
        byte_count=row["byte_count"],
        checksum=row["checksum"],
        archive_time=to_timestamp(row["archive_time"]),
        store_time=to_timestamp(row["store_time"]),
        stored_by=row["stored_by"],
    )
