"""Sessions between rows, values and protobuf."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from asyncpg import Record

from skein.session.v1 import session_pb2 as pb
from skein_kit.errors import FieldInvalid
from skein_kit.filters import json_properties
from skein_kit.ids import new_id
from skein_kit.rpc.row_times import ImportTimes
from skein_kit.rpc.well_known_types import json_text, read_time, to_message, updated_fields
from skein_session.sessions.listing import SessionFilter
from skein_session.sessions.model import DEFAULT_TYPE, MAX_CLOCK_SKEW, SessionChange, SessionDraft

_STATES: Mapping[pb.SessionState, str] = {
    pb.SESSION_STATE_ACTIVE: "active",
    pb.SESSION_STATE_PAUSED: "paused",
    pb.SESSION_STATE_COMPLETED: "completed",
    pb.SESSION_STATE_ENDED: "ended",
    pb.SESSION_STATE_HIDDEN: "hidden",
}
_STATE_BY_NAME = {name: state for state, name in _STATES.items()}
# The states that updates may set; the others have RPCs of their own.
_SETTABLE_STATES = (pb.SESSION_STATE_ACTIVE, pb.SESSION_STATE_PAUSED, pb.SESSION_STATE_COMPLETED)
_UPDATABLE = frozenset({"title", "state", "session_type", "subject_id", "agent_id", "metadata", "summary"})


def session(record: Record) -> pb.Session:
    """Convert a row of session.sessions."""
    return to_message(pb.Session, record)


def draft(message: pb.Session, *, at: datetime, agent_id: str = "", times: ImportTimes | None = None) -> SessionDraft:
    """Read a session to be created at the time `at`; `agent_id` is the default agent. Raises FieldInvalid.

    `times` are those that an import keeps.
    """
    create_time = read_time(message, "create_time") or at
    if create_time > at + MAX_CLOCK_SKEW:
        raise FieldInvalid(violations=[("session.create_time", "must not be in the future")])
    metadata = json_text(message, "metadata")
    return SessionDraft(
        session_id=message.session_id or str(new_id(at)),
        title=message.title or None,
        state=_settable_state(message.state or pb.SESSION_STATE_ACTIVE),
        session_type=message.session_type or DEFAULT_TYPE,
        subject_id=message.subject_id or None,
        agent_id=message.agent_id or agent_id or None,
        metadata=metadata,
        properties=json_properties.extract_properties({"metadata": metadata}, owner="session"),
        summary=message.summary or None,
        create_time=create_time,
        update_time=times.update_time if times else create_time,
        active_time=times.update_time if times else max(create_time, at),
    )


def change(request: pb.UpdateSessionRequest) -> SessionChange:
    """Read an update; without a mask an unset state changes nothing. Raises FieldInvalid."""
    message = request.session
    if not message.session_id:
        raise FieldInvalid(violations=[("session.session_id", "must be set to the session to update")])
    fields_to_update = updated_fields(request.update_mask, _UPDATABLE)
    if not request.update_mask.paths and not message.state:
        fields_to_update -= {"state"}
    metadata = json_text(message, "metadata")
    return SessionChange(
        session_id=message.session_id,
        revision=message.revision,
        fields=fields_to_update,
        title=message.title or None,
        state=_settable_state(message.state) if "state" in fields_to_update else None,
        session_type=message.session_type or DEFAULT_TYPE,
        subject_id=message.subject_id or None,
        agent_id=message.agent_id or None,
        metadata=metadata,
        properties=json_properties.extract_properties({"metadata": metadata}, owner="session"),
        summary=message.summary or None,
    )


def session_filter(request: pb.ListSessionsRequest) -> SessionFilter:
    """Read the filter of a list."""
    states = {_STATES[state] for state in (*request.states, request.state) if state in _STATES}
    return SessionFilter(
        states=sorted(states) or None,
        session_type=request.session_type or None,
        subject_id=request.subject_id or None,
        agent_id=request.agent_id or None,
        start_time=read_time(request, "start_time", may_be_infinite=True),
        end_time=read_time(request, "end_time", may_be_infinite=True),
        properties=json_properties.parse_matches(request.properties),
    )


def _settable_state(state: pb.SessionState) -> str:
    if state not in _SETTABLE_STATES:
        raise FieldInvalid(violations=[("session.state", "must be active, paused or completed")])
    return _STATES[state]
