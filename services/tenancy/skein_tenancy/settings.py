"""Settings of the tenancy service."""

from __future__ import annotations

import dataclasses

from skein_kit.settings import Settings


@dataclasses.dataclass(frozen=True, kw_only=True)
class TenancySettings(Settings):
    """Settings of the tenancy service, beside those of every process."""

    # Public HTTP URL of the gateway, without a slash at its end, for the links of invitations. Empty: the gateway's
    # own.
    issuer: str = ""
    # Slug of the organization of tenants that accounts create; empty: the oldest one.
    accounts_organization: str = ""
    # Most tenants that one account may create and own; each has its own rate limits.
    accounts_tenants_most: int = 10
    # Most invitations of one tenant within an hour.
    invitations_most: int = 100
    # Rate limit of a tenant without a quota of its own, in calls per second.
    tenant_requests_per_second: float = 1000.0
    # Burst of a tenant without a quota of its own, in calls.
    tenant_request_burst: float = 2000.0
    # Rate limit of one key or account without a quota of its own, in calls per second.
    caller_requests_per_second: float = 500.0
    # Burst of one key or account without a quota of its own, in calls.
    caller_request_burst: float = 1000.0
    # Seconds between the deletion of a tenant and its purge; only operators may choose less.
    delete_grace_seconds: int = 604800
