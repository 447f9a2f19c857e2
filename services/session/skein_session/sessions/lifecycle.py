"""The states of a session and its transitions. Pure.

    active ◄─► paused ◄─► completed     chosen by updates of the session
        └─────────┴──────────┴─► ended     by EndSession, or when an active session is idle for too long; final
    any of these ◄─► archived     by ArchiveSession; UnarchiveSession returns to the state before

Only the first three take messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from skein_session.errors import SessionEnded, SessionHidden

# The state of a hidden session is called archived in the database and in the API.
ACTIVE, ENDED, HIDDEN = "active", "ended", "archived"
# The end_reason of sessions that ended by idling.
END_REASON_IDLE = "idle"


@dataclass(frozen=True, slots=True)
class SessionState:
    """A session's state and, while it is hidden, the state that unhiding returns to."""

    state: str
    archived_state: str | None = None

    def with_state(self, state: str) -> SessionState:
        """Return the result of an update to a state. Raises SessionHidden and SessionEnded."""
        self.require_open()
        return SessionState(state)

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
        return SessionState(self.archived_state or ACTIVE) if self.state == HIDDEN else self

    def require_open(self, session_id: str | None = None) -> None:
        """Raise SessionHidden or SessionEnded unless the session takes messages."""
        if self.state == HIDDEN:
            raise SessionHidden(session_id=session_id)
        if self.state == ENDED:
            raise SessionEnded(session_id=session_id)


@dataclass(frozen=True, kw_only=True, slots=True)
class Transition:
    """The columns that a change of state sets; None keeps end_time, end_reason and summary."""

    # The session's update_time is at least this.
    at: datetime
    archive_time: datetime | None = None
    end_time: datetime | None = None
    end_reason: str | None = None
    summary: str | None = None


def idle_cutoff(at: datetime, minutes: int) -> datetime | None:
    """Return the time before which an active session was last used to be idle; None disables idling."""
    return at - timedelta(minutes=minutes) if minutes > 0 else None
