"""Repeats deletions in a restored database by SQL, before services run."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from skein_auth.signing.keyring import CERTIFICATE_OVERLAP
from skein_cluster.backup.deletions import REVOCABLE_TABLES, SERVICES, Deletions, read_certificates
from skein_kit.audit_log.writer import target_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from uuid import UUID

    import asyncpg

    from skein_cluster.backup.deletions import RevocableTable

    Connection = asyncpg.Connection[Any]

# Every table with rows of tenants, partitions through their parents. Reports of deletions and certificates stay.
_TABLES = """
    SELECT format('%I.%I', space.nspname, class.relname) AS name
    FROM pg_class AS class JOIN pg_namespace AS space ON space.oid = class.relnamespace
    JOIN pg_attribute AS attribute ON attribute.attrelid = class.oid
    WHERE attribute.attname = 'tenant_id' AND NOT attribute.attisdropped AND class.relkind IN ('r', 'p')
      AND NOT class.relispartition AND space.nspname NOT IN ('pg_catalog', 'information_schema')
      AND (space.nspname, class.relname) NOT IN (('tenancy', 'deletions'), ('auth', 'erasure_certificates'))
"""
_ORGANIZATIONS = """
    DELETE FROM tenancy.organizations AS organization
    WHERE organization_id = ANY ($1::uuid[]) AND delete_time IS NOT NULL
      AND NOT EXISTS (SELECT FROM tenancy.tenants WHERE tenants.organization_id = organization.organization_id)
"""
_BIND = """
    INSERT INTO tenancy.space_bindings (tenant_id, principal, create_time, created_by)
    SELECT tenant_id, $2::text, $3::timestamptz, $4::text FROM tenancy.tenants WHERE tenant_id = $1
    ON CONFLICT DO NOTHING
