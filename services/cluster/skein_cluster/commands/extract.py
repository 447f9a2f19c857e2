"""`skein extract`: facts out of earlier messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from skein.session.v1 import session_pb2 as pb
from skein_cluster.api.client import as_tenant
from skein_cluster.cli import options, output
from skein_kit.rpc.well_known_types import to_timestamp

if TYPE_CHECKING:
    from datetime import datetime


@click.command()
@click.option("--since", type=options.Time(), help="Only messages at or after this time.")
@click.option("--max", "max_messages", type=click.IntRange(1), default=10_000, show_default=True, help="Most messages.")
@click.option("--cancel", is_flag=True, help="End a backfill instead; what it stored stays.")
@options.cluster_options
@options.json_option
@options.asynchronous
async def extract_command(
    since: datetime | None, max_messages: int, environment: dict[str, str], *, cancel: bool, as_json: bool
) -> None:
    """Have the worker find facts in earlier messages, newest first. A message is read once.

    New messages are read in any case, as the policy `extraction` says. `skein jobs list` shows the progress, and
    `skein jobs pause extraction` pauses it.
    """
    async with as_tenant(environment) as api:
        if cancel:
            await api.sessions.CancelExtraction(pb.CancelExtractionRequest())
        else:
            request = pb.StartExtractionRequest(since_time=to_timestamp(since), max_messages=max_messages)
            await api.sessions.StartExtraction(request)
    if output.print_if_json({"cancelled" if cancel else "started": True}, as_json=as_json):
        return
    output.echo("Cancelled." if cancel else "Started. `skein jobs list` shows the progress.")
