"""`skein context`: the tenant's knowledge of a topic as one text for a prompt, with citations."""

from __future__ import annotations

from datetime import datetime

import click
from rich.text import Text

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein_cluster.api.client import as_tenant
from skein_cluster.cli import command_lines, options, output
from skein_cluster.commands.recall import (
    MODES,
    filter_options,
    is_tenant_empty,
    mode_option,
    show_as_of,
    show_incomplete,
    show_pending,
    show_receipt,
)
from skein_kit.rpc.well_known_types import to_timestamp


@click.command()
@options.text_argument
@click.option("--tokens", type=click.IntRange(1, 100_000), default=2000, show_default=True, help="Token budget.")
@click.option("--session", default="", help="Add the newest messages of this session.")
@click.option(
    "--ledger", type=(str, click.IntRange(0)), metavar="NAME REVISION", default=("", 0),
    help="Continue the texts of a context ledger from a revision, 0 for a first text: print what is new.",
)  # fmt: skip
@click.option("--plain", is_flag=True, help="Plain text instead of Markdown.")
@mode_option
@filter_options
@options.cluster_answer
async def context_command(  # noqa: PLR0913 - one argument for each option.
    text: str,
    tokens: int,
    session: str,
    ledger: tuple[str, int],
    mode: str,
    item_filter: memory_pb2.MemoryFilter | None,
    as_of_time: datetime | None,
    environment: dict[str, str],
    *,
    plain: bool,
) -> options.Answer:
    """Pack the best items about TEXT into a token budget. Numbers in brackets are citations."""
    request = gateway_pb2.BuildContextRequest(
        recall=gateway_pb2.RecallRequest(
            query=text, filter=item_filter, mode=MODES[mode], as_of_time=to_timestamp(as_of_time)
        ),
        token_budget=tokens,
        format=gateway_pb2.CONTEXT_FORMAT_TEXT if plain else gateway_pb2.CONTEXT_FORMAT_MARKDOWN,
        session_id=session,
        ledger_id=ledger[0],
        ledger_revision=ledger[1],
    )
    # Return the response, and whether the tenant is empty.
    async with as_tenant(environment) as api:
        response = await api.gateway.BuildContext(request)
        has_no_results = not response.text and not response.omitted_count and not response.incomplete
        is_empty = has_no_results and await is_tenant_empty(api)
    yield response
    # Unwrapped: the printed text must be the prompt's text.
    if response.text:
        output.echo_content(response.text)
    cited = len(response.citations)
    counts = f"{response.token_count} tokens, {cited} cited, {response.omitted_count} omitted by the budget."
    if is_empty:
        output.echo(command_lines.store_hint(environment), err=True)
    else:
        output.stderr_console().print(Text(counts if response.text or response.omitted_count else "Nothing was found."))
    if response.ledger_revision:
        kind = "append" if not response.rebase else f"new text: {_reason(response.rebase)}"
        output.stderr_console().print(Text(f"Ledger revision {response.ledger_revision}, {kind}."))
    show_as_of(as_of_time, response.purged_count)
    show_pending(response.pending_embedding_count)
    show_receipt(response.receipt_id)
    show_incomplete(response.incomplete)


def _reason(rebase: gateway_pb2.RebaseReason) -> str:
    return gateway_pb2.RebaseReason.Name(rebase).removeprefix("REBASE_REASON_").lower().replace("_", " ")
