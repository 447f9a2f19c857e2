"""Settings of the tenancy service."""

from __future__ import annotations

import dataclasses

from skein_kit.settings import Settings


@dataclasses.dataclass(frozen=True, kw_only=True)
class TenancySettings(Settings):
    """Settings of the tenancy service, beside those of every process."""

    # Public HTTP address of the gateway, without a slash at its end: invitations link to it. Empty: the gateway's own.
    issuer: str = ""
    # Slug of the organization for tenants that accounts create; empty: the oldest one.
    accounts_organization: str = ""
    # Tenants that one account may create and own; each has its own rate limits.
    accounts_tenants_most: int = 10
    # Invitations that one tenant may send within an hour.
    invitations_most: int = 100
    # Calls a second that a tenant gets where no quota says otherwise.
    tenant_requests_per_second: float = 1000.0
    # Calls at once that a tenant gets where no quota says otherwise.
    tenant_request_burst: float = 2000.0
    # Calls a second of one key or account where no quota says otherwise.
    caller_requests_per_second: float = 500.0
    # Calls at once of one key or account where no quota says otherwise.
    caller_request_burst: float = 1000.0
    # Seconds between the deletion of a tenant and its purge; only operators may choose less.
    delete_grace_seconds: int = 604800
