"""Seeing to it that the canary's tenants are there, as soon as the database takes them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import asyncpg

from skein_kit.errors import RpcError
from skein_kit.telemetry import logs

if TYPE_CHECKING:
    from skein_tenancy.canary.store import CanaryStore

# A database that is away or not migrated yet is asked again after so long.
_PAUSE_SECONDS = 2.0

log = logs.get("tenancy")


async def provision(store: CanaryStore) -> None:
    """Make what is missing, then wait for ever."""
    while True:
        try:
            await store.ensure()
        except (RpcError, asyncpg.PostgresError) as error:
            log.warning("canary_not_made", error=type(error).__name__)
            await asyncio.sleep(_PAUSE_SECONDS)
        else:
            await asyncio.Event().wait()
