"""The cluster in several processes that share the gateway's ports, for all cores of a machine: `skein up --processes`.

Each process has every service that may run several times, and calls its own within the process. This process supervises
them, and runs the worker, pc2 and, without SKEIN_DATABASE_URL, the embedded Postgres. The kernel gives each new
connection to one of the processes (SO_REUSEPORT). A process that ends is started again. The processes share the
connections of Postgres, the memory and the threads of the machine.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from skein_auth.settings import AuthSettings
from skein_cluster import registry
from skein_cluster.api.credentials import reachable_address
from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_cluster.config.database_check import max_connections
from skein_cluster.embedded.server_settings import MAX_CONNECTIONS
from skein_cluster.processes.multi_process import ServiceProcess, environment_of
from skein_cluster.processes.ports import reserved_ports
from skein_cluster.processes.single_process import LocalCluster, check_all_open, prepared_database
from skein_cluster.service_certificates.renewal import renewed_certificates
from skein_kit.host.process import run_services
from skein_kit.settings import ProcessSettings
from skein_kit.telemetry import logs
from skein_recall.settings import RecallSettings

_ADMIN = "SKEIN_ADMIN_PORT"
_CONSOLE = "SKEIN_CONSOLE_PORT"
# The names of the two kinds of processes in the folder of certificates.
_REPLICATED, _SINGLE = "processes", "supervisor"
# First pause before a restart, which doubles each time until a process has run long enough.
_FIRST_PAUSE_SECONDS = 0.5
_MAX_PAUSE_SECONDS = 15.0
_GOOD_SECONDS = 60.0

_log = logs.get("processes")
# Services that run in every process, and those that run once: pc2's ZeroMQ ports cannot be shared.
REPLICATED = ("auth", "tenancy", "session", "memory", "recall", "gateway")
SINGLE = ("worker", "pc2")
# Postgres' superuser_reserved_connections, and connections for backups and operators.
_SPARE_CONNECTIONS = 3 + 10


@asynccontextmanager
async def shared_port_cluster(
    data_dir: Path,
    *,
    processes: int,
    environment: Mapping[str, str] | None = None,
    durable: bool = True,
    ready_seconds: float = 60.0,
) -> AsyncIterator[LocalCluster]:
    """Run the cluster in this many processes until the block ends: pc2 and the worker stop first, then the others.

    Raises PortTaken, CommandError for a number that does not fit and with the message of a process that cannot start,
    NotReady, and the embedded server's errors.
    """
    if sys.platform != "linux":
        raise CommandError("--processes needs Linux, which shares a port among processes.", ExitCode.CANNOT_START)
    names = [f"process-{number}" for number in range(1, processes + 1)]
    requested_settings = os.environ if environment is None else environment
    requested = ProcessSettings.read(requested_settings)
    identities = {_REPLICATED: REPLICATED, _SINGLE: SINGLE}
    if not requested.database_url:
        check_connections(processes, requested.pool_size)
    async with (
        prepared_database(
            data_dir,
            lambda own: _requested_ports(own, names),
            environment=environment,
            durable=durable,
            counts=dict.fromkeys(REPLICATED, processes) | dict.fromkeys(SINGLE, 1),
        ) as base,
        renewed_certificates(data_dir, identities, requested_settings) as certificate_settings,
    ):
        values = base.environment
        folder = data_dir / "logs"
        folder.mkdir(exist_ok=True, mode=0o700)
        # Reserved to the end, and without SO_REUSEPORT, so that no second cluster takes a share of the calls.
        with reserved_ports(_requested_ports(values, names)) as ports:
            own = _own_environment(values, ports, names) | certificate_settings(_SINGLE)
            single = [name for name in SINGLE if name in registry.local_names(own)]
            pids = dict.fromkeys(single, os.getpid())
            values.pop(_CONSOLE, None)
            values |= {**divided_settings(values, processes), "SKEIN_SHARE_GATEWAY_PORTS": "true"}
            values |= certificate_settings(_REPLICATED)
            children = [
                _SupervisedProcess(name, environment_of(name, values, ports), folder / f"{name}.log", pids)
                for name in names
            ]
            settings = ProcessSettings.read(own)
            host = registry.host_of(settings, own, local_services=single)
            addresses = {
                "gateway": f"{settings.host}:{ports['SKEIN_GATEWAY_PORT']}",
                "http": f"{settings.host}:{ports['SKEIN_HTTP_PORT']}",
                "console": f"{settings.host}:{ports[f'{_CONSOLE} {names[0]}']}",
            }
            async with _supervised(children, ready_seconds):
                admins = {child.name: child.admin for child in children}
                created = await base.write_credentials(addresses, admins)
                # pc2 acts in the development tenant, whose key exists only when the others are ready.
                own.setdefault("SKEIN_PC2_API_KEY", created.api_key)
                async with run_services(registry.load(single), host) as running:
                    await running.wait_ready(ready_seconds)
                    check_all_open(host.addresses, own)
                    yield LocalCluster(
                        addresses=host.addresses | addresses,
                        admins=admins | dict.fromkeys(single, running.admin),
                        processes=pids,
                        embedded=base.embedded,
                        credentials=created,
                        logs={child.name: child.log for child in children},
                    )


class _SupervisedProcess:
    """One process with the services that run several times, which is started again when it ends."""

    def __init__(self, name: str, environment: Mapping[str, str], log: Path, pids: dict[str, int]) -> None:
        """`supervise` starts it, and puts its pid into `pids`."""
        self.name = name
        self.log = log
        settings = ProcessSettings.read(environment)
        self.admin = f"{settings.host}:{settings.admin_port}"
        # Set when it has been ready once.
        self.has_started = asyncio.Event()
        self._environment = environment
        self._pids = pids

    async def supervise(self) -> None:
        """Run the process until cancelled, then let it drain. Raises CommandError when it cannot start at first."""
        loop = asyncio.get_running_loop()
        pause = _FIRST_PAUSE_SECONDS
        while True:
            started = loop.time()
            try:
                await self._run()
            except (CommandError, OSError) as error:
                if not self.has_started.is_set():
                    raise
                _log.error("process_start_failed", process=self.name, why=str(error), pause_seconds=pause)
            if loop.time() - started > _GOOD_SECONDS:
                pause = _FIRST_PAUSE_SECONDS
            await asyncio.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE_SECONDS)

    async def _run(self) -> None:
        """Run the process once, to its end."""
        async with ServiceProcess.start_process(REPLICATED, self._environment, self.log, name=self.name) as child:
            self._pids[self.name] = child.process.pid
            await child.wait_ready()
            if self.has_started.is_set():
                _log.warning("process_restarted", process=self.name, pid=child.process.pid)
            self.has_started.set()
            await child.process.wait()
            _log.error("process_exited", process=self.name, why=child.exit_message())


@asynccontextmanager
async def _supervised(children: Sequence[_SupervisedProcess], ready_seconds: float) -> AsyncIterator[None]:
    """Supervise the processes until the block ends; the block begins when all are ready, and they stop together."""
    tasks = [asyncio.create_task(child.supervise()) for child in children]
    starts = [asyncio.create_task(child.has_started.wait()) for child in children]
    try:
        async with asyncio.timeout(ready_seconds) as limit:
            await _wait_started(tasks, starts)
        yield
    except TimeoutError:
        if not limit.expired():
            raise
        names = ", ".join(child.name for child in children if not child.has_started.is_set())
        raise CommandError(
            f"Not ready after {ready_seconds:.0f} s: {names}. Their logs have the reason.", ExitCode.CANNOT_START
        ) from None
    finally:
        for task in (*tasks, *starts):
            task.cancel()
        await asyncio.gather(*tasks, *starts, return_exceptions=True)


async def _wait_started(tasks: Sequence[asyncio.Task[None]], starts: Sequence[asyncio.Task[bool]]) -> None:
    """Return when every process has started; raise the error of the first that cannot."""
    for start in starts:
        await asyncio.wait([start, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()


def _requested_ports(environment: Mapping[str, str], names: Sequence[str]) -> dict[str, tuple[str, int]]:
    """Return host and port by setting; `SKEIN_MEMORY_PORT process-2` is a port of one process.

    The first process has the configured ports of its services, the others free ones.
    """
    settings = ProcessSettings.read(environment)
    ports = registry.ports(settings, environment)
    http_port = ports["SKEIN_HTTP_PORT"][1]
    ports[_ADMIN] = (settings.host, settings.admin_port)
    console_port = registry.port_in(_CONSOLE, environment, http_port and http_port + 1)
    ports[f"{_CONSOLE} {names[0]}"] = (settings.host, console_port)
    for number, name in enumerate(names, start=1):
        ports[f"{_ADMIN} {name}"] = (settings.host, settings.admin_port and settings.admin_port + number)
    for name in names[1:]:
        ports |= {f"{_port(service)} {name}": (settings.host, 0) for service in REPLICATED if service != "gateway"}
    return ports


def _own_environment(environment: Mapping[str, str], ports: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """Return the environment of the worker and pc2, which call the services of all processes in turn."""
    host = ProcessSettings.read(environment).host
    values = {**environment, **{name: port for name, port in ports.items() if " " not in name}}
    for service in REPLICATED:
        variables = [_port(service), *(f"{_port(service)} {name}" for name in names)]
        targets = ",".join(f"{host}:{ports[variable]}" for variable in variables if variable in ports)
        values.setdefault(f"SKEIN_{service.upper()}_ADDRESS", f"ipv4:{targets}")
    if values.get("SKEIN_TLS_CERTIFICATE"):
        gateway = reachable_address(f"{host}:{ports['SKEIN_GATEWAY_PORT']}")
        values["SKEIN_GATEWAY_ADDRESS"] = environment.get("SKEIN_GATEWAY_ADDRESS") or f"https://{gateway}"
    return values


def _port(service: str) -> str:
    return f"SKEIN_{service.upper()}_PORT"


def check_connections(processes: int, pool_size: int) -> None:
    """Raise CommandError when the pools of this many processes exceed the embedded Postgres' connections."""
    available = MAX_CONNECTIONS - _SPARE_CONNECTIONS
    needed = _needed_connections(processes, pool_size)
    if needed <= available:
        return
    fitting = [size for size in range(1, pool_size) if _needed_connections(processes, size) <= available]
    remedy = (
        f"Set SKEIN_POOL_SIZE to {fitting[-1]} or less, or run fewer processes" if fitting else "Run fewer processes"
    )
    raise CommandError(
        f"{processes} processes with SKEIN_POOL_SIZE={pool_size} may open {needed} connections, and the embedded "
        f"Postgres has {available} for them. {remedy}.",
        ExitCode.CANNOT_START,
    )


def divided_settings(environment: Mapping[str, str], processes: int) -> dict[str, str]:
    """Return the settings of each process that divide memory and threads among them. Raises SettingInvalid."""
    recall, auth = RecallSettings.read(environment), AuthSettings.read(environment)
    return {
        # 0 stays 0: no cache.
        "SKEIN_RECALL_CACHE_MEGABYTES": str(-(-recall.cache_megabytes // processes)),
        "SKEIN_RECALL_EMBEDDER_THREADS": str(max(1, recall.embedder_threads // processes)),
        "SKEIN_RECALL_EMBEDDER_BULK_THREADS": str(max(1, recall.embedder_bulk_threads // processes)),
        "SKEIN_PASSWORD_HASH_THREADS": str(max(1, auth.password_hash_threads // processes)),
    }


def _needed_connections(processes: int, pool_size: int) -> int:
    return processes * max_connections(REPLICATED, pool_size) + max_connections(SINGLE, pool_size)
