"""Audit events, and the fields of one that its recorder passes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypedDict
from uuid import UUID

Outcome = Literal["success", "refused"]


class AuditFields(TypedDict, total=False):
    """Fields of an event. Principal, account and client default to those of the current call's caller."""

    outcome: Outcome
    # The ErrorInfo reason of a refusal.
    reason: str
    # NO_TENANT when left out.
    tenant_id: UUID | None
    # The account that is its object or its actor.
    account_id: UUID | None
    principal: str
    # "account:<id>", "api_key:<id>" and so on.
    target: str
    client_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditEvent:
    """One recorded act."""

    tenant_id: UUID
    audit_event_id: UUID
    event: str
    outcome: Outcome
    reason: str
    principal: str
    account_id: UUID | None
    target: str
    client_id: str
    address: str
    user_agent: str
    request_id: str
    create_time: datetime
