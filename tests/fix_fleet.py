"""A fleet: every service as processes of its own, some of them twice, that a test may stop, kill, freeze and start."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import shutil
import signal
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import asyncpg
import pytest
from fix_cluster import AuthorizedChannel, Stubs, Tenant
from fix_http import get
from grpc import aio

from skein.auth.v1 import auth_pb2
from skein.tenancy.v1 import tenancy_pb2
from skein_client.client import Client
from skein_client.retry import RetryPolicy
from skein_cluster import embedded, registry
from skein_cluster.api import credentials
from skein_cluster.embedded.databases import DATABASE
from skein_cluster.processes.ports import free_ports
from skein_cluster.processes.single_process import PreparedDatabase, prepared_database
from skein_pc2.settings import setting_of

HOST = "127.0.0.1"
# Replicas that one service may have at a time.
COPIES = 2
# Those that can have a second replica on one machine: the assistants' ports exist once.
REPLICATED = tuple(name for name in registry.NAMES if name != "pc2")
FLEET = {
    # Long enough for callers to hear of it.
    "SKEIN_DRAIN_SECONDS": "0.3",
    "SKEIN_ADVANCED_WORKER_PAUSE_FACTOR": "0.25",
    # A job whose worker was killed goes to the next one soon.
    "SKEIN_ADVANCED_WORKER_HEARTBEAT_TIMEOUT_SECONDS": "2",
    # On a machine of any speed: what is looked at is what is lost, not what is late.
    "SKEIN_ADVANCED_GATEWAY_RECALL_BRANCH_SECONDS": "60",
    "SKEIN_ADVANCED_POOL_TIMEOUT_SECONDS": "60",
    "SKEIN_LOG_LEVEL": "info",
}
# For whom a service of one replica is restarted: a call waits until it is back, however slow the machine.
PATIENT = RetryPolicy(attempts=10_000, max_pause_seconds=0.25)
PATIENT_SECONDS = 120.0
_READY_SECONDS = 300.0
_STOP_SECONDS = 120.0
_OPTIONS = (
    ("grpc.lb_policy_name", "round_robin"),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
)
_LOCKED = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


@dataclass(eq=False)
class Replica:
    """One service's process."""

    service: str
    number: int
    process: asyncio.subprocess.Process
    # "127.0.0.1:50051", and where /readyz is; of the gateway, where HTTP is.
    address: str
    admin: str
    http: str
    log: Path

    @property
    def is_running(self) -> bool:
        return self.process.returncode is None

    async def wait_ready(self) -> None:
        try:
            async with asyncio.timeout(_READY_SECONDS):
                while await self.readiness() != 200:
                    assert self.is_running, self.log.read_text("utf-8")
                    await asyncio.sleep(0.02)
        except TimeoutError:
            pytest.fail(f"{self.service} is not ready: {self.log.read_text('utf-8')[-2000:]}")

    async def readiness(self) -> int:
        """Return the status of /readyz; 0 while no process answers there."""
        try:
            status, _ = await get(self.admin, "/readyz")
        except OSError:
            return 0
        return status

    async def metric(self, *parts: str) -> float:
        """Return the sum of the metrics whose lines hold all these parts."""
        return sum(float(line.rsplit(" ", 1)[1]) for line in await self.lines(*parts))

    async def lines(self, *parts: str) -> list[str]:
        """Return the lines of the metrics that hold all these parts."""
        _, text = await get(self.admin, "/metrics")
        return [line for line in text.splitlines() if not line.startswith("#") and all(part in line for part in parts)]

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    async def ended(self) -> int:
        """Wait for the end and return the exit code."""
        async with asyncio.timeout(_STOP_SECONDS):
            return await self.process.wait()

    async def stop(self) -> int:
        self.signal(signal.SIGTERM)
        return await self.ended()

    async def kill(self) -> None:
        self.signal(signal.SIGKILL)
        await self.ended()


