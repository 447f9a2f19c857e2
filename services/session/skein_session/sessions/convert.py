"""Sessions between rows and protobuf, and messages into rows; skein_kit.message_rows has their way back."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from skein.session.v1 import session_pb2 as pb
from skein.session.v1 import states_pb2
from skein_kit.json_values.fields import fields, value_fields
from skein_kit.rpc.well_known_types import to_timestamp
from skein_session.sessions.lifecycle import SessionState

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from asyncpg import Record

STATES: Mapping[pb.SessionState, str] = {
    pb.SESSION_STATE_ACTIVE: "active",
    pb.SESSION_STATE_PAUSED: "paused",
    pb.SESSION_STATE_COMPLETED: "completed",
    pb.SESSION_STATE_ENDED: "ended",
    pb.SESSION_STATE_ARCHIVED: "archived",
}
ROLES: Mapping[pb.MessageRole, str] = {
    pb.MESSAGE_ROLE_USER: "user",
    pb.MESSAGE_ROLE_ASSISTANT: "assistant",
    pb.MESSAGE_ROLE_SYSTEM: "system",
    pb.MESSAGE_ROLE_TOOL: "tool",
}
_STATE_OF = {text: state for state, text in STATES.items()}


def session(record: Record) -> pb.Session:
    """Convert a row of session.sessions."""
    return pb.Session(
        session_id=record["session_id"],
        title=record["title"],
        state=_STATE_OF[record["state"]],
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


def state_of(record: Record) -> SessionState:
    """Return where a row of session.sessions stands."""
    return SessionState(record["state"], record["archived_state"])


def row(given: pb.Message, message_id: UUID, create_time: datetime) -> dict[str, object]:
    """Return a message's columns but for its sequence number and its JSON."""
    return {
        "message_id": message_id,
        "session_id": given.session_id,
        "external_id": given.external_id or None,
        "role": ROLES[given.role],
        "content": given.content,
        "name": given.name or None,
        "subject_id": given.subject_id or None,
        "agent_id": given.agent_id or None,
        "tool_call_id": given.tool_call_id or None,
        "model": given.model or None,
        "step_id": given.step_id or None,
        "group_id": given.group_id or None,
        "sender_id": given.sender_id or None,
        "offline_thread_id": given.offline_thread_id or None,
        "create_time": create_time,
        "created_by": given.created_by,
    }


def state(record: Record | Mapping[str, Any]) -> states_pb2.AgentState:
    """Convert a row of session.agent_states."""
    return states_pb2.AgentState(
        agent_id=record["agent_id"],
        session_id=record["session_id"],
        revision=record["revision"],
        expire_time=to_timestamp(record["expire_time"]),
        create_time=to_timestamp(record["create_time"]),
        update_time=to_timestamp(record["update_time"]),
        created_by=record["created_by"],
        updated_by=record["updated_by"],
        **fields(state_data=record["state_data"]),
    )


def item(record: Record) -> states_pb2.SessionItem:
    """Convert a row of session.items."""
    return states_pb2.SessionItem(
        session_id=record["session_id"],
        key=record["key"],
        expire_time=to_timestamp(record["expire_time"]),
        create_time=to_timestamp(record["create_time"]),
        update_time=to_timestamp(record["update_time"]),
        created_by=record["created_by"],
        **value_fields(value=record["value"]),
    )
