"""The envelope dialect: finds the action of a message and wraps its result. Has the actions of search and sessions."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from grpc import aio

from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2 as pb
from skein_kit.errors import reason_of_call
from skein_pc2.envelope import convert as wire
from skein_pc2.envelope import memories, memory_lists
from skein_pc2.envelope.background_deletion import BackgroundDeletions
from skein_pc2.envelope.request import Action, Request
from skein_pc2.gateway_api.client import GatewayApi
from skein_pc2.gateway_api.named_sessions import open_session
from skein_pc2.protocol.concurrency import ConcurrencyLimit
from skein_pc2.protocol.dialect import is_health_request, is_typed_health_request, typed_health_reply
from skein_pc2.protocol.errors import (
    INVALID_REQUEST,
    SEARCH_ERROR,
    SESSION_NOT_FOUND,
    STORAGE_ERROR,
    VALIDATION_ERROR,
    RequestError,
)
from skein_pc2.protocol.fields import integer, invalid, mapping, required_text, struct, text
from skein_pc2.protocol.frames import Frames, MalformedMessage, Message, timestamp
from skein_pc2.protocol.health import Health

SEARCH = "search"
SEMANTIC, KEYWORD, HYBRID = "semantic", "keyword", "hybrid"

_DEFAULT_LIMIT, _MAX_LIMIT = 5, 100
_DEFAULT_MIN_SIMILARITY = 0.7
# Signals are fused before the cut, so a search with a threshold of its own takes more candidates.
_MIN_CANDIDATES = 50
_MODES = {
    SEMANTIC: recall_pb2.SEARCH_MODE_SEMANTIC,
    KEYWORD: recall_pb2.SEARCH_MODE_KEYWORD,
    HYBRID: recall_pb2.SEARCH_MODE_HYBRID,
}
_ENDED = pb.SESSION_STATE_ENDED
_HIDDEN = pb.SESSION_STATE_HIDDEN


class Orchestrator:
    """Answers every action of the Memory Orchestrator."""

    def __init__(
        self, api: GatewayApi, health: Health, deletions: BackgroundDeletions, *, max_concurrency: int
    ) -> None:
        """Run up to `max_concurrency` actions at the same time; others wait. Health is answered at once."""
        self._health = health
        self._limit = ConcurrencyLimit(max_concurrency)
        self._actions: dict[str, Action] = {
            **memories.Memories(api).actions(),
            **memory_lists.MemoryLists(api, deletions).actions(),
            **SessionActions(api).actions(),
            SEARCH: SearchAction(api).search,
        }

    async def answer(self, frames: Frames, *, deadline: float) -> Message:
        try:
            message = frames.parse()
        except MalformedMessage as error:
            return self.error_reply(INVALID_REQUEST, str(error))
        if is_health_request(message):
            return self._health.document()
        if is_typed_health_request(message):
            return typed_health_reply(self._health.document())
        sent_id = message.get("request_id")
        envelope: Message = {
            "action": message.get("action", ""),
            "request_id": sent_id if sent_id is not None else f"req-{secrets.token_hex(8)}",
        }
        try:
            request = Request.of(message, request_id=str(envelope["request_id"]), deadline=deadline)
            data = await self._run_action(request)
        except RequestError as error:
            reply_error = {"code": error.code, "message": error.message, "details": error.details}
            return {"status": "error", **envelope, "error": reply_error, "timestamp": timestamp()}
        return {"status": "success", **envelope, "data": data, "timestamp": timestamp()}

    def error_reply(self, code: str, text: str) -> Message:
        return {
            "status": "error",
            "action": "",
            "request_id": f"req-{secrets.token_hex(8)}",
            "error": {"code": code, "message": text, "details": {}},
            "timestamp": timestamp(),
        }

    async def _run_action(self, request: Request) -> dict[str, Any]:
        action = self._actions.get(request.action)
        if action is None:
            raise RequestError(INVALID_REQUEST, f"Unknown action: {request.action}")
        transient_code = SEARCH_ERROR if request.action == SEARCH else STORAGE_ERROR
        return await self._limit.run(
            request, lambda: action(request), name=request.action, transient_code=transient_code
        )


class SearchAction:
    """Finds memories: by meaning, by words, or by both."""

    def __init__(self, api: GatewayApi) -> None:
        self._api = api

    async def search(self, request: Request) -> dict[str, Any]:
        """Find the best memories of a session for a query."""
        search = SearchRequest(request.payload, session_id=request.required_session_id())
        response = await self._api.call(self._api.index.Recall, search.recall_request(), request)
        results = search.results(response)
        return {
            "results": results,
            "total_count": len(results),
            "search_metadata": {
                "search_type": search.type,
                "embedding_model": response.model,
                "query_embedding_dimension": await self._api.dimensions(response.model, request),
            },
        }


class SearchRequest:
    """The payload of `search`."""

    def __init__(self, payload: Mapping[str, Any], *, session_id: str) -> None:
        self._query = required_text(payload, "query")
        filters = mapping(payload.get("filters"), "filters")
        self.type = payload.get("search_type") or HYBRID
        if self.type not in (SEMANTIC, KEYWORD, HYBRID):
            raise invalid("search_type", "is semantic, keyword or hybrid")
        limit = filters.get("limit", payload.get("limit"))
        self.limit = min(integer(limit, "filters.limit", default=_DEFAULT_LIMIT, minimum=1), _MAX_LIMIT)
        self._min_similarity = _parse_similarity(filters.get("min_similarity"))
        self._filter = wire.parse_filter(filters, "filters", session_id=session_id)

    def recall_request(self) -> recall_pb2.RecallRequest:
        """Return the Recall request for candidates."""
        has_own_threshold = self.type == HYBRID and self._min_similarity is not None
        candidates = min(_MAX_LIMIT, max(_MIN_CANDIDATES, 2 * self.limit)) if has_own_threshold else self.limit
        threshold = _DEFAULT_MIN_SIMILARITY if self._min_similarity is None else self._min_similarity
        return recall_pb2.RecallRequest(
            query=self._query,
            limit=candidates,
            kinds=[recall_pb2.ITEM_KIND_MEMORY],
            filter=self._filter,
            # The threshold applies to semantic search alone.
            min_similarity=threshold if self.type == SEMANTIC else 0.0,
            mode=_MODES[self.type],
            min_relevance=0,
            show_duplicates=True,
        )

    def results(self, response: recall_pb2.RecallResponse) -> list[dict[str, Any]]:
        """Return the hits, best first by the search type."""
        scored_hits = [(self._score(hit), hit) for hit in response.hits]
        result = [(score, hit) for score, hit in scored_hits if score is not None]
        result.sort(key=lambda pair: pair[0], reverse=True)
        return [
            {**wire.memory_data(hit.memory), "similarity_score": round(score, 6)} for score, hit in result[: self.limit]
        ]

    def _score(self, hit: recall_pb2.Hit) -> float | None:
        """Return a hit's score for this search type, 0 to 1; None when it does not match."""
        if self.type != HYBRID or self._min_similarity is None:
            return hit.score
        return hit.score if hit.similarity >= self._min_similarity or hit.has_query_words else None


