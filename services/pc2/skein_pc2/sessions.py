"""The Session Memory Agent: sessions and messages on port 5574, heartbeats on port 6583."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC
from typing import Any

from grpc import aio

from skein.session.v1 import session_pb2 as pb
from skein.session.v1 import states_pb2
from skein_kit.errors import reason_of_call
from skein_kit.telemetry import logs
from skein_pc2.gateway_api import named_sessions
from skein_pc2.gateway_api.client import GatewayApi
from skein_pc2.protocol import fields
from skein_pc2.protocol.actions import Action, ActionPort, ActionRequest
from skein_pc2.protocol.concurrency import KeyedLock, RequestContext
from skein_pc2.protocol.errors import SESSION_NOT_FOUND, VALIDATION_ERROR, RequestError
from skein_pc2.protocol.frames import Message, local_timestamp, timestamp
from skein_pc2.protocol.health import Health
from skein_pc2.transport.publisher import Publisher

DEFAULT_USER = "default"
_DEFAULT_TOKENS, _MAX_TOKENS = 2000, 250_000
_CHARACTERS_PER_TOKEN = 4
_MAX_TURNS = 1000
_DEFAULT_LIMIT, _MAX_LIMIT = 10, 100
# Most recent sessions of one person that a search covers.
_MAX_SEARCHED_SESSIONS = 20
_PAGE_SIZE, _PURGE_SIZE = 100, 500
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
# Metadata key for roles that Skein does not have.
_ROLE_KEY = "pc2_role"
# Page size and pages of the session count, which also bound it.
_COUNT_PAGE_SIZE, _MAX_COUNT_PAGES = 1000, 5
# A count is reused for two heartbeats, or this long.
_MAX_COUNT_AGE_SECONDS = 30.0
_COUNT_SECONDS = 2.0

log = logs.get("pc2")


class SessionAgent(ActionPort):
    """Answers the actions of port 5574."""

    def __init__(self, api: GatewayApi, health: Health, *, max_concurrency: int) -> None:
        actions = {
            "create_session": self._serialize(self._create),
            "add_interaction": self._serialize(self._add_interaction),
            "get_context": self._get_context,
            "search_interactions": self._search,
            "clear_session": self._serialize(self._clear),
            "delete_session": self._serialize(self._delete),
        }
        super().__init__(health, actions, max_concurrency=max_concurrency)
        self._api = api
        self._agent = health.agent
        self._locks = KeyedLock()

    def health_document(self, action: str) -> Message:
        """Return the health document; except for "ping", its status is that of actions, as in the later agent."""
        document = super().health_document(action)
        status = document["status"] if action == "ping" else "success"
        return {**document, "status": status, "agent": self._agent, "healthy": document["ready"]}

    def _serialize(self, action: Action) -> Action:
        """Serialize actions on a session, for clients that do not wait for replies."""

        async def run_serialized(request: ActionRequest) -> Message:
            session_id = request.fields.get("session_id")
            if not isinstance(session_id, str) or not session_id:
                return await action(request)
            async with self._locks.hold(session_id):
                return await action(request)

        return run_serialized

    async def _create(self, request: ActionRequest) -> Message:
        """Create a session unless it exists."""
        session_id = await create_session(self._api, request)
        return {"session_id": session_id, "message": "Session created"}

    async def _add_interaction(self, request: ActionRequest) -> Message:
        session_id = fields.required_text(request.fields, "session_id")
        role = fields.required_text(request.fields, "role")
        content = fields.required_text(request.fields, "content")
        metadata = dict(fields.mapping(request.fields.get("metadata"), "metadata"))
        skein_role = _ROLES.get(role.strip().lower())
        if skein_role is None or _NAMES[skein_role] != role:
            metadata.setdefault(_ROLE_KEY, role)
        message = pb.Message(
            # Other roles are agents that speak for the assistant.
            role=skein_role or pb.MESSAGE_ROLE_ASSISTANT,
            content=content,
            metadata=fields.struct(metadata, "metadata") if metadata else None,
        )
        (stored,) = await named_sessions.append_messages(
            self._api,
            request,
            session_id,
            [message],
            draft=pb.Session(subject_id=DEFAULT_USER),
            request_id=request.repeat_id,
        )
        return {"session_id": session_id, "interaction_id": stored.message_id, "message": "Interaction added"}

    async def _get_context(self, request: ActionRequest) -> Message:
        """Return the newest messages within `limit` and `max_tokens`, oldest first."""
        session_id = fields.required_text(request.fields, "session_id")
        limit = fields.integer(request.fields.get("limit"), "limit", default=_MAX_TURNS, minimum=0)
        # With `limit` alone, tokens are not limited.
        default_tokens = _DEFAULT_TOKENS if request.fields.get("limit") is None else _MAX_TOKENS
        tokens = fields.integer(request.fields.get("max_tokens"), "max_tokens", default=default_tokens, minimum=0)
        remaining_characters = min(tokens, _MAX_TOKENS) * _CHARACTERS_PER_TOKEN
        max_turns = min(limit, _MAX_TURNS)
        call = pb.ListMessagesRequest(
            session_id=session_id, page_size=_PAGE_SIZE, newest_first=True, show_archived=True
        )
        turns: list[pb.Message] = []
        while True:
            page = await self._api.call(self._api.sessions.ListMessages, call, request)
            for message in page.messages:
                remaining_characters -= len(message.content)
                if remaining_characters < 0 or len(turns) == max_turns:
                    break
                turns.append(message)
            else:
                if page.next_page_token:
                    call.page_token = page.next_page_token
                    continue
            break
        return {"session_id": session_id, "context": [_to_turn(message) for message in reversed(turns)]}

    async def _search(self, request: ActionRequest) -> Message:
        """Search messages, best first: in one session, in a person's sessions, or in all."""
        query = fields.text(request.fields, "query")
        if not query.strip():
            raise RequestError(VALIDATION_ERROR, "Missing query")
        limit = min(_MAX_LIMIT, fields.integer(request.fields.get("limit"), "limit", default=_DEFAULT_LIMIT, minimum=1))
        session_id, user_id = fields.text(request.fields, "session_id"), fields.text(request.fields, "user_id")
        session_ids = await self._sessions_of(user_id, request) if user_id else [session_id]
        if session_id:
            session_ids = [
                searched_session_id for searched_session_id in session_ids if searched_session_id == session_id
            ]

        async def hits_in(searched_session_id: str) -> list[pb.MessageHit]:
            call = pb.SearchMessagesRequest(
                query=query, session_id=searched_session_id, limit=limit, mode=pb.SEARCH_MODE_HYBRID
            )
            try:
                return list((await self._api.call(self._api.sessions.SearchMessages, call, request)).hits)
            except aio.AioRpcError as error:
                # A search by user_id skips archived sessions; a search by session_id fails for an archived one.
                if session_id or reason_of_call(error) != "SESSION_ARCHIVED":
                    raise
                return []

        result = [hit for hits in await asyncio.gather(*map(hits_in, session_ids)) for hit in hits]
        result.sort(key=lambda hit: hit.score, reverse=True)
        results = [_to_result(hit) for hit in result[:limit]]
        return {"results": results, "count": len(results)}

    async def _sessions_of(self, user_id: str, request: ActionRequest) -> list[str]:
        """Return a person's most recent sessions."""
        call = pb.ListSessionsRequest(subject_id=user_id, page_size=_MAX_SEARCHED_SESSIONS)
        session_ids: list[str] = []
        while len(session_ids) < _MAX_SEARCHED_SESSIONS:
            page = await self._api.call(self._api.sessions.ListSessions, call, request)
            session_ids += [session.session_id for session in page.sessions]
            call.page_token = page.next_page_token
            if not page.next_page_token:
                break
        return list(dict.fromkeys(session_ids))[:_MAX_SEARCHED_SESSIONS]

    async def _clear(self, request: ActionRequest) -> Message:
        """Purge a session's messages, as the original agent did; the session still exists."""
        session_id = fields.required_text(request.fields, "session_id")
        call = pb.ListMessagesRequest(session_id=session_id, page_size=_PURGE_SIZE, show_archived=True)
        while True:
            page = await self._api.call(self._api.sessions.ListMessages, call, request)
            if not page.messages:
                return {"session_id": session_id, "message": "Session cleared"}
            purge = states_pb2.PurgeMessagesRequest(message_ids=[message.message_id for message in page.messages])
            await self._api.call(self._api.sessions.PurgeMessages, purge, request)

    async def _delete(self, request: ActionRequest) -> Message:
        session_id = fields.required_text(request.fields, "session_id")
        call = pb.DeleteSessionRequest(session_id=session_id, request_id=request.repeat_id)
        await self._api.call(self._api.sessions.DeleteSession, call, request)
        return {"session_id": session_id, "message": "Session deleted"}


