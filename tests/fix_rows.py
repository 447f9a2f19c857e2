"""What a tenant has in the database, to be compared before and after calls that may change none of it."""

from __future__ import annotations

from uuid import UUID

import asyncpg

# Changes here do not matter: bookkeeping of calls, and rows that background work makes anew.
UNSTEADY = {
    "auth.api_keys",
    "auth.audit_checkpoints",
    "auth.audit_events",
    "auth.auth_sessions",
    "auth.requests",
    "memory.access_log",
    "memory.access_counts",
    # What the worker sends, again and again to a receiver that is not there.
    "memory.deliveries",
    # A queue that the worker empties; what it computes is in memory.trust.
    "memory.trust_work",
    "tenancy.jobs",
    "tenancy.rate_limit_buckets",
    "tenancy.collected_usage",
}
# Columns that the worker writes in tables of the others.
WORKERS_COLUMNS = {
    "memory.webhooks": ("transaction", "change_id", "failures", "last_delivery_time", "last_error", "retry_time"),
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
        f"SELECT '{name}' AS name, md5(coalesce(string_agg(t.row::text, '|' ORDER BY t.row::text), '')) AS digest "  # noqa: S608
        f"FROM (SELECT {_row(name)} AS row FROM {name} AS r WHERE tenant_id = $1) AS t"
        for name in names
    )
    return {row["name"]: row["digest"] for row in await connection.fetch(digests, tenant_id)}


def _row(table: str) -> str:
    """Return the expression for a row of a table, without the columns of the worker."""
    columns = WORKERS_COLUMNS.get(table, ())
    return f"to_jsonb(r) - ARRAY{list(columns)}" if columns else "r"
