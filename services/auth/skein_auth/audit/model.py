"""One audit event and the fields that a caller knows of it. No SQL, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

Outcome = Literal["success", "refused"]


class AuditFields(TypedDict, total=False):
    """What is known of an event. Without principal, account or client, those of the call's caller are kept."""

    outcome: Outcome
    # The ErrorInfo reason of a refusal.
    reason: str
    # NO_TENANT when left out.
    tenant_id: UUID | None
    # The account that it happened to, or that did it.
    account_id: UUID | None
    principal: str
    # "account:<id>", "api_key:<id>" and so on.
    target: str
    client_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditEvent:
    """One event on its way into the database."""

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
