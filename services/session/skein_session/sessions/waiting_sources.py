"""What sources whose texts wait for approval may do with sessions: everything but name and summarize them.

Lists of sessions show titles, summaries and reasons to every reader, and nothing of a session waits for approval.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from google.protobuf.message import Message

from skein_kit.calls.call import Call
from skein_kit.errors import ApprovalRequired

if TYPE_CHECKING:
    from skein_kit.approval import Handler
    from skein_session.sessions.rpc import SessionHandlers
    from skein_session.summaries.rpc import SummaryHandlers


def without_texts(sessions: SessionHandlers, summaries: SummaryHandlers) -> Mapping[str, Handler]:
    """Return the methods that set texts of sessions; they raise ApprovalRequired for a text."""
    return {
        "CreateSession": _guarded(sessions.CreateSession, _names_session),
        "UpdateSession": _guarded(sessions.UpdateSession, _names_session),
        "EndSession": _guarded(sessions.EndSession, lambda request: bool(request.summary or request.reason)),
        "SummarizeSession": _guarded(summaries.SummarizeSession, lambda request: request.store),
    }


def _names_session(request: Any) -> bool:
    return bool(request.session.title or request.session.summary or request.session.end_reason)


def _guarded(method: Handler, has_text: Callable[[Any], bool]) -> Handler:
    async def call(request: Message, context: Call) -> Any:
        if has_text(request):
            raise ApprovalRequired
        return await method(request, context)

    return call
