"""Sessions and their messages."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from skein.session.v1 import session_pb2
from skein_gateway.console.pages import page
from skein_gateway.console.problems import PageError, attempted

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from skein_gateway.console.page_handler import PageHandler
    from skein_gateway.console.visitors import PageContext
    from skein_gateway.oauth.forms import Parameters

_PAGE = 25
_MESSAGES = 40
STATES = ("active", "paused", "completed", "ended", "archived")


class Sessions:
    """The handlers of the list and of one session."""

    def routes(self, desk: PageHandler) -> list[Route]:
        """Return the routes."""
        return [*desk.routes("sessions", self.list), *desk.routes("session", self.show)]

    async def list(self, request: Request, visit: PageContext, asked: Parameters) -> Response:
        """List sessions, newest first."""
        state = asked.get("state") if asked.get("state") in STATES else ""
        wanted = session_pb2.ListSessionsRequest(
            page_size=_PAGE,
            page_token=asked.get("page"),
            state=f"SESSION_STATE_{state.upper()}" if state else None,
            subject_id=asked.get("subject").strip(),
            agent_id=asked.get("agent").strip(),
        )
        found = await attempted(visit.api.sessions.ListSessions(wanted))
        chosen = {"state": state, "subject": asked.get("subject"), "agent": asked.get("agent")}
        more = "" if isinstance(found, PageError) else found.next_page_token
        return page(
            "sessions",
            request,
            visit,
            status=found.status if isinstance(found, PageError) else 200,
            at="sessions",
            title="Sessions",
            found=found,
            chosen=chosen,
            states=STATES,
            first=visit.url("sessions", **chosen) if asked.get("page") else "",
            more=visit.url("sessions", **chosen, page=more) if more else "",
        )

    async def show(self, request: Request, visit: PageContext, asked: Parameters) -> Response:
        """Show a session and a page of its messages, oldest first unless the newest are asked for."""
        session_id, newest = asked.get("id"), asked.get("newest") == "on"
        got, said = await asyncio.gather(
            visit.api.sessions.GetSession(session_pb2.GetSessionRequest(session_id=session_id)),
            attempted(
                visit.api.sessions.ListMessages(
                    session_pb2.ListMessagesRequest(
                        session_id=session_id,
                        page_size=_MESSAGES,
                        page_token=asked.get("page"),
                        newest_first=newest,
                        show_stored=True,
                    )
                )
            ),
        )
        order = "on" if newest else ""
        more = "" if isinstance(said, PageError) else said.next_page_token
        return page(
            "session",
            request,
            visit,
            at="sessions",
            title=got.session.title or got.session.session_id,
            session=got.session,
            said=said,
            newest=newest,
            first=visit.url("session", id=session_id, newest=order) if asked.get("page") else "",
            more=visit.url("session", id=session_id, newest=order, page=more) if more else "",
        )
