"""`skein status`: which services of a cluster answer."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import click
from rich.text import Text

from skein.gateway.v1 import gateway_pb2
from skein_client.connection import CREDENTIALS_FILE, Connection, data_dir
from skein_client.errors import PermissionDenied, SkeinError, Unauthenticated
from skein_cluster.api.client import as_tenant, read_credentials
from skein_cluster.cli import options, output
from skein_cluster.cli.error_messages import command_error
from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_cluster.processes.admin_probe import Readiness, VectorCacheStatus, read_readiness, read_vector_cache

_STYLES = {
    gateway_pb2.SERVICE_STATE_SERVING: "green",
    gateway_pb2.SERVICE_STATE_NOT_SERVING: "yellow",
    gateway_pb2.SERVICE_STATE_UNREACHABLE: "red",
}


@click.command()
@options.cluster_options
@options.json_option
@options.asynchronous
async def status_command(environment: dict[str, str], *, as_json: bool) -> None:
    """Show which services and processes answer.

    The exit code is 0 if all serve, 1 if one does not, and 4 if no cluster answers. Of a cluster of the data folder it
    also shows the processes, and why one is not ready, when the cluster cannot answer for itself.
    """
    status, processes, failure = await _status(environment)
    if as_json:
        values = {**output.message_to_dict(status), **({"error": failure.message} if failure is not None else {})}
        output.print_json(values if not processes else {**values, "processes": [asdict(one) for one in processes]})
    else:
        _print(status, processes)
    if failure is not None:
        output.echo(f"The cluster does not answer for itself: {failure.message}", err=True)
    are_services_serving = all(service.state == gateway_pb2.SERVICE_STATE_SERVING for service in status.services)
    if failure is not None or not (are_services_serving and all(one.ready for one in processes)):
        sys.exit(ExitCode.REFUSED)


def _print(status: gateway_pb2.GetClusterStatusResponse, processes: Sequence[ProcessStatus]) -> None:
    if status.services:
        lines = [
            (
                service.service,
                Text(state_of(service), style=_STYLES.get(service.state, "")),
                f"{service.elapsed.ToMicroseconds() / 1000:.1f}",
            )
            for service in status.services
        ]
        title = f"Skein {status.version}"
        output.print_table(
            output.table("service", "state", "ms", title=title, numbers=("ms",)), lines, empty="No services."
        )
    if processes:
        process_lines = [
            (
                one.name,
                Text("ready", style="green") if one.ready else Text(one.reason or "does not answer", style="red"),
                _vectors_of(one.vector_cache),
                one.metrics,
            )
            for one in processes
        ]
        output.print_table(output.table("process", "state", "vector cache", "metrics"), process_lines, empty="")


def state_of(service: gateway_pb2.ServiceStatus) -> str:
    """Return "serving", "not serving" or "unreachable"."""
    name = gateway_pb2.ServiceState.Name(service.state)
    return name.removeprefix("SERVICE_STATE_").lower().replace("_", " ")


def _vectors_of(cache: VectorCacheStatus | None) -> str:
    """Return "2 exact, 1 approximate, 310 MB"; empty for a process without a vector cache."""
    if cache is None:
        return ""
    return f"{cache.exact_tenants} exact, {cache.approximate_tenants} approximate, {cache.bytes / 1e6:.0f} MB"


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessStatus:
    """One process of `skein up`."""

    name: str
    # Whether all of its services are ready.
    ready: bool
    metrics: str
    # Why it is not ready; empty for a process that is, or does not answer.
    reason: str
    # Its tenants in the vector cache; None where it has none, or does not answer.
    vector_cache: VectorCacheStatus | None


async def _status(
    environment: Mapping[str, str],
) -> tuple[gateway_pb2.GetClusterStatusResponse, list[ProcessStatus], CommandError | None]:
    """Return the services as one process sees them, the processes of a cluster of this data folder, and the failure.

    Raises the failure when no process answers either.
    """
    # Before the call, which repeats while a cluster restarts.
    processes = await _processes(environment)
    try:
        async with as_tenant(environment) as api:
            status = await api.gateway.GetClusterStatus(gateway_pb2.GetClusterStatusRequest())
    except (SkeinError, CommandError) as error:
        # A refused key says nothing about the cluster.
        is_up = any(one.ready or one.reason for one in processes)
        if isinstance(error, (Unauthenticated, PermissionDenied)) or not is_up:
            raise
        return gateway_pb2.GetClusterStatusResponse(), processes, command_error(error)
    return status, processes, None


async def _processes(environment: Mapping[str, str]) -> list[ProcessStatus]:
    saved = read_credentials(data_dir(environment) / CREDENTIALS_FILE)
    is_of_data_dir = Connection.from_environment(environment).endpoint == saved.get("endpoint")
    admins: dict[str, str] = saved.get("processes", {}) if is_of_data_dir else {}
    states = await asyncio.gather(*(read_readiness(admin) for admin in admins.values()))
    caches = await asyncio.gather(*(read_vector_cache(admin) for admin in admins.values()))
    return [
        ProcessStatus(
            name=name,
            ready=state.is_ready,
            metrics=f"http://{admin}/metrics",
            reason=_reason_of(state),
            vector_cache=cache,
        )
        for (name, admin), state, cache in zip(admins.items(), states, caches, strict=True)
    ]


def _reason_of(state: Readiness) -> str:
    """Return "memory: The database does not answer."; services that fail for one reason are named together."""
    if state.is_ready or not state.answers:
        return ""
    services: dict[str, list[str]] = {}
    for service, reason in state.reasons.items():
        services.setdefault(reason, []).append(service)
    return "; ".join(f"{', '.join(names)}: {reason}" for reason, names in services.items()) or "not ready"
