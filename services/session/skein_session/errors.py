"""Errors of the session service, besides those that all services share."""

from __future__ import annotations

from skein_kit.errors import AlreadyExists, FailedPrecondition, NotFound


class SessionNotFound(NotFound):
    """No such session is visible to the caller."""

    reason = "SESSION_NOT_FOUND"


class MessageNotFound(NotFound):
    """No such message is visible to the caller."""

    reason = "MESSAGE_NOT_FOUND"


class SessionExists(AlreadyExists):
    """This session_id is taken, maybe by a deleted session."""

    reason = "SESSION_EXISTS"


class SessionEnded(FailedPrecondition):
    """The session has ended: it takes no more messages and stays ended."""

    reason = "SESSION_ENDED"


class SessionIdle(SessionEnded):
    """The session was idle for longer than the tenant's policy allows, so it has ended."""


class SessionHidden(FailedPrecondition):
    """The session is archived: bring it back with UnarchiveSession first."""

    reason = "SESSION_ARCHIVED"


class AgentStateNotFound(NotFound):
    """The agent has no such state, or it has expired."""

    reason = "AGENT_STATE_NOT_FOUND"


class AgentStateExists(AlreadyExists):
    """The agent has a state there already."""

    reason = "AGENT_STATE_EXISTS"


class ItemNotFound(NotFound):
    """The session has no item under this key, or the item has expired."""

    reason = "ITEM_NOT_FOUND"


class ItemsFull(FailedPrecondition):
    """The session has as many items as it may have; delete some, or wait until some expire."""

    reason = "SESSION_ITEMS_FULL"


class SessionArchived(FailedPrecondition):
    """The session's messages lie in cold storage: bring them back with RestoreSession first."""

    reason = "SESSION_STORED"


class SessionNotHidden(FailedPrecondition):
    """The session is not archived: call ArchiveSession before StoreSession."""

    reason = "SESSION_NOT_ARCHIVED"


class SessionTooLong(FailedPrecondition):
    """The session has more messages than one file may hold."""

    reason = "SESSION_TOO_LONG"