"""


# A placeholder until the active key is chosen.
_LATER = datetime(9000, 1, 1, tzinfo=UTC)


async def insert_tombstones(connection: Connection, deletions: Deletions) -> None:
    """Insert every tombstone, also for missing rows: an old export may hold them."""
    existing_tenants = {row["tenant_id"] for row in await connection.fetch("SELECT tenant_id FROM tenancy.tenants")}
    for service in SERVICES:
        await connection.executemany(
            f"INSERT INTO {service}.tombstone_salts (tenant_id, salt) VALUES ($1, $2) ON CONFLICT DO NOTHING",  # noqa: S608 - constants.
            [
                (tenant_id, salt)
                for tenant_id, salt in deletions.salts[service].items()
                if tenant_id in existing_tenants
            ],
        )
        await connection.executemany(
            f"INSERT INTO {service}.tombstones (tenant_id, digest, create_time) VALUES ($1, $2, $3)"  # noqa: S608 - constants.
            " ON CONFLICT (tenant_id, digest)"
            " DO UPDATE SET create_time = greatest(tombstones.create_time, excluded.create_time)",
            [
                (tenant_id, digest, time)
                for (tenant_id, digest), time in deletions.digests[service].items()
                if tenant_id in existing_tenants
            ],
        )


async def insert_certificates(connection: Connection, deletions: Deletions) -> None:
    """Insert certificates of later erasures, and the keys that verify them; the newest active key stays active.

    Of a certificate in both states the row that was signed last stays.
    """
    restored, merged = await read_certificates(connection), Deletions()
    merged.add_certificates(restored)
    merged.add_certificates(deletions)
    active = [key for key in merged.certificate_keys.values() if key["expire_time"] is None]
    newest = max(active, key=lambda key: key["create_time"], default=None)
    async with connection.transaction():
        # Inserted again below, first as replaced keys: one key alone may be active.
        await connection.execute(
            "DELETE FROM auth.signing_keys WHERE key_id = ANY ($1::text[])", list(merged.certificate_keys)
        )
        for name, key in merged.certificate_keys.items():
            expire_time = key["expire_time"]
            if key is not newest and expire_time is None:
                if name not in deletions.certificate_keys and deletions.certificate_keys:
                    # An emergency ended the key, and the later state has deleted it.
                    continue
                expire_time = key["create_time"] + CERTIFICATE_OVERLAP
            await _insert(connection, "auth.signing_keys", {**key, "expire_time": expire_time or _LATER})
        if newest is not None:
            await connection.execute(
                "UPDATE auth.signing_keys SET expire_time = NULL WHERE key_id = $1", newest["key_id"]
            )
        certificates = [
            certificate
            for certificate_id, certificate in merged.certificates.items()
            if certificate is not restored.certificates.get(certificate_id)
        ]
        # All before the first insertion: a later certificate may have the key that an earlier one had before.
        await connection.execute(
            "DELETE FROM auth.erasure_certificates WHERE certificate_id = ANY ($1::uuid[])",
            [certificate["certificate_id"] for certificate in certificates],
        )
        for certificate in certificates:
            await _insert(connection, "auth.erasure_certificates", certificate)


async def _insert(connection: Connection, table: str, row: Mapping[str, Any]) -> None:
    placeholders = ", ".join(f"${number}" for number in range(1, len(row) + 1))
    await connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({placeholders})", *row.values())  # noqa: S608 - its own columns.


async def purge_tenants(connection: Connection, deletions: Deletions) -> list[UUID]:
    """Purge the tenants that were purged later, and report it; return the ids of existing ones."""
    purged_ids = list(deletions.tenants)
    rows = await connection.fetch(
        "SELECT tenant_id FROM tenancy.tenants WHERE tenant_id = ANY ($1::uuid[])", purged_ids
    )
    existing_ids = [row["tenant_id"] for row in rows]
    async with connection.transaction():
        # All tables lose the rows, so their order does not matter.
        await connection.execute("SET LOCAL session_replication_role = replica")
        for row in await connection.fetch(_TABLES):
            await connection.execute(f"DELETE FROM {row['name']} WHERE tenant_id = ANY ($1::uuid[])", existing_ids)  # noqa: S608 - from the catalog.
        for tenant_id in existing_ids:
            report = deletions.tenants[tenant_id]
            await connection.execute("DELETE FROM tenancy.deletions WHERE tenant_id = $1", tenant_id)
            columns = ", ".join(report)
            placeholders = ", ".join(f"${number}" for number in range(1, len(report) + 1))
            await connection.execute(
                f"INSERT INTO tenancy.deletions ({columns}) VALUES ({placeholders})",  # noqa: S608 - its own columns.
                *report.values(),
            )
        await connection.execute(
            "UPDATE tenancy.deletions SET state = 'done', stage = '', finish_time = coalesce(finish_time, now())"
            " WHERE tenant_id = ANY ($1::uuid[])",
            existing_ids,
        )
    await connection.execute(_ORGANIZATIONS, [report["organization_id"] for report in deletions.tenants.values()])
    return existing_ids


async def purge_accounts(connection: Connection, deletions: Deletions) -> int:
    """Delete accounts that were deleted later, and their memberships; return their number."""
    account_ids: Collection[UUID] = list(deletions.accounts)
    async with connection.transaction():
        await connection.execute("DELETE FROM tenancy.memberships WHERE account_id = ANY ($1::uuid[])", account_ids)
        status = await connection.execute("DELETE FROM auth.accounts WHERE account_id = ANY ($1::uuid[])", account_ids)
    return int(status.rpartition(" ")[2])


async def purge_subjects(connection: Connection, tenant_id: UUID, subject_ids: Collection[str]) -> None:
    """Delete subjects of a tenant, with their former versions."""
    # The history last: deleted rows go there.
    for table in ("tenancy.subject_properties", "tenancy.subjects", "tenancy.subjects_history"):
        await connection.execute(
            f"DELETE FROM {table} WHERE tenant_id = $1 AND subject_id = ANY ($2::text[])",  # noqa: S608 - constants.
            tenant_id,
            list(subject_ids),
        )
    await connection.execute(
        "UPDATE auth.audit_events SET subject_target = NULL, subject_salt = NULL"
        " WHERE tenant_id = $1 AND subject_target = ANY ($2::text[])",
        tenant_id,
        [target_of("subject", subject_id) for subject_id in subject_ids],
    )


async def revoke_access(connection: Connection, deletions: Deletions) -> int:
    """Revoke credentials and grants, bind principals and delete service accounts that were later.

    Return the number of those that were valid.
    """
    service_account_ids = [name.partition(":")[2] for name in deletions.service_accounts]
    status = await connection.execute(
        "DELETE FROM auth.service_accounts WHERE service_account_id::text = ANY ($1::text[])", service_account_ids
    )
    count = int(status.rpartition(" ")[2])
    for access in REVOCABLE_TABLES:
        revocations = deletions.revocations[access.table]
        status = await connection.execute(revoke_statement(access), list(revocations), list(revocations.values()))
        count += int(status.rpartition(" ")[2])
    await connection.executemany(_BIND, [tuple(row.values()) for row in deletions.bindings.values()])
    return count


def revoke_statement(access: RevocableTable) -> str:
    """Return the statement that revokes rows, unless they are revoked; it takes their names and times."""
    return (
        f"UPDATE {access.table} SET {access.close}"  # noqa: S608 - constants.
        " FROM unnest($1::text[], $2::timestamptz[]) AS revocations (name, time)"
        f" WHERE {access.column}::text = revocations.name AND {access.is_open}"
    )
