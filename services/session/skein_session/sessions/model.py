"""Sessions, their states, and the rules they obey. Pure.

    active ◄─► paused ◄─► completed     chosen by updates of the session
        └─────────┴──────────┴─► ended     by EndSession, or when an active session is idle for too long; final
    any of these ◄─► hidden       by HideSession; UnhideSession returns to the state before

Only the first three take messages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any

from skein_kit.filters.json_properties import Property
from skein_session.errors import SessionEnded, SessionHidden

DEFAULT_TYPE = "conversation"
# A time further ahead would sort before every row written until then.
MAX_CLOCK_SKEW = timedelta(minutes=5)
ACTIVE, ENDED, HIDDEN = "active", "ended", "hidden"
# The end_reason of sessions that ended by idling.
END_REASON_IDLE = "idle"


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionDraft:
    """The validated content of a session to be created. `metadata` is JSON text."""

    session_id: str
    title: str | None
    state: str
    session_type: str
    subject_id: str | None
    agent_id: str | None
    metadata: str | None
    # Values of the metadata that lists can filter by.
    properties: frozenset[Property]
    summary: str | None
    create_time: datetime
    update_time: datetime
    # From then on the session is idle.
    active_time: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionChange:
    """An update of a session; only the values of `fields` take effect. `metadata` is JSON text."""

    session_id: str
    # 0 for any revision.
    revision: int
    fields: frozenset[str]
    title: str | None
    state: str | None
    session_type: str
    subject_id: str | None
    agent_id: str | None
    metadata: str | None
    # Values of the metadata that lists can filter by.
    properties: frozenset[Property]
    summary: str | None


@dataclass(frozen=True, slots=True)
class SessionState:
    """A session's state and, while it is hidden, the state that unhiding returns to."""

    state: str
    hidden_state: str | None = None

    def end(self) -> SessionState:
        """Return the ended session; an ended one is unchanged. Raises SessionHidden."""
        if self.state == HIDDEN:
            raise SessionHidden
        return self if self.state == ENDED else SessionState(ENDED)

    def hide(self) -> SessionState:
        """Return the hidden session; a hidden one is unchanged."""
        return self if self.state == HIDDEN else SessionState(HIDDEN, self.state)

    def unhide(self) -> SessionState:
        """Return the session in the state before it was hidden; one that is not hidden is unchanged."""
        return SessionState(self.hidden_state or ACTIVE) if self.state == HIDDEN else self

    def require_open(self, session_id: str | None = None) -> None:
        """Raise SessionHidden or SessionEnded unless the session takes messages."""
        if self.state == HIDDEN:
            raise SessionHidden(session_id=session_id)
        if self.state == ENDED:
            raise SessionEnded(session_id=session_id)


@dataclass(frozen=True, kw_only=True, slots=True)
class Transition:
    """A change of state, and the columns that it sets; None keeps end_time, end_reason and summary."""

    # SessionState.end, hide or unhide.
    rule: Callable[[SessionState], SessionState]
    # The session's update_time is at least this.
    at: datetime
    hide_time: datetime | None = None
    end_time: datetime | None = None
    end_reason: str | None = None
    summary: str | None = None


def columns_of(value: Any, *, excluded_field: str) -> dict[str, Any]:
    """Return the fields of a dataclass but for one, as parameters of a query."""
    return {field.name: getattr(value, field.name) for field in fields(value) if field.name != excluded_field}


def idle_cutoff(at: datetime, minutes: int) -> datetime | None:
    """Return the time before which an active session was last used to be idle; None disables idling."""
    return at - timedelta(minutes=minutes) if minutes > 0 else None
