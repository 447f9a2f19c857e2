"""`skein extract`: facts out of earlier messages."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import click

from skein.session.v1 import session_pb2 as pb
from skein_cluster.api.client import as_tenant
from skein_cluster.cli import options, output
from skein_cluster.cli.output import list_first
from skein_kit.rpc.well_known_types import to_timestamp


@click.command()
@click.option("--since", type=options.Time(), help="Only messages at or after this time.")
@click.option("--max", "max_messages", type=click.IntRange(1), default=10_000, show_default=True, help="Most messages.")
@click.option("--cancel", is_flag=True, help="End a backfill instead; what it stored stays.")
@click.option("--failed", is_flag=True, help="List the messages that the language model could not read instead.")
@options.limit_option
@options.cluster_answer
async def extract_command(
    since: datetime | None,
    max_messages: int,
    limit: int,
    environment: dict[str, str],
    *,
    cancel: bool,
    failed: bool,
) -> options.Answer:
    """Have the worker find facts in earlier messages, newest first. A message is read once.

    New messages are read in any case, as the policy `extraction` says. `skein jobs list` shows the progress, and
    `skein jobs pause extraction` pauses it.
    """
    async with as_tenant(environment) as api:
        if failed:
            request = pb.ListFailedExtractionsRequest(page_size=limit)
            failures = await list_first(limit, api.sessions.ListFailedExtractions, request, "failures")
            yield {"failures": failures}
            _print_failures(failures)
            return
        if cancel:
            await api.sessions.CancelExtraction(pb.CancelExtractionRequest())
        else:
            backfill = pb.StartExtractionRequest(since_time=to_timestamp(since), max_messages=max_messages)
            await api.sessions.StartExtraction(backfill)
    yield {"cancelled" if cancel else "started": True}
    output.echo("Cancelled." if cancel else "Started. `skein jobs list` shows the progress.")


def _print_failures(failures: Sequence[pb.ExtractionFailure]) -> None:
    lines = [
        (
            failure.message_id,
            failure.session_id,
            failure.reason,
            str(failure.attempt_count),
            output.format_time(failure.last_attempt_time),
        )
        for failure in failures
    ]
    output.print_table(
        output.table("message", "session", "reason", "attempts", "last", ids=("message", "session")),
        lines,
        empty="Every message was read.",
    )
