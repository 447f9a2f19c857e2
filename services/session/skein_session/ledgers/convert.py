"""Context ledgers between rows and protobuf."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from asyncpg import Record

from skein.session.v1 import ledgers_pb2 as pb

# No cache of a provider lasts longer than a conversation's pause.
LEDGER_TTL = timedelta(days=1)
# Fields that the row has in columns of their own.
_COLUMNS = (
    "ledger_id", "revision", "session_id", "subject_id", "create_time", "expire_time", "space_ids", "principal",
    "agent_id",
)  # fmt: skip


def ledger(row: Record | Mapping[str, Any]) -> pb.ContextLedger:
    """Convert a row of session.context_ledgers."""
    message = pb.ContextLedger.FromString(row["content"])
    message.ledger_id, message.revision = row["ledger_id"], row["revision"]
    message.session_id, message.subject_id = row["session_id"], row["subject_id"]
    message.space_ids.extend(map(str, row["space_ids"] or ()))
    message.create_time.FromDatetime(row["create_time"])
    message.expire_time.FromDatetime(row["expire_time"])
    return message


def exported_ledger(row: Record, *, with_entries: bool = True) -> pb.ContextLedger:
    """Convert a row with its maker for readers, who have no use for digests and their key."""
    message = ledger(row)
    message.principal, message.agent_id = row["principal"], row["agent_id"]
    for name in ("salt", "reader_digest", "request_digest"):
        message.ClearField(name)
    if not with_entries:
        message.ClearField("entries")
    for entry in message.entries:
        entry.ClearField("digest")
    return message


def columns(message: pb.ContextLedger, at: datetime) -> dict[str, object]:
    """Return the columns of a ledger that is stored `at` a time."""
    content = pb.ContextLedger()
    content.CopyFrom(message)
    for name in _COLUMNS:
        content.ClearField(name)
    return {
        "ledger_id": message.ledger_id,
        "revision": message.revision,
        "session_id": message.session_id,
        "subject_id": message.subject_id,
        "space_ids": [UUID(space_id) for space_id in message.space_ids] or None,
        "content": content.SerializeToString(),
        "expire_time": at + LEDGER_TTL,
    }
