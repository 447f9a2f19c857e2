"""Every service by way of a real PgBouncer in transaction mode, with far fewer connections behind it than before it."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import asyncpg
import pytest
from fix_cluster import test_environment
from fix_database import TestDatabase
from fix_pgbouncer import pooled_environment, pooler
from fix_several import Part, not_lost, running_several

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2
from skein_auth.api_keys.bootstrap import ensure_operator_key
from skein_client.client import Client
from skein_client.retry import RetryPolicy
from skein_cluster import registry
from skein_cluster.api import credentials
from skein_cluster.processes.multi_process import ServiceProcess
from skein_cluster.processes.ports import free_ports

pytestmark = pytest.mark.timeout(900)

PATIENCE_SECONDS = 90.0
CALLS = 60
AT_ONCE = 12
# Connections that PgBouncer keeps to Postgres for each role; each service would open up to ten of its own.
BEHIND = 2


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
        **pooled_environment(name, port, database.server, database.name),
        # Calls may wait here for one of the few connections.
        "SKEIN_ADVANCED_ADMISSION_CALLS": "1000000",
        "SKEIN_ADVANCED_POOL_TIMEOUT_SECONDS": "60",
        "SKEIN_ADVANCED_GATEWAY_RECALL_BRANCH_SECONDS": "60",
    }


@pytest.mark.essential
async def test_a_cluster_behind_a_pooler_remembers_with_a_few_connections(
    database: TestDatabase, open_folder: Path, tmp_path: Path
) -> None:
    names = [name for name in registry.NAMES if name != "pc2"]
    port_names = [f"SKEIN_{name.upper()}_PORT" for name in registry.NAMES] + [f"admin {name}" for name in names]
    operator = await ensure_operator_key(database.url, display_name="test")
    async with AsyncExitStack() as stack:
        ports = stack.enter_context(free_ports([*port_names, "SKEIN_HTTP_PORT", "port of the pooler"], "127.0.0.1"))
        port = ports["port of the pooler"]
        await stack.enter_async_context(pooler(database.server, database.name, open_folder, port, size=BEHIND))
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


async def test_a_killed_pooler_and_a_killed_database_lose_nothing_acknowledged() -> None:
    async with running_several(test_environment(), pooled=True) as several:
        await not_lost(several, [Part("pgbouncer"), Part("postgres"), Part("memory", 0)])


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
