"""A cluster on a Postgres that the test itself runs, stops, and lets others follow."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import asyncpg
from fix_cluster import AuthorizedChannel, Tenant, test_environment
from grpc import aio

from skein_cluster import embedded, registry
from skein_cluster.embedded.account import Account
from skein_cluster.embedded.databases import DATABASE
from skein_cluster.embedded.server import Server
from skein_cluster.processes.ports import free_ports
from skein_cluster.processes.single_process import PreparedDatabase, prepared_database
from skein_kit.host.process import Host, run_services
from skein_kit.settings import ProcessSettings

SUPERUSER_PASSWORD = "of-the-superuser"


@contextmanager
def open_folder() -> Iterator[Path]:
    """Make a folder that an unprivileged server can enter, for as long as the block lasts."""
    path = Path(tempfile.mkdtemp(prefix="skein-own-"))
    path.chmod(0o711)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def url_of(server: Server) -> str:
    """Connect as superuser to what the cluster keeps there."""
    return server.url(user="postgres", database=DATABASE)


async def follow(primary: embedded.Server, folder: Path) -> None:
    """Make a copy of a server, which follows it when it runs."""
    command = [str(primary.binaries / "pg_basebackup"), "-h", primary.host, "-p", str(primary.port), "-U", "postgres"]
    options = ["-D", str(folder), "-R", "-C", "-S", "follower", "-X", "stream", "-c", "fast", "--no-sync"]
    process = await asyncio.create_subprocess_exec(*command, *options)
    assert await process.wait() == 0
    account = Account.for_server()
    for path in (folder, *folder.rglob("*")):
        account.chown(path)


async def run_program(server: Server, program: str, *arguments: str | Path) -> None:
    """Run a program of Postgres on a server, such as pg_dump."""
    process = await asyncio.create_subprocess_exec(
        server.binaries / program,
        *("--host", server.host, "--port", str(server.port), "--username", "postgres", *arguments),
        stdin=asyncio.subprocess.DEVNULL,
    )
    assert await process.wait() == 0


async def restored(folder: Path, dump: Path) -> None:
    """Make the data of a cluster in a folder from a dump of its database; nothing runs afterwards."""
    await migrated(folder)
    async with embedded.running_server(folder / "postgres", durable=False) as server:
        await embedded.drop_database(server, DATABASE)
        await embedded.create_database(server, DATABASE)
        await run_program(server, "pg_restore", "--dbname", DATABASE, dump)


async def migrated(folder: Path) -> PreparedDatabase:
    """Make the data of a cluster in a folder, in `postgres`; nothing runs afterwards."""
    async with prepared_database(folder, environment=test_environment()) as base:
        return base


@asynccontextmanager
async def served_on(base: PreparedDatabase, server: Server, **settings: str) -> AsyncIterator[tuple[Host, Tenant]]:
    """Run the services on a server until the block ends; yield where they listen, and a tenant."""
    environment = {**base.environment, "SKEIN_DATABASE_URL": url_of(server), **settings}
    host = registry.host_of(ProcessSettings.read(environment), environment)
    async with run_services(registry.load(name for name in registry.NAMES if name != "pc2"), host) as cluster:
        await cluster.wait_ready(60)
        made = await base.write_credentials(host.addresses)
        async with aio.insecure_channel(host.addresses["gateway"]) as channel:
            authorized = cast("aio.Channel", AuthorizedChannel(channel, made.api_key))
            yield host, Tenant(channel=authorized, tenant_id=uuid.UUID(made.tenant_id), api_key=made.api_key)


@dataclass(frozen=True)
class PasswordServer:
    """A server that lets nobody in without a password, as one that others run."""

    server: Server
    port: int

    def url(self, user: str, database: str, password: str = SUPERUSER_PASSWORD) -> str:
        """Connect over TCP with a password."""
        return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{database}?sslmode=disable"

    @asynccontextmanager
    async def superuser(self, database: str = "postgres") -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
        """Connect by the socket, where no password is asked for."""
        connection = await asyncpg.connect(**self.server.dsn(database=database))
        try:
            yield connection
        finally:
            await connection.close()


@asynccontextmanager
async def password_server(**settings: str) -> AsyncIterator[PasswordServer]:
    """Run a server that is not a cluster's own until the block ends."""
    with open_folder() as folder, free_ports(["port"], "127.0.0.1") as ports:
        port = int(ports["port"])
        async with embedded.running_server(folder / "pg", durable=False, tcp_port=port, settings=settings) as server:
            result = PasswordServer(server, port)
            async with result.superuser() as connection:
                await connection.execute(f"ALTER ROLE postgres PASSWORD '{SUPERUSER_PASSWORD}'")
            yield result
