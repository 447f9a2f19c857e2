"""`skein remember`: store one text in the tenant's memory."""

from __future__ import annotations

import sys
from typing import Any

import click
from rich.text import Text

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein_cluster.api.client import as_tenant
from skein_cluster.cli import command_lines, options, output

# Words of the text in the suggested recall.
_QUERY_WORDS = 6
_ON_SIMILAR = {
    "keep": memory_pb2.ON_SIMILAR_KEEP,
    "return": memory_pb2.ON_SIMILAR_RETURN,
    "reinforce": memory_pb2.ON_SIMILAR_REINFORCE,
}


@click.command()
@options.text_argument
@options.memory_fields
@click.option("--session", default="", help="Session of the memory.")
@click.option("--subject", default="", help="Subject: the person whom the memory is about.")
@click.option("--agent", default="", help="Agent that owns the memory.")
@click.option(
    "--on-similar",
    type=click.Choice(list(_ON_SIMILAR)),
    show_default="return, for a key that may read memories",
    help="If a stored memory says the same: store this one beside it, return that one, or reinforce that one.",
)
@options.on_conflict_option
@options.cluster_answer
async def remember_command(
    text: str,
    fields: dict[str, Any],
    session: str,
    subject: str,
    agent: str,
    on_similar: str | None,
    on_conflict: str,
    environment: dict[str, str],
) -> options.Answer:
    """Store TEXT as a memory, and print its id. With `-` as TEXT, read stdin."""
    content = _stdin() if text == "-" else text
    if not content.strip():
        raise click.UsageError("The text is empty: give a text, or give `-` and pipe one in.")
    memory = memory_pb2.Memory(content=content, session_id=session, subject_id=subject, agent_id=agent, **fields)
    request = gateway_pb2.RememberRequest(
        memories=[memory],
        on_similar=memory_pb2.ON_SIMILAR_UNSPECIFIED if on_similar is None else _ON_SIMILAR[on_similar],
        on_conflict=on_conflict,
    )
    async with as_tenant(environment) as api:
        response = await api.gateway.Remember(request)
    (memory,) = response.memories
    yield memory
    output.echo(memory.memory_id)
    if response.similar_indexes:
        output.echo("It is a memory that was stored before and says the same.", err=True)
    elif response.existing_indexes:
        output.echo("It is the fact that had the key before.", err=True)
    query = " ".join(content.split()[:_QUERY_WORDS])
    # Unwrapped: a wrapped command line cannot be copied.
    output.echo(f"Try next: {command_lines.command_line('recall', query, environment=environment)}", err=True)
    if response.pending_embedding_count:
        output.stderr_console().print(Text("It has no vector yet: only keyword search finds it."))


def _stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError:
        raise click.UsageError("stdin is not UTF-8 text: convert it first.") from None
