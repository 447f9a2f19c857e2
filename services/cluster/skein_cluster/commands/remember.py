"""`skein remember`: store one text in the tenant's memory."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein_cluster.api.client import as_tenant
from skein_cluster.cli import command_lines, options, output

if TYPE_CHECKING:
    from collections.abc import Mapping

# Words of the text in the suggested recall.
_ASKED_WORDS = 6


@click.command()
@options.text_argument
@options.memory_fields
@click.option("--session", default="", help="The session that it belongs to.")
@click.option("--subject", default="", help="The person that it is about.")
@click.option("--agent", default="", help="The agent that keeps it.")
@options.cluster_options
@options.json_option
def remember_command(
    text: str,
    fields: dict[str, Any],
    session: str,
    subject: str,
    agent: str,
    environment: dict[str, str],
    *,
    as_json: bool,
) -> None:
    """Remember TEXT, and print the id of the memory. With `-` as TEXT, remember what stdin holds."""
    content = _stdin() if text == "-" else text
    if not content.strip():
        raise click.UsageError("There is nothing to remember: give a text, or pipe one in and give `-`.")
    memory = memory_pb2.Memory(content=content, session_id=session, subject_id=subject, agent_id=agent, **fields)
    answer = asyncio.run(_remember(environment, memory))
    (stored,) = answer.memories
    if as_json:
        output.print_json(output.message_to_dict(stored))
        return
    output.echo(stored.memory_id)
    question = " ".join(content.split()[:_ASKED_WORDS])
    # Unwrapped: a wrapped command line cannot be copied.
    output.echo(f"Try next: {command_lines.command_line('recall', question, environment=environment)}", err=True)
    if answer.pending_embedding_count:
        output.stderr_console().print(Text("It is found by its words already, and by meaning soon."))


def _stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError:
        raise click.UsageError("What stdin holds is no text in UTF-8: convert it first.") from None


async def _remember(environment: Mapping[str, str], memory: memory_pb2.Memory) -> gateway_pb2.RememberResponse:
    async with as_tenant(environment) as api:
        return await api.gateway.Remember(gateway_pb2.RememberRequest(memories=[memory]))
