"""Two of every service over a Postgres with a replica, and perhaps a PgBouncer: what is killed while callers write."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg
from fix_fleet import COPIES, HOST, PATIENT_SECONDS, REPLICATED, Fleet, running_fleet
from fix_fleet_load import Load
from fix_own_postgres import follow, url_of
from fix_pgbouncer import Pooler, pooled_environment, pooler

from skein_client.retry import RetryPolicy
from skein_cluster import embedded, registry
from skein_cluster.embedded.databases import DATABASE
from skein_cluster.embedded.server import Server
from skein_cluster.processes.ports import free_ports

POSTGRES, REPLICA, PGBOUNCER = "postgres", "replica", "pgbouncer"
# Connections that PgBouncer keeps to Postgres for each role.
_BEHIND = 6
_RECOVERY_SECONDS = 120.0
# Callers see every refusal.
_ONCE = RetryPolicy(attempts=1)


@dataclass(frozen=True, slots=True)
class Part:
    """What can be killed: a replica of a service, or one of the databases' programs."""

    name: str
    number: int = 0

    def __str__(self) -> str:
        return f"{self.name} {self.number}" if self.name in registry.NAMES else self.name


@dataclass(kw_only=True, slots=True)
class Several:
    """Two processes of every service but pc2, and what they stand on."""

    fleet: Fleet
    replica: Server
    pooler: Pooler | None

    @property
    def parts(self) -> list[Part]:
        """Return everything that can be killed."""
        databases = [Part(POSTGRES), Part(REPLICA), *([Part(PGBOUNCER)] if self.pooler else [])]
        return [*(Part(name, number) for name in REPLICATED for number in range(COPIES)), *databases]

    async def kill(self, part: Part) -> None:
        """End a part by SIGKILL. A server of Postgres is started again by its supervisor."""
        if part.name == PGBOUNCER:
            assert self.pooler is not None
            await self.pooler.kill()
        elif part.name in (POSTGRES, REPLICA):
            assert self.fleet.base.embedded is not None
            server = self.replica if part.name == REPLICA else self.fleet.base.embedded
            os.kill(_pid(server.data_dir), signal.SIGKILL)
        else:
            await self.fleet.replicas[part.name, part.number].kill()

    async def bring_back(self, part: Part) -> None:
        """Start a part that was killed, and wait until it serves."""
        if part.name == PGBOUNCER:
            assert self.pooler is not None
            await self.pooler.start()
        elif part.name == POSTGRES:
            await _answers(self.fleet.database_url)
        elif part.name == REPLICA:
            await _answers(url_of(self.replica))
        else:
            await self.fleet.start((part.name, part.number))


@asynccontextmanager
async def running_several(environment: Mapping[str, str], *, pooled: bool) -> AsyncIterator[Several]:
    """Run two processes of every service but pc2 until the block ends, on a durable Postgres that a replica follows.

    `pooled`: the services come to the primary through a PgBouncer.
    """
    async with running_fleet(environment, durable=True) as fleet, AsyncExitStack() as stack:
        primary = fleet.base.embedded
        assert primary is not None
        await follow(primary, fleet.folder / "replica")
        replica = await stack.enter_async_context(embedded.running_server(fleet.folder / "replica", restart=True))
        between = await _pooled(fleet, primary, stack) if pooled else None
        fleet.settings["SKEIN_REPLICA_URL"] = url_of(replica)
        # Before the databases end.
        stack.push_async_callback(fleet.kill_all)
        await fleet.start(*((name, number) for name in REPLICATED for number in range(COPIES)))
        yield Several(fleet=fleet, replica=replica, pooler=between)


async def _pooled(fleet: Fleet, primary: Server, stack: AsyncExitStack) -> Pooler:
    folder = fleet.folder / "pgbouncer"
    folder.mkdir()
    folder.chmod(0o755)
    port = stack.enter_context(free_ports([PGBOUNCER], HOST))[PGBOUNCER]
    for name in registry.WITH_DATABASE:
        fleet.service_settings[name] = pooled_environment(name, port, primary, DATABASE)
    return await stack.enter_async_context(pooler(primary, DATABASE, folder, port, size=_BEHIND))


async def not_lost(several: Several, parts: Iterable[Part]) -> None:
    """Kill parts in turn under load; assert that what was acknowledged is there, and that errors may be repeated."""
    fleet = several.fleet
    tenant = await fleet.new_tenant("several")
    async with fleet.client(tenant, retries=_ONCE, timeout=PATIENT_SECONDS) as client:
        load = Load(client, "several", repeats=True)
        async with load.running():
            await load.further(6)
            for part in parts:
                await several.kill(part)
                if part.name != PGBOUNCER:
                    # Without a second pooler nothing is answered until it is back.
                    await load.further(6)
                await several.bring_back(part)
                await load.further(6)

        assert load.errors == []
        assert await load.missing() == []
        assert await load.halves() == []
        assert await load.differing() == []
        stored, acknowledged = await load.transcripts()
        assert stored == acknowledged


def _pid(data_dir: Path) -> int:
    return int((data_dir / "postmaster.pid").read_text("utf-8").splitlines()[0])


async def _answers(url: str) -> None:
    """Wait until a server that was killed has recovered."""
    async with asyncio.timeout(_RECOVERY_SECONDS):
        while True:
            try:
                connection = await asyncpg.connect(url)
            except (OSError, asyncpg.PostgresError):
                await asyncio.sleep(0.05)
            else:
                await connection.close()
                return
