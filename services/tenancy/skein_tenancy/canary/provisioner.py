"""Provisioning of the canary's tenants, once the database accepts them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import asyncpg

from skein_kit.errors import RpcError
from skein_kit.telemetry import logs

if TYPE_CHECKING:
    from skein_tenancy.canary.store import CanaryStore

# The pause before the next attempt while the database is down or not migrated.
_PAUSE_SECONDS = 2.0

log = logs.get("tenancy")


async def provision(store: CanaryStore) -> None:
    """Create what is missing, then wait for ever, as background tasks must."""
    while True:
        try:
            await store.create_missing()
        except (RpcError, asyncpg.PostgresError) as error:
            log.warning("canary_not_made", error=type(error).__name__)
            await asyncio.sleep(_PAUSE_SECONDS)
        else:
            await asyncio.Event().wait()
