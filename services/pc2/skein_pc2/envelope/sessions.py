"""Sessions, created under ids that assistants may choose, and ended."""

from __future__ import annotations

from typing import Any

from grpc import aio

from skein.session.v1 import session_pb2 as pb
from skein_kit.errors import reason_of_call
from skein_pc2.envelope import convert as wire
from skein_pc2.envelope.request import Action, Request
from skein_pc2.gateway_api.client import GatewayApi
from skein_pc2.gateway_api.named_sessions import open_session
from skein_pc2.protocol.errors import SESSION_NOT_FOUND, VALIDATION_ERROR, RequestError
from skein_pc2.protocol.fields import invalid, mapping, struct, text

_ENDED = pb.SESSION_STATE_ENDED
_HIDDEN = pb.SESSION_STATE_HIDDEN


class SessionActions:
    """create_session, end_session."""

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
