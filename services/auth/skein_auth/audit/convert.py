"""Conversion of audit to protobuf messages; secrets and hashes stay out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.auth.v1 import accounts_pb2
from skein_kit.rpc import well_known_types

if TYPE_CHECKING:
    import asyncpg


_OUTCOMES = {
    "success": accounts_pb2.AUDIT_OUTCOME_SUCCESS,
    "refused": accounts_pb2.AUDIT_OUTCOME_REFUSED,
}


def audit_event(row: asyncpg.Record) -> accounts_pb2.AuditEvent:
    return accounts_pb2.AuditEvent(
        audit_event_id=str(row["audit_event_id"]),
        event=row["event"],
        outcome=_OUTCOMES[row["outcome"]],
        reason=row["reason"],
        principal=row["principal"],
        target=row["target"],
        client_id=row["client_id"],
        address=row["address"],
        user_agent=row["user_agent"],
        request_id=row["request_id"],
        create_time=well_known_types.to_timestamp(row["create_time"]),
    )
