"""The kinds of limits, and changes of quotas. No gRPC, no SQL, no clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

# Rows that are counted as they come and go, by the names of Quota's fields.
COUNTED_KINDS = (
    "members", "agents", "subjects", "tools", "api_keys", "sessions", "messages", "memories", "links", "blocks",
    "snapshots", "agent_states", "session_items", "webhooks", "pages",
)  # fmt: skip
TENANTS = "tenants"
PER_MINUTE, PER_HOUR, PER_DAY = "requests_per_minute", "requests_per_hour", "requests_per_day"
CALLER_PER_MINUTE = "caller_requests_per_minute"
RATE_KINDS = (PER_MINUTE, PER_HOUR, PER_DAY, CALLER_PER_MINUTE)
TENANT_KINDS = (*RATE_KINDS, *COUNTED_KINDS)
ORGANIZATION_KINDS = (*TENANT_KINDS, TENANTS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Quota:
    """The limits that were set for a tenant or an organization."""

    # By kind; a kind without a limit is missing.
    limits: Mapping[str, int]
    # 0: nothing was ever set.
    revision: int
    update_time: datetime | None


@dataclass(frozen=True, kw_only=True, slots=True)
class QuotaChange:
    """Limits to set."""

    # 0: any revision.
    revision: int
    # By kind; None removes the limit.
    limits: Mapping[str, int | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """The number of rows of a kind."""

    kind: str
    used: int
    # None: no limit.
    limit: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class OrganizationUsage:
    """The usage of an organization, summed over its tenants."""

    usage: list[Usage]
    # When the least recently counted tenant was counted; None: no tenant was.
    collect_time: datetime | None
