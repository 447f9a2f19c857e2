"""How many keys of a tenant work, counted as they come and go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_auth.queries import QUERIES
from skein_kit.quotas.store import QuotaCounter

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from skein_kit.database.transactions import Transaction

# Shared by all tables: it remembers which tenants are limited.
_QUOTAS = QuotaCounter("auth")


async def count_api_keys(tx: Transaction, tenant_id: UUID, at: datetime, *, made: int = 0) -> None:
    """Count keys that were made in this transaction, and count out those that are over by now; best done last.

    Raises QuotaExceeded when the tenant has as many keys as it may have.
    """
    over = await tx.execute(QUERIES["count_out_api_keys"], tenant_id=tenant_id, at=at)
    await _QUOTAS.charge(tx, tenant_id, {"api_keys": made - over})
