"""Tenants for tests, many at a time.

Making one through the API takes 20 ms of a processor, and thousands of tests have a tenant of their own. Here one is
made so, and the others get its rows under ids of their own.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

import asyncpg

from skein_auth.api_keys.model import ApiKeyToken
from skein_kit.ids import new_ids, now

# What a tenant with a key has, with what distinguishes one from the other; `made` has a row for each new one.
_COPIES = {
    "tenancy.tenants": (
        "'slug', 'test-' || made.tenant_id, 'display_name', 'test ' || made.tenant_id,"
        " 'create_time', now(), 'update_time', now()"
    ),
    "auth.api_keys": "'api_key_id', made.key_id, 'secret_hash', made.secret_hash, 'create_time', now()",
    "auth.audit_events": (
        "'audit_event_id', made.event_id, 'target', 'api_key:' || made.key_id, 'create_time', now(),"
        " 'request_id', gen_random_uuid()"
    ),
    "auth.usage": "",
}
_MADE = """
    unnest($2::uuid[], $3::uuid[], $4::bytea[], $5::uuid[]) AS made (tenant_id, key_id, secret_hash, event_id)
"""


# How many are made at a time.
_BATCH = 25


@dataclass(slots=True)
class TenantStock:
    """Tenants of one cluster that no test has taken yet: ids with API keys."""

    # What makes the check digits of the first tenant's key, and of all others.
    _check_key: bytes = b""
    # The first tenant's row in each table, as JSON.
    _rows: dict[str, str] = field(default_factory=dict)
    _left: list[tuple[uuid.UUID, str]] = field(default_factory=list)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def take(
        self,
        database: AbstractAsyncContextManager[asyncpg.Connection[asyncpg.Record]],
        make: Callable[[], Awaitable[tuple[uuid.UUID, str]]],
    ) -> tuple[uuid.UUID, str]:
        """Return the id and the key of a tenant; `make` makes the first one, whose rows the others get."""
        async with self._lock:
            if not self._left:
                first = None if self._rows else await make()
                async with database as connection:
                    if first is not None:
                        await self._read(connection, *first)
                    self._left += await self._copies(connection)
            return self._left.pop()

    async def _read(self, connection: asyncpg.Connection[asyncpg.Record], tenant_id: uuid.UUID, api_key: str) -> None:
        key = ApiKeyToken.parse(api_key)
        assert key is not None
        secrets = [row["secret"] for row in await connection.fetch("SELECT secret FROM auth.check_keys")]
        (self._check_key,) = (secret for secret in secrets if key.has_valid_mac([secret]))
        for table in _COPIES:
            query = f"SELECT to_jsonb(first)::text AS row FROM {table} AS first WHERE tenant_id = $1"  # noqa: S608 - as below.
            (found,) = await connection.fetch(query, tenant_id)
            self._rows[table] = found["row"]

    async def _copies(self, connection: asyncpg.Connection[asyncpg.Record]) -> list[tuple[uuid.UUID, str]]:
        time = now()
        keys = [
            ApiKeyToken.new(tenant_id, key_id, self._check_key)
            for tenant_id, key_id in zip(new_ids(time, _BATCH), new_ids(time, _BATCH), strict=True)
        ]
        async with connection.transaction():
            for table, values in _COPIES.items():
                changed = ", ".join(filter(None, ["'tenant_id', made.tenant_id", values]))
                await connection.execute(
                    # Tables and columns of this file.
                    f"INSERT INTO {table} SELECT copy.* FROM {_MADE},"  # noqa: S608
                    f" jsonb_populate_record(NULL::{table}, $1::jsonb || jsonb_build_object({changed})) AS copy",
                    self._rows[table],
                    [key.tenant_id for key in keys],
                    [key.key_id for key in keys],
                    [key.secret_hash() for key in keys],
                    new_ids(time, _BATCH),
                )
        return [(key.tenant_id, key.encode()) for key in reversed(keys)]
