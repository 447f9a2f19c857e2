"""When a service says that it can serve, and when it says so no more."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import asyncpg
from fix_cluster import test_environment
from fix_database import TestDatabase
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from skein_cluster import registry
from skein_kit.service import Host, Service, Servicers, is_ready, running
from skein_kit.settings import ProcessSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from skein_kit.database import Database


class Watched:
    """A service without methods, whose pool and checks the test holds."""

    def __init__(self) -> None:
        self.servicers = Servicers()
        self.database: Database | None = None

    @asynccontextmanager
    async def start(self, host: Host) -> AsyncIterator[Servicers]:
        async with host.database("memory", self.servicers) as self.database:
            yield self.servicers

    @property
    def service(self) -> Service:
        return Service(name="memory", port=0, calls=(), start=self.start)


def host_on(url: str, **settings: str) -> Host:
    environment = test_environment() | {"SKEIN_DATABASE_URL": url} | settings
    return registry.host_of(ProcessSettings.read(environment), environment)


async def said(host: Host) -> int:
    """Ask health on the service's port."""
    async with aio.insecure_channel(host.addresses["memory"]) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        answer: health_pb2.HealthCheckResponse = await stub.Check(health_pb2.HealthCheckRequest())
        return answer.status


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.01)


async def test_a_service_whose_pool_is_busy_is_ready(database: TestDatabase) -> None:
    watched = Watched()
    host = host_on(database.url, SKEIN_POOL_SIZE="1")
    async with running([watched.service], host) as cluster:
        await cluster.wait_ready(10)
        assert watched.database is not None
        async with watched.database.shared():
            ready = await is_ready(watched.servicers)
            status = await said(host)

    assert ready
    assert status == health_pb2.HealthCheckResponse.SERVING


async def test_a_service_whose_database_went_away_is_not_ready_within_seconds(database: TestDatabase) -> None:
    watched = Watched()
    async with running([watched.service], host_on(database.url)) as cluster:
        await cluster.wait_ready(10)
        connection = await asyncpg.connect(database.server.url(user="postgres", database="postgres"))
        await connection.execute(f"ALTER DATABASE {database.name} ALLOW_CONNECTIONS false")
        await connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = $1", database.name
        )
        await connection.close()
        async with asyncio.timeout(4):
            while await is_ready(watched.servicers):
                await asyncio.sleep(0.01)


async def test_a_service_that_drains_does_not_say_ready_again(database: TestDatabase) -> None:
    watched = Watched()
    checks = 0

    async def check() -> bool:
        nonlocal checks
        checks += 1
        return True

    watched.servicers.ready_checks.append(check)
    host = host_on(database.url, SKEIN_DRAIN_SECONDS="1.5")
    stop = asyncio.Event()

    async def serve() -> None:
        async with running([watched.service], host) as cluster:
            states.append(cluster._ready["memory"])
            await cluster.wait_ready(10)
            await stop.wait()

    states: list[asyncio.Event] = []
    serving = asyncio.create_task(serve())
    await until(lambda: bool(states) and states[0].is_set())
    stop.set()
    await until(lambda: not states[0].is_set())
    before = checks
    status = await said(host)
    await serving

    assert status == health_pb2.HealthCheckResponse.NOT_SERVING
    assert checks == before
    assert not states[0].is_set()
