"""Agent states between rows, values and protobuf."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from asyncpg import Record

from skein.session.v1 import states_pb2 as pb
from skein_kit.errors import FieldInvalid
from skein_kit.rpc.row_times import ImportTimes
from skein_kit.rpc.well_known_types import json_text, read_time, to_message
from skein_session.agent_states.model import AgentStatePut
from skein_session.ttl import read_ttl

# A time further ahead is a mistake of the caller.
_MAX_STATE_TTL = timedelta(days=36_525)


def agent_state(columns: Record | Mapping[str, Any]) -> pb.AgentState:
    """Convert a row of session.agent_states."""
    return to_message(pb.AgentState, columns)


def agent_state_put(
    request: pb.PutAgentStateRequest,
    *,
    at: datetime,
    principal: str,
    agent_id: str = "",
    times: ImportTimes | None = None,
) -> AgentStatePut:
    """Read a request at the time `at`; `agent_id` is the default agent. Raises FieldInvalid.

    `times` are those that an import keeps; an import may store a state that has expired.
    """
    state = request.state
    if not (state.agent_id or agent_id):
        raise FieldInvalid(violations=[("state.agent_id", "must be set, because the credential has no agent")])
    if not state.HasField("state_data"):
        raise FieldInvalid(violations=[("state.state_data", "must be a JSON object, which may be empty")])
    if request.must_not_exist and state.revision:
        raise FieldInvalid(violations=[("must_not_exist", "must be false when state.revision is set")])
    return AgentStatePut(
        agent_id=state.agent_id or agent_id,
        session_id=state.session_id,
        state_data=json_text(state, "state_data") or "{}",
        is_merge=request.mode == pb.STATE_MODE_MERGE,
        must_not_exist=request.must_not_exist,
        revision=state.revision,
        expire_time=_read_expire_time(request, at),
        at=at,
        principal=principal,
        times=times,
    )


def _read_expire_time(request: pb.PutAgentStateRequest, at: datetime) -> datetime | None:
    expire_time = read_time(request.state, "expire_time")
    ttl = read_ttl(request, "ttl", _MAX_STATE_TTL)
    if ttl is None:
        if expire_time is not None and expire_time <= at and not request.keep_times:
            raise FieldInvalid(violations=[("state.expire_time", "must be in the future")])
        return expire_time
    if expire_time is not None:
        raise FieldInvalid(violations=[("ttl", "must be unset when state.expire_time is set")])
    return at + ttl
