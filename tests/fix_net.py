"""A gateway and the services behind it, in two processes, with a proxy on each way: see fix_proxy."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from fix_cluster import Cluster, test_environment
from fix_http import get
from fix_proxy import Proxy
from grpc import aio

from skein_client.channels import OPTIONS
from skein_cluster.embedded.databases import DATABASE
from skein_cluster.processes.ports import free_ports
from skein_cluster.processes.single_process import prepared_database

BEHIND = ("auth", "tenancy", "session", "memory", "recall")
HOST = "127.0.0.1"


@dataclass(frozen=True, kw_only=True)
class Net:
    """A gateway and what lies behind it, in two processes, with a proxy on each way."""

    # To the gateway, from the gateway to the memory service, and from all services to Postgres.
    front: Proxy
    middle: Proxy
    back: Proxy
    cluster: Cluster

    @property
    def proxies(self) -> tuple[Proxy, Proxy, Proxy]:
        return self.front, self.middle, self.back


@asynccontextmanager
async def served(*names: str, environment: Mapping[str, str], log: Path) -> AsyncIterator[None]:
    """Run `skein serve` until the block ends, which begins when it is ready."""
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "skein_cluster", "serve", *names, "--parent", str(os.getpid())),
            env=dict(environment),
            stdout=output,
            stderr=output,
        )
    try:
        async with asyncio.timeout(120):
            while not await _is_ready(f"{HOST}:{environment['SKEIN_ADMIN_PORT']}"):
                assert process.returncode is None, log.read_text("utf-8")
                await asyncio.sleep(0.05)
        yield
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _is_ready(admin: str) -> bool:
    try:
        return (await get(admin, "/readyz"))[0] == 200
    except OSError:
        return False


@asynccontextmanager
async def net_with_proxies(folder: Path) -> AsyncIterator[Net]:
    async with AsyncExitStack() as stack:
        base = await stack.enter_async_context(prepared_database(folder, environment=test_environment(), durable=False))
        server = base.postgres
        back = await stack.enter_async_context(Proxy.to(Path(server.host) / f".s.PGSQL.{server.port}"))
        names = [f"SKEIN_{name.upper()}_PORT" for name in (*BEHIND, "gateway")]
        names += ["SKEIN_HTTP_PORT", "SKEIN_ADMIN_PORT", "admin of the gateway"]
        ports = stack.enter_context(free_ports(names, HOST))
        middle = await stack.enter_async_context(Proxy.to(f"{HOST}:{ports['SKEIN_MEMORY_PORT']}"))
        front = await stack.enter_async_context(Proxy.to(f"{HOST}:{ports['SKEIN_GATEWAY_PORT']}"))
        admin = ports.pop("admin of the gateway")
        behind = {
            **base.environment,
            **ports,
            "SKEIN_DATABASE_URL": f"postgresql://postgres@{back.address}/{DATABASE}?sslmode=disable",
        }
        gateway = {**base.environment, **ports, "SKEIN_ADMIN_PORT": admin, "SKEIN_MEMORY_ADDRESS": middle.address}
        await stack.enter_async_context(served(*BEHIND, environment=behind, log=folder / "behind.log"))
        await stack.enter_async_context(served("gateway", environment=gateway, log=folder / "gateway.log"))
        addresses = {"gateway": front.address, "http": f"{HOST}:{ports['SKEIN_HTTP_PORT']}"}
        made = await base.write_credentials(addresses)
        channel = await stack.enter_async_context(aio.insecure_channel(front.address, options=OPTIONS))
        yield Net(
            front=front,
            middle=middle,
            back=back,
            cluster=Cluster(
                channel=channel,
                endpoint=front.address,
                admin=f"{HOST}:{admin}",
                admins={},
                addresses=addresses,
                operator_key=made.operator_key,
                postgres=server,
                environment=behind,
            ),
        )