@dataclass(eq=False)
class Fleet:
    """Replicas over one database. The gateway's are called at `endpoint`, whichever of them run."""

    base: PreparedDatabase
    folder: Path
    channel: aio.Channel
    endpoint: str
    ports: Mapping[str, str]
    # Read by every process that is started from now on.
    settings: dict[str, str] = field(default_factory=dict)
    # Read by every process of one service.
    service_settings: dict[str, dict[str, str]] = field(default_factory=dict)
    replicas: dict[tuple[str, int], Replica] = field(default_factory=dict)

    def __getitem__(self, service: str) -> Replica:
        """Return the service's one replica."""
        (result,) = (each for each in self.replicas.values() if each.service == service)
        return result

    @property
    def pids(self) -> dict[tuple[str, int], int]:
        return {key: each.process.pid for key, each in self.replicas.items()}

    @property
    def database_url(self) -> str:
        return self.base.environment["SKEIN_DATABASE_URL"]

    @property
    def operator(self) -> Stubs:
        return Stubs.of(self.channel, self.base.operator_key)

    async def start(self, *replicas: tuple[str, int], python: str = sys.executable) -> None:
        """Start replicas, all at once, and wait until they are ready."""
        started = [await self._start(service, number, python) for service, number in replicas]
        await asyncio.gather(*(each.wait_ready() for each in started))

    async def begin(self, service: str, number: int = 0) -> Replica:
        """Start a replica without waiting for it."""
        return await self._start(service, number, sys.executable)

    async def kill_all(self) -> None:
        """Kill every replica that runs."""
        await asyncio.gather(*(each.kill() for each in self.replicas.values() if each.is_running))

    async def stop(self, service: str, number: int = 0) -> int:
        """End a replica as an operator does; return its exit code."""
        return await self.replicas.pop((service, number)).stop()

    async def _start(self, service: str, number: int, python: str) -> Replica:
        environment = {
            **self.base.environment,
            **self.settings,
            **self.service_settings.get(service, {}),
            **self._environment(service, number),
        }
        log = self.folder / f"{service}-{number}.log"
        with log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                python,
                *("-m", "skein_cluster", "serve", service, "--parent", str(os.getpid())),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                cwd=self.folder,
            )
        replica = Replica(
            service=service,
            number=number,
            process=process,
            address=f"{HOST}:{self.ports[f'{service} {number}']}",
            admin=f"{HOST}:{self.ports[f'{service} {number} admin']}",
            http=f"{HOST}:{self.ports[f'http {number}']}",
            log=log,
        )
        self.replicas[service, number] = replica
        return replica

    def _environment(self, service: str, number: int) -> dict[str, str]:
        """Return the ports of a replica, and where it finds the others."""
        own = {
            f"SKEIN_{service.upper()}_PORT": self.ports[f"{service} {number}"],
            "SKEIN_ADMIN_PORT": self.ports[f"{service} {number} admin"],
            "SKEIN_HTTP_PORT": self.ports[f"http {number}"],
        }
        own |= {setting_of(port): self.ports[f"pc2:{port}"] for port in registry.PC2_PORTS}
        others = (name for name in registry.NAMES if name != service)
        return own | {f"SKEIN_{name.upper()}_ADDRESS": _target(self.ports, name) for name in others}

    async def new_tenant(self, name: str) -> Tenant:
        """Make a tenant and a key for it, once calls are answered again after what the last test did."""
        await until_answered(lambda: self.operator.tenancy.ListTenants(tenancy_pb2.ListTenantsRequest()))
        organization = await self.operator.tenancy.CreateOrganization(
            tenancy_pb2.CreateOrganizationRequest(organization=tenancy_pb2.Organization(display_name=name))
        )
        response = tenancy_pb2.Tenant(display_name=name, organization_id=organization.organization.organization_id)
        created = await self.operator.tenancy.CreateTenant(tenancy_pb2.CreateTenantRequest(tenant=response))
        acting = Stubs.of(self.channel, self.base.operator_key, **{"skein-tenant-id": created.tenant.tenant_id})
        key = await acting.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="test"))
        return self.as_tenant(cast("Any", created.tenant.tenant_id), key.secret)

    def as_tenant(self, tenant_id: uuid.UUID, api_key: str, channel: aio.Channel | None = None) -> Tenant:
        """Return the stubs of a tenant, through another channel if one is given. Their calls are made once."""
        authorized = cast("aio.Channel", AuthorizedChannel(channel or self.channel, api_key))
        return Tenant(channel=authorized, tenant_id=tenant_id, api_key=api_key)

    def client(self, tenant: Tenant, *, retries: RetryPolicy | None = None, timeout: float = 10.0) -> Client:
        """Return the client that other teams use, which repeats what may be repeated."""
        return Client(endpoint=self.endpoint, api_key=tenant.api_key, retries=retries, timeout=timeout)

    @asynccontextmanager
    async def superuser(self) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
        connection = await asyncpg.connect(self.database_url)
        try:
            yield connection
        finally:
            await connection.close()

    async def wait_locked(self, count: int) -> None:
        """Wait until so many statements wait for locks."""
        async with self.superuser() as connection, asyncio.timeout(120):
            while await connection.fetchval(_LOCKED) < count:
                await asyncio.sleep(0.01)


