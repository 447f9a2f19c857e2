"""The sessions pages: a filtered list, and one session with its messages."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from skein.session.v1 import session_pb2
from skein_gateway.console import formats
from skein_gateway.console.browser_sessions import PageContext
from skein_gateway.console.item_names import session_name, session_names
from skein_gateway.console.pages import list_page, page, page_links
from skein_gateway.console.problems import PageError, or_page_error
from skein_gateway.oauth.forms import Parameters

_PAGE = 25
_MESSAGES = 40
STATES = ("active", "paused", "completed", "ended", "hidden")


async def list_sessions(request: Request, context: PageContext, parameters: Parameters) -> Response:
    """List sessions, newest first."""
    state = parameters.get("state") if parameters.get("state") in STATES else ""
    rpc_request = session_pb2.ListSessionsRequest(
        page_size=_PAGE,
        page_token=parameters.get("page"),
        state=f"SESSION_STATE_{state.upper()}" if state else None,
        subject_id=parameters.get("subject").strip(),
        agent_id=parameters.get("agent").strip(),
    )
    response = await or_page_error(context.api.sessions.ListSessions(rpc_request))
    filters = {"state": state, "subject": parameters.get("subject"), "agent": parameters.get("agent")}
    return list_page(
        "sessions",
        request,
        context,
        parameters,
        response,
        title="Sessions",
        names={} if isinstance(response, PageError) else await session_names(context, response.sessions),
        filters=filters,
        states=STATES,
    )


async def show_session(request: Request, context: PageContext, parameters: Parameters) -> Response:
    """Show a session, one page of its messages, oldest first unless `newest` is on, and the message that is named."""
    session_id, newest = parameters.get("id"), parameters.get("newest") == "on"
    response, messages, message = await asyncio.gather(
        context.api.sessions.GetSession(session_pb2.GetSessionRequest(session_id=session_id)),
        or_page_error(
            context.api.sessions.ListMessages(
                session_pb2.ListMessagesRequest(
                    session_id=session_id,
                    page_size=_MESSAGES,
                    page_token=parameters.get("page"),
                    newest_first=newest,
                    show_archived=True,
                )
            )
        ),
        _message(context, parameters.get("message")),
    )
    session = response.session
    listed = [] if isinstance(messages, PageError) else messages.messages
    name = session_name(session)
    if name == session_id and listed and listed[0].sequence == 1:
        name = formats.short(listed[0].content, 90) or name
    if message is not None and message.session_id != session_id:
        message = None

    return page(
        "session",
        request,
        context,
        at="sessions",
        title=name,
        session=session,
        messages=messages,
        # On another page of the list.
        elsewhere=[message] if message is not None and message.sequence not in {one.sequence for one in listed} else [],
        named_sequence=0 if message is None else message.sequence,
        newest=newest,
        status=200,
        **page_links(context, "session", messages, parameters, id=session_id, newest="on" if newest else ""),
    )


async def _message(context: PageContext, message_id: str) -> session_pb2.Message | None:
    """Return a message; None without an id, and if it is gone."""
    if not message_id:
        return None
    response = await or_page_error(
        context.api.sessions.GetMessage(session_pb2.GetMessageRequest(message_id=message_id))
    )
    return None if isinstance(response, PageError) else response.message
