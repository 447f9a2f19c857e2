"""Interactions: the messages of sessions, and what of them an assistant is told again."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import grpc
from grpc import aio

from skein.session.v1 import session_pb2 as pb
from skein.session.v1 import states_pb2
from skein_pc2.gateway_api import named_sessions
from skein_pc2.protocol import fields
from skein_pc2.protocol.errors import RATE_LIMIT_EXCEEDED, SESSION_NOT_FOUND, VALIDATION_ERROR, RequestError
from skein_pc2.protocol.frames import repeat_key, timestamp
from skein_pc2.protocol.concurrency import KeyedLock
from skein_pc2.reasoning.actions import session_context
from skein_pc2.reasoning.records import record_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from skein_pc2.gateway_api.client import GatewayApi
    from skein_pc2.protocol.frames import Message
    from skein_pc2.reasoning.actions.health import ReasoningHealth
    from skein_pc2.reasoning.actions.personal_data import PersonalDataActions
    from skein_pc2.reasoning.records.agent_request import Action
    from skein_pc2.reasoning.records.agent_request import Ask

# Of a session, so many of the newest messages are looked at.
MOST_MESSAGES = 300
# How many interactions a client is told of unless it says so, and at most; from so many of the newest sessions.
_RECENT, _MAX_RECENT = 5, 100
_RECENT_SESSIONS = 8
# Sessions of a person among which the latest is looked for, and pages of what the person said.
_SESSIONS_OF_PERSON, _PAGES_OF_PERSON = 4, 3
_PURGE_SIZE = 500
# What is kept back of the time, to answer in.
_MARGIN_SECONDS = 0.5
# How many memories of each kind the original agent kept. Skein keeps all of them.
_HIERARCHY = {"short_term": 50, "medium_term": 200, "long_term": 1000}

_MISSING_SESSION = "Missing session_id"
_MISSING_USER = "Missing user_id"


class Interactions:
    """What is said in sessions, and the contexts and summaries that are made of it."""

    def __init__(self, api: GatewayApi, health: ReasoningHealth, personal: PersonalDataActions) -> None:
        self._api = api
        self._health = health
        self._personal = personal
        self._lines = KeyedLock()
        self.actions: dict[str, Action] = {
            "add_interaction": self._add,
            "record_decision": self._decide,
            "get_context": self._context,
            "get_context_summary": self._context_of_person,
            "get_summary": self._summary,
            "get_recent_context": self._recent,
            "clear_session": self._clear,
            "get_session_id": self._session_id,
            "get_memory_config": _memory_config,
        }

    async def _add(self, ask: Ask) -> Message:
        interaction_type = record_values.needed(ask.message, "interaction_type", "type")
        answer = await self._append(ask, interaction_type, record_values.needed(ask.message, "content"))
        if interaction_type.lower() == session_context.ERROR:
            self._health.record_error_report()
        return answer

    async def _decide(self, ask: Ask) -> Message:
        return await self._append(ask, session_context.DECISION, record_values.needed(ask.message, "decision", "content"))

    async def _append(self, ask: Ask, interaction_type: str, content: str) -> Message:
        metadata = {**fields.mapping(ask.message.get("metadata"), "metadata"), session_context.TYPE: interaction_type}
        message = pb.Message(
            role=session_context.role_of(interaction_type.lower()),
            content=content,
            subject_id=record_values.text(ask.message, "user_id").strip(),
            metadata=record_values.struct(metadata, "metadata"),
        )
        session_id = session_of(ask.message, ask.at, missing=record_values.MISSING)
        try:
            # Who sends without waiting for answers finds its messages in the order in which it sent them.
            async with self._lines.place(session_id):
                await named_sessions.append_messages(
                    self._api, ask, session_id, [message], request_id=repeat_key(ask.message)
                )
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
            text = "The session was deleted and its id stays taken; use another one"
            raise RequestError(SESSION_NOT_FOUND, text) from None
        return {"status": "ok"}

    async def _context(self, ask: Ask) -> Message:
        session_id = session_of(ask.message, ask.at, missing=_MISSING_SESSION)
        person = person_of(ask.message)
        found, last_updated = await self._told(ask, session_id, person=person)
        document = found.document(last_updated)
        # One version of the client reads `context`, the other `summary`.
        answer: Message = {"status": "ok", "context": document, "summary": document}
        if person:
            answer["contexts"] = await self._personal.contexts(ask, person)
        return answer

    async def _context_of_person(self, ask: Ask) -> Message:
        """Tell the session in which a person took part last."""
        person = record_values.needed(ask.message, "user_id", missing=_MISSING_USER).strip()
        session_id = await self._latest_session(ask, person)
        if not session_id:
            return {"status": "ok", "context": session_context.Context(lines=[]).document(None)}
        found, last_updated = await self._told(ask, session_id, person=person)
        return {"status": "ok", "context": found.document(last_updated)}

    async def _summary(self, ask: Ask) -> Message:
        session_id = session_of(ask.message, ask.at, missing=_MISSING_USER)
        found, _ = await self._told(ask, session_id, person=person_of(ask.message))
        return {"status": "ok", "summary": found.summary}

    async def _recent(self, ask: Ask) -> Message:
        """Tell the newest interactions: of a session or a person if one is named, else of all sessions."""
        limit = fields.integer(ask.message.get("limit"), "limit", default=_RECENT, least=1)
        newest = await self._newest(ask, min(limit, _MAX_RECENT))
        return {"status": "success", "context": session_context.context_of(newest, max_tokens=_max_tokens(ask)).summary}

    async def _newest(self, ask: Ask, limit: int) -> list[pb.Message]:
        """Return the newest messages, newest first."""
        if record_values.text(ask.message, "session_id").strip() or record_values.text(ask.message, "project").strip():
            session_ids = [session_of(ask.message, ask.at)]
        elif record_values.text(ask.message, "user_id").strip():
            return await self._said_by(ask, person_of(ask.message), limit)
        else:
            request = pb.ListSessionsRequest(page_size=_RECENT_SESSIONS)
            listed = await self._api.call(self._api.sessions.ListSessions, request, ask)
            session_ids = [session.session_id for session in listed.sessions]
        pages = await asyncio.gather(*(self._newest_of(ask, session_id, limit) for session_id in session_ids))
        found = _visible((message for page in pages for message in page), person_of(ask.message))
        return sorted(found, key=_position, reverse=True)[:limit]

    async def _newest_of(self, ask: Ask, session_id: str, limit: int) -> list[pb.Message]:
        request = pb.ListMessagesRequest(session_id=session_id, page_size=limit, newest_first=True)
        try:
            return list((await self._api.call(self._api.sessions.ListMessages, request, ask)).messages)
        except aio.AioRpcError as error:
            # It does not exist, or it went to cold storage.
            if error.code() not in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.FAILED_PRECONDITION):
                raise
            return []

    async def _said_by(self, ask: Ask, person: str, limit: int) -> list[pb.Message]:
        """Return the newest messages that name a person, newest first."""
        request = pb.ListAgentMessagesRequest(subject_id=person, page_size=limit)
        found: list[pb.Message] = []
        for _ in range(_PAGES_OF_PERSON):
            page = await self._api.call(self._api.sessions.ListAgentMessages, request, ask)
            found += page.messages
            request.page_token = page.next_page_token
            if len(found) >= limit or not page.next_page_token:
                break
        return found[:limit]

    async def _latest_session(self, ask: Ask, person: str) -> str:
        """Return the session with the newest message of a person's, or of a session with that person; "" for none."""
        request = pb.ListSessionsRequest(subject_id=person, page_size=_SESSIONS_OF_PERSON)
        newest, listed = await asyncio.gather(
            self._said_by(ask, person, 1), self._api.call(self._api.sessions.ListSessions, request, ask)
        )
        # Changes of old messages make a session the newest of a list, so its newest message is looked at.
        pages = await asyncio.gather(*(self._newest_of(ask, session.session_id, 1) for session in listed.sessions))
        candidates = [*newest, *(message for page in pages for message in page)]
        return max(candidates, key=_position).session_id if candidates else ""

    async def _clear(self, ask: Ask) -> Message:
        """Remove what was said in a session for good, as port 5574 does; the session stays."""
        session_id = session_of(ask.message, ask.at, missing=_MISSING_SESSION)
        person = person_of(ask.message)
        request = pb.ListMessagesRequest(session_id=session_id, page_size=_PURGE_SIZE, show_stored=True)
        async with self._lines.place(session_id):
            while True:
                try:
                    page = await self._api.call(self._api.sessions.ListMessages, request, ask)
                except aio.AioRpcError as error:
                    if error.code() is not grpc.StatusCode.NOT_FOUND:
                        raise
                    return {"status": "ok"}
                if own := _visible(page.messages, person):
                    purge = states_pb2.PurgeMessagesRequest(message_ids=[message.message_id for message in own])
                    await self._api.call(self._api.sessions.PurgeMessages, purge, ask)
                request.page_token = page.next_page_token
                if not request.page_token:
                    return {"status": "ok"}
                if ask.seconds() < _MARGIN_SECONDS:
                    text = "A part of the session is cleared and there is more: ask again for the rest"
                    raise RequestError(RATE_LIMIT_EXCEEDED, text)

    async def _session_id(self, ask: Ask) -> Message:
        record_values.needed(ask.message, "user_id", missing=_MISSING_USER)
        return {"status": "ok", "session_id": session_of({**ask.message, "session_id": None}, ask.at)}

    async def _told(self, ask: Ask, session_id: str, *, person: str) -> tuple[session_context.Context, str | None]:
        """Read what of a session has room in the tokens asked for: nothing of a session that does not exist.

        With a `person`, leave out the messages of other persons.
        """
        max_tokens = _max_tokens(ask)
        messages = pb.ListMessagesRequest(
            session_id=session_id, page_size=MOST_MESSAGES, newest_first=True, show_stored=True
        )
        try:
            page, opened = await asyncio.gather(
                self._api.call(self._api.sessions.ListMessages, messages, ask),
                self._api.call(self._api.sessions.GetSession, pb.GetSessionRequest(session_id=session_id), ask),
            )
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
            return session_context.Context(lines=[]), None
        visible = _visible(page.messages, person)
        found = session_context.context_of(
            visible,
            max_tokens=max_tokens,
            # The summary of a session speaks of all its persons.
            earlier=opened.session.summary if len(visible) == len(page.messages) else "",
            is_cut=bool(page.next_page_token),
        )
        return found, timestamp(opened.session.update_time.ToDatetime(tzinfo=UTC))


