"""Interactions: the messages of sessions, and what of them an assistant is told again."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import grpc
from grpc import aio

from skein.session.v1 import session_pb2 as pb
from skein_pc2 import fields, sessions
from skein_pc2.errors import SESSION_NOT_FOUND, VALIDATION_ERROR, Rejected
from skein_pc2.messages import repeatable, timestamp
from skein_pc2.reasoning import context, words
from skein_pc2.work import Lines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skein_pc2.api import Api
    from skein_pc2.messages import Message
    from skein_pc2.reasoning.talk import Action, Ask

# Of a session, so many of the newest messages are looked at.
MOST_MESSAGES = 300


class Interactions:
    """add_interaction, record_decision, get_context, get_summary, get_session_id."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._lines = Lines()
        self.actions: dict[str, Action] = {
            "add_interaction": self._add,
            "record_decision": self._decide,
            "get_context": self._context,
            "get_summary": self._summary,
            "get_session_id": self._session_id,
        }

    async def _add(self, ask: Ask) -> Message:
        interaction_type = words.needed(ask.message, "interaction_type", "type")
        return await self._append(ask, interaction_type, words.needed(ask.message, "content"))

    async def _decide(self, ask: Ask) -> Message:
        return await self._append(ask, context.DECISION, words.needed(ask.message, "decision", "content"))

    async def _append(self, ask: Ask, interaction_type: str, content: str) -> Message:
        metadata = {**fields.mapping(ask.message.get("metadata"), "metadata"), context.TYPE: interaction_type}
        message = pb.Message(
            role=context.role_of(interaction_type.lower()),
            content=content,
            subject_id=words.text(ask.message, "user_id").strip(),
            metadata=words.struct(metadata, "metadata"),
        )
        session_id = session_of(ask.message, ask.at, missing=words.MISSING)
        try:
            # Who sends without waiting for answers finds its messages in the order in which it sent them.
            async with self._lines.place(session_id):
                await sessions.appended(self._api, ask, session_id, [message], request_id=repeatable(ask.message))
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
            text = "The session was deleted and its id stays taken; use another one"
            raise Rejected(SESSION_NOT_FOUND, text) from None
        return {"status": "ok"}

    async def _context(self, ask: Ask) -> Message:
        found, last_updated = await self._told(ask, session_of(ask.message, ask.at, missing="Missing session_id"))
        return {"status": "ok", "context": found.document(last_updated), "summary": found.summary}

    async def _summary(self, ask: Ask) -> Message:
        found, _ = await self._told(ask, session_of(ask.message, ask.at, missing="Missing user_id"))
        return {"status": "ok", "summary": found.summary}

    async def _session_id(self, ask: Ask) -> Message:
        words.needed(ask.message, "user_id", missing="Missing user_id")
        return {"status": "ok", "session_id": session_of({**ask.message, "session_id": None}, ask.at)}

    async def _told(self, ask: Ask, session_id: str) -> tuple[context.Context, str | None]:
        """Read what of a session has room in the tokens asked for: nothing of one that nobody opened."""
        max_tokens = fields.whole(ask.message.get("max_tokens"), "max_tokens", default=context.DEFAULT_TOKENS, least=0)
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
            return context.Context(lines=[]), None
        found = context.context_of(
            page.messages,
            max_tokens=max_tokens,
            earlier=opened.session.summary,
            is_cut=bool(page.next_page_token),
        )
        return found, timestamp(opened.session.update_time.ToDatetime(tzinfo=UTC))


def session_of(message: Mapping[str, object], at: datetime, *, missing: str = words.MISSING) -> str:
    """Read which session a message is about: by its id, or by the person and the project, or else the day."""
    session_id = words.text(message, "session_id")
    if session_id.strip():
        return session_id
    user_id = words.text(message, "user_id").strip()
    if not user_id:
        raise Rejected(VALIDATION_ERROR, missing)
    return f"{user_id}_{words.text(message, 'project').strip() or format(at.astimezone(UTC), '%Y-%m-%d')}"
