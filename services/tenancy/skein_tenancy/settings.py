"""Settings of the tenancy service."""

from __future__ import annotations

import dataclasses

from skein_kit.settings import Settings
from skein_tenancy.quotas.model import DefaultRateLimits


@dataclasses.dataclass(frozen=True, kw_only=True)
class TenancySettings(Settings):
    """What the tenancy service is told, besides what every process is told."""

    # The address at which the world reaches the gateway's HTTP, without a slash at its end: invitations link to it.
    # Empty: the gateway's own.
    issuer: str = ""
    # Slug of the organization that tenants which accounts make belong to; empty: the oldest one.
    accounts_organization: str = ""
    # Tenants that one account may own by making them; each has allowances of its own.
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
    # Seconds between the deletion of a tenant and the removal of its rows; only operators may ask for less.
    delete_grace_seconds: int = 604800

    def rates(self) -> DefaultRateLimits:
        """Return the allowances that hold where no quota says otherwise."""
        return DefaultRateLimits(
            tenant_rate=self.tenant_requests_per_second,
            tenant_burst=self.tenant_request_burst,
            caller_rate=self.caller_requests_per_second,
            caller_burst=self.caller_request_burst,
        )
