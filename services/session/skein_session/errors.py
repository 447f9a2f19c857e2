"""Errors of the session service, besides those that all services share."""

from __future__ import annotations

from skein_kit.errors import Aborted, AlreadyExists, FailedPrecondition, NotFound


class SessionNotFound(NotFound):
    """No such session is visible to the caller."""

    reason = "SESSION_NOT_FOUND"


class MessageNotFound(NotFound):
    """No such message is visible to the caller."""

    reason = "MESSAGE_NOT_FOUND"


class SessionExists(AlreadyExists):
    """Another session, perhaps a deleted one, has this session_id: choose another."""

    reason = "SESSION_EXISTS"


class SessionEnded(FailedPrecondition):
    """The session has ended and takes no more messages: create another session."""

    reason = "SESSION_ENDED"


class SessionIdle(SessionEnded):
    """The session has ended, because it was idle for longer than the policy allows: create another session."""


class SessionHidden(FailedPrecondition):
    """The session is hidden: bring it back with UnhideSession first."""

    reason = "SESSION_HIDDEN"


class AgentStateNotFound(NotFound):
    """The agent has no such state, or it has expired."""

    reason = "AGENT_STATE_NOT_FOUND"


class AgentStateExists(AlreadyExists):
    """The agent has a state in this session already: put it without must_not_exist to replace it."""

    reason = "AGENT_STATE_EXISTS"


class SessionItemNotFound(NotFound):
    """The session has no item under this key, or the item has expired."""

    reason = "SESSION_ITEM_NOT_FOUND"


class ContextLedgerChanged(Aborted):
    """Another turn of the ledger came first: wait for its answer, or ask for a first text with ledger_revision 0."""

    reason = "CONTEXT_LEDGER_CHANGED"


class ItemsFull(FailedPrecondition):
    """The session has as many items as it may have: delete some, or wait until some expire."""

    reason = "SESSION_ITEMS_FULL"


class SessionArchived(FailedPrecondition):
    """The session's messages lie in cold storage: bring them back with UnarchiveSession first."""

    reason = "SESSION_ARCHIVED"


class SessionNotHidden(FailedPrecondition):
    """The session is not hidden: call HideSession before ArchiveSession."""

    reason = "SESSION_NOT_HIDDEN"


class ExtractionOff(FailedPrecondition):
    """The tenant's policy has extraction "off": set it to "rules" first."""

    reason = "EXTRACTION_OFF"


class SessionTooLong(FailedPrecondition):
    """The session has more messages than one file of cold storage may hold: it stays in the tables."""

    reason = "SESSION_TOO_LONG"
