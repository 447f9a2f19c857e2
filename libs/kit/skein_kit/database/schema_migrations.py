"""Migrations: roles first, then numbered files in one sequence over all services, each applied once and never edited.

One advisory lock keeps two runs apart. Lock and statement timeouts keep a run from stopping the cluster. A run rejects
a database in which a file has another text, and one that is further ahead than this version serves. Serving processes
never migrate: they wait for the version they support.
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
from skein_kit.database.migration_errors import (
    DatabaseForeign,
    MigrationError,
    MigrationNotAllowed,
    SchemaTooNew,
    SchemaTooOld,
)
from skein_kit.database.transaction_numbers import follow_server
from skein_kit.telemetry.metrics import VERSION

__all__ = [
    "OWNER",
    "DatabaseForeign",
    "Migration",
    "MigrationError",
    "MigrationNotAllowed",
    "SchemaTooNew",
    "SchemaTooOld",
    "TableEffect",
    "discover",
    "migrate",
    "pending_migrations",
    "rehearse",
    "release_faults",
    "version",
]

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
# The version of Skein that applied a migration; NULL: one that did not say so.
_ADD_WRITER = "ALTER TABLE skein.migrations ADD COLUMN IF NOT EXISTS skein_version text"
# The column may be missing.
_APPLIED = """
SELECT number, name, checksum, to_jsonb(m) ->> 'skein_version' AS skein_version
FROM skein.migrations AS m ORDER BY number
"""
_FOREIGN = "SELECT nspname FROM pg_namespace WHERE nspname = ANY($1) ORDER BY nspname"
# Tables, by the oid of the topmost one for partitions, and the files of each.
_TABLES = """
SELECT c.oid, coalesce(pg_partition_root(c.oid), c.oid)::oid AS root, c.relfilenode,
    (SELECT count(*) FROM pg_index AS i WHERE i.indrelid = c.oid) AS indexes
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
"""
_LOCKS = """
SELECT DISTINCT l.relation, l.mode FROM pg_locks AS l
WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation' AND l.granted AND l.relation = ANY($1::oid[])
"""
_NAMES = """
SELECT c.oid, n.nspname || '.' || c.relname AS name
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid = ANY($1::oid[])
"""
_BLOCKS_READS = "AccessExclusiveLock"
_BLOCKS_WRITES = frozenset({"ShareLock", "ShareRowExclusiveLock", "ExclusiveLock"})
_CHANGES_ROWS = "RowExclusiveLock"
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
    def file_name(self) -> str:
        """Return the name of its file, without the ending."""
        return f"{self.number:04d}_{self.name}"

    @property
    def checksum(self) -> str:
        """Return the SHA-256 of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True, order=True, slots=True)
class TableEffect:
    """What one migration does to a table that was there before it."""

    # "memory.memories"; of a partition, the partitioned table.
    table: str
    # Calls that wait until the migration has ended: "reads and writes", "writes", or "" for none.
    waits: str
    # It is written anew, gets an index, or has rows that are written: it needs up to its own size on the disk.
    is_written: bool


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


