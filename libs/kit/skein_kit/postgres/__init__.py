"""An embedded Postgres with pgvector, from the programs in a wheel: no installation, no root, no container."""

from __future__ import annotations

from skein_kit.postgres.databases import create_database, drop_database, quoted
from skein_kit.postgres.errors import DataDirInUse, DataDirUnusable, EmbeddedPostgresError, PostgresDidNotStart
from skein_kit.postgres.place import erase
from skein_kit.postgres.server import SUPERUSER, Server, running_server

__all__ = [
    "SUPERUSER",
    "DataDirInUse",
    "DataDirUnusable",
    "EmbeddedPostgresError",
    "PostgresDidNotStart",
    "Server",
    "create_database",
    "drop_database",
    "erase",
    "quoted",
    "running_server",
]
