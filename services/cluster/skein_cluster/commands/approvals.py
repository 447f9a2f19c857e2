"""`skein approvals`: memories that wait for approval."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click
from google.protobuf.field_mask_pb2 import FieldMask

from skein.memory.v1 import approvals_pb2, memory_pb2
from skein_cluster.api.client import as_tenant
from skein_cluster.cli import options, output
from skein_cluster.cli.pagination import list_first
from skein_kit.text.invisible import show_invisible

if TYPE_CHECKING:
    from collections.abc import Mapping


@click.group()
def approvals_command() -> None:
    """List, approve and refuse memories that wait for approval."""


@approvals_command.command("list")
@options.limit_option
@options.cluster_options
@options.json_option
def list_(limit: int, environment: dict[str, str], *, as_json: bool) -> None:
    """List what waits for approval, oldest first."""
    pending = asyncio.run(_list(environment, limit))
    if as_json:
        output.print_json({"pending_memories": [output.message_to_dict(write) for write in pending]})
        return
    lines = [
        (
            write.pending_id,
            f"change of {write.memory.memory_id}" if write.update_mask.paths else "new",
            write.agent_id or write.created_by,
            output.format_time(write.expire_time),
            output.shorten(
                show_invisible(write.memory.content or write.memory.title or ", ".join(write.update_mask.paths)), 200
            ),
        )
        for write in pending
    ]
    output.print_table(
        output.table("id", "kind", "from", "expires", "content", ids=("id",)),
        lines,
        empty="Nothing waits for approval.",
    )


@approvals_command.command("approve")
@click.argument("pending_id")
@click.option("--content", help="Store this content instead.")
@options.cluster_options
@options.json_option
def approve(pending_id: str, content: str | None, environment: dict[str, str], *, as_json: bool) -> None:
    """Approve what waits under PENDING_ID: it becomes a memory, or changes one."""
    memory = asyncio.run(_approve(environment, pending_id, content))
    if as_json:
        output.print_json(output.message_to_dict(memory))
        return
    output.echo(f"Approved {memory.memory_id}.")


@approvals_command.command("refuse")
@click.argument("pending_id")
@options.cluster_options
@options.json_option
def refuse(pending_id: str, environment: dict[str, str], *, as_json: bool) -> None:
    """Refuse what waits under PENDING_ID: it is removed for good."""
    asyncio.run(_refuse(environment, pending_id))
    if as_json:
        output.print_json({"refused": pending_id})
        return
    output.echo(f"Refused {pending_id}.")


async def _list(environment: Mapping[str, str], limit: int) -> list[approvals_pb2.PendingMemory]:
    async with as_tenant(environment) as api:
        request = approvals_pb2.ListPendingMemoriesRequest(page_size=limit)
        return await list_first(limit, api.curation.ListPendingMemories, request, "pending_memories")


async def _approve(environment: Mapping[str, str], pending_id: str, content: str | None) -> memory_pb2.Memory:
    request = approvals_pb2.ApproveMemoryRequest(pending_id=pending_id)
    if content is not None:
        request.memory.content = content
        request.update_mask.CopyFrom(FieldMask(paths=["content"]))
    async with as_tenant(environment) as api:
        return (await api.curation.ApproveMemory(request)).memory


async def _refuse(environment: Mapping[str, str], pending_id: str) -> None:
    async with as_tenant(environment) as api:
        await api.curation.RefuseMemory(approvals_pb2.RefuseMemoryRequest(pending_id=pending_id))
