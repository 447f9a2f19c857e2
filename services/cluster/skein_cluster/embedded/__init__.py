"""An embedded Postgres with pgvector, from the programs in a wheel: no installation, no root, no container."""

from __future__ import annotations

from skein_cluster.embedded.data_dir import delete_data_dir
from skein_cluster.embedded.databases import create_database, drop_database, quote_identifier
from skein_cluster.embedded.errors import DataDirInUse, DataDirUnusable, EmbeddedPostgresError, PostgresDidNotStart
from skein_cluster.embedded.server import SUPERUSER, Server, running_server

__all__ = [
    "SUPERUSER",
    "DataDirInUse",
    "DataDirUnusable",
    "EmbeddedPostgresError",
    "PostgresDidNotStart",
    "Server",
    "create_database",
    "delete_data_dir",
    "drop_database",
    "quote_identifier",
    "running_server",
]
