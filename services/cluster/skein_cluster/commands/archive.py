"""`skein archive`: the tenant's memories in cold storage."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click
from rich.text import Text

from skein.memory.v1 import archives_pb2
from skein_cluster import console, options
from skein_cluster.calling import as_tenant
from skein_cluster.listing import first

if TYPE_CHECKING:
    from collections.abc import Mapping


@click.group()
def archive_command() -> None:
    """Take memories to cold storage, list what lies there, and bring it back."""


@archive_command.command("list")
@options.limit
@options.caller
@options.as_json
def list_(limit: int, environment: dict[str, str], *, as_json: bool) -> None:
    """List archives, newest first."""
    found = asyncio.run(_list(environment, limit))
    if as_json:
        console.print_json({"archives": [console.as_json(archive) for archive in found]})
        return
    lines = [
        (
            archive.archive_id,
            archive.label,
            archive.memory_count,
            archive.byte_count,
            console.when(archive.from_time),
            console.when(archive.to_time),
            console.when(archive.create_time),
        )
        for archive in found
    ]
    made = console.table(
        "archive", "label", "memories", "bytes", "from", "to", "created", numbers=("memories", "bytes")
    )
    console.rows(made, lines, empty="Nothing lies in cold storage.")


@archive_command.command("create")
@click.option("--idle-days", type=click.IntRange(1), required=True, help="What was not changed for so many days goes.")
@click.option("--session", "session_id", default="", help="Only memories of this session.")
@click.option("--label", default="", help="A name for the archives.")
@options.caller
@options.as_json
def create(idle_days: int, session_id: str, label: str, environment: dict[str, str], *, as_json: bool) -> None:
    """Take memories that were not changed for some time to cold storage."""
    made = asyncio.run(_create(environment, idle_days, session_id, label))
    if as_json:
        console.print_json({"archives": [console.as_json(archive) for archive in made]})
        return
    memories = sum(archive.memory_count for archive in made)
    console.out().print(Text(f"{memories} memories went to {len(made)} archives."))


@archive_command.command("restore")
@click.argument("archive_id")
@options.caller
@options.as_json
def restore(archive_id: str, environment: dict[str, str], *, as_json: bool) -> None:
    """Bring an archive's memories back."""
    response = asyncio.run(_restore(environment, archive_id))
    if as_json:
        console.print_json(console.as_json(response))
        return
    skipped = f", {response.skipped_count} were passed over" if response.skipped_count else ""
    console.out().print(Text(f"{response.restored_count} memories are back{skipped}."))


async def _list(environment: Mapping[str, str], limit: int) -> list[archives_pb2.Archive]:
    async with as_tenant(environment) as api:
        request = archives_pb2.ListArchivesRequest(page_size=limit)
        return await first(limit, api.history.ListArchives, request, "archives")


async def _create(
    environment: Mapping[str, str], idle_days: int, session_id: str, label: str
) -> list[archives_pb2.Archive]:
    idle_since = datetime.now(UTC) - timedelta(days=idle_days)
    made: list[archives_pb2.Archive] = []
    async with as_tenant(environment) as api:
        request = archives_pb2.CreateArchiveRequest(idle_since_time=idle_since, session_id=session_id, label=label)
        while True:
            response = await api.history.CreateArchive(request)
            if response.HasField("archive"):
                made.append(response.archive)
            if not response.next_memory_id:
                return made
            request.after_memory_id = response.next_memory_id


async def _restore(environment: Mapping[str, str], archive_id: str) -> archives_pb2.RestoreArchiveResponse:
    async with as_tenant(environment) as api:
        return await api.history.RestoreArchive(archives_pb2.RestoreArchiveRequest(archive_id=archive_id))
