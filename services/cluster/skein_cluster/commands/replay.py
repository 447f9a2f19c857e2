"""`skein replay`: an answer or a text for a prompt, made again from its receipt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import click

from skein.gateway.v1 import gateway_pb2
from skein.recall.v1 import recall_pb2
from skein_client.errors import FailedPrecondition
from skein_cluster.api.client import as_tenant
from skein_cluster.cli import options, output
from skein_cluster.cli.exit_codes import CommandError, ExitCode


@click.command()
@click.argument("receipt_id")
@click.option("--query", default="", help="The text of the query, where the receipt has a digest of it.")
@options.cluster_options
@options.json_option
@options.asynchronous
async def replay_command(receipt_id: str, query: str, environment: dict[str, str], *, as_json: bool) -> None:
    """Make the answer of a receipt again, from what was known then.

    Prints the text of a context, else the hits of a recall. Ends with 1 if it is not the same.
    """
    response = await _replay(environment, receipt_id, query)
    if as_json:
        output.print_json(output.message_to_dict(response))
    elif isinstance(response, gateway_pb2.ReplayContextResponse):
        # Unwrapped: the printed text must be the prompt's text.
        if response.text:
            output.echo_content(response.text)
    else:
        _print_hits(response.response.hits)
    for gap in () if as_json else response.gaps:
        reason = recall_pb2.ReplayGapReason.Name(gap.reason).removeprefix("REPLAY_GAP_REASON_").lower()
        details = [gap.name, str(gap.count or ""), *gap.item_ids]
        output.echo(f"missing: {reason} {' '.join(filter(None, details))}", err=True)
    if not response.identical:
        message = "The answer of then cannot be had in full." if response.gaps else "The answer is not the same."
        raise CommandError(message, ExitCode.REFUSED)
    if not as_json:
        output.echo("The answer is the same.", err=True)


def _print_hits(hits: Iterable[recall_pb2.Hit]) -> None:
    output.print_table(
        output.table("item", "score", "content", ids=("item",), numbers=("score",)),
        [(hit.item_id, f"{hit.score:.4f}", hit.memory.content or hit.message.content) for hit in hits],
        empty="The answer had no hits.",
    )


async def _replay(
    environment: Mapping[str, str], receipt_id: str, query: str
) -> gateway_pb2.ReplayContextResponse | recall_pb2.ReplayRecallResponse:
    async with as_tenant(environment) as api:
        try:
            return await api.gateway.ReplayContext(gateway_pb2.ReplayContextRequest(receipt_id=receipt_id, query=query))
        except FailedPrecondition as error:
            if error.reason != "RECEIPT_WITHOUT_CONTEXT":
                raise
        return await api.index.ReplayRecall(recall_pb2.ReplayRecallRequest(receipt_id=receipt_id, query=query))
