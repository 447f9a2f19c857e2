"""Sessions between rows and protobuf."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.session.v1 import session_pb2 as pb
from skein_kit.json_values.fields import fields
from skein_kit.rpc.well_known_types import to_timestamp
from skein_session.sessions.lifecycle import SessionState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from asyncpg import Record

STATES: Mapping[pb.SessionState, str] = {
    pb.SESSION_STATE_ACTIVE: "active",
    pb.SESSION_STATE_PAUSED: "paused",
    pb.SESSION_STATE_COMPLETED: "completed",
    pb.SESSION_STATE_ENDED: "ended",
    pb.SESSION_STATE_ARCHIVED: "archived",
}
_STATE_BY_NAME = {name: state for state, name in STATES.items()}


def session(record: Record) -> pb.Session:
    """Convert a row of session.sessions."""
    return pb.Session(
        session_id=record["session_id"],
        title=record["title"],
        state=_STATE_BY_NAME[record["state"]],
        session_type=record["session_type"],
        subject_id=record["subject_id"],
        agent_id=record["agent_id"],
        summary=record["summary"],
        end_reason=record["end_reason"],
        message_count=record["message_count"],
        last_sequence=record["last_sequence"],
        revision=record["revision"],
        create_time=to_timestamp(record["create_time"]),
        update_time=to_timestamp(record["update_time"]),
        end_time=to_timestamp(record["end_time"]),
        archive_time=to_timestamp(record["archive_time"]),
        store_time=to_timestamp(record["store_time"]),
        created_by=record["created_by"],
        **fields(metadata=record["metadata"]),
    )


def session_state(record: Record) -> SessionState:
    """Return the state of a row of session.sessions."""
    return SessionState(record["state"], record["archived_state"])
