"""`skein approvals`: memories and messages that wait for approval."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import click
from google.protobuf.field_mask_pb2 import FieldMask

from skein.memory.v1 import approvals_pb2, memory_pb2
from skein.session.v1 import session_pb2
from skein_client.client import Client
from skein_client.errors import NotFound
from skein_cluster.api.client import as_tenant
from skein_cluster.cli import options, output
from skein_cluster.cli.output import list_first
from skein_kit.text.invisible import show_invisible


@click.group()
def approvals_command() -> None:
    """List, approve and refuse memories and messages that wait for approval, and refused facts."""


@approvals_command.command("list")
@options.limit_option
@options.cluster_answer
async def list_(limit: int, environment: dict[str, str]) -> options.Answer:
    """List what waits for approval, oldest first."""
    async with as_tenant(environment) as api:
        request = approvals_pb2.ListPendingMemoriesRequest(page_size=limit)
        pending = await list_first(limit, api.curation.ListPendingMemories, request, "pending_memories")
        of_messages = session_pb2.ListAgentMessagesRequest(pending_approval=True, page_size=limit)
        newest = await list_first(limit, api.sessions.ListAgentMessages, of_messages, "messages")
    messages = newest[::-1]
    yield {
        "pending_memories": pending,
        "pending_messages": messages,
    }
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
    lines += [
        (
            message.message_id,
            f"message of {message.session_id}",
            message.updated_by or message.created_by,
            "",
            output.shorten(show_invisible(message.content), 200),
        )
        for message in messages
    ]
    output.print_table(
        output.table("id", "kind", "from", "expires", "content", ids=("id",)),
        lines,
        empty="Nothing waits for approval.",
    )
    for write in pending:
        if write.key_holder_id:
            output.echo(f"The key of {write.pending_id} is taken by {write.key_holder_id}.")


@approvals_command.command("refused")
@options.limit_option
@options.cluster_answer
async def refused(limit: int, environment: dict[str, str]) -> options.Answer:
    """List facts that were found in messages and refused, oldest first; approve accepts one, refuse dismisses it."""
    async with as_tenant(environment) as api:
        request = approvals_pb2.ListRefusedFactsRequest(page_size=limit)
        facts = await list_first(limit, api.curation.ListRefusedFacts, request, "refused_facts")
    yield {"refused_facts": facts}
    lines = [
        (
            fact.pending_id,
            fact.refusal_reason,
            ", ".join(
                f"{source.id} {source.start_character}-{source.end_character}" for source in fact.memory.derived_from
            ),
            output.format_time(fact.expire_time),
            output.shorten(show_invisible(fact.memory.content), 200),
        )
        for fact in facts
    ]
    output.print_table(
        output.table("id", "reason", "message", "expires", "content", ids=("id", "message")),
        lines,
        empty="No fact was refused.",
    )


@approvals_command.command("approve")
@click.argument("pending_id")
@click.option("--content", help="Store this content instead.")
@options.cluster_answer
async def approve(pending_id: str, content: str | None, environment: dict[str, str]) -> options.Answer:
    """Approve what waits, or was refused, under PENDING_ID.

    It becomes a memory, or changes one, or is a message that all find.
    """
    approved = await _approve(environment, pending_id, content)
    yield approved
    output.echo(f"Approved {approved.memory_id if isinstance(approved, memory_pb2.Memory) else approved.message_id}.")


@approvals_command.command("refuse")
@click.argument("pending_id")
@options.cluster_answer
async def refuse(pending_id: str, environment: dict[str, str]) -> options.Answer:
    """Refuse what waits under PENDING_ID: a memory is removed for good, a message is deleted."""
    async with as_tenant(environment) as api:
        try:
            await api.curation.RefuseMemory(approvals_pb2.RefuseMemoryRequest(pending_id=pending_id))
        except NotFound:
            message = await _waiting_message(api, pending_id)
            await api.sessions.DeleteMessage(session_pb2.DeleteMessageRequest(message_id=message.message_id))
    yield {"refused": pending_id}
    output.echo(f"Refused {pending_id}.")


async def _approve(
    environment: Mapping[str, str], pending_id: str, content: str | None
) -> memory_pb2.Memory | session_pb2.Message:
    request = approvals_pb2.ApproveMemoryRequest(pending_id=pending_id)
    if content is not None:
        request.memory.content = content
        request.update_mask.CopyFrom(FieldMask(paths=["content"]))
    async with as_tenant(environment) as api:
        try:
            return (await api.curation.ApproveMemory(request)).memory
        except NotFound:
            message = await _waiting_message(api, pending_id)
        approval = session_pb2.UpdateMessageRequest(
            message=session_pb2.Message(
                message_id=message.message_id, revision=message.revision, content=content or message.content
            ),
            update_mask=FieldMask(paths=["pending_approval", *(["content"] if content is not None else [])]),
        )
        return (await api.sessions.UpdateMessage(approval)).message


async def _waiting_message(api: Client, pending_id: str) -> session_pb2.Message:
    """Return a message that waits. Raises the NotFound in hand where there is none."""
    in_hand = sys.exception()
    try:
        response: session_pb2.GetMessageResponse = await api.sessions.GetMessage(
            session_pb2.GetMessageRequest(message_id=pending_id)
        )
        message = response.message
    except NotFound:
        message = session_pb2.Message()
    if not message.pending_approval:
        assert in_hand is not None  # noqa: S101 - it is called where a memory was not found.
        raise in_hand
    return message