def release_faults(released: Mapping[str, Mapping[str, str]], migrations: Sequence[Migration]) -> list[str]:
    """Return how the migrations break the rule that released ones stay as they are and new ones follow them.

    `released` has the checksum of each migration by file name, by the first version that had it.
    """
    checksums = {migration.file_name: migration.checksum for migration in migrations}
    versions = {name: version for version, names in released.items() for name in names}
    faults = [
        f"{name} of {version} is missing: it was renamed or removed"
        if name not in checksums
        else f"{name} of {version} was changed"
        for name, version in versions.items()
        if checksums.get(name) != released[version][name]
    ]
    last = max(versions, default="")
    return faults + [
        f"{name} comes before {last}, which is released" for name in checksums if name not in versions and name < last
    ]


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
    MigrationError; MigrationNotAllowed, SchemaTooOld, SchemaTooNew and DatabaseForeign before it has changed anything.
    """
    services = tuple(services)
    connection = await asyncpg.connect(url, timeout=10)
    try:
        await connection.execute("SELECT pg_advisory_lock($1)", _LOCK)
        pending = await pending_migrations(connection, migrations, services)
        await database_roles.prepare(connection, OWNER, services, passwords or {})
        if citus:
            await prepare_for_citus(connection, OWNER, map(database_role, services))
        await connection.execute(f"SET ROLE {OWNER}")
        await connection.execute(f"SET lock_timeout = {max(1, round(lock_seconds * 1000))}")
        await connection.execute(f"SET statement_timeout = '{_STATEMENT_TIMEOUT}'")
        return await _apply(connection, pending)
    finally:
        await connection.close()


async def version(connection: asyncpg.Connection[asyncpg.Record]) -> int:
    """Return the number of the newest applied migration; 0 before the first."""
    if await connection.fetchval("SELECT to_regclass('skein.migrations')") is None:
        return 0
    number: int = await connection.fetchval("SELECT coalesce(max(number), 0) FROM skein.migrations")
    return number


async def pending_migrations(
    connection: asyncpg.Connection[asyncpg.Record], migrations: Sequence[Migration], services: Iterable[str]
) -> list[Migration]:
    """Return the migrations that the database lacks, and change nothing.

    A database that is one migration ahead lacks none: the version before serves it too. Raises SchemaTooOld,
    SchemaTooNew, and DatabaseForeign for a database without migrations that has schemas of the services' names.
    """
    rows = []
    if await connection.fetchval("SELECT to_regclass('skein.migrations')") is not None:
        rows = await connection.fetch(_APPLIED)
    if not rows and (foreign := await connection.fetch(_FOREIGN, list(services))):
        raise DatabaseForeign([row["nspname"] for row in foreign])
    by_number = {migration.number: migration for migration in migrations}
    for row in rows:
        migration = by_number.get(row["number"])
        if migration is not None and migration.checksum != row["checksum"]:
            raise SchemaTooOld(f"{row['number']:04d}_{row['name']}", row["skein_version"] or "", VERSION)
    newest = max(by_number, default=0)
    if rows and rows[-1]["number"] > newest + 1:
        raise SchemaTooNew(rows[-1]["number"], rows[-1]["skein_version"] or "", newest, VERSION)
    applied_numbers = {row["number"] for row in rows}
    return [migration for migration in migrations if migration.number not in applied_numbers]


async def rehearse(url: str, migrations: Sequence[Migration]) -> list[list[TableEffect]]:
    """Apply migrations to a database without rows, and return the effects of each on the tables before it.

    The database has the schema before them. Work that depends on rows is not seen.
    """
    connection = await asyncpg.connect(url, timeout=10)
    try:
        await connection.execute(f"SET ROLE {OWNER}")
        return [await _effects(connection, migration) for migration in migrations]
    finally:
        await connection.close()


async def _effects(connection: asyncpg.Connection[asyncpg.Record], migration: Migration) -> list[TableEffect]:
    former = {row["oid"]: row for row in await connection.fetch(_TABLES)}
    async with connection.transaction():
        await connection.execute(migration.text)
        modes: dict[int, set[str]] = {}
        for row in await connection.fetch(_LOCKS, list(former)):
            modes.setdefault(former[row["relation"]]["root"], set()).add(row["mode"])
        written = {
            former[row["oid"]]["root"]
            for row in await connection.fetch(_TABLES)
            if row["oid"] in former
            and (
                row["relfilenode"] != former[row["oid"]]["relfilenode"]
                or row["indexes"] > former[row["oid"]]["indexes"]
            )
        }
        names = {row["oid"]: row["name"] for row in await connection.fetch(_NAMES, list(modes))}
    return sorted(
        TableEffect(
            table=name,
            waits="reads and writes"
            if _BLOCKS_READS in modes[root]
            else "writes"
            if modes[root] & _BLOCKS_WRITES
            else "",
            is_written=root in written or _CHANGES_ROWS in modes[root],
        )
        for root, name in names.items()
        if modes[root] & {_BLOCKS_READS, *_BLOCKS_WRITES, _CHANGES_ROWS}
    )


async def _apply(connection: asyncpg.Connection[asyncpg.Record], pending: list[Migration]) -> list[Migration]:
    # Citus sends each of these to every machine, and one of them may be away when there is nothing to do.
    if await connection.fetchval("SELECT to_regclass('skein.migrations')") is None:
        await connection.execute(_CREATE)
    await follow_server(connection)
    if pending:
        await connection.execute(_ADD_WRITER)
        await connection.execute(_CATALOG_OF_CITUS)
    for migration in pending:
        try:
            await _apply_one(connection, migration)
        except asyncpg.LockNotAvailableError:
            message = (
                f"Migration {migration.file_name} waited too long for a lock of another "
                "transaction, and was rolled back. End long transactions (pg_stat_activity lists them), then run "
                "`skein migrate` again."
            )
            raise MigrationError(message) from None
    return pending


async def _apply_one(connection: asyncpg.Connection[asyncpg.Record], migration: Migration) -> None:
    async with connection.transaction():
        await connection.execute(migration.text)
        await connection.execute(
            "INSERT INTO skein.migrations (number, name, checksum, skein_version) VALUES ($1, $2, $3, $4)",
            migration.number,
            migration.name,
            migration.checksum,
            VERSION,
        )
