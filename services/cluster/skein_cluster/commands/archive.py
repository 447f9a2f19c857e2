"""`skein archive`: the tenant's memories in cold storage, and the list of its archived sessions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import click
from rich.text import Text

from skein.memory.v1 import archives_pb2
from skein.session.v1 import archives_pb2 as sessions_pb2
from skein_cluster.api.client import as_tenant
from skein_cluster.cli import options, output
from skein_cluster.cli.output import list_first


@click.group()
def archive_command() -> None:
    """Move memories to cold storage and back, and list the contents of cold storage."""


@archive_command.command("list")
@click.option("--sessions", "of_sessions", is_flag=True, help="List archived sessions instead.")
@options.limit_option
@options.cluster_answer
async def list_(limit: int, environment: dict[str, str], *, of_sessions: bool) -> options.Answer:
    """List archives of memories, or archived sessions, newest first."""
    if of_sessions:
        sessions = await _list_sessions(environment, limit)
        yield {"sessions": sessions}
        _print_sessions(sessions)
        return
    archives = await _list(environment, limit)
    yield {"archives": archives}
    lines = [
        (
            archive.archive_id,
            archive.label,
            archive.memory_count,
            archive.byte_count,
            output.format_time(archive.from_time),
            output.format_time(archive.to_time),
            output.format_time(archive.create_time),
        )
        for archive in archives
    ]
    table = output.table(
        "archive", "label", "memories", "bytes", "from", "to", "created", numbers=("memories", "bytes")
    )
    output.print_table(table, lines, empty="There are no archives.")


@archive_command.command("create")
@click.option("--idle-days", type=click.IntRange(1), required=True, help="Archive memories unchanged for so many days.")
@click.option("--session", "session_id", default="", help="Only memories of this session.")
@click.option("--label", default="", help="Label of the archives.")
@options.cluster_answer
async def create(idle_days: int, session_id: str, label: str, environment: dict[str, str]) -> options.Answer:
    """Archive memories that were not changed for some days."""
    archives = await _create(environment, idle_days, session_id, label)
    yield {"archives": archives}
    memories = sum(archive.memory_count for archive in archives)
    output.stdout_console().print(Text(f"Archived {memories} memories in {len(archives)} archives."))


@archive_command.command("unarchive")
@click.argument("archive_id")
@options.cluster_answer
async def unarchive(archive_id: str, environment: dict[str, str]) -> options.Answer:
    """Move the memories of ARCHIVE_ID back from cold storage."""
    async with as_tenant(environment) as api:
        response = await api.history.UnarchiveMemories(archives_pb2.UnarchiveMemoriesRequest(archive_id=archive_id))
    yield response
    skipped = f", skipped {response.skipped_count}" if response.skipped_count else ""
    output.stdout_console().print(Text(f"Unarchived {response.unarchived_count} memories{skipped}."))


def _print_sessions(sessions: list[sessions_pb2.ArchivedSession]) -> None:
    lines = [
        (
            session.session_id,
            session.title,
            session.message_count,
            session.byte_count,
            output.format_time(session.hide_time),
            output.format_time(session.archive_time),
        )
        for session in sessions
    ]
    table = output.table("session", "title", "messages", "bytes", "hidden", "archived", numbers=("messages", "bytes"))
    output.print_table(table, lines, empty="There are no archived sessions.")


async def _list_sessions(environment: Mapping[str, str], limit: int) -> list[sessions_pb2.ArchivedSession]:
    async with as_tenant(environment) as api:
        request = sessions_pb2.ListArchivedSessionsRequest(page_size=limit)
        return await list_first(limit, api.sessions.ListArchivedSessions, request, "sessions")


async def _list(environment: Mapping[str, str], limit: int) -> list[archives_pb2.Archive]:
    async with as_tenant(environment) as api:
        request = archives_pb2.ListArchivesRequest(page_size=limit)
        return await list_first(limit, api.history.ListArchives, request, "archives")


async def _create(
    environment: Mapping[str, str], idle_days: int, session_id: str, label: str
) -> list[archives_pb2.Archive]:
    idle_since = datetime.now(UTC) - timedelta(days=idle_days)
    archives: list[archives_pb2.Archive] = []
    async with as_tenant(environment) as api:
        request = archives_pb2.ArchiveMemoriesRequest(idle_since_time=idle_since, session_id=session_id, label=label)
        while True:
            response = await api.history.ArchiveMemories(request)
            if response.HasField("archive"):
                archives.append(response.archive)
            if not response.next_memory_id:
                return archives
            request.after_memory_id = response.next_memory_id
