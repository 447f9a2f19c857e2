"""Subjects, sessions, their messages and items, and agents' states."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import ClassVar

from google.protobuf.message import Message

from skein.session.v1 import session_pb2, states_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_client.pagination import iterate_pages
from skein_importers.records import Kind, Record
from skein_importers.writers.base import MAX_CONCURRENT_CALLS, Writer, WriterContext

# Sessions whose message ids are cached.
_MAX_CACHED = 2 * MAX_CONCURRENT_CALLS
_CLOSED = frozenset({session_pb2.SESSION_STATE_ENDED, session_pb2.SESSION_STATE_HIDDEN})


class Subjects(Writer):
    """People that memories are about."""

    kind = Kind.SUBJECT
    exists_reasons: ClassVar = frozenset({"SUBJECT_EXISTS"})

    async def get(self, item: subjects_pb2.Subject) -> Message:
        """Return the subject."""
        request = subjects_pb2.GetSubjectRequest(subject_id=item.subject_id)
        return (await self._api.tenancy.GetSubject(request)).subject

    async def write(self, records: Sequence[Record]) -> None:
        """Make one subject."""
        request = subjects_pb2.CreateSubjectRequest(subject=records[0].item)
        await self._write_with_times(self._api.tenancy.CreateSubject, request, records)


class Sessions(Writer):
    """Sessions; ended ones are closed after their messages are written."""

    kind = Kind.SESSION
    exists_reasons: ClassVar = frozenset({"SESSION_EXISTS"})
    # Messages newer than the source's update_time determine it here.
    not_compared: ClassVar = frozenset({"update_time"})

    def __init__(self, context: WriterContext) -> None:
        """No session has to be closed yet."""
        super().__init__(context)
        # Ended sessions, and whether this import created them.
        self._to_close: list[tuple[Record, bool]] = []

    async def get(self, item: session_pb2.Session) -> Message:
        """Return the session."""
        request = session_pb2.GetSessionRequest(session_id=item.session_id)
        return (await self._api.sessions.GetSession(request)).session

    async def write(self, records: Sequence[Record]) -> None:
        """Create one session."""
        session = records[0].item
        request_item = session_pb2.Session()
        request_item.CopyFrom(session)
        request_item.ClearField("end_reason")
        if session.state in _CLOSED:
            request_item.ClearField("state")
        request = session_pb2.CreateSessionRequest(session=request_item)
        await self._write_with_times(self._api.sessions.CreateSession, request, records)
        self._context.add_empty_session(session.session_id)
        self._close_later(records[0], is_new=True)

    async def on_skipped(self, record: Record) -> None:
        """Close a session that an interrupted import left open."""
        self._close_later(record, is_new=False)

    async def finish(self) -> None:
        """Close the ended sessions."""
        for first in range(0, len(self._to_close), MAX_CONCURRENT_CALLS):
            batch = self._to_close[first : first + MAX_CONCURRENT_CALLS]
            await asyncio.gather(*(self._close(*session_to_close) for session_to_close in batch))

    async def _close(self, record: Record, is_new: bool) -> None:  # noqa: FBT001 - a row.
        session: session_pb2.Session = record.item
        session_id = session.session_id
        if not is_new and not await self._is_unchanged(session_id):
            return
        # Without an end time, the last update counts as the end.
        end = session_pb2.EndSessionRequest(session_id=session_id, reason=session.end_reason)
        if session.HasField("end_time") or session.HasField("update_time"):
            end.end_time.CopyFrom(session.end_time if session.HasField("end_time") else session.update_time)
        await self._write_with_times(self._api.sessions.EndSession, end, [])
        if session.state == session_pb2.SESSION_STATE_HIDDEN:
            hide = session_pb2.HideSessionRequest(session_id=session_id)
            # A source that says when a session ended, and not when it was hidden, hid it then.
            if session.HasField("hide_time"):
                hide.hide_time.CopyFrom(session.hide_time)
            elif end.HasField("end_time"):
                hide.hide_time.CopyFrom(end.end_time)
            await self._write_with_times(self._api.sessions.HideSession, hide, [])

    def _close_later(self, record: Record, *, is_new: bool) -> None:
        if record.item.state in _CLOSED:
            self._to_close.append((record, is_new))

    async def _is_unchanged(self, session_id: str) -> bool:
        """Say whether the session is unchanged since its creation."""
        response = await self._api.sessions.GetSession(session_pb2.GetSessionRequest(session_id=session_id))
        return response.session.state == session_pb2.SESSION_STATE_ACTIVE and response.session.revision == 1


class Messages(Writer):
    """Messages, appended to their session in order."""

    kind = Kind.MESSAGE
    is_batched = True
    checks_first = True
    exists_reasons: ClassVar = frozenset({"EXTERNAL_ID_TAKEN"})
    batch_reasons: ClassVar = frozenset({"SESSION_NOT_FOUND", "SESSION_ENDED", "SESSION_HIDDEN", "SESSION_ARCHIVED"})

    def __init__(self, context: WriterContext) -> None:
        """No session is cached yet."""
        super().__init__(context)
        # Ids and external ids of messages, for the sessions used last.
        self._ids: OrderedDict[str, set[str]] = OrderedDict()

    def group(self, record: Record) -> str:
        """Return the session."""
        return str(record.item.session_id)

    async def get(self, item: session_pb2.Message) -> Message:
        """Return the message."""
        request = session_pb2.GetMessageRequest(message_id=item.external_id)
        return (await self._api.sessions.GetMessage(request)).message

    async def existing_names(self, records: Sequence[Record]) -> set[str]:
        """Return the ids of the session's messages. Raises NotFound when there is no such session."""
        session_id = self.group(records[0])
        if session_id not in self._ids:
            self._ids[session_id] = await self._message_ids(session_id)
            if len(self._ids) > _MAX_CACHED:
                self._ids.popitem(last=False)
        self._ids.move_to_end(session_id)
        return self._ids[session_id]

    async def write(self, records: Sequence[Record]) -> None:
        """Append."""
        session_id = self.group(records[0])
        request = session_pb2.AppendMessagesRequest(session_id=session_id, messages=[record.item for record in records])
        response = await self._write_with_times(self._api.sessions.AppendMessages, request, records)
        self._context.report.pending += response.pending_embedding_count
        if session_id in self._ids:
            self._ids[session_id] |= {record.name for record in records}

    async def _message_ids(self, session_id: str) -> set[str]:
        if session_id in self._context.empty_sessions:
            self._context.empty_sessions.discard(session_id)
            return set()
        request = session_pb2.ListMessagesRequest(session_id=session_id, page_size=1000, show_archived=True)
        ids: set[str] = set()
        async for message in iterate_pages(self._api.sessions.ListMessages, request, "messages"):
            ids |= {message.message_id, message.external_id}
        return ids


