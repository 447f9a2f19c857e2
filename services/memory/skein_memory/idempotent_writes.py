"""Idempotent writes that are rolled back: dry runs, and reads of a saved response."""

from __future__ import annotations

from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
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


async def read_response(idempotency: IdempotencyStore, tenant_id: UUID, key: IdempotencyKey) -> bytes | None:
    """Return the saved response of a request, without claiming it; None for a new request."""
    saved_response: bytes | None = None
    with suppress(_Rollback):
        async with idempotency.begin_with_key(tenant_id, key) as write:
            saved_response = write.saved_response
            raise _Rollback
    return saved_response


class _Rollback(Exception):
    """Rolls a transaction back."""
