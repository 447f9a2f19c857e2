"""The whole cluster as one process per service on this machine, over one Postgres: `skein cluster`.

The data folder is that of `skein up`, with the services' logs below `logs/`. A service that ends is not restarted: this
form is for tests of separate processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Self

from skein_cluster import registry
from skein_cluster.api.credentials import reachable_address
from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_cluster.processes import log_file
from skein_cluster.processes.admin_probe import is_ready
from skein_cluster.processes.ports import reserved_ports
from skein_cluster.processes.single_process import LocalCluster, prepared_database
from skein_cluster.service_certificates.renewal import renewed_certificates
from skein_kit.settings import ProcessSettings
from skein_pc2.settings import Pc2Settings, setting_of

_POLL_SECONDS = 0.05
_ADMIN = "SKEIN_ADMIN_PORT"
# Added to a service's own drain and grace time.
_STOP_MARGIN_SECONDS = 10.0
_LOG_TAIL_LINES = 5
_ONE_OF_EACH: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceProcess:
    """One service's process."""

    # "memory"; "memory-2" is its second replica.
    name: str
    process: asyncio.subprocess.Process
    admin: str
    log: Path
    stop_seconds: float

    @classmethod
    @asynccontextmanager
    async def start_process(
        cls, services: Sequence[str], environment: Mapping[str, str], log: Path, *, name: str
    ) -> AsyncIterator[Self]:
        """Run `skein serve SERVICE…` until the block ends, then let it drain; `name` distinguishes replicas."""
        settings = ProcessSettings.read(environment)
        with log_file.open_log(log) as output:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "skein_cluster", "serve", *services, "--parent", str(os.getpid())),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                # Ctrl-C reaches this process alone, which stops the services in order.
                start_new_session=True,
            )
        child = cls(
            name=name,
            process=process,
            admin=f"{settings.host}:{settings.admin_port}",
            log=log,
            stop_seconds=settings.drain_seconds + settings.grace_seconds + _STOP_MARGIN_SECONDS,
        )
        try:
            yield child
        finally:
            await child.stop()

    async def wait_ready(self) -> None:
        """Wait until /readyz succeeds. Raises CommandError with the last message of a process that ends instead."""
        while not await is_ready(self.admin):
            if self.process.returncode is not None:
                raise CommandError(self.exit_message(), ExitCode.CANNOT_START)
            await asyncio.sleep(_POLL_SECONDS)

    async def stop(self) -> None:
        """Terminate the process; kill it after a timeout or a cancellation."""
        try:
            with contextlib.suppress(ProcessLookupError, TimeoutError):
                self.process.terminate()
                await asyncio.wait_for(self.process.wait(), self.stop_seconds)
        finally:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            await asyncio.shield(self.process.wait())

    def exit_message(self) -> str:
        """Return how the process ended, with its own error message when it could not start."""
        code = self.process.returncode
        reason = f"was ended by {signal.Signals(-code).name}" if code is not None and code < 0 else f"ended with {code}"
        lines = self.log.read_text("utf-8", errors="replace").splitlines()[-_LOG_TAIL_LINES:]
        cause = next((line.removeprefix("Error: ") for line in lines if line.startswith("Error: ")), f"See {self.log}.")
        return f"{self.name} {reason}. {cause}"