def _parse_similarity(value: object) -> float | None:
    """Read the lowest similarity; None leaves it to the search type."""
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        raise invalid("filters.min_similarity", "is a number from 0 to 1")
    return float(value)


class SessionActions:
    """create_session, end_session: sessions have ids that assistants may choose."""

    def __init__(self, api: GatewayApi) -> None:
        self._api = api

    def actions(self) -> dict[str, Action]:
        """Return the handlers by the protocol's action names."""
        return {"create_session": self._create_session, "end_session": self._end_session}

    async def _create_session(self, request: Request) -> dict[str, Any]:
        """Create a session. A session that its first message created gets the missing fields."""
        session = _parse_session(request)
        session_id = request.session_id or request.new_id("session")
        stored = await open_session(self._api, request, session_id, session)
        if stored is None:
            stored = await self._set_missing_fields(session_id, session, request)
        return {"session_id": stored.session_id, "created_at": wire.time_of(stored, "create_time")}

    async def _set_missing_fields(self, session_id: str, draft: pb.Session, request: Request) -> pb.Session:
        """Set the fields that a session lacks."""
        stored = await self._read_session(session_id, request)
        if stored.state in {_ENDED, _HIDDEN}:
            raise RequestError(
                VALIDATION_ERROR, "The session has ended; open one under another id", session_id=session_id
            )
        paths = [name for name in ("subject_id", "metadata") if _is_set(draft, name) and not _is_set(stored, name)]
        if draft.session_type and not stored.subject_id and not stored.HasField("metadata"):
            paths.append("session_type")
        if not paths:
            return stored
        draft.session_id = session_id
        call = pb.UpdateSessionRequest(session=draft, request_id=request.repeat_id)
        call.update_mask.paths.extend(paths)
        return (await self._api.call(self._api.sessions.UpdateSession, call, request)).session

    async def _end_session(self, request: Request) -> dict[str, Any]:
        """End a session, and hide it if `archive` is true; an ended session does not change."""
        session_id = request.session_id
        if not session_id:
            raise invalid("session_id", "is needed")
        is_archived = request.payload.get("archive")
        if not isinstance(is_archived, bool | None):
            raise invalid("archive", "is true or false")
        session = await self._end(session_id, request)
        if is_archived and session.state != _HIDDEN:
            call = pb.HideSessionRequest(session_id=session_id, request_id=request.repeat_id)
            session = (await self._api.call(self._api.sessions.HideSession, call, request)).session
        return {
            "session_id": session.session_id,
            "ended_at": wire.time_of(session, "end_time") or wire.time_of(session, "hide_time"),
            "is_archived": session.state == _HIDDEN,
        }

    async def _end(self, session_id: str, request: Request) -> pb.Session:
        call = pb.EndSessionRequest(
            session_id=session_id, summary=text(request.payload, "summary"), request_id=request.repeat_id
        )
        try:
            return (await self._api.call(self._api.sessions.EndSession, call, request)).session
        except aio.AioRpcError as error:
            if reason_of_call(error) != "SESSION_HIDDEN":
                raise
        return await self._read_session(session_id, request)

    async def _read_session(self, session_id: str, request: Request) -> pb.Session:
        call = pb.GetSessionRequest(session_id=session_id)
        reply = await self._api.find(self._api.sessions.GetSession, call, request)
        if reply is None:
            raise RequestError(
                SESSION_NOT_FOUND,
                "The session was deleted, and its id stays taken; open one under another id",
                session_id=session_id,
            )
        return reply.session


def _parse_session(request: Request) -> pb.Session:
    """Read the payload of `create_session`."""
    payload = request.payload
    metadata = mapping(payload.get("session_metadata"), "session_metadata")
    session = pb.Session(
        subject_id=text(payload, "user_id"),
        session_type=text(payload, "session_type") or text(metadata, "session_type", "session_metadata.session_type"),
    )
    if metadata:
        session.metadata.CopyFrom(struct(metadata, "session_metadata"))
    return session


def _is_set(session: pb.Session, name: str) -> bool:
    return session.HasField("metadata") if name == "metadata" else bool(getattr(session, name))
