"""What the session service refuses, beyond the refusals that every service knows."""

from __future__ import annotations

from skein_kit.errors import AlreadyExists, FailedPrecondition, NotFound


class SessionNotFound(NotFound):
    """No such session is visible to the caller."""

    reason = "SESSION_NOT_FOUND"


class MessageNotFound(NotFound):
    """No such message is visible to the caller."""

    reason = "MESSAGE_NOT_FOUND"


class SessionExists(AlreadyExists):
    """This session_id is taken, perhaps by a session that was deleted."""

    reason = "SESSION_EXISTS"


class SessionEnded(FailedPrecondition):
    """The session has ended: it takes no more messages and stays ended."""

    reason = "SESSION_ENDED"