@asynccontextmanager
async def multi_process_cluster(
    data_dir: Path,
    *,
    environment: Mapping[str, str] | None = None,
    durable: bool = True,
    ready_seconds: float = 60.0,
    replicas: Mapping[str, int] = _ONE_OF_EACH,
) -> AsyncIterator[LocalCluster]:
    """Run every service in its own process until the block ends; edge services stop first.

    `replicas` has numbers of processes; calls go to them in turn, and memory's second one is "memory-2".

    Raises CommandError with the message of a service that cannot start, and the errors of `prepared_database`.
    """
    replica_services = _replica_services(replicas)
    async with (
        prepared_database(
            data_dir,
            lambda own: _requested_ports(own, replica_services),
            environment=environment,
            durable=durable,
            counts=dict.fromkeys(registry.NAMES, 1) | dict(replicas),
        ) as base,
        contextlib.AsyncExitStack() as stack,
    ):
        values = base.environment
        # Reserved to the end: some services listen only when others are ready.
        ports = stack.enter_context(_reserved_ports(values, replica_services))
        certificate_settings = await stack.enter_async_context(
            renewed_certificates(data_dir, {name: [name] for name in registry.NAMES}, values)
        )
        for name in dict.fromkeys(replica_services.values()):
            values.setdefault(f"SKEIN_{name.upper()}_ADDRESS", _target(name, values, ports, replica_services))
        folder = data_dir / "logs"
        folder.mkdir(exist_ok=True, mode=0o700)
        children: list[ServiceProcess] = []

        async def start(names: Iterable[str]) -> None:
            started = [
                await stack.enter_async_context(
                    ServiceProcess.start_process(
                        [service],
                        {**environment_of(label, values, ports), **certificate_settings(service)},
                        folder / f"{label}.log",
                        name=label,
                    )
                )
                for service in names
                for label in (
                    service,
                    *(label for label, replicated in replica_services.items() if replicated == service),
                )
            ]
            children.extend(started)
            await _all_ready(started, ready_seconds)

        settings = ProcessSettings.read(values)
        names = registry.local_names(values)
        addresses = registry.host_of(settings, {**values, **ports}, local_services=names).addresses
        addresses["http"] = f"{settings.host}:{ports['SKEIN_HTTP_PORT']}"
        addresses |= {
            label: f"{settings.host}:{ports[f'{_port(name)} {label}']}" for label, name in replica_services.items()
        }
        if "pc2" in names:
            host = Pc2Settings.read(values).host
            addresses |= {f"pc2:{number}": f"{host}:{ports[setting_of(number)]}" for number in registry.PC2_PORTS}
            values.setdefault("SKEIN_PC2_ADDRESS", addresses["pc2"])
        if values.get("SKEIN_TLS_CERTIFICATE"):
            values.setdefault("SKEIN_GATEWAY_ADDRESS", f"https://{reachable_address(addresses['gateway'])}")
        await start(name for name in names if name != "pc2")
        # pc2 acts in the development tenant, whose key exists only when the others are ready.
        credentials = await base.write_credentials(addresses, {child.name: child.admin for child in children})
        values.setdefault("SKEIN_PC2_API_KEY", credentials.api_key)
        await start(name for name in names if name == "pc2")
        yield LocalCluster(
            addresses=addresses,
            admins={child.name: child.admin for child in children},
            processes={child.name: child.process.pid for child in children},
            embedded=base.embedded,
            credentials=credentials,
            logs={child.name: child.log for child in children},
        )


async def watch_exits(cluster: LocalCluster) -> AsyncIterator[str]:
    """Yield the name of each service when its process ends."""
    running_pids = dict(cluster.processes)
    while running_pids:
        for name, pid in list(running_pids.items()):
            if not _is_alive(pid):
                del running_pids[name]
                yield name
        await asyncio.sleep(1.0)


async def _all_ready(children: Iterable[ServiceProcess], seconds: float) -> None:
    names_by_task = {asyncio.create_task(child.wait_ready()): child.name for child in children}
    try:
        finished_tasks, unready_tasks = await asyncio.wait(
            names_by_task, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION
        )
        for task in finished_tasks:
            task.result()
        if unready_tasks:
            names = ", ".join(names_by_task[task] for task in unready_tasks)
            raise CommandError(
                f"Not ready after {seconds:.0f} s: {names}. Their logs have the reason.", ExitCode.CANNOT_START
            )
    finally:
        for task in names_by_task:
            task.cancel()
        await asyncio.gather(*names_by_task, return_exceptions=True)


def _replica_services(replicas: Mapping[str, int]) -> dict[str, str]:
    """Return the service of each further replica by its name."""
    return {f"{name}-{number}": name for name, count in replicas.items() for number in range(2, count + 1)}


def _port(service: str) -> str:
    return f"SKEIN_{service.upper()}_PORT"


def _target(
    service: str, environment: Mapping[str, str], ports: Mapping[str, str], replica_services: Mapping[str, str]
) -> str:
    """Return the gRPC target of all replicas of a service."""
    host = ProcessSettings.read(environment).host
    variables = [
        _port(service),
        *(f"{_port(service)} {label}" for label, name in replica_services.items() if name == service),
    ]
    return "ipv4:" + ",".join(f"{host}:{ports[variable]}" for variable in variables)


@contextlib.contextmanager
def _reserved_ports(environment: Mapping[str, str], replica_services: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Reserve a port for every setting, because others must know it before the service listens.

    `SKEIN_ADMIN_PORT <service>` is the admin port of a process; further replicas get free ones.
    """
    with reserved_ports(_requested_ports(environment, replica_services)) as ports:
        yield ports


def _requested_ports(environment: Mapping[str, str], replica_services: Mapping[str, str]) -> dict[str, tuple[str, int]]:
    settings = ProcessSettings.read(environment)
    requested = registry.ports(settings, environment)
    for number, name in enumerate(registry.local_names(environment)):
        requested[f"{_ADMIN} {name}"] = (settings.host, settings.admin_port and settings.admin_port + number)
    for label, name in replica_services.items():
        own = (_port(name), _ADMIN, *(("SKEIN_HTTP_PORT",) if name == "gateway" else ()))
        requested |= {f"{variable} {label}": (settings.host, 0) for variable in own}
    return requested


def environment_of(name: str, environment: Mapping[str, str], ports: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of one process: `SKEIN_MEMORY_PORT memory-2` is for "memory-2" alone."""
    shared = {variable: port for variable, port in ports.items() if " " not in variable}
    own = {variable.partition(" ")[0]: port for variable, port in ports.items() if variable.endswith(f" {name}")}
    return {**environment, **shared, **own}


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
