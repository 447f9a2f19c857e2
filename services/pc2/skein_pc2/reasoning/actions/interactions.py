"""Interactions: messages of sessions, and the contexts and summaries made of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

import grpc
from grpc import aio

from skein.session.v1 import session_pb2 as pb
from skein.session.v1 import states_pb2
from skein_pc2.gateway_api import named_sessions
from skein_pc2.gateway_api.client import GatewayApi
from skein_pc2.protocol import fields
from skein_pc2.protocol.concurrency import KeyedLock
from skein_pc2.protocol.errors import RATE_LIMIT_EXCEEDED, SESSION_NOT_FOUND, VALIDATION_ERROR, RequestError
from skein_pc2.protocol.frames import Message, repeat_key, timestamp
from skein_pc2.reasoning.actions import session_context
from skein_pc2.reasoning.actions.health import ReasoningHealth
from skein_pc2.reasoning.actions.personal_data import PersonalDataActions
from skein_pc2.reasoning.records import record_values
from skein_pc2.reasoning.records.agent_request import Action, AgentRequest

# Newest messages read of one session.
MAX_MESSAGES = 300
# Default and highest number of recent interactions, and the number of newest sessions read for them.
_DEFAULT_RECENT_MESSAGES, _MAX_RECENT_MESSAGES = 5, 100
_MAX_RECENT_SESSIONS = 8
# Sessions that are compared to find a subject's latest, and pages of the subject's messages.
_MAX_SUBJECT_SESSIONS, _MAX_SUBJECT_PAGES = 4, 3
_PURGE_SIZE = 500
# Time reserved for the reply.
_MARGIN_SECONDS = 0.5
# Limits of the original agent, as clients expect them. Skein has no such limits.
_HIERARCHY = {"short_term": 50, "medium_term": 200, "long_term": 1000}

_MISSING_SESSION = "Missing session_id"
_MISSING_USER = "Missing user_id"


class Interactions:
    """The actions on interactions."""

    def __init__(self, api: GatewayApi, health: ReasoningHealth, personal: PersonalDataActions) -> None:
        self._api = api
        self._health = health
        self._personal = personal
        self._locks = KeyedLock()
        self.actions: dict[str, Action] = {
            "add_interaction": self._add_interaction,
            "record_decision": self._record_decision,
            "get_context": self._get_context,
            "get_context_summary": self._get_context_summary,
            "get_summary": self._get_summary,
            "get_recent_context": self._get_recent_context,
            "clear_session": self._clear_session,
            "get_session_id": self._get_session_id,
            "get_memory_config": _get_memory_config,
        }

    async def _add_interaction(self, request: AgentRequest) -> Message:
        interaction_type = record_values.required_text(request.message, "interaction_type", "type")
        reply = await self._append_message(
            request, interaction_type, record_values.required_text(request.message, "content")
        )
        if interaction_type.lower() == session_context.ERROR:
            self._health.count_error_report()
        return reply

    async def _record_decision(self, request: AgentRequest) -> Message:
        return await self._append_message(
            request, session_context.DECISION, record_values.required_text(request.message, "decision", "content")
        )

    async def _append_message(self, request: AgentRequest, interaction_type: str, content: str) -> Message:
        metadata = {
            **fields.mapping(request.message.get("metadata"), "metadata"),
            session_context.TYPE: interaction_type,
        }
        message = pb.Message(
            role=session_context.role_of(interaction_type.lower()),
            content=content,
            subject_id=record_values.text(request.message, "user_id").strip(),
            metadata=record_values.struct(metadata, "metadata"),
        )
        session_id = session_of(request.message, request.at, missing=record_values.MISSING_FIELDS)
        try:
            # Messages are stored in the order sent, also for senders that do not wait for replies.
            async with self._locks.hold(session_id):
                await named_sessions.append_messages(
                    self._api, request, session_id, [message], request_id=repeat_key(request.message)
                )
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
            raise RequestError(
                SESSION_NOT_FOUND, "The session was deleted and its id stays taken; use another one"
            ) from None
        return {"status": "ok"}

    async def _get_context(self, request: AgentRequest) -> Message:
        session_id = session_of(request.message, request.at, missing=_MISSING_SESSION)
        subject_id = subject_of(request.message)
        context, last_updated = await self._read_context(request, session_id, subject_id=subject_id)
        document = context.document(last_updated)
        # One version of the client reads `context`, the other `summary`.
        reply: Message = {"status": "ok", "context": document, "summary": document}
        if subject_id:
            reply["contexts"] = await self._personal.contexts(request, subject_id)
        return reply

    async def _get_context_summary(self, request: AgentRequest) -> Message:
        """Return the context of a person's latest session."""
        subject_id = record_values.required_text(request.message, "user_id", missing=_MISSING_USER).strip()
        session_id = await self._latest_session(request, subject_id)
        if not session_id:
            return {"status": "ok", "context": session_context.SessionContext(lines=[]).document(None)}
        context, last_updated = await self._read_context(request, session_id, subject_id=subject_id)
        return {"status": "ok", "context": context.document(last_updated)}

    async def _get_summary(self, request: AgentRequest) -> Message:
        session_id = session_of(request.message, request.at, missing=_MISSING_USER)
        context, _ = await self._read_context(request, session_id, subject_id=subject_of(request.message))
        return {"status": "ok", "summary": context.summary}

    async def _get_recent_context(self, request: AgentRequest) -> Message:
        """Return the newest interactions of a session or person, or of all sessions."""
        limit = fields.integer(request.message.get("limit"), "limit", default=_DEFAULT_RECENT_MESSAGES, minimum=1)
        newest = await self._newest_messages(request, min(limit, _MAX_RECENT_MESSAGES))
        return {
            "status": "success",
            "context": session_context.context_of(newest, max_tokens=_parse_max_tokens(request)).summary,
        }

    async def _newest_messages(self, request: AgentRequest, limit: int) -> list[pb.Message]:
        """Return the newest messages, newest first."""
        if (
            record_values.text(request.message, "session_id").strip()
            or record_values.text(request.message, "project").strip()
        ):
            session_ids = [session_of(request.message, request.at)]
        elif record_values.text(request.message, "user_id").strip():
            return await self._messages_of_subject(request, subject_of(request.message), limit)
        else:
            call = pb.ListSessionsRequest(page_size=_MAX_RECENT_SESSIONS)
            session_list = await self._api.call(self._api.sessions.ListSessions, call, request)
            session_ids = [session.session_id for session in session_list.sessions]
        pages = await asyncio.gather(
            *(self._newest_of_session(request, session_id, limit) for session_id in session_ids)
        )
        visible_messages = _visible_messages(
            (message for page in pages for message in page), subject_of(request.message)
        )
        return sorted(visible_messages, key=_sort_key, reverse=True)[:limit]

    async def _newest_of_session(self, request: AgentRequest, session_id: str, limit: int) -> list[pb.Message]:
        call = pb.ListMessagesRequest(session_id=session_id, page_size=limit, newest_first=True)
        try:
            return list((await self._api.call(self._api.sessions.ListMessages, call, request)).messages)
        except aio.AioRpcError as error:
            # The session does not exist or is hidden.
            if error.code() not in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.FAILED_PRECONDITION):
                raise
            return []

    async def _messages_of_subject(self, request: AgentRequest, subject_id: str, limit: int) -> list[pb.Message]:
        """Return the newest messages about a person, newest first."""
        call = pb.ListAgentMessagesRequest(subject_id=subject_id, page_size=limit)
        context: list[pb.Message] = []
        for _ in range(_MAX_SUBJECT_PAGES):
            page = await self._api.call(self._api.sessions.ListAgentMessages, call, request)
            context += page.messages
            call.page_token = page.next_page_token
            if len(context) >= limit or not page.next_page_token:
                break
        return context[:limit]

    async def _latest_session(self, request: AgentRequest, subject_id: str) -> str:
        """Return the session with the newest message by or with a person; "" for none."""
        call = pb.ListSessionsRequest(subject_id=subject_id, page_size=_MAX_SUBJECT_SESSIONS)
        newest, session_list = await asyncio.gather(
            self._messages_of_subject(request, subject_id, 1),
            self._api.call(self._api.sessions.ListSessions, call, request),
        )
        # Updates of old messages move a session to the top of the list, so compare newest messages.
        pages = await asyncio.gather(
            *(self._newest_of_session(request, session.session_id, 1) for session in session_list.sessions)
        )
        candidates = [*newest, *(message for page in pages for message in page)]
        return max(candidates, key=_sort_key).session_id if candidates else ""

    async def _clear_session(self, request: AgentRequest) -> Message:
        """Purge a session's messages, as port 5574 does; the session still exists."""
        session_id = session_of(request.message, request.at, missing=_MISSING_SESSION)
        subject_id = subject_of(request.message)
        call = pb.ListMessagesRequest(session_id=session_id, page_size=_PURGE_SIZE, show_archived=True)
        async with self._locks.hold(session_id):
            while True:
                page = await self._api.find(self._api.sessions.ListMessages, call, request)
                if page is None:
                    return {"status": "ok"}
                if own_messages := _visible_messages(page.messages, subject_id):
                    purge = states_pb2.PurgeMessagesRequest(
                        message_ids=[message.message_id for message in own_messages]
                    )
                    await self._api.call(self._api.sessions.PurgeMessages, purge, request)
                call.page_token = page.next_page_token
                if not call.page_token:
                    return {"status": "ok"}
                if request.remaining_seconds() < _MARGIN_SECONDS:
                    raise RequestError(
                        RATE_LIMIT_EXCEEDED,
                        "A part of the session is cleared and there is more: ask again for the rest",
                    )

    async def _get_session_id(self, request: AgentRequest) -> Message:
        record_values.required_text(request.message, "user_id", missing=_MISSING_USER)
        return {"status": "ok", "session_id": session_of({**request.message, "session_id": None}, request.at)}

    async def _read_context(
        self, request: AgentRequest, session_id: str, *, subject_id: str
    ) -> tuple[session_context.SessionContext, str | None]:
        """Return a session's context within the requested tokens; empty for a missing session.

        With a `subject_id`, messages of other subjects are excluded.
        """
        max_tokens = _parse_max_tokens(request)
        messages = pb.ListMessagesRequest(
            session_id=session_id, page_size=MAX_MESSAGES, newest_first=True, show_archived=True
        )
        try:
            page, session_response = await asyncio.gather(
                self._api.call(self._api.sessions.ListMessages, messages, request),
                self._api.call(self._api.sessions.GetSession, pb.GetSessionRequest(session_id=session_id), request),
            )
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
            return session_context.SessionContext(lines=[]), None
        visible_messages = _visible_messages(page.messages, subject_id)
        context = session_context.context_of(
            visible_messages,
            max_tokens=max_tokens,
            # The session's summary covers all persons.
            earlier_summary=session_response.session.summary if len(visible_messages) == len(page.messages) else "",
            is_truncated=bool(page.next_page_token),
        )
        return context, timestamp(session_response.session.update_time.ToDatetime(tzinfo=UTC))