async def until_answered(ask: Callable[[], Awaitable[Any]]) -> Any:
    """Wait until a call is answered, and return the answer: channels look again after a moment."""
    async with asyncio.timeout(_STOP_SECONDS):
        while True:
            with suppress(aio.AioRpcError):
                return await ask()
            await asyncio.sleep(0.05)


def _target(ports: Mapping[str, str], service: str) -> str:
    """Return all replicas of a service as one target of gRPC."""
    numbers = range(COPIES if service in REPLICATED else 1)
    return "ipv4:" + ",".join(f"{HOST}:{ports[f'{service} {number}']}" for number in numbers)


def _names() -> Iterable[str]:
    for number in range(COPIES):
        yield f"http {number}"
        for name in registry.NAMES:
            yield f"{name} {number}"
            yield f"{name} {number} admin"
    yield from (f"pc2:{number}" for number in registry.PC2_PORTS)


async def skein(base: PreparedDatabase, *arguments: str, python: str = sys.executable) -> Any:
    """Run a command on the fleet's database, and return the JSON that it prints."""
    process = await asyncio.create_subprocess_exec(
        python, "-m", "skein_cluster", *arguments, "--json", stdout=asyncio.subprocess.PIPE, env=base.environment
    )
    out, _ = await process.communicate()
    assert process.returncode == 0, arguments
    return json.loads(out)


@asynccontextmanager
async def prepared_by(python: str, folder: Path, environment: Mapping[str, str]) -> AsyncIterator[PreparedDatabase]:
    """Do as `prepared_database`, with the migrations of another version of the code."""
    credentials.make_private(folder)
    async with embedded.running_server(folder / "postgres", durable=False) as server:
        await embedded.create_database(server, DATABASE)
        values = {**environment, "SKEIN_DATABASE_URL": server.url(user="postgres", database=DATABASE)}
        base = PreparedDatabase(data_dir=folder, environment=values, embedded=server, operator_key="")
        await skein(base, "migrate", python=python)
        made = await skein(base, "bootstrap", python=python)
        yield dataclasses.replace(base, operator_key=made["operator_key"])


@asynccontextmanager
async def running_fleet(
    environment: Mapping[str, str], *, python: str = sys.executable, durable: bool = False
) -> AsyncIterator[Fleet]:
    """Run a database for a fleet without replicas, and end those that were started when the block ends.

    `durable`: commits reach the disk, and a server may follow the database's. That is for the version at hand alone.
    """
    folder = Path(tempfile.mkdtemp(prefix="skein-fleet-"))
    folder.chmod(0o711)
    values = {**environment, **FLEET, "SKEIN_DATA_DIR": str(folder)}
    for name in [name for name in values if name.startswith("SKEIN_") and name.endswith("_PORT")]:
        del values[name]
    is_current = python == sys.executable
    preparing = (
        prepared_database(folder, environment=values, durable=durable)
        if is_current
        else prepared_by(python, folder, values)
    )
    try:
        # Some are listened on much later, and some again and again: no other process gets them meanwhile.
        with free_ports(_names(), HOST) as ports:
            endpoint = _target(ports, "gateway")
            async with preparing as base, aio.insecure_channel(endpoint, options=_OPTIONS) as channel:
                fleet = Fleet(base, folder, channel, endpoint, ports)
                try:
                    yield fleet
                finally:
                    await fleet.kill_all()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
