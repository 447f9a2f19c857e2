"""Every service by way of a real PgBouncer in transaction mode, with far fewer connections behind it than before it."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import asyncpg
import pytest
from fix_cluster import test_environment
from fix_database import TestDatabase

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2
from skein_auth.api_keys.bootstrap import ensure_operator_key
from skein_client.client import Client
from skein_client.retry import RetryPolicy
from skein_cluster import registry
from skein_cluster.api import credentials
from skein_cluster.embedded.account import Account
from skein_cluster.embedded.server import Server
from skein_cluster.processes.multi_process import ServiceProcess
from skein_cluster.processes.ports import free_ports
from skein_kit.database.connection_settings import database_role

pytestmark = pytest.mark.timeout(300)

EDGE = Path(__file__).parents[2] / ".edge/usr"
PATIENCE_SECONDS = 90.0
CALLS = 60
AT_ONCE = 12
# Connections that PgBouncer keeps to Postgres for each role; each service would open up to ten of its own.
BEHIND = 2


@asynccontextmanager
async def pooler(server: Server, database: str, folder: Path, port: str) -> AsyncIterator[None]:
    """Run PgBouncer over the server's socket on a port of 127.0.0.1 until the block ends."""
    pgbouncer = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin:{EDGE / 'sbin'}")
    assert pgbouncer, "pgbouncer is missing; deploy/edge-tools.sh fetches it"
    account = Account.for_server()
    # To root's own folders the server's user has no access.
    program = Path(shutil.copy(pgbouncer, folder))
    users, config = folder / "users.txt", folder / "pgbouncer.ini"
    users.write_text("".join(f'"{database_role(name)}" ""\n' for name in registry.WITH_DATABASE))
    config.write_text(
        "[databases]\n"
        f"{database} = host={server.host} port={server.port}\n"
        "[pgbouncer]\n"
        f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
        f"auth_type = trust\nauth_file = {users}\n"
        f"pool_mode = transaction\ndefault_pool_size = {BEHIND}\nmax_client_conn = 500\n"
    )
    libraries = [str(path) for path in (EDGE / "lib").glob("*-linux-gnu")]
    for library in (path for each in libraries for path in Path(each).glob("lib*.so.*")):
        shutil.copy(library, folder)
    process = await asyncio.create_subprocess_exec(
        program,
        config,
        env={"LD_LIBRARY_PATH": str(folder)},
        cwd="/",
        user=account.user if account.switch else None,
        group=account.group if account.switch else None,
        extra_groups=[] if account.switch else None,
    )
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                assert process.returncode is None
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", int(port))
                except OSError:
                    await asyncio.sleep(0.05)
                else:
                    writer.close()
                    break
        yield
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.fixture
def open_folder(postgres_folder: Path) -> Iterator[Path]:
    """A folder that the server's user can read."""
    folder = postgres_folder / "pgbouncer"
    folder.mkdir()
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def environment_of(name: str, port: str, database: TestDatabase, ports: dict[str, str]) -> dict[str, str]:
    """Return the variables of one service, as a deployment with a pooler has them."""
    return {
        **test_environment(),
        **{variable: value for variable, value in ports.items() if " " not in variable},
        "SKEIN_LOG_LEVEL": "info",
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(sys.path),
        "SKEIN_ADMIN_PORT": ports[f"admin {name}"],
        "SKEIN_DATABASE_URL": f"postgresql://{database_role(name)}@127.0.0.1:{port}/{database.name}?sslmode=disable",
        "SKEIN_DATABASE_DIRECT_URL": database.server.url(user=database_role(name), database=database.name),
        "SKEIN_DATABASE_POOLED": "true",
        # Debian's PgBouncer is of a time before it could keep statements prepared.
        "SKEIN_STATEMENT_CACHE_SIZE": "0",
        # Calls may wait here for one of the few connections.
        "SKEIN_ADMISSION": "false",
        "SKEIN_POOL_TIMEOUT_SECONDS": "60",
        "SKEIN_GATEWAY_RECALL_ARM_SECONDS": "60",
        "SKEIN_DEFAULT_DEADLINE_SECONDS": "120",
    }


async def test_a_cluster_behind_a_pooler_remembers_with_a_few_connections(
    database: TestDatabase, open_folder: Path, tmp_path: Path
) -> None:
    names = [name for name in registry.NAMES if name != "pc2"]
    port_names = [f"SKEIN_{name.upper()}_PORT" for name in registry.NAMES] + [f"admin {name}" for name in names]
    operator = await ensure_operator_key(database.url, display_name="test")
    async with AsyncExitStack() as stack:
        ports = stack.enter_context(free_ports([*port_names, "SKEIN_HTTP_PORT", "port of the pooler"], "127.0.0.1"))
        port = ports["port of the pooler"]
        await stack.enter_async_context(pooler(database.server, database.name, open_folder, port))
        children = [
            await stack.enter_async_context(
                ServiceProcess.start_process(
                    [name], environment_of(name, port, database, ports), tmp_path / f"{name}.log", name=name
                )
            )
            for name in names
        ]
        async with asyncio.timeout(PATIENCE_SECONDS):
            await asyncio.gather(*(child.wait_ready() for child in children))
        addresses = {name: f"127.0.0.1:{ports[f'SKEIN_{name.upper()}_PORT']}" for name in registry.NAMES}
        made = await credentials.ensure_development_credentials(
            {**addresses, "http": f"127.0.0.1:{ports['SKEIN_HTTP_PORT']}"}, {}, operator, test_environment()
        )
        # On a busy machine a connection may take longer than it is waited for: callers repeat, as the client does.
        skein = await stack.enter_async_context(
            Client(
                endpoint=addresses["gateway"],
                api_key=made.api_key,
                timeout=PATIENCE_SECONDS,
                retries=RetryPolicy(attempts=10),
            )
        )

        turns = asyncio.Semaphore(AT_ONCE)

        async def use(number: int) -> bool:
            async with turns:
                return await used(number)

        async def used(number: int) -> bool:
            memory = memory_pb2.Memory(content=f"parcel {number} waits on shelf {number}")
            messages = [
                session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=f"where does parcel {number} wait?")
            ]
            await skein.gateway.Remember(
                gateway_pb2.RememberRequest(session_id=f"desk-{number % 7}", messages=messages, memories=[memory])
            )
            answer = await skein.gateway.Recall(gateway_pb2.RecallRequest(query=f"parcel {number} shelf"))
            assert not answer.incomplete
            return memory.content in {hit.memory.content for hit in answer.hits}

        result = await asyncio.gather(*(use(number) for number in range(CALLS)))
        stored = await skein.memories.ListMemories(memory_pb2.ListMemoriesRequest(page_size=CALLS))
        behind = await backends(database)
        status = await skein.gateway.GetClusterStatus(gateway_pb2.GetClusterStatusRequest())

    assert all(result)
    assert len(stored.memories) == CALLS
    # The worker's queue has a connection of its own, because it listens.
    assert {role: count for role, count in behind.items() if count > BEHIND} in ({}, {"skein_worker": BEHIND + 1})
    serving = {each.service for each in status.services if each.state == gateway_pb2.SERVICE_STATE_SERVING}
    assert serving >= set(names)


async def backends(database: TestDatabase) -> dict[str, int]:
    """Return how many connections each role has to Postgres itself."""
    connection = await asyncpg.connect(database.url)
    try:
        rows = await connection.fetch(
            "SELECT usename, count(*) FROM pg_stat_activity WHERE datname = $1 AND usename LIKE 'skein%' GROUP BY 1",
            database.name,
        )
    finally:
        await connection.close()
    return {row["usename"]: row["count"] for row in rows}
