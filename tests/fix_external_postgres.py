"""A Postgres that others run, for the tests that need any: docs/internals/cluster.md says how to point them at one.

SKEIN_TEST_DATABASE_URL names it as a superuser. Every pytest worker, and every test that needs one, makes a database of
its own there and drops it. SKEIN_TEST_POOLER_URL is a PgBouncer before it, by which the services connect, as their own
roles. With SKEIN_TEST_DATABASE_SHARED the database of the URL itself, migrated and perhaps distributed, serves all
tests of a whole cluster, each in a tenant of its own; the others are skipped.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from skein_cluster import embedded, registry
from skein_cluster.embedded.databases import DATABASE
from skein_cluster.embedded.server import DEFAULT_PORT, Server
from skein_kit.database.connection_settings import login_url

URL = os.environ.get("SKEIN_TEST_DATABASE_URL", "")
POOLER_URL = os.environ.get("SKEIN_TEST_POOLER_URL", "")
IS_SHARED, IS_CITUS = (
    os.environ.get(f"SKEIN_TEST_DATABASE_{name}", "") not in {"", "0", "false"} for name in ("SHARED", "CITUS")
)
# Of the services' roles; a PgBouncer in front has to know it.
PASSWORD = "of the roles in tests"
# The database that every server has, where the others are made from.
_MAINTENANCE = "postgres"


@dataclass(frozen=True, kw_only=True, slots=True)
class ExternalServer(Server):
    """A server that others run, as the embedded one looks to tests; its process and its files are out of reach."""

    admin_url: str = field(repr=False)
    # What a cluster's own database is called here; the embedded one is `skein`.
    cluster_database: str

    def dsn(self, *, user: str = embedded.SUPERUSER, database: str = DATABASE) -> dict[str, Any]:
        return {"dsn": self.url(user=user, database=database)}

    def url(self, *, user: str, database: str) -> str:
        """Return a URL; `postgres` stands for the user, or the database, of SKEIN_TEST_DATABASE_URL."""
        parts = urlsplit(self.admin_url)
        if database != _MAINTENANCE:
            database = self.cluster_database if database == DATABASE else database
            parts = parts._replace(path=f"/{quote(database, safe='')}")
        url = urlunsplit(parts)
        return url if user == embedded.SUPERUSER else login_url(url, user, PASSWORD)


def external_server(cluster_database: str = DATABASE) -> ExternalServer:
    """Return the server of SKEIN_TEST_DATABASE_URL."""
    parts = urlsplit(URL)
    return ExternalServer(
        host=parts.hostname or "",
        port=parts.port or DEFAULT_PORT,
        pid=0,
        data_dir=Path(),
        binaries=Path(),
        durable=True,
        admin_url=URL,
        cluster_database=cluster_database,
    )


def role_passwords() -> dict[str, str]:
    """Return the passwords of the services' roles, none for an embedded server."""
    return dict.fromkeys(registry.WITH_DATABASE, PASSWORD) if URL else {}


def database_settings(url: str) -> dict[str, Any]:
    """Return the fields of ProcessSettings by which a service reaches a database, by the PgBouncer if there is one."""
    settings = {"database_url": url, "database_citus": IS_CITUS}
    if POOLER_URL:
        settings |= {
            "database_url": urlunsplit(urlsplit(POOLER_URL)._replace(path=urlsplit(url).path)),
            "database_direct_url": url,
            "database_pooled": True,
            # PgBouncer keeps statements prepared since 1.21, if it is told to.
            "statement_cache_size": 0,
        }
    return settings


def database_environment(url: str) -> dict[str, str]:
    """Return the same as variables, with the passwords of the roles."""
    settings = {f"SKEIN_{name.upper()}": str(value) for name, value in database_settings(url).items()}
    return settings | password_environment()


def password_environment() -> dict[str, str]:
    """Return the variables of the roles' passwords."""
    return {f"SKEIN_{name.upper()}_DATABASE_PASSWORD": password for name, password in role_passwords().items()}


@asynccontextmanager
async def cluster_database() -> AsyncIterator[ExternalServer | None]:
    """Make the database of one cluster until the block ends; None without SKEIN_TEST_DATABASE_URL."""
    if not URL:
        yield None
    elif IS_SHARED:
        yield external_server(unquote(urlsplit(URL).path.lstrip("/")))
    else:
        server = external_server(f"cluster_{uuid.uuid4().hex}")
        await embedded.create_database(server, server.cluster_database)
        try:
            yield server
        finally:
            await embedded.drop_database(server, server.cluster_database)
