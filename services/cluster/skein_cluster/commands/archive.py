"""`skein archive`: the tenant's memories and sessions in cold storage."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click
from rich.text import Text

from skein.memory.v1 import archives_pb2
from skein.session.v1 import archives_pb2 as sessions_pb2
from skein_cluster.api.client import as_tenant
from skein_cluster.cli import options, output
from skein_cluster.cli.pagination import list_first

if TYPE_CHECKING:
    from collections.abc import Mapping


@click.group()
def archive_command() -> None:
    """Take memories and sessions to cold storage, list what lies there, and bring it back."""


@archive_command.command("list")
@click.option(
    "--sessions", "of_sessions", is_flag=True, help="The sessions whose messages lie in cold storage instead."
)
@options.limit_option
@options.cluster_options
@options.json_option
def list_(limit: int, environment: dict[str, str], *, of_sessions: bool, as_json: bool) -> None:
    """List archives of memories, or sessions, newest first."""
    if of_sessions:
        _show_sessions(asyncio.run(_list_sessions(environment, limit)), as_json=as_json)
        return
    archives = asyncio.run(_list(environment, limit))
    if as_json:
        output.print_json({"archives": [output.message_to_dict(archive) for archive in archives]})
        return
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
    output.print_table(table, lines, empty="Nothing lies in cold storage.")


@archive_command.command("create")
@click.option("--idle-days", type=click.IntRange(1), required=True, help="What was not changed for so many days goes.")
@click.option("--session", "session_id", default="", help="Only memories of this session.")
@click.option("--label", default="", help="A name for the archives.")
@options.cluster_options
@options.json_option
def create(idle_days: int, session_id: str, label: str, environment: dict[str, str], *, as_json: bool) -> None:
    """Take memories that were not changed for some time to cold storage."""
    archives = asyncio.run(_create(environment, idle_days, session_id, label))
    if as_json:
        output.print_json({"archives": [output.message_to_dict(archive) for archive in archives]})
        return
    memories = sum(archive.memory_count for archive in archives)
    output.stdout_console().print(Text(f"{memories} memories went to {len(archives)} archives."))


@archive_command.command("store")
@click.argument("session_id")
@options.cluster_options
@options.json_option
def store(session_id: str, environment: dict[str, str], *, as_json: bool) -> None:
    """Take the messages of a hidden session to cold storage."""
    response = asyncio.run(_archive_session(environment, session_id))
    if as_json:
        output.print_json(output.message_to_dict(response))
        return
    output.stdout_console().print(Text(f"The messages of {session_id} lie in cold storage."))


@archive_command.command("restore")
@click.argument("name", metavar="ARCHIVE_ID | SESSION_ID")
@click.option("--session", "is_session", is_flag=True, help="What is named is a session.")
@options.cluster_options
@options.json_option
def restore(name: str, environment: dict[str, str], *, is_session: bool, as_json: bool) -> None:
    """Bring an archive's memories back, or a session's messages."""
    if is_session:
        back = asyncio.run(_unarchive_session(environment, name))
        if as_json:
            output.print_json(output.message_to_dict(back))
            return
        output.stdout_console().print(Text(f"The messages of {name} are back."))
        return
    response = asyncio.run(_restore(environment, name))
    if as_json:
        output.print_json(output.message_to_dict(response))
        return
    skipped = f", {response.skipped_count} were passed over" if response.skipped_count else ""
    output.stdout_console().print(Text(f"{response.unarchived_count} memories are back{skipped}."))


def _show_sessions(sessions: list[sessions_pb2.ArchivedSession], *, as_json: bool) -> None:
    if as_json:
        output.print_json({"sessions": [output.message_to_dict(session) for session in sessions]})
        return
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
    output.print_table(table, lines, empty="No session lies in cold storage.")


async def _list_sessions(environment: Mapping[str, str], limit: int) -> list[sessions_pb2.ArchivedSession]:
    async with as_tenant(environment) as api:
        request = sessions_pb2.ListArchivedSessionsRequest(page_size=limit)
        return await list_first(limit, api.sessions.ListArchivedSessions, request, "sessions")


async def _archive_session(environment: Mapping[str, str], session_id: str) -> sessions_pb2.ArchiveSessionResponse:
    async with as_tenant(environment) as api:
        return await api.sessions.ArchiveSession(sessions_pb2.ArchiveSessionRequest(session_id=session_id))


async def _unarchive_session(environment: Mapping[str, str], session_id: str) -> sessions_pb2.UnarchiveSessionResponse:
    async with as_tenant(environment) as api:
        return await api.sessions.UnarchiveSession(sessions_pb2.UnarchiveSessionRequest(session_id=session_id))


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


async def _restore(environment: Mapping[str, str], archive_id: str) -> archives_pb2.UnarchiveMemoriesResponse:
    async with as_tenant(environment) as api:
        return await api.history.UnarchiveMemories(archives_pb2.UnarchiveMemoriesRequest(archive_id=archive_id))
