"""The states of a session and how it gets from one to another. Pure.

    active ◄─► paused ◄─► completed     chosen by whoever updates the session
        └─────────┴──────────┴─► ended     by EndSession, or when an active one is idle for too long; it stays ended
    any of these ◄─► archived     put away, and brought back as it was

Only the first three take messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from skein_session.errors import SessionEnded, SessionHidden

ACTIVE, ENDED, ARCHIVED = "active", "ended", "archived"
# Why a session ended that nobody spoke in.
END_REASON_IDLE = "idle"


@dataclass(frozen=True, slots=True)
class SessionState:
    """A session's state, and the one that it goes back to when it is archived."""

    state: str
    archived_state: str | None = None

    def chosen(self, state: str) -> SessionState:
        """Return what an update to a state that callers may choose makes of it."""
        self.must_be_open()
        return SessionState(state)

    def ended(self) -> SessionState:
        """Return what ending makes of it. What has ended is as it was; raises SessionHidden."""
        if self.state == ARCHIVED:
            raise SessionHidden
        return self if self.state == ENDED else SessionState(ENDED)

    def archived(self) -> SessionState:
        """Return what archiving makes of it. What is archived is as it was."""
        return self if self.state == ARCHIVED else SessionState(ARCHIVED, self.state)

    def unarchived(self) -> SessionState:
        """Return what bringing it back makes of it. What is not archived is as it was."""
        return SessionState(self.archived_state or ACTIVE) if self.state == ARCHIVED else self

    def must_be_open(self, session_id: str | None = None) -> None:
        """Raise SessionHidden or SessionEnded unless the session takes messages."""
        if self.state == ARCHIVED:
            raise SessionHidden(session_id=session_id)
        if self.state == ENDED:
            raise SessionEnded(session_id=session_id)


def idle_cutoff(at: datetime, minutes: int) -> datetime | None:
    """Return since when nobody must have spoken in an active session for it to be over; None when it never is."""
    return at - timedelta(minutes=minutes) if minutes > 0 else None
