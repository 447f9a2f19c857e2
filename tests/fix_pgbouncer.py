"""A real PgBouncer in transaction mode before an embedded Postgres, which a test may kill and start again."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from skein_cluster import registry
from skein_cluster.embedded.account import Account
from skein_cluster.embedded.server import Server
from skein_kit.database.connection_settings import database_role

_EDGE = Path(__file__).parents[1] / ".edge/usr"
_READY_SECONDS = 90.0


def installed() -> str | None:
    """Return the program; None on a machine without it, where deploy/edge-tools.sh fetches it."""
    return shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin:{_EDGE / 'sbin'}")


@dataclass(eq=False)
class Pooler:
    """A PgBouncer on a port of 127.0.0.1."""

    program: Path
    config: Path
    port: int
    process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it, and wait until it listens."""
        account = Account.for_server()
        self.process = await asyncio.create_subprocess_exec(
            self.program,
            "--quiet",
            self.config,
            env={"LD_LIBRARY_PATH": str(self.program.parent)},
            cwd="/",
            user=account.user if account.switch else None,
            group=account.group if account.switch else None,
            extra_groups=[] if account.switch else None,
        )
        async with asyncio.timeout(_READY_SECONDS):
            while True:
                assert self.process.returncode is None
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                except OSError:
                    await asyncio.sleep(0.05)
                else:
                    writer.close()
                    return

    async def kill(self) -> None:
        """End it without a word to its clients."""
        if self.process is not None:
            if self.process.returncode is None:
                self.process.kill()
            await self.process.wait()


@asynccontextmanager
async def pooler(server: Server, database: str, folder: Path, port: str, *, size: int) -> AsyncIterator[Pooler]:
    """Run PgBouncer over the server's socket until the block ends, with `size` connections to Postgres for each role.

    The server's user can read the folder.
    """
    found = installed()
    assert found, "pgbouncer is missing; deploy/edge-tools.sh fetches it"
    # To root's own folders the server's user has no access.
    program = Path(shutil.copy(found, folder))
    users, config = folder / "users.txt", folder / "pgbouncer.ini"
    users.write_text("".join(f'"{database_role(name)}" ""\n' for name in registry.WITH_DATABASE), "utf-8")
    config.write_text(
        "[databases]\n"
        f"{database} = host={server.host} port={server.port}\n"
        "[pgbouncer]\n"
        f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
        f"auth_type = trust\nauth_file = {users}\n"
        f"pool_mode = transaction\ndefault_pool_size = {size}\nmax_client_conn = 500\n"
        # As deploy/kubernetes has it.
        "server_login_retry = 1\n",
        "utf-8",
    )
    for libraries in (_EDGE / "lib").glob("*-linux-gnu"):
        for library in libraries.glob("lib*.so.*"):
            shutil.copy(library, folder)
    result = Pooler(program, config, int(port))
    try:
        await result.start()
        yield result
    finally:
        await result.kill()


def pooled_environment(name: str, port: str, server: Server, database: str) -> dict[str, str]:
    """Return the variables by which a service comes to its database through the pooler on a port."""
    role = database_role(name)
    return {
        "SKEIN_DATABASE_URL": f"postgresql://{role}@127.0.0.1:{port}/{database}?sslmode=disable",
        "SKEIN_DATABASE_DIRECT_URL": server.url(user=role, database=database),
        "SKEIN_DATABASE_POOLED": "true",
        # Debian's PgBouncer is of a time before it could keep statements prepared.
        "SKEIN_STATEMENT_CACHE_SIZE": "0",
    }
