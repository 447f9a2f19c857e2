"""Converts rows of session.messages to protobuf, for session and for the hits of recall, and names their speakers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from asyncpg import Record

from skein.session.v1 import session_pb2 as pb
from skein_kit.admission.processor_time import run_by_size, with_pauses
from skein_kit.json_values.fields import fields, list_fields
from skein_kit.rpc.pagination import fit_items
from skein_kit.rpc.well_known_types import to_timestamp
from skein_kit.text.quoted_text import one_line

# What converting a message costs beside its text, in bytes of text.
_ROW_BYTES = 1024


def speaker(name: str, role: str, created_by: str, updated_by: str, *, is_pending: bool) -> str:
    """Return who speaks in a message, on one line: a name, which its author claims, with the author; else the role.

    The author is the principal that stored the message, and the one that changed it last. `is_pending`: it waits for
    approval, which the line says.
    """
    principals = ", ".join(dict.fromkeys(one for one in (created_by, updated_by) if one))
    text = f"{name} ({principals})" if name and principals else name
    text = one_line(text) if name else role
    return f"{text} (waits for approval)" if is_pending else text


def messages(rows: Iterable[Record | Mapping[str, Any]]) -> list[pb.Message]:
    """Convert rows, complete."""
    return [message(row) for row in with_pauses(rows)]


async def fitting_messages(rows: Sequence[Record | Mapping[str, Any]]) -> list[pb.Message]:
    """Convert the first rows that fit one response, off the event loop if they are large."""
    size = sum(_ROW_BYTES + len(row["content"]) for row in rows)
    return await run_by_size(size, lambda: fit_items(map(message, with_pauses(rows))))


def message(row: Record | Mapping[str, Any]) -> pb.Message:
    """Convert a row, complete."""
    return pb.Message(
        message_id=str(row["message_id"]),
        external_id=row["external_id"],
        session_id=row["session_id"],
        sequence=row["sequence"],
        role=f"MESSAGE_ROLE_{row['role'].upper()}",
        content=row["content"],
        name=row["name"],
        subject_id=row["subject_id"],
        agent_id=row["agent_id"],
        tool_call_id=row["tool_call_id"],
        model=row["model"],
        step_id=row["step_id"],
        group_id=row["group_id"],
        sender_id=row["sender_id"],
        offline_thread_id=row["offline_thread_id"],
        create_time=to_timestamp(row["create_time"]),
        created_by=row["created_by"],
        revision=row["revision"],
        update_time=to_timestamp(row["update_time"] or row["create_time"]),
        updated_by=row["updated_by"] or row["created_by"],
        pending_approval=row["pending_approval"],
        **list_fields(parts=row["parts"], tool_calls=row["tool_calls"], tool_returns=row["tool_returns"]),
        **fields(metadata=row["metadata"]),
    )
