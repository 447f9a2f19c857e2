"""Agent states from rows to values and to protobuf."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skein.session.v1 import states_pb2 as pb
from skein_kit.json_values.fields import fields
from skein_kit.rpc.well_known_types import to_timestamp
from skein_session.agent_states.model import StoredAgentState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from asyncpg import Record


def agent_state(columns: Record | Mapping[str, Any]) -> pb.AgentState:
    """Convert a row of session.agent_states."""
    return pb.AgentState(
        agent_id=columns["agent_id"],
        session_id=columns["session_id"],
        revision=columns["revision"],
        expire_time=to_timestamp(columns["expire_time"]),
        create_time=to_timestamp(columns["create_time"]),
        update_time=to_timestamp(columns["update_time"]),
        created_by=columns["created_by"],
        updated_by=columns["updated_by"],
        **fields(state_data=columns["state_data"]),
    )


def stored_agent_state(record: Record) -> StoredAgentState:
    """Convert a row of session.agent_states into the value that a put compares with."""
    return StoredAgentState(
        state_data=record["state_data"],
        revision=record["revision"],
        expire_time=record["expire_time"],
        create_time=record["create_time"],
        created_by=record["created_by"],
    )
