"""Rules about callers that several features share."""

from __future__ import annotations

from uuid import UUID

from skein_kit.errors import TenantMissing
from skein_kit.identity.identity_token import Caller


def require_tenant(caller: Caller) -> UUID:
    """Return the caller's tenant, for methods whose access rule does not ask for one. Raises TenantMissing."""
    if caller.tenant_id is None:
        raise TenantMissing
    return caller.tenant_id
