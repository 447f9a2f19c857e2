"""`skein status`: which services of a cluster answer."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click
from rich.text import Text

from skein.gateway.v1 import gateway_pb2
from skein_client.connection import CREDENTIALS_FILE, Connection, data_dir
from skein_cluster.api.client import as_tenant, read_credentials
from skein_cluster.cli import options, output
from skein_cluster.cli.exit_codes import ExitCode
from skein_cluster.processes.admin_probe import VectorCacheStatus, is_ready, read_vector_cache

if TYPE_CHECKING:
    from collections.abc import Mapping

_STYLES = {
    gateway_pb2.SERVICE_STATE_SERVING: "green",
    gateway_pb2.SERVICE_STATE_NOT_SERVING: "yellow",
    gateway_pb2.SERVICE_STATE_UNREACHABLE: "red",
}


@click.command()
@options.cluster_options
@options.json_option
def status_command(environment: dict[str, str], *, as_json: bool) -> None:
    """Show which services and processes answer.

    The exit code is 0 if all serve, 1 if one does not, and 4 if no cluster answers.
    """
    status, processes = asyncio.run(_status(environment))
    if as_json:
        values = output.message_to_dict(status)
        output.print_json(values if not processes else {**values, "processes": [asdict(one) for one in processes]})
    else:
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
                    Text("ready", style="green") if one.ready else Text("not ready", style="red"),
                    _vectors_of(one.vector_cache),
                    one.metrics,
                )
                for one in processes
            ]
            output.print_table(output.table("process", "state", "vector cache", "metrics"), process_lines, empty="")
    are_services_serving = all(service.state == gateway_pb2.SERVICE_STATE_SERVING for service in status.services)
    if not (are_services_serving and all(one.ready for one in processes)):
        sys.exit(ExitCode.REFUSED)


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
    # Its tenants in the vector cache; None where it has none, or does not answer.
    vector_cache: VectorCacheStatus | None


async def _status(
    environment: Mapping[str, str],
) -> tuple[gateway_pb2.GetClusterStatusResponse, list[ProcessStatus]]:
    """Return the services as one process sees them, and the processes of a cluster of this data folder."""
    async with as_tenant(environment) as api:
        status = await api.gateway.GetClusterStatus(gateway_pb2.GetClusterStatusRequest())
    saved = read_credentials(data_dir(environment) / CREDENTIALS_FILE)
    is_of_data_dir = Connection.from_environment(environment).endpoint == saved.get("endpoint")
    admins: dict[str, str] = saved.get("processes", {}) if is_of_data_dir else {}
    ready = await asyncio.gather(*(is_ready(admin) for admin in admins.values()))
    caches = await asyncio.gather(*(read_vector_cache(admin) for admin in admins.values()))
    return status, [
        ProcessStatus(name=name, ready=is_up, metrics=f"http://{admin}/metrics", vector_cache=cache)
        for (name, admin), is_up, cache in zip(admins.items(), ready, caches, strict=True)
    ]
