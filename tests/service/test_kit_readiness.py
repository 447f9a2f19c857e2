"""When a service says that it can serve, and when it says so no more."""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import grpc
import pytest
from fix_cluster import test_environment
from fix_database import TestDatabase
from fix_external_postgres import database_environment
from fix_http import get
from fix_identities import service_channel
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from skein_cluster import embedded, registry
from skein_cluster.embedded.server import Server
from skein_kit.database.transactions import Database
from skein_kit.host.process import Host, Service, ServicerRegistry, is_ready, run_services
from skein_kit.host.readiness import unready_reason
from skein_kit.settings import ProcessSettings


class ProbedService:
    """A service without methods, whose pool and checks the test holds."""

    def __init__(self) -> None:
        self.servicers = ServicerRegistry()
        self.database: Database | None = None

    @asynccontextmanager
    async def start(self, host: Host) -> AsyncIterator[ServicerRegistry]:
        async with host.database("memory", self.servicers) as self.database:
            yield self.servicers

    @property
    def service(self) -> Service:
        return Service(name="memory", port=0, depends_on=(), start=self.start)


def host_on(url: str, **settings: str) -> Host:
    environment = test_environment() | database_environment(url) | settings
    return registry.host_of(ProcessSettings.read(environment), environment)


async def readyz_status(host: Host) -> int:
    """Ask health on the service's port."""
    async with service_channel(host.addresses["memory"], "memory") as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        answer: health_pb2.HealthCheckResponse = await stub.Check(health_pb2.HealthCheckRequest())
        return answer.status


async def serves(host: Host) -> None:
    """Wait until health says that the service serves."""
    async with asyncio.timeout(30):
        while await readyz_status(host) != health_pb2.HealthCheckResponse.SERVING:
            await asyncio.sleep(0.05)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0.01)


async def test_a_service_whose_pool_is_busy_is_ready(database: TestDatabase) -> None:
    watched = ProbedService()
    host = host_on(database.url, SKEIN_POOL_SIZE="1")
    async with run_services([watched.service], host) as cluster:
        await cluster.wait_ready(60)
        assert watched.database is not None
        async with watched.database.global_transaction():
            async with asyncio.timeout(30):
                # A check that a machine which stands still keeps from its answer says no, and then yes again.
                while not await is_ready(watched.servicers):
                    await asyncio.sleep(0.05)
            await serves(host)


async def test_a_service_whose_database_went_away_is_not_ready_soon(database: TestDatabase) -> None:
    watched = ProbedService()
    async with run_services([watched.service], host_on(database.url)) as cluster:
        await cluster.wait_ready(60)
        connection = await asyncpg.connect(database.server.url(user="postgres", database="postgres"))
        await connection.execute(f"ALTER DATABASE {database.name} ALLOW_CONNECTIONS false")
        await connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = $1", database.name
        )
        await connection.close()
        async with asyncio.timeout(30):
            while await is_ready(watched.servicers):
                await asyncio.sleep(0.01)


@pytest.mark.parametrize("behind", [0, 1])
async def test_a_service_serves_its_own_schema_and_the_next(database: TestDatabase, behind: int) -> None:
    watched, host = ProbedService(), host_on(database.url)
    host.schema_version -= behind

    async with run_services([watched.service], host) as cluster:
        await cluster.wait_ready(60)
        await serves(host)


@pytest.mark.parametrize(("behind", "hint"), [(-1, "run `skein migrate`"), (2, "it takes a newer version of Skein")])
async def test_a_service_on_another_schema_does_not_serve_and_says_which(
    database: TestDatabase, behind: int, hint: str
) -> None:
    watched, host = ProbedService(), host_on(database.url)
    version = host.schema_version
    host.schema_version -= behind

    async with run_services([watched.service], host) as cluster:
        async with asyncio.timeout(30):
            while "took more than" in (why := await unready_reason(watched.servicers)):
                await asyncio.sleep(0.05)
        status = await readyz_status(host)
        await until(lambda: cluster._ready["memory"].reason == why)
        answer = await get(cluster.admin, "/readyz")

    own = version - behind
    assert why == f"The schema is at version {version}; this process serves {own} and {own + 1}: {hint}."
    assert status == health_pb2.HealthCheckResponse.NOT_SERVING
    assert (answer[0], json.loads(answer[1])) == (503, {"memory": False, "why": {"memory": why}})


async def test_a_service_without_a_schema_says_to_migrate(server: Server) -> None:
    name = f"bare_{uuid.uuid4().hex}"
    await embedded.create_database(server, name)
    watched, host = ProbedService(), host_on(server.url(user="postgres", database=name))

    async with run_services([watched.service], host):
        why = await unready_reason(watched.servicers)
    await embedded.drop_database(server, name)

    assert why.startswith("The schema is at version 0; ")
    assert why.endswith("run `skein migrate`.")


async def test_a_health_watcher_learns_of_the_end_and_does_not_delay_it(database: TestDatabase) -> None:
    watched = ProbedService()
    host = host_on(database.url, SKEIN_GRACE_SECONDS="100")
    received: list[int] = []

    async def watch() -> grpc.StatusCode:
        async with service_channel(host.addresses["memory"], "memory") as channel:
            stub: Any = health_pb2_grpc.HealthStub(channel)
            answers = stub.Watch(health_pb2.HealthCheckRequest())
            with contextlib.suppress(aio.AioRpcError):
                async for answer in answers:
                    received.append(answer.status)  # noqa: PERF401 - each counts when it comes.
            code: grpc.StatusCode = await answers.code()
            return code

    async with asyncio.timeout(50):
        async with run_services([watched.service], host) as cluster:
            await cluster.wait_ready(60)
            watching = asyncio.create_task(watch())
            await until(lambda: bool(received))
        code = await watching

    assert received == [health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING]
    assert code is grpc.StatusCode.UNAVAILABLE


@pytest.mark.system
async def test_a_service_that_drains_does_not_say_ready_again(database: TestDatabase) -> None:
    watched = ProbedService()
    checks = 0

    async def check() -> bool:
        nonlocal checks
        checks += 1
        return True

    watched.servicers.ready_checks.append(check)
    host = host_on(database.url, SKEIN_DRAIN_SECONDS="5")
    stop = asyncio.Event()

    async def serve() -> None:
        async with run_services([watched.service], host) as cluster:
            states.append(cluster._ready["memory"].event)
            await cluster.wait_ready(60)
            await stop.wait()

    states: list[asyncio.Event] = []
    serving = asyncio.create_task(serve())
    await until(lambda: bool(states) and states[0].is_set())
    stop.set()
    await until(lambda: not states[0].is_set())
    before = checks
    status = await readyz_status(host)
    await serving

    assert status == health_pb2.HealthCheckResponse.NOT_SERVING
    assert checks == before
    assert not states[0].is_set()
