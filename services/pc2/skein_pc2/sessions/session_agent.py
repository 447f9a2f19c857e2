"""The Session Memory Agent's dialect (port 5574): sessions and what is said in them, and its word that it is alive."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC
from typing import TYPE_CHECKING, Any

import grpc
from grpc import aio

from skein.session.v1 import session_pb2 as pb
from skein.session.v1 import states_pb2
from skein_kit.telemetry import logs
from skein_pc2.gateway_api import named_sessions
from skein_pc2.protocol import fields
from skein_pc2.protocol.actions import ActionPort
from skein_pc2.protocol.errors import SESSION_NOT_FOUND, VALIDATION_ERROR, RequestError, reason_of_call
from skein_pc2.protocol.frames import local_timestamp, timestamp
from skein_pc2.protocol.concurrency import KeyedLock
from skein_pc2.protocol.concurrency import RequestContext

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skein_pc2.gateway_api.client import GatewayApi
    from skein_pc2.protocol.actions import Action, Ask
    from skein_pc2.protocol.frames import Message
    from skein_pc2.protocol.health import Health
    from skein_pc2.transport.publisher import Publisher

DEFAULT_USER = "default"
_DEFAULT_TOKENS, _MOST_TOKENS = 2000, 250_000
_TOKEN_CHARACTERS = 4
_MOST_TURNS = 1000
_DEFAULT_LIMIT, _HIGHEST_LIMIT = 10, 100
# Sessions of one person that a search looks into: those that were used last.
_SEARCHED_SESSIONS = 20
_PAGE, _PURGED_AT_ONCE = 100, 500
_ROLES = {
    "user": pb.MESSAGE_ROLE_USER,
    "human": pb.MESSAGE_ROLE_USER,
    "assistant": pb.MESSAGE_ROLE_ASSISTANT,
    "agent": pb.MESSAGE_ROLE_ASSISTANT,
    "ai": pb.MESSAGE_ROLE_ASSISTANT,
    "bot": pb.MESSAGE_ROLE_ASSISTANT,
    "system": pb.MESSAGE_ROLE_SYSTEM,
    "tool": pb.MESSAGE_ROLE_TOOL,
    "function": pb.MESSAGE_ROLE_TOOL,
}
_NAMES = {
    pb.MESSAGE_ROLE_USER: "user",
    pb.MESSAGE_ROLE_ASSISTANT: "assistant",
    pb.MESSAGE_ROLE_SYSTEM: "system",
    pb.MESSAGE_ROLE_TOOL: "tool",
}
# Where a message keeps the role that its assistant gave it, when Skein has no such role.
_ROLE_KEY = "pc2_role"
# Sessions are counted up to here, and so many pages of them are read for it.
_COUNTED_PAGE, _COUNTED_PAGES = 1000, 5
# A count is good for two beats, or so long.
_LONGEST_COUNT_SECONDS = 30.0
_LOOK_SECONDS = 2.0

log = logs.get("pc2")


class SessionAgent(ActionPort):
    """Answers the actions of port 5574."""

    def __init__(self, api: GatewayApi, health: Health, *, at_once: int) -> None:
        actions = {
            "create_session": self._in_line(self._create),
            "add_interaction": self._in_line(self._add),
            "get_context": self._context,
            "search_interactions": self._search,
            "clear_session": self._in_line(self._clear),
            "delete_session": self._in_line(self._delete),
        }
        super().__init__(health, actions, at_once=at_once)
        self._api = api
        self._agent = health.agent
        self._lines = KeyedLock()

    def health_document(self, action: str) -> Message:
        """Return the health document; asked for its health, the later agent answered with the status of its actions."""
        document = super().health_document(action)
        status = document["status"] if action == "ping" else "success"
        return {**document, "status": status, "agent": self._agent, "healthy": document["ready"]}

    def _in_line(self, action: Action) -> Action:
        """Change a session in the order in which that was asked for, by whoever does not wait for answers."""

        async def act(ask: Ask) -> Message:
            session_id = ask.said.get("session_id")
            if not isinstance(session_id, str) or not session_id:
                return await action(ask)
            async with self._lines.place(session_id):
                return await action(ask)

        return act

    async def _create(self, ask: Ask) -> Message:
        """Open a session; one that is there already stays as it is."""
        session_id = await create_session(self._api, ask)
        return {"session_id": session_id, "message": "Session created"}

    async def _add(self, ask: Ask) -> Message:
        session_id = fields.required_text(ask.said, "session_id")
        role = fields.required_text(ask.said, "role")
        content = fields.required_text(ask.said, "content")
        metadata = dict(fields.mapping(ask.said.get("metadata"), "metadata"))
        known = _ROLES.get(role.strip().lower())
        if known is None or _NAMES[known] != role:
            metadata.setdefault(_ROLE_KEY, role)
        message = pb.Message(
            # Whoever is none of these is an agent that speaks for the assistant.
            role=known or pb.MESSAGE_ROLE_ASSISTANT,
            content=content,
            metadata=fields.struct(metadata, "metadata") if metadata else None,
        )
        (stored,) = await named_sessions.append_messages(
            self._api, ask, session_id, [message], opens=pb.Session(subject_id=DEFAULT_USER), request_id=ask.repeat
        )
        return {"session_id": session_id, "interaction_id": stored.message_id, "message": "Interaction added"}

    async def _context(self, ask: Ask) -> Message:
        """Return the newest turns, as many as `limit` says and as fit `max_tokens`, oldest first."""
        session_id = fields.required_text(ask.said, "session_id")
        limit = fields.integer(ask.said.get("limit"), "limit", default=_MOST_TURNS, least=0)
        # With a limit alone the turns are counted, and their tokens are not.
        most_tokens = _DEFAULT_TOKENS if ask.said.get("limit") is None else _MOST_TOKENS
        tokens = fields.integer(ask.said.get("max_tokens"), "max_tokens", default=most_tokens, least=0)
        left = min(tokens, _MOST_TOKENS) * _TOKEN_CHARACTERS
        most_turns = min(limit, _MOST_TURNS)
        request = pb.ListMessagesRequest(session_id=session_id, page_size=_PAGE, newest_first=True, show_stored=True)
        turns: list[pb.Message] = []
        while True:
            page = await self._api.call(self._api.sessions.ListMessages, request, ask)
            for message in page.messages:
                left -= len(message.content)
                if left < 0 or len(turns) == most_turns:
                    break
                turns.append(message)
            else:
                if page.next_page_token:
                    request.page_token = page.next_page_token
                    continue
            break
        return {"session_id": session_id, "context": [_turn(message) for message in reversed(turns)]}

    async def _search(self, ask: Ask) -> Message:
        """Find what was said, best first: in a session, in those of a person, or in all of them."""
        query = fields.text(ask.said, "query")
        if not query.strip():
            text = "Missing query"
            raise RequestError(VALIDATION_ERROR, text)
        limit = min(_HIGHEST_LIMIT, fields.integer(ask.said.get("limit"), "limit", default=_DEFAULT_LIMIT, least=1))
        session_id, user_id = fields.text(ask.said, "session_id"), fields.text(ask.said, "user_id")
        session_ids = await self._sessions_of(user_id, ask) if user_id else [session_id]
        if session_id:
            session_ids = [one for one in session_ids if one == session_id]

        async def hits_in(one: str) -> list[pb.MessageHit]:
            request = pb.SearchMessagesRequest(query=query, session_id=one, limit=limit, mode=pb.SEARCH_MODE_HYBRID)
            try:
                return list((await self._api.call(self._api.sessions.SearchMessages, request, ask)).hits)
            except aio.AioRpcError as error:
                # A person's sessions in cold storage are left out; a session that the message names is refused.
                if session_id or reason_of_call(error) != "SESSION_STORED":
                    raise
                return []

        found = [hit for hits in await asyncio.gather(*map(hits_in, session_ids)) for hit in hits]
        found.sort(key=lambda hit: hit.score, reverse=True)
        results = [_result(hit) for hit in found[:limit]]
        return {"results": results, "count": len(results)}

    async def _sessions_of(self, user_id: str, ask: Ask) -> list[str]:
        """Return the sessions of a person that were used last."""
        request = pb.ListSessionsRequest(subject_id=user_id, page_size=_SEARCHED_SESSIONS)
        session_ids: list[str] = []
        while len(session_ids) < _SEARCHED_SESSIONS:
            page = await self._api.call(self._api.sessions.ListSessions, request, ask)
            session_ids += [session.session_id for session in page.sessions]
            request.page_token = page.next_page_token
            if not page.next_page_token:
                break
        return list(dict.fromkeys(session_ids))[:_SEARCHED_SESSIONS]

    async def _clear(self, ask: Ask) -> Message:
        """Remove what was said in a session, for good, as the agent did; the session stays."""
        session_id = fields.required_text(ask.said, "session_id")
        request = pb.ListMessagesRequest(session_id=session_id, page_size=_PURGED_AT_ONCE, show_stored=True)
        while True:
            page = await self._api.call(self._api.sessions.ListMessages, request, ask)
            if not page.messages:
                return {"session_id": session_id, "message": "Session cleared"}
            purge = states_pb2.PurgeMessagesRequest(message_ids=[message.message_id for message in page.messages])
            await self._api.call(self._api.sessions.PurgeMessages, purge, ask)

    async def _delete(self, ask: Ask) -> Message:
        session_id = fields.required_text(ask.said, "session_id")
        request = pb.DeleteSessionRequest(session_id=session_id, request_id=ask.repeat)
        await self._api.call(self._api.sessions.DeleteSession, request, ask)
        return {"session_id": session_id, "message": "Session deleted"}


async def create_session(api: GatewayApi, ask: Ask) -> str:
    """Open a session under the id that its assistant chose, or under one of ours; return the id."""
    session_id = fields.text(ask.said, "session_id") or str(ask.made_id())
    metadata = fields.mapping(ask.said.get("metadata"), "metadata")
    opens = pb.Session(
        subject_id=fields.text(ask.said, "user_id") or DEFAULT_USER,
        session_type=fields.text(ask.said, "session_type"),
        agent_id=fields.text(ask.said, "created_by"),
        metadata=fields.struct(metadata, "metadata") if metadata else None,
    )
    if await named_sessions.open_session(api, ask, session_id, opens) is None:
        # It is there, or it was.
        try:
            await api.call(api.sessions.GetSession, pb.GetSessionRequest(session_id=session_id), ask)
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
            text = "A session of this id was deleted; choose another session_id"
            raise RequestError(SESSION_NOT_FOUND, text) from None
    return session_id


class HeartbeatPublisher:
    """Publishes again and again that the agent is alive, and how many sessions are active."""

    def __init__(self, api: GatewayApi, publishers: Sequence[Publisher], *, seconds: float) -> None:
        self._api = api
        self._publishers = publishers
        self._seconds = seconds
        self._active: int | None = None
        self._count_again = 0.0

    async def beat(self) -> None:
        """Publish until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + self._seconds
            if any(publisher.has_subscribers for publisher in self._publishers):
                await self._look()
                for publisher in self._publishers:
                    publisher.publish(json.dumps(self._status()))
            await asyncio.sleep(max(0.0, due - loop.time()))

    def _status(self) -> dict[str, Any]:
        return {
            "component": "session_memory_agent",
            "status": "running" if self._active is not None else "degraded",
            "timestamp": local_timestamp(),
            # The original agent tells the path of its database file here.
            "metrics": {"active_sessions": self._active, "db_path": "skein"},
        }

    async def _look(self) -> None:
        """Count anew, if the last count is old; without an answer the number is not known."""
        loop = asyncio.get_running_loop()
        if self._active is not None and loop.time() < self._count_again:
            return
        errand = RequestContext(request_id="", deadline=loop.time() + _LOOK_SECONDS)
        try:
            self._active = await self._counted(errand)
            self._count_again = loop.time() + min(2 * self._seconds, _LONGEST_COUNT_SECONDS)
        except (RequestError, aio.AioRpcError):
            self._active = None

    async def _counted(self, errand: RequestContext) -> int:
        request = pb.ListSessionsRequest(state=pb.SESSION_STATE_ACTIVE, page_size=_COUNTED_PAGE)
        counted: set[str] = set()
        for _ in range(_COUNTED_PAGES):
            page = await self._api.call(self._api.sessions.ListSessions, request, errand)
            counted |= {session.session_id for session in page.sessions}
            request.page_token = page.next_page_token
            if not page.next_page_token:
                break
        return len(counted)


def _turn(message: pb.Message) -> dict[str, Any]:
    given = message.metadata.fields.get(_ROLE_KEY)
    return {
        "role": (given.string_value if given is not None else "") or _NAMES.get(message.role, "assistant"),
        "content": message.content,
        "timestamp": timestamp(message.create_time.ToDatetime(tzinfo=UTC)),
    }


def _result(hit: pb.MessageHit) -> dict[str, Any]:
    """Write what a search found as the memory that the later agent kept it as."""
    turn = _turn(hit.message)
    metadata = {name: value for name, value in fields.to_json(hit.message.metadata).items() if name != _ROLE_KEY}
    place = {"role": turn["role"], "session_id": hit.message.session_id, "timestamp": turn["timestamp"]}
    return {
        "memory_id": hit.message.message_id,
        "content": hit.message.content,
        "metadata": {**metadata, **place},
        **place,
        "score": round(hit.score, 6),
    }
