"""The keys of the access log's hashes: a random secret for each tenant, which erasing a person destroys."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING

from skein_kit.database.named_queries import Queries
from skein_kit.database.tx_options import TxOptions

if TYPE_CHECKING:
    from uuid import UUID

    from skein_kit.database.transactions import Database

KEY_BYTES = 32
# A process holds a key for so many seconds, also one that was destroyed meanwhile.
HOLD_SECONDS = 5.0


class AccessLogKeys:
    """The keys of tenants, each held in memory for a few seconds."""

    def __init__(self, database: Database) -> None:
        """Read and make keys with the database's role."""
        queries = Queries.of("skein_kit")
        self._read, self._make = queries["read_access_key"], queries["make_access_key"]
        self._database = database
        self._known: dict[UUID, bytes] = {}

    async def of(self, tenant_id: UUID) -> bytes:
        """Return a tenant's key; a tenant that has none gets one."""
        key = self._known.get(tenant_id)
        if key is not None:
            return key
        async with self._database.transaction(tenant_id, TxOptions(plan_once=True, skip_replica=True)) as tx:
            found: bytes | None = await tx.value(self._read, tenant_id=tenant_id)
            if found is None:
                made = secrets.token_bytes(KEY_BYTES)
                await tx.execute(self._make, tenant_id=tenant_id, secret=made)
                # Another process may have been first.
                found = await tx.value(self._read, tenant_id=tenant_id) or made
        self._known[tenant_id] = found
        asyncio.get_running_loop().call_later(HOLD_SECONDS, self._known.pop, tenant_id, None)
        return found
