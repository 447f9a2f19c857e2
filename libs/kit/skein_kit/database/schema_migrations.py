"""Migrations: roles first, then numbered files in one sequence over all services, each applied once and never edited.

One advisory lock keeps two runs apart. Lock and statement timeouts keep a run from stopping the cluster. A run rejects
a file whose text changed after it was applied. Serving processes never migrate: they wait for the version they support.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

import asyncpg

from skein_kit.database import database_roles
from skein_kit.database.citus import prepare_for_citus
from skein_kit.database.connection_settings import database_role
from skein_kit.database.migration_errors import MigrationError, MigrationNotAllowed
from skein_kit.database.transaction_numbers import follow_server

__all__ = ["OWNER", "Migration", "MigrationError", "MigrationNotAllowed", "discover", "migrate", "version"]

OWNER = "skein_owner"
_LOCK = 0x536B65696E  # "Skein"
_FILE = re.compile(r"^(\d{4})_([a-z0-9_]+)\.sql$")
# Longest wait of a migration for a lock, in seconds: later transactions wait behind it.
LOCK_SECONDS = 10.0
_STATEMENT_TIMEOUT = "15min"
_CREATE = """
CREATE SCHEMA IF NOT EXISTS skein;
GRANT USAGE ON SCHEMA skein TO PUBLIC;
CREATE TABLE IF NOT EXISTS skein.migrations (
    number integer PRIMARY KEY,
    name text NOT NULL,
    checksum text NOT NULL,
    apply_time timestamptz NOT NULL DEFAULT now()
);
GRANT SELECT ON skein.migrations TO PUBLIC;
"""
# Migrations before 0026 look into the catalog of Citus when the server has loaded it, though the database lacks it.
_CATALOG_OF_CITUS = """
DO $$
BEGIN
    IF current_setting('citus.version', true) IS NOT NULL
        AND to_regclass('pg_catalog.pg_dist_partition') IS NULL
    THEN
        CREATE TEMPORARY TABLE pg_dist_partition (logicalrelid regclass);
    END IF;
END
$$
"""


@dataclass(frozen=True, order=True, slots=True)
class Migration:
    """One numbered file."""

    number: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        """Return the SHA-256 of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def discover(packages: Iterable[str]) -> list[Migration]:
    """Read the migrations of the packages, in order; the numbers must be 1, 2, 3, ..."""
    migrations: list[Migration] = []
    for package in packages:
        folder = resources.files(package) / "migrations"
        if not folder.is_dir():
            continue
        for file in folder.iterdir():
            match = _FILE.match(file.name)
            if match:
                migrations.append(Migration(int(match.group(1)), match.group(2), file.read_text("utf-8")))
    migrations.sort()
    if [migration.number for migration in migrations] != list(range(1, len(migrations) + 1)):
        message = f"Migration numbers have gaps or repeat: {[migration.number for migration in migrations]}."
        raise MigrationError(message)
    return migrations


async def migrate(
    url: str,
    migrations: Sequence[Migration],
    services: Iterable[str],
    *,
    passwords: Mapping[str, str] | None = None,
    lock_seconds: float = LOCK_SECONDS,
    citus: bool = False,
) -> list[Migration]:
    """Bring the database to the newest version, and return the migrations that were applied now.

    `url` names a superuser, a role that may create roles, or the owner role if the roles and the extension exist.
    `passwords` sets the passwords of service roles. A migration that gets no lock within `lock_seconds` is rolled back;
    those before it stay. `citus` also prepares the database for Citus: see skein_kit.database.citus. Raises
    MigrationError, and MigrationNotAllowed before it has changed anything.
    """
    connection = await asyncpg.connect(url, timeout=10)
    try:
        await connection.execute("SELECT pg_advisory_lock($1)", _LOCK)
        await database_roles.prepare(connection, OWNER, services, passwords or {})
        if citus:
            await prepare_for_citus(connection, OWNER, map(database_role, services))
        await connection.execute(f"SET ROLE {OWNER}")
        await connection.execute(f"SET lock_timeout = {max(1, round(lock_seconds * 1000))}")
        await connection.execute(f"SET statement_timeout = '{_STATEMENT_TIMEOUT}'")
        return await _apply(connection, migrations)
    finally:
        await connection.close()


async def version(connection: asyncpg.Connection[asyncpg.Record]) -> int:
    """Return the number of the newest applied migration; 0 before the first."""
    if await connection.fetchval("SELECT to_regclass('skein.migrations')") is None:
        return 0
    number: int = await connection.fetchval("SELECT coalesce(max(number), 0) FROM skein.migrations")
    return number


async def _apply(connection: asyncpg.Connection[asyncpg.Record], migrations: Sequence[Migration]) -> list[Migration]:
    # Citus sends each of these to every machine, and one of them may be away when there is nothing to do.
    if await connection.fetchval("SELECT to_regclass('skein.migrations')") is None:
        await connection.execute(_CREATE)
    await follow_server(connection)
    rows = await connection.fetch("SELECT number, name, checksum FROM skein.migrations ORDER BY number")
    by_number = {migration.number: migration for migration in migrations}
    for row in rows:
        migration = by_number.get(row["number"])
        if migration is not None and migration.checksum != row["checksum"]:
            message = f"Migration {row['number']:04d}_{row['name']} changed after it was applied; restore its text."
            raise MigrationError(message)
    applied_numbers = {row["number"] for row in rows}
    pending = [migration for migration in migrations if migration.number not in applied_numbers]
    if pending:
        await connection.execute(_CATALOG_OF_CITUS)
    for migration in pending:
        try:
            await _apply_one(connection, migration)
        except asyncpg.LockNotAvailableError:
            message = (
                f"Migration {migration.number:04d}_{migration.name} waited too long for a lock of another "
                "transaction, and was rolled back. End long transactions (pg_stat_activity lists them), then run "
                "`skein migrate` again."
            )
            raise MigrationError(message) from None
    return pending


async def _apply_one(connection: asyncpg.Connection[asyncpg.Record], migration: Migration) -> None:
    async with connection.transaction():
        await connection.execute(migration.text)
        await connection.execute(
            "INSERT INTO skein.migrations (number, name, checksum) VALUES ($1, $2, $3)",
            migration.number,
            migration.name,
            migration.checksum,
        )
