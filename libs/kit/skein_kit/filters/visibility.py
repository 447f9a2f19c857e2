"""Conditions of several fields: visibility for an agent, subject and session, and validity at a time."""

from __future__ import annotations

from datetime import datetime

from skein_kit.filters.expression import And, Compare, Expression, Has, In, Not, Or

_SCOPE, _AGENT, _SUBJECT, _SESSION = ("scope",), ("agent_id",), ("subject_id",), ("session_id",)


def visible_to(agent_id: str, subject_id: str, session_id: str) -> Expression:
    """Return the condition for memories that an agent sees with a subject in a session; an empty id means none.

    Scopes are nested: a memory of a subject or session that also names an agent is visible to that one only. With a
    subject, nothing about another one is visible.
    """
    visible: list[Expression] = [Compare(_SCOPE, "=", "global")]
    if agent_id:
        visible.append(And((Compare(_SCOPE, "=", "agent"), Compare(_AGENT, "=", agent_id))))
    # Conditions of the outer scopes: the field is unset, which equals the empty text, or names the same id.
    outer: list[Expression] = [In(_AGENT, ("", agent_id))] if agent_id else []
    if subject_id:
        visible.append(And((Compare(_SCOPE, "=", "user"), Compare(_SUBJECT, "=", subject_id), *outer)))
    if session_id:
        visible.append(And((Compare(_SCOPE, "=", "session"), Compare(_SESSION, "=", session_id), *outer)))
    in_scope = Or(tuple(visible)) if len(visible) > 1 else visible[0]
    return And((In(_SUBJECT, ("", subject_id)), in_scope)) if subject_id else in_scope


def message_visible_to(agent_id: str, subject_id: str, session_id: str) -> Expression:
    """Return the condition for messages that an agent sees with a subject in a session; an empty id means none.

    These are the messages of the session, and of the subject in any session. Like a memory of these scopes, a message
    of another agent or subject is hidden.
    """
    own: list[Expression] = [Compare(_SUBJECT, "=", subject_id)] if subject_id else []
    if session_id:
        own.append(Compare(_SESSION, "=", session_id))
    inner: list[Expression] = [In(_AGENT, ("", agent_id))] if agent_id else []
    if subject_id:
        inner.append(In(_SUBJECT, ("", subject_id)))
    return And((Or(tuple(own)), *inner))


def valid_at_time(at: datetime) -> Expression:
    """Return the condition for memories that are valid at a time; an unset end of the interval is open."""
    since, until = ("valid_from_time",), ("valid_to_time",)
    return And(
        (
            Or((Not(Has(since)), Compare(since, "<=", at))),
            Or((Not(Has(until)), Compare(until, ">", at))),
        )
    )
