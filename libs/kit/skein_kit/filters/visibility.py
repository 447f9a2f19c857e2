"""Conditions of more than one field: what a context sees, and what was true in the world at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_kit.filters.expression import And, Compare, Expression, Has, In, Not, Or

if TYPE_CHECKING:
    from datetime import datetime

_SCOPE, _AGENT, _SUBJECT, _SESSION = ("scope",), ("agent_id",), ("subject_id",), ("session_id",)


def visible_to(agent_id: str, subject_id: str, session_id: str) -> Expression:
    """Return what somebody sees who is this agent, with this person, in this session; an empty id stands for none.

    Scopes lie inside one another: what is of a person or a session and names an agent or a person besides is not seen
    by whoever names another one.
    """
    seen: list[Expression] = [Compare(_SCOPE, "=", "global")]
    if agent_id:
        seen.append(And((Compare(_SCOPE, "=", "agent"), Compare(_AGENT, "=", agent_id))))
    # What a field must say if it says anything: the empty text is one that is not set.
    around: list[Expression] = [In(_AGENT, ("", agent_id))] if agent_id else []
    if subject_id:
        seen.append(And((Compare(_SCOPE, "=", "user"), Compare(_SUBJECT, "=", subject_id), *around)))
        around.append(In(_SUBJECT, ("", subject_id)))
    if session_id:
        seen.append(And((Compare(_SCOPE, "=", "session"), Compare(_SESSION, "=", session_id), *around)))
    return Or(tuple(seen)) if len(seen) > 1 else seen[0]


def valid_at_time(at: datetime) -> Expression:
    """Return what was true in the world at a time; ends that are not set are open."""
    since, until = ("valid_from_time",), ("valid_to_time",)
    return And(
        (
            Or((Not(Has(since)), Compare(since, "<=", at))),
            Or((Not(Has(until)), Compare(until, ">", at))),
        )
    )
