"""Idempotent writes whose dry runs are rolled back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from uuid import UUID

from skein_kit.idempotency.store import IdempotencyKey, IdempotencyStore, IdempotentWrite


@asynccontextmanager
async def begin_write(
    idempotency: IdempotencyStore, tenant_id: UUID, key: IdempotencyKey, *, dry_run: bool
) -> AsyncIterator[IdempotentWrite]:
    """Begin an idempotent write. A dry run claims no request id, and is rolled back at the end."""
    with suppress(_Rollback):
        async with idempotency.begin_with_key(tenant_id, replace(key, request_id="") if dry_run else key) as write:
            yield write
            if dry_run:
                raise _Rollback


class _Rollback(Exception):
    """Rolls a transaction back."""
