"""A request for every RPC of the event log, and for the stream of a session."""

from __future__ import annotations

from fix_recipe import service

from skein.memory.v1 import history_pb2
from skein.session.v1 import session_pb2

_history = service("skein.memory.v1.HistoryService", history_pb2)
_sessions = service("skein.session.v1.SessionService", session_pb2)
# Before all that happened, so that a stream has something to send at once.
BEGINNING = "A" * 32

_history("ListChanges", "memory_id", build=lambda _t, _w: {})
_history("StreamChanges", "memory_id", build=lambda _t, _w: {"position": BEGINNING})
_sessions(
    "StreamMessages",
    "session_id",
    "message_id",
    build=lambda t, _w: {"session_id": t["session_id"], "after_sequence": 0},
)
