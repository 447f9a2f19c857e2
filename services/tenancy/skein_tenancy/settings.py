"""Settings of the tenancy service."""

from __future__ import annotations

import dataclasses

from skein_kit.settings import Settings, advanced


@dataclasses.dataclass(frozen=True, kw_only=True)
class TenancySettings(Settings):
    """Settings of the tenancy service, beside those of every process."""

    # Public HTTP URL of the gateway, without a slash at its end, for the links of invitations. Empty: the gateway's
    # own.
    issuer: str = ""
    # Slug of the organization of tenants that accounts create; empty: the oldest one.
    accounts_organization: str = ""
    # Most tenants that one account may create and own; each has its own rate limits. Fewer, where anyone may sign up.
    accounts_max_tenants: int = advanced(10)
    # Rate limit of a tenant without a quota of its own, in calls per second, with bursts of twice as many. One key or
    # account gets half of both. More, for tenants that import or measure; a quota sets it for one tenant.
    tenant_requests_per_second: float = 1000.0
    # Seconds between the deletion of a tenant and its purge; only operators may choose less.
    delete_grace_seconds: int = 604800
