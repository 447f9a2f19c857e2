"""Audit events as protobuf messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.auth.v1 import accounts_pb2
from skein_kit.rpc.well_known_types import to_timestamp

if TYPE_CHECKING:
    from skein_auth.audit.model import AuditEvent

_OUTCOMES = {
    "success": accounts_pb2.AUDIT_OUTCOME_SUCCESS,
    "refused": accounts_pb2.AUDIT_OUTCOME_REFUSED,
}


def audit_event(value: AuditEvent) -> accounts_pb2.AuditEvent:
    return accounts_pb2.AuditEvent(
        audit_event_id=str(value.audit_event_id),
        event=value.event,
        outcome=_OUTCOMES[value.outcome],
        reason=value.reason,
        principal=value.principal,
        target=value.target,
        client_id=value.client_id,
        address=value.address,
        user_agent=value.user_agent,
        request_id=value.request_id,
        create_time=to_timestamp(value.create_time),
    )