async def _get_memory_config(_request: AgentRequest) -> Message:
    return {"status": "ok", "hierarchy": dict(_HIERARCHY)}


def session_of(message: Mapping[str, object], at: datetime, *, missing: str = record_values.MISSING_FIELDS) -> str:
    """Return the session of a message: by its id, by person and project, or by person and day."""
    session_id = record_values.text(message, "session_id")
    if session_id.strip():
        return session_id
    user_id = record_values.text(message, "user_id").strip()
    if not user_id:
        raise RequestError(VALIDATION_ERROR, missing)
    return f"{user_id}_{record_values.text(message, 'project').strip() or format(at.astimezone(UTC), '%Y-%m-%d')}"


def subject_of(message: Mapping[str, object]) -> str:
    """Return the person when the message names a session by person; "" when it has a session_id.

    The session "ana_boat_race" is ana's in the project boat_race and ana_boat's in the project race.
    """
    return "" if record_values.text(message, "session_id").strip() else record_values.text(message, "user_id").strip()


def _visible_messages(messages: Iterable[pb.Message], subject_id: str) -> list[pb.Message]:
    """Return the messages without those of other persons; an empty `subject_id` sees all."""
    return [message for message in messages if not subject_id or message.subject_id in ("", subject_id)]


def _sort_key(message: pb.Message) -> tuple[int, int]:
    return message.create_time.ToNanoseconds(), message.sequence


def _parse_max_tokens(request: AgentRequest) -> int:
    return fields.integer(
        request.message.get("max_tokens"), "max_tokens", default=session_context.DEFAULT_TOKENS, minimum=0
    )