async def _memory_config(_ask: Ask) -> Message:
    return {"status": "ok", "hierarchy": dict(_HIERARCHY)}


def session_of(message: Mapping[str, object], at: datetime, *, missing: str = record_values.MISSING) -> str:
    """Read which session a message is about: by its id, or by the person and the project, or else the day."""
    session_id = record_values.text(message, "session_id")
    if session_id.strip():
        return session_id
    user_id = record_values.text(message, "user_id").strip()
    if not user_id:
        raise RequestError(VALIDATION_ERROR, missing)
    return f"{user_id}_{record_values.text(message, 'project').strip() or format(at.astimezone(UTC), '%Y-%m-%d')}"


def person_of(message: Mapping[str, object]) -> str:
    """Return the person whose session a message names by the person alone; "" for a session that has its id.

    The session "ana_boat_race" is ana's in the project boat_race and ana_boat's in the project race.
    """
    return "" if record_values.text(message, "session_id").strip() else record_values.text(message, "user_id").strip()


def _visible(messages: Iterable[pb.Message], person: str) -> list[pb.Message]:
    """Leave out the messages of other persons; an empty `person` sees all."""
    return [message for message in messages if not person or message.subject_id in ("", person)]


def _position(message: pb.Message) -> tuple[int, int]:
    return message.create_time.ToNanoseconds(), message.sequence


def _max_tokens(ask: Ask) -> int:
    return fields.integer(ask.message.get("max_tokens"), "max_tokens", default=session_context.DEFAULT_TOKENS, least=0)
