"""A request for every RPC of agent states, short-term items and erasure, and what they name."""

from __future__ import annotations

import uuid
from typing import Any

from fix_recipe import service
from fix_world import MAKERS, World
from google.protobuf.struct_pb2 import Value

from skein.session.v1 import session_pb2, states_pb2

_states = service("skein.session.v1.SessionService", states_pb2)
_exports = service("skein.session.v1.SessionService", session_pb2)


def _state(things: dict[str, Any], world: World) -> dict[str, Any]:
    state = states_pb2.AgentState(
        agent_id=things.get("state_agent_id", "an agent"), session_id=things.get("session_id", "")
    )
    state.state_data.update({"thought": world.text()})
    return {"state": state}


async def _agent_with_state(world: World) -> str:
    agent_id = f"agent-{uuid.uuid4().hex}"
    made = _state({"state_agent_id": agent_id, "session_id": await world.thing("session_id")}, world)
    await world.tenant.sessions.PutAgentState(states_pb2.PutAgentStateRequest(**made))
    return agent_id


async def _key_of_item(world: World) -> str:
    key = f"key-{uuid.uuid4().hex}"
    await world.tenant.sessions.PutSessionItem(
        states_pb2.PutSessionItemRequest(
            session_id=await world.thing("session_id"), key=key, value=Value(string_value=world.text())
        )
    )
    return key


async def _subject_with_session(world: World) -> str:
    subject_id = f"subject-{uuid.uuid4().hex}"
    session = session_pb2.Session(subject_id=subject_id, title=world.text())
    opened = await world.tenant.sessions.CreateSession(session_pb2.CreateSessionRequest(session=session))
    message = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=world.text("I am "))
    await world.tenant.sessions.AppendMessages(
        session_pb2.AppendMessagesRequest(session_id=opened.session.session_id, messages=[message])
    )
    return subject_id


MAKERS |= {
    "state_agent_id": _agent_with_state,
    "item_key": _key_of_item,
    "speaking_subject_id": _subject_with_session,
}


def _named_state(things: dict[str, Any], _world: World) -> dict[str, Any]:
    return {"agent_id": things["state_agent_id"], "session_id": things["session_id"]}


def _named_item(things: dict[str, Any], _world: World) -> dict[str, Any]:
    return {"session_id": things["session_id"], "key": things["item_key"]}


def _named_subject(things: dict[str, Any], _world: World) -> dict[str, Any]:
    return {"subject_id": things["speaking_subject_id"]}


_states("PutAgentState", "session_id", "state_agent_id", build=_state)
_states("GetAgentState", "session_id", "state_agent_id", build=_named_state)
_states("ListAgentStates", "state_agent_id", build=lambda _t, _w: {})
_states("DeleteAgentState", "session_id", "state_agent_id", build=_named_state)
_states(
    "PutSessionItem",
    "session_id",
    build=lambda t, w: {**t, "key": "another", "value": Value(string_value=w.text())},
)
_states("GetSessionItem", "session_id", "item_key", build=_named_item)
_states("ListSessionItems", "session_id", "item_key", build=lambda t, _w: {"session_id": t["session_id"]})
_states("DeleteSessionItem", "session_id", "item_key", build=_named_item)
_states("PurgeSession", "session_id")
_states("PurgeMessages", "message_id", build=lambda t, _w: {"message_ids": [t["message_id"]]})
_states("PurgeSubject", "speaking_subject_id", build=_named_subject)
_exports("ExportSubject", "speaking_subject_id", build=_named_subject)
