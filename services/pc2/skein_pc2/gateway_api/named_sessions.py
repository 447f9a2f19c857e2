"""Sessions under names that assistants choose: there as soon as they are named, however many name them at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc
from grpc import aio

from skein.session.v1 import session_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skein_pc2.gateway_api.client import GatewayApi
    from skein_pc2.protocol.concurrency import RequestContext

# Names that are remembered to be there; of more, those that were not used for longest are asked for again.
_MOST_KNOWN = 10_000


async def append_messages(
    api: GatewayApi,
    errand: RequestContext,
    session_id: str,
    messages: Sequence[pb.Message],
    *,
    opens: pb.Session | None = None,
    request_id: str = "",
) -> list[pb.Message]:
    """Add turns to a session, which is opened if it is not there; return them as stored.

    `opens` is what it is then (its id is `session_id`, whatever it says); None opens a plain one. With a `request_id`,
    which should be made by `messages.repeatable`, the same turns are not added twice.

    Raises AioRpcError. A session that has ended or was archived is refused with the service's own words (SESSION_ENDED,
    SESSION_ARCHIVED); one that was deleted is SESSION_NOT_FOUND, and its name stays taken.
    """
    request = pb.AppendMessagesRequest(
        defer_embedding=True, session_id=session_id, messages=messages, request_id=request_id
    )
    if opens is None:
        request.create_session = True
    try:
        response = await api.call(api.sessions.AppendMessages, request, errand)
    except aio.AioRpcError as error:
        if opens is None or error.code() is not grpc.StatusCode.NOT_FOUND:
            raise
        await open_session(api, errand, session_id, opens)
        response = await api.call(api.sessions.AppendMessages, request, errand)
    api.known_sessions.add(session_id)
    return list(response.messages)


async def ensure_session(
    api: GatewayApi, errand: RequestContext, session_id: str, opens: pb.Session | None = None
) -> None:
    """Make sure that a session is there, at the cost of a call when its name is new to this process.

    One that has ended, was archived or was deleted is there as well: its name is taken. Raises AioRpcError.
    """
    if session_id and session_id not in api.known_sessions:
        await open_session(api, errand, session_id, opens)


async def open_session(
    api: GatewayApi, errand: RequestContext, session_id: str, opens: pb.Session | None = None
) -> pb.Session | None:
    """Open a session; None when there is one of that name, whoever was first. Raises AioRpcError."""
    session = pb.Session()
    if opens is not None:
        session.CopyFrom(opens)
    session.session_id = session_id
    try:
        response = await api.call(api.sessions.CreateSession, pb.CreateSessionRequest(session=session), errand)
    except aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.ALREADY_EXISTS:
            raise
        api.known_sessions.add(session_id)
        return None
    api.known_sessions.add(session_id)
    return response.session


class RecentNames:
    """The names that were used last."""

    def __init__(self, most: int = _MOST_KNOWN) -> None:
        self._most = most
        self._names: dict[str, None] = {}

    def __contains__(self, name: str) -> bool:
        if name not in self._names:
            return False
        self.add(name)
        return True

    def add(self, name: str) -> None:
        """Remember a name as the one used last."""
        self._names.pop(name, None)
        self._names[name] = None
        if len(self._names) > self._most:
            del self._names[next(iter(self._names))]
