"""Requests for the RPCs of sessions beyond their messages: states, windows, summaries, corrections."""

from __future__ import annotations

from fix_recipe import mask, service

from skein.session.v1 import session_pb2

_sessions = service("skein.session.v1.SessionService", session_pb2)
_internal = service("skein.session.v1.SessionInternalService", session_pb2)

_sessions("HideSession", "session_id")
_sessions("UnhideSession", "session_id")
_sessions("SummarizeSession", "session_id", "message_id", build=lambda t, _w: {"session_id": t["session_id"]})
_sessions("GetRecentWindow", "session_id", "message_id", build=lambda t, _w: {"session_id": t["session_id"]})
_sessions("ListAgentMessages", "message_id", build=lambda _t, _w: {"agent_id": "agent", "subject_id": "subject"})
_sessions(
    "UpdateMessage",
    "message_id",
    build=lambda t, _w: {
        "message": session_pb2.Message(**t, content="corrected"),
        "update_mask": mask("content"),
    },
)
_internal("EndIdleSessions")
_internal("InheritParticipants")
_sessions("ListFailedExtractions")
_internal("LeaseModelExtraction")
_internal("CompleteModelExtraction")
_internal(
    "StartModelCall", "message_id", build=lambda t, _w: {**t, "endpoint": "https://model.example", "model": "small"}
)