async def create_session(api: GatewayApi, request: ActionRequest) -> str:
    """Create a session under the assistant's id or a new one; return the id."""
    session_id = fields.text(request.fields, "session_id") or str(request.new_id())
    metadata = fields.mapping(request.fields.get("metadata"), "metadata")
    draft = pb.Session(
        subject_id=fields.text(request.fields, "user_id") or DEFAULT_USER,
        session_type=fields.text(request.fields, "session_type"),
        agent_id=fields.text(request.fields, "created_by"),
        metadata=fields.struct(metadata, "metadata") if metadata else None,
    )
    new_session = await named_sessions.open_session(api, request, session_id, draft)
    call = pb.GetSessionRequest(session_id=session_id)
    # A session that is not new exists or was deleted.
    if new_session is None and await api.find(api.sessions.GetSession, call, request) is None:
        raise RequestError(SESSION_NOT_FOUND, "A session of this id was deleted; choose another session_id")
    return session_id


class HeartbeatPublisher:
    """Publishes heartbeats with the number of active sessions."""

    def __init__(self, api: GatewayApi, publishers: Sequence[Publisher], *, interval_seconds: float) -> None:
        self._api = api
        self._publishers = publishers
        self._interval_seconds = interval_seconds
        self._active_sessions: int | None = None
        self._next_count_time = 0.0

    async def run(self) -> None:
        """Publish until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            next_time = loop.time() + self._interval_seconds
            if any(publisher.has_subscribers for publisher in self._publishers):
                await self._refresh_count()
                for publisher in self._publishers:
                    publisher.publish(json.dumps(self._heartbeat()))
            await asyncio.sleep(max(0.0, next_time - loop.time()))

    def _heartbeat(self) -> dict[str, Any]:
        return {
            "component": "session_memory_agent",
            "status": "running" if self._active_sessions is not None else "degraded",
            "timestamp": local_timestamp(),
            # The original agent publishes the path of its database file here.
            "metrics": {"active_sessions": self._active_sessions, "db_path": "skein"},
        }

    async def _refresh_count(self) -> None:
        """Count again if the last count is old; None when the cluster does not answer."""
        loop = asyncio.get_running_loop()
        if self._active_sessions is not None and loop.time() < self._next_count_time:
            return
        context = RequestContext(request_id="", deadline=loop.time() + _COUNT_SECONDS)
        try:
            self._active_sessions = await self._count_active(context)
            self._next_count_time = loop.time() + min(2 * self._interval_seconds, _MAX_COUNT_AGE_SECONDS)
        except (RequestError, aio.AioRpcError):
            self._active_sessions = None

    async def _count_active(self, context: RequestContext) -> int:
        call = pb.ListSessionsRequest(state=pb.SESSION_STATE_ACTIVE, page_size=_COUNT_PAGE_SIZE)
        session_ids: set[str] = set()
        for _ in range(_MAX_COUNT_PAGES):
            page = await self._api.call(self._api.sessions.ListSessions, call, context)
            session_ids |= {session.session_id for session in page.sessions}
            call.page_token = page.next_page_token
            if not page.next_page_token:
                break
        return len(session_ids)


def _to_turn(message: pb.Message) -> dict[str, Any]:
    sent_role = message.metadata.fields.get(_ROLE_KEY)
    return {
        "role": (sent_role.string_value if sent_role is not None else "") or _NAMES.get(message.role, "assistant"),
        "content": message.content,
        "timestamp": timestamp(message.create_time.ToDatetime(tzinfo=UTC)),
    }


def _to_result(hit: pb.MessageHit) -> dict[str, Any]:
    """Return a hit in the form of the later agent's memories."""
    turn = _to_turn(hit.message)
    metadata = {name: value for name, value in fields.to_json(hit.message.metadata).items() if name != _ROLE_KEY}
    origin = {"role": turn["role"], "session_id": hit.message.session_id, "timestamp": turn["timestamp"]}
    return {
        "memory_id": hit.message.message_id,
        "content": hit.message.content,
        "metadata": {**metadata, **origin},
        **origin,
        "score": round(hit.score, 6),
    }
