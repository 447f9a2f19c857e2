"""Messages into rows; skein_kit.message_rows converts them back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.session.v1 import session_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from uuid import UUID

ROLES: Mapping[pb.MessageRole, str] = {
    pb.MESSAGE_ROLE_USER: "user",
    pb.MESSAGE_ROLE_ASSISTANT: "assistant",
    pb.MESSAGE_ROLE_SYSTEM: "system",
    pb.MESSAGE_ROLE_TOOL: "tool",
}


def message_row(message: pb.Message, message_id: UUID, create_time: datetime) -> dict[str, object]:
    """Return a message's columns but for its sequence number and its JSON."""
    return {
        "message_id": message_id,
        "session_id": message.session_id,
        "external_id": message.external_id or None,
        "role": ROLES[message.role],
        "content": message.content,
        "name": message.name or None,
        "subject_id": message.subject_id or None,
        "agent_id": message.agent_id or None,
        "tool_call_id": message.tool_call_id or None,
        "model": message.model or None,
        "step_id": message.step_id or None,
        "group_id": message.group_id or None,
        "sender_id": message.sender_id or None,
        "offline_thread_id": message.offline_thread_id or None,
        "create_time": create_time,
        "created_by": message.created_by,
    }
