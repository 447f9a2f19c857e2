"""Sessions under names that assistants choose, created on first use, also by several messages at once."""

from __future__ import annotations

from collections.abc import Sequence

import grpc
from grpc import aio

from skein.session.v1 import session_pb2 as pb
from skein_pc2.gateway_api.client import GatewayApi
from skein_pc2.protocol.concurrency import RequestContext


async def append_messages(
    api: GatewayApi,
    context: RequestContext,
    session_id: str,
    messages: Sequence[pb.Message],
    *,
    draft: pb.Session | None = None,
    request_id: str = "",
) -> list[pb.Message]:
    """Append messages to a session, which is created if needed; return them as stored.

    `draft` is the session to create, with `session_id` as its id; None creates a plain one. With a
    `request_id` from `frames.repeat_key`, a repeat appends nothing.

    Raises AioRpcError: SESSION_ENDED, SESSION_HIDDEN, or SESSION_NOT_FOUND for a deleted session.
    """
    request = pb.AppendMessagesRequest(
        defer_embedding=True, session_id=session_id, messages=messages, request_id=request_id
    )
    if draft is None:
        request.create_session = True
    try:
        response = await api.call(api.sessions.AppendMessages, request, context)
    except aio.AioRpcError as error:
        if draft is None or error.code() is not grpc.StatusCode.NOT_FOUND:
            raise
        await open_session(api, context, session_id, draft)
        response = await api.call(api.sessions.AppendMessages, request, context)
    api.existing_session_ids.add(session_id)
    return list(response.messages)


async def ensure_session(
    api: GatewayApi, context: RequestContext, session_id: str, draft: pb.Session | None = None
) -> None:
    """Create a session unless it exists; this costs a call when the name is new to this process.

    Ended, hidden and deleted sessions keep their names, so nothing is created for them. Raises AioRpcError.
    """
    if session_id and session_id not in api.existing_session_ids:
        await open_session(api, context, session_id, draft)


async def open_session(
    api: GatewayApi, context: RequestContext, session_id: str, draft: pb.Session | None = None
) -> pb.Session | None:
    """Create a session; None when the name is in use. Raises AioRpcError."""
    session = pb.Session()
    if draft is not None:
        session.CopyFrom(draft)
    session.session_id = session_id
    try:
        response = await api.call(api.sessions.CreateSession, pb.CreateSessionRequest(session=session), context)
    except aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.ALREADY_EXISTS:
            raise
        api.existing_session_ids.add(session_id)
        return None
    api.existing_session_ids.add(session_id)
    return response.session
