"""Fields of agents, blocks and messages that systems of the MemGPT family share."""

from __future__ import annotations

from typing import Any

from skein.session.v1 import session_pb2
from skein_importers.sources.rows import InvalidRow, Row

_MAX_LIMIT = 100_000
_ROLES = {
    "user": session_pb2.MESSAGE_ROLE_USER,
    "human": session_pb2.MESSAGE_ROLE_USER,
    "assistant": session_pb2.MESSAGE_ROLE_ASSISTANT,
    "ai": session_pb2.MESSAGE_ROLE_ASSISTANT,
    "agent": session_pb2.MESSAGE_ROLE_ASSISTANT,
    "system": session_pb2.MESSAGE_ROLE_SYSTEM,
    "summary": session_pb2.MESSAGE_ROLE_SYSTEM,
    "tool": session_pb2.MESSAGE_ROLE_TOOL,
    "function": session_pb2.MESSAGE_ROLE_TOOL,
    "approval": session_pb2.MESSAGE_ROLE_TOOL,
}


def message_role(row: Row) -> session_pb2.MessageRole:
    """Return a message's role. Raises InvalidRow for a role that is none here."""
    role = row.text("role").strip().lower()
    if role not in _ROLES:
        raise InvalidRow(f"role is none of {', '.join(sorted(_ROLES))}")
    if role != session_pb2.MessageRole.Name(_ROLES[role]).removeprefix("MESSAGE_ROLE_").lower():
        row.count_converted("role", "converted to its usual name")
    return _ROLES[role]


def block_limit(row: Row, length: int) -> int:
    """Return the limit of a block whose value has `length` characters: no shorter, and not above the highest one."""
    limit = row.number("limit") or 0
    if limit > _MAX_LIMIT:
        row.count_converted("limit", f"lowered to {_MAX_LIMIT}")
        limit = _MAX_LIMIT
    if limit < length <= _MAX_LIMIT:
        row.count_converted("limit", "raised to the length of the value")
        limit = length
    return max(int(limit), 0)


def tool_rules(row: Row, extra: dict[str, Any]) -> dict[str, Any]:
    """Return an agent's tool rules as an object; a list becomes its member `rules`."""
    rules = row.document("tool_rules", extra)
    if isinstance(rules, list):
        row.count_converted("tool_rules", "a list became tool_rules.rules")
        return {"rules": rules} if rules else {}
    return rules if isinstance(rules, dict) else {}
