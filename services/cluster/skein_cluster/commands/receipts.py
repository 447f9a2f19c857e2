"""`skein receipts`: receipts of answers, their verification and their differences."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from skein.recall.v1 import recall_pb2
from skein_cluster.api.client import as_tenant
from skein_cluster.certificates import event_log
from skein_cluster.cli import options, output
from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_cluster.cli.output import list_first
from skein_kit import recall_receipts
from skein_kit.recall_receipts import ReceiptInvalid

_MAX_PAGE_SIZE = 200


@click.group()
def receipts_command() -> None:
    """List, save, verify and compare receipts of answers; `skein replay` makes an answer again.

    The policy recall_receipts says which answers get one. `verify` needs the file and the published keys alone, which
    `skein certificates keys` saves.
    """


@receipts_command.command("list")
@click.option("--principal", default="", help="Only answers to this principal: account:ID or api_key:ID.")
@click.option("--since", type=options.Time(), help="Only answers at or after this time.")
@click.option("--until", type=options.Time(), help="Only answers before this time.")
@options.limit_option
@options.cluster_answer
async def list_(
    principal: str, since: datetime | None, until: datetime | None, limit: int, environment: dict[str, str]
) -> options.Answer:
    """List receipts, newest first: of your own answers, or with the permission audit.read of all."""
    request = recall_pb2.ListRecallReceiptsRequest(
        page_size=min(limit, _MAX_PAGE_SIZE), principal=principal, start_time=since, end_time=until
    )
    async with as_tenant(environment) as api:
        receipts = await list_first(limit, api.index.ListRecallReceipts, request, "receipts")
    yield {"receipts": receipts}
    output.print_table(
        output.table("receipt", "when", "principal", "hits", "query", ids=("receipt",), numbers=("hits",)),
        [
            (
                receipt.receipt_id,
                output.format_time(receipt.create_time),
                receipt.principal,
                "" if receipt.altered else receipt.hit_count,
                "ALTERED" if receipt.altered else output.shorten(receipt.query, 200),
            )
            for receipt in receipts
        ],
        empty="There are no receipts.",
    )


@receipts_command.command("get")
@click.argument("receipt_id")
@click.option("--output", "file", type=click.Path(path_type=Path, dir_okay=False), help="File; default: ID.json here.")
@options.cluster_answer
async def get(receipt_id: str, file: Path | None, environment: dict[str, str]) -> options.Answer:
    """Save the file of a receipt."""
    async with as_tenant(environment) as api:
        request = recall_pb2.GetRecallReceiptRequest(receipt_id=receipt_id)
        receipt = (await api.index.GetRecallReceipt(request)).receipt
    path = file or Path(f"{receipt.receipt_id}.json")
    path.write_bytes(receipt.document.encode())
    yield {"file": str(path), "request_erased": receipt.request_erased}
    output.echo(f"{path}{': the request was erased' if receipt.request_erased else ''}")


@receipts_command.command("verify")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--keys",
    "keys_file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    required=True,
    help="Published keys, as `skein certificates keys` writes them.",
)
@options.json_option
def verify(file: Path, keys_file: Path, *, as_json: bool) -> None:
    """Verify FILE with the published keys, without a cluster. Ends with 1 if it was changed."""
    try:
        receipt = recall_receipts.read(file.read_bytes())
        content = receipt.verify(event_log.read_published_keys(keys_file))
    except ReceiptInvalid as error:
        raise CommandError(f"The receipt is not valid: {error}.", ExitCode.REFUSED) from None
    if as_json:
        fields = {"valid": True, "key_id": receipt.key_id, "receipt": output.message_to_dict(content)}
        if receipt.context is not None:
            fields["context"] = output.message_to_dict(receipt.context.statement)
        output.print_json(fields)
        return
    output.echo(f"The signature is valid (key {receipt.key_id}).")
    output.echo(f"tenant   {receipt.tenant_id}")
    output.echo(f"receipt  {receipt.receipt_id}")
    output.echo(f"formula  {content.formula}, model {content.model or 'none'}")
    output.echo(f"hits     {len(content.revisions)}")
    if receipt.context is not None:
        statement = receipt.context.statement
        output.echo(f"context  {statement.token_count} tokens, packed by {statement.packer}")


@receipts_command.command("diff")
@click.argument("receipt_id")
@click.argument("other_receipt_id")
@options.cluster_answer
async def diff(receipt_id: str, other_receipt_id: str, environment: dict[str, str]) -> options.Answer:
    """Explain why two answers differ: by item, the signals that changed and the events behind it."""
    async with as_tenant(environment) as api:
        request = recall_pb2.DiffRecallRequest(receipt_id=receipt_id, other_receipt_id=other_receipt_id)
        response = await api.index.DiffRecall(request)
    yield response
    if response.changed_inputs:
        output.echo(f"differs: {', '.join(response.changed_inputs)}")
    if response.unknown_inputs:
        output.echo(f"unknown: {', '.join(response.unknown_inputs)}")
    output.print_table(
        output.table("item", "rank", "then", "signals", "cause", "events", ids=("item",), numbers=("rank", "then")),
        [
            (
                hit.item_id,
                hit.rank or "",
                hit.other_rank or "",
                " ".join(f"{signal.signal} {signal.raw:.3f} {signal.other_raw:.3f}" for signal in hit.signals),
                hit.cause,
                " ".join(f"{change.event_type} by {change.principal}" for change in hit.changes),
            )
            for hit in response.hits
        ],
        empty="Neither answer had hits.",
    )
