"""Requests that name a tenant's sessions in cold storage, and those on their way there."""

from __future__ import annotations

from typing import Any

from fix_recipe import service
from fix_world import MAKERS, World

from skein.session.v1 import archives_pb2, session_pb2

_archives = service("skein.session.v1.SessionService", archives_pb2)
_internal = service("skein.session.v1.SessionInternalService", archives_pb2)


async def _hidden_session(world: World) -> str:
    opened = await world.tenant.sessions.CreateSession(
        session_pb2.CreateSessionRequest(session=session_pb2.Session(title=world.text("put away ")))
    )
    session_id = opened.session.session_id
    message = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=world.text("said long ago "))
    await world.tenant.sessions.AppendMessages(
        session_pb2.AppendMessagesRequest(session_id=session_id, messages=[message])
    )
    await world.tenant.sessions.HideSession(session_pb2.HideSessionRequest(session_id=session_id))
    return session_id


async def _archived_session(world: World) -> str:
    session_id = await _hidden_session(world)
    await world.tenant.sessions.ArchiveSession(archives_pb2.ArchiveSessionRequest(session_id=session_id))
    return session_id


MAKERS |= {"hidden_session_id": _hidden_session, "archived_session_id": _archived_session}


def _hidden(things: dict[str, Any], _world: World) -> dict[str, Any]:
    return {"session_id": things["hidden_session_id"]}


def _archived(things: dict[str, Any], _world: World) -> dict[str, Any]:
    return {"session_id": things["archived_session_id"]}


_archives("ArchiveSession", "hidden_session_id", build=_hidden)
_archives("UnarchiveSession", "archived_session_id", build=_archived)
_archives("ListArchivedSessions", "archived_session_id", build=lambda _t, _w: {})
_internal("ArchiveHiddenSessions")
