"""`skein status`: which services of a cluster answer."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import click
from rich.text import Text

from skein.gateway.v1 import gateway_pb2
from skein_cluster.api.client import as_tenant
from skein_cluster.cli import options, output
from skein_cluster.cli.exit_codes import ExitCode

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
    """Show which services answer. The exit code is 0 if all serve, 1 if one does not, 4 if no cluster answers."""
    status = asyncio.run(_status(environment))
    if as_json:
        output.print_json(output.message_to_dict(status))
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
    if any(service.state != gateway_pb2.SERVICE_STATE_SERVING for service in status.services):
        sys.exit(ExitCode.REFUSED)


def state_of(service: gateway_pb2.ServiceStatus) -> str:
    """Return "serving", "not serving" or "unreachable"."""
    name = gateway_pb2.ServiceState.Name(service.state)
    return name.removeprefix("SERVICE_STATE_").lower().replace("_", " ")


async def _status(environment: Mapping[str, str]) -> gateway_pb2.GetClusterStatusResponse:
    async with as_tenant(environment) as api:
        return await api.gateway.GetClusterStatus(gateway_pb2.GetClusterStatusRequest())
