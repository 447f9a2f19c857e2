"""What a tenant has in the database, to be compared before and after calls that may change none of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uuid import UUID

    import asyncpg

# Changes here do not matter: bookkeeping of calls, and rows that background work makes anew.
UNSTEADY = {
    "auth.api_keys",
    "auth.audit_events",
    "auth.auth_sessions",
    "auth.requests",
    "memory.access_log",
    "memory.access_counts",
    # A queue that the worker empties; what it computes is in memory.trust.
    "memory.trust_work",
    "tenancy.jobs",
    "tenancy.rate_limit_buckets",
    "tenancy.collected_usage",
}


async def rows_of(connection: asyncpg.Connection[asyncpg.Record], tenant_id: UUID) -> dict[str, str]:
    """Return a digest of each table's rows of a tenant, for all tables that are written by calls alone."""
    tables = await connection.fetch(
        """
        SELECT n.nspname || '.' || c.relname AS name FROM pg_class c
        JOIN pg_namespace n ON n.oid = c.relnamespace
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id'
        WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname NOT IN ('recall', 'worker')
        """
    )
    names = sorted({row["name"] for row in tables} - UNSTEADY)
    digests = " UNION ALL ".join(
        f"SELECT '{name}' AS name, md5(coalesce(string_agg(t::text, '|' ORDER BY t::text), '')) AS digest "  # noqa: S608
        f"FROM {name} t WHERE tenant_id = $1"
        for name in names
    )
    return {row["name"]: row["digest"] for row in await connection.fetch(digests, tenant_id)}