class Items(Writer):
    """Short-term values of a session."""

    kind = Kind.ITEM
    checks_first = True
    # The remaining ttl shrinks, and the import sets a default expiry.
    not_compared: ClassVar = frozenset({"ttl", "expire_time"})

    async def get(self, item: states_pb2.PutSessionItemRequest) -> Message:
        """Return the item."""
        request = states_pb2.GetSessionItemRequest(session_id=item.session_id, key=item.key)
        return (await self._api.sessions.GetSessionItem(request)).item

    async def write(self, records: Sequence[Record]) -> None:
        """Put one item."""
        request = states_pb2.PutSessionItemRequest()
        request.CopyFrom(records[0].item)
        await self._write_with_times(self._api.sessions.PutSessionItem, request, records)
        self._count_expired(records[0], datetime.now(UTC))


class AgentStates(Writer):
    """Agent states."""

    kind = Kind.AGENT_STATE
    exists_reasons: ClassVar = frozenset({"AGENT_STATE_EXISTS"})

    async def get(self, item: states_pb2.AgentState) -> Message:
        """Return the state."""
        request = states_pb2.GetAgentStateRequest(agent_id=item.agent_id, session_id=item.session_id)
        return (await self._api.sessions.GetAgentState(request)).state

    async def write(self, records: Sequence[Record]) -> None:
        """Create one state."""
        request = states_pb2.PutAgentStateRequest(state=records[0].item, must_not_exist=True)
        await self._write_with_times(self._api.sessions.PutAgentState, request, records)
        self._count_expired(records[0], datetime.now(UTC))
