"""What a restore does with certificates of erasures and their keys: later rows win, and one key is active."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from skein_cluster.backup.deletion_statements import insert_certificates
from skein_cluster.backup.deletions import read_deletions

if TYPE_CHECKING:
    import asyncpg
    from fix_database import TestDatabase

    Connection = asyncpg.Connection[Any]

_TENANT = uuid.UUID(int=1)
_KEYS = "SELECT key_id, expire_time IS NULL AS is_active FROM auth.signing_keys WHERE purpose = 'certificate'"
_CERTIFICATES = "SELECT certificate_id, statement FROM auth.erasure_certificates"


async def a_key(connection: Connection, key_id: str, day: int) -> None:
    """Make a key of this day the active one; the one before it is replaced."""
    await connection.execute(
        "UPDATE auth.signing_keys SET expire_time = now() + interval '36525 days'"
        " WHERE purpose = 'certificate' AND expire_time IS NULL"
    )
    await connection.execute(
        "INSERT INTO auth.signing_keys (key_id, public_jwk, encrypted_private_jwk, create_time, purpose)"
        " VALUES ($1, '{}', '', date '2026-01-01' + $2::int, 'certificate')",
        key_id,
        day,
    )


async def a_certificate(
    connection: Connection, certificate_id: uuid.UUID, statement: str, erasure_key: bytes, day: int
) -> None:
    await connection.execute(
        "INSERT INTO auth.erasure_certificates (tenant_id, certificate_id, erasure_key, is_complete, statement, key_id,"
        " signature, memory_tombstones, session_tombstones, create_time, sign_time) VALUES ($6, $1, $2,"
        " false, $3, 'k', $4, '', '', now(), date '2026-01-01' + $5::int)",
        certificate_id,
        erasure_key,
        statement,
        bytes(64),
        day,
        _TENANT,
    )


async def keys(connection: Connection) -> dict[str, bool]:
    return {row["key_id"]: row["is_active"] for row in await connection.fetch(_KEYS)}


async def test_a_backup_from_before_an_emergency_rotation_gets_the_new_key_alone(database: TestDatabase) -> None:
    async with database.superuser() as connection:
        later = connection.transaction()
        await later.start()
        await a_key(connection, "new", 2)
        newest = await read_deletions(connection)
        await later.rollback()
        await a_key(connection, "leaked", 1)

        await insert_certificates(connection, newest)

        assert await keys(connection) == {"new": True}


async def test_the_newest_key_of_both_states_is_active(database: TestDatabase) -> None:
    async with database.superuser() as connection:
        await a_key(connection, "old", 1)
        earlier = await read_deletions(connection)
        await a_key(connection, "new", 2)

        await insert_certificates(connection, earlier)

        assert await keys(connection) == {"old": False, "new": True}


async def test_the_certificate_that_was_signed_last_stays_and_keys_of_erasures_may_have_moved(
    database: TestDatabase,
) -> None:
    first, second, third = uuid.uuid4(), uuid.uuid4(), uuid.uuid4()
    key, next_key, third_key = b"1" * 32, b"2" * 32, b"3" * 32
    async with database.superuser() as connection:
        later = connection.transaction()
        await later.start()
        await a_certificate(connection, first, "complete", next_key, 3)
        await a_certificate(connection, second, "complete", key, 3)
        await a_certificate(connection, third, "stale", third_key, 1)
        newest = await read_deletions(connection)
        await later.rollback()
        await a_certificate(connection, first, "incomplete", key, 2)
        await a_certificate(connection, second, "incomplete", next_key, 2)
        await a_certificate(connection, third, "restored", third_key, 2)

        await insert_certificates(connection, newest)

        rows = {row["certificate_id"]: row["statement"] for row in await connection.fetch(_CERTIFICATES)}
        assert rows == {first: "complete", second: "complete", third: "restored"}
