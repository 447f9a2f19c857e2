"""`skein memories`: the tenant's memories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from skein.memory.v1 import memory_pb2
from skein_cluster.api.client import as_tenant
from skein_cluster.cli import options, output
from skein_cluster.cli.output import list_first
from skein_kit.json_values import exact


@click.group()
def memories_command() -> None:
    """List, show, add and delete memories."""


@memories_command.command("list")
@click.option("--type", "types", multiple=True, help="Only this type (repeatable).")
@click.option("--tag", "tags", multiple=True, help="Only with this tag (repeatable; all must match).")
@options.limit_option
@options.cluster_answer
async def list_(
    types: tuple[str, ...], tags: tuple[str, ...], limit: int, environment: dict[str, str]
) -> options.Answer:
    """List memories, newest first."""
    memory_filter = memory_pb2.MemoryFilter(types=types, tags_all=tags)
    async with as_tenant(environment) as api:
        request = memory_pb2.ListMemoriesRequest(page_size=limit, filter=memory_filter)
        memories = await list_first(limit, api.memories.ListMemories, request, "memories")
    yield {"memories": memories}
    lines = [
        (
            memory.external_id or memory.memory_id,
            memory.type,
            output.format_time(memory.create_time),
            ", ".join(memory.tags),
            output.shorten(memory.content or memory.title, 200),
        )
        for memory in memories
    ]
    output.print_table(
        output.table("memory", "type", "when", "tags", "content", ids=("memory",)),
        lines,
        empty="There are no memories.",
    )


@memories_command.command("show")
@click.argument("memory_id")
@options.cluster_answer
async def show(memory_id: str, environment: dict[str, str]) -> options.Answer:
    """Show one memory, by its id or external id, with its links."""
    async with as_tenant(environment) as api:
        response = await api.memories.GetMemory(memory_pb2.GetMemoryRequest(memory_id=memory_id))
        links = await list_first(1000, api.links.ListLinks, memory_pb2.ListLinksRequest(memory_id=memory_id), "links")
    memory = response.memory
    yield {"memory": memory, "links": links}
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold")
    grid.add_column(overflow="fold")
    for name, value in output.message_to_dict(memory, with_texts=False).items():
        if value not in ("", [], None):
            grid.add_row(name, Text(_format_value(value)))
    for link in links:
        other_id = link.to_memory_id if link.from_memory_id == memory.memory_id else link.from_memory_id
        arrow = "→" if link.from_memory_id == memory.memory_id else "←"
        grid.add_row(f"{arrow} {link.relation}", Text(other_id))
    output.stdout_console().print(grid)


@memories_command.command("add")
@click.argument("content")
@options.memory_fields
@options.on_conflict_option
@options.cluster_answer
async def add(content: str, fields: dict[str, Any], on_conflict: str, environment: dict[str, str]) -> options.Answer:
    """Store CONTENT as a memory."""
    memory = memory_pb2.Memory(content=content, **fields)
    memory = await _add(environment, memory_pb2.CreateMemoryRequest(memory=memory, on_conflict=on_conflict))
    yield memory
    output.echo(memory.memory_id)


@memories_command.command("delete")
@click.argument("memory_id")
@options.cluster_answer
async def delete(memory_id: str, environment: dict[str, str]) -> options.Answer:
    """Delete one memory by its id or external id: lists and recall no longer return it."""
    async with as_tenant(environment) as api:
        await api.memories.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id=memory_id))
    yield {"deleted": memory_id}
    output.echo(f"Deleted {memory_id}.")


def _format_value(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return exact.dumps(value, separators=(", ", ": "))
    text = str(value)
    return next((text.removeprefix(prefix).lower() for prefix in ("SCOPE_", "LEVEL_") if text.startswith(prefix)), text)


async def _add(environment: Mapping[str, str], request: memory_pb2.CreateMemoryRequest) -> memory_pb2.Memory:
    async with as_tenant(environment) as api:
        return (await api.memories.CreateMemory(request)).memory
