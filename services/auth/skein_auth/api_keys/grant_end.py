"""What ends with an application's grant: API keys and service accounts that it made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_auth.api_keys.quota import count_api_keys
from skein_auth.queries import QUERIES

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from skein_auth.audit.recorder import AuditRecorder
    from skein_kit.database.transactions import Transaction


async def revoke_keys_of_ended_grants(tx: Transaction, tenant_id: UUID, at: datetime, audit: AuditRecorder) -> None:
    """Mark what ended grants of the tenant made as revoked or disabled.

    Credentials are refused without it, because an exchange looks at the grants themselves. It shows the end in lists,
    records it and gives the tenant's quota back.
    """
    keys = await tx.rows(QUERIES["revoke_api_keys_of_ended_grants"], tenant_id=tenant_id, at=at)
    for row in keys:
        target = f"api_key:{row['api_key_id']}"
        await audit.within(tx, "api_key_revoked", tenant_id=tenant_id, target=target, reason="grant_ended")
    accounts = await tx.rows(QUERIES["disable_service_accounts_of_ended_grants"], tenant_id=tenant_id, at=at)
    for row in accounts:
        target = f"service_account:{row['service_account_id']}"
        await audit.within(tx, "service_account_updated", tenant_id=tenant_id, target=target, reason="grant_ended")
    if keys:
        await count_api_keys(tx, tenant_id, at)
