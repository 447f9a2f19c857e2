"""What an upgrade of a database would do: its migrations, the calls that wait for them, and the disk that they need.

The effects are those of a rehearsal on an empty database of an embedded server of its own. The database itself is read.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg

from skein_cluster import registry
from skein_cluster.backup.source import open_embedded_server
from skein_cluster.embedded.data_dir import refuse_postgres_folder
from skein_cluster.embedded.databases import DATABASE, create_database, has_cluster_database
from skein_cluster.embedded.server import SUPERUSER, running_server
from skein_kit.database.schema_migrations import Migration, TableEffect, migrate, pending_migrations, rehearse, version
from skein_kit.settings import ProcessSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

_CONNECT_SECONDS = 10.0
_SIZES = """
SELECT n.nspname || '.' || c.relname AS name,
    coalesce((SELECT sum(pg_total_relation_size(t.relid)) FROM pg_partition_tree(c.oid) AS t),
        pg_total_relation_size(c.oid), 0)::bigint AS bytes
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND n.nspname || '.' || c.relname = ANY($1)
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedTable:
    """A table that a migration locks or writes, and its size with its indexes."""

    effect: TableEffect
    byte_count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedMigration:
    """A migration that the database lacks."""

    migration: Migration
    tables: tuple[PlannedTable, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class UpgradePlan:
    """What an upgrade would do."""

    # 0: the database has no schema yet. None: there is no database.
    schema_version: int | None
    newest: int
    migrations: tuple[PlannedMigration, ...] = ()
    # None: the database is on a server whose disk is not seen from here.
    free_bytes: int | None = None

    @property
    def disk_bytes(self) -> int:
        """The size of all tables that migrations write."""
        tables = (table for planned in self.migrations for table in planned.tables)
        return sum(table.byte_count for table in tables if table.effect.is_written)


async def plan_upgrade(data_dir: Path, environment: Mapping[str, str]) -> UpgradePlan:
    """Plan the upgrade of the database of SKEIN_DATABASE_URL, or of a data folder, whose server is started if needed.

    Raises SchemaTooOld, SchemaTooNew, DatabaseForeign, the embedded server's errors, and OSError or TimeoutError for a
    database that does not answer.
    """
    newest = registry.migrations()[-1].number
    async with _database(data_dir, environment) as dsn:
        if dsn is None:
            return UpgradePlan(schema_version=None, newest=newest)
        connection = await asyncpg.connect(
            **dsn, timeout=_CONNECT_SECONDS, server_settings={"default_transaction_read_only": "on"}
        )
        try:
            pending = await pending_migrations(connection, registry.migrations(), registry.WITH_DATABASE)
            found = await version(connection)
            effects = await _rehearse(pending) if pending and found else [[] for _ in pending]
            names = {effect.table for each in effects for effect in each}
            sizes = {row["name"]: row["bytes"] for row in await connection.fetch(_SIZES, list(names))}
        finally:
            await connection.close()
    return UpgradePlan(
        schema_version=found,
        newest=newest,
        migrations=tuple(
            PlannedMigration(
                migration=migration,
                tables=tuple(PlannedTable(effect=effect, byte_count=sizes.get(effect.table, 0)) for effect in each),
            )
            for migration, each in zip(pending, effects, strict=True)
        ),
        free_bytes=None if "dsn" in dsn else shutil.disk_usage(data_dir / "postgres").free,
    )


@asynccontextmanager
async def _database(data_dir: Path, environment: Mapping[str, str]) -> AsyncIterator[dict[str, Any] | None]:
    """Yield the keywords for `asyncpg.connect`; None where no database is."""
    settings = ProcessSettings.read(environment)
    url = settings.database_direct_url or settings.database_url
    if url:
        yield {"dsn": url}
        return
    refuse_postgres_folder(data_dir)
    if not (data_dir / "postgres" / "PG_VERSION").exists():
        yield None
        return
    async with open_embedded_server(data_dir, environment) as server:
        yield server.dsn(database=DATABASE) if await has_cluster_database(server) else None


async def _rehearse(pending: Sequence[Migration]) -> list[list[TableEffect]]:
    with _open_folder() as folder:
        async with running_server(folder / "postgres", durable=False) as server:
            await create_database(server, DATABASE)
            url = server.url(user=SUPERUSER, database=DATABASE)
            former = [migration for migration in registry.migrations() if migration.number < pending[0].number]
            await migrate(url, former, registry.WITH_DATABASE)
            return await rehearse(url, pending)


@contextmanager
def _open_folder() -> Iterator[Path]:
    """Create a temporary folder that the server's user can enter."""
    with tempfile.TemporaryDirectory(prefix="skein-upgrade-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        yield folder
