"""`skein sessions`: the tenant's sessions."""

from __future__ import annotations

import click
from rich.text import Text

from skein.session.v1 import archives_pb2, session_pb2
from skein_cluster.api.client import as_tenant
from skein_cluster.cli import options, output
from skein_cluster.cli.output import list_first
from skein_kit.message_rows import speaker
from skein_kit.text.quoted_text import one_line


@click.group()
def sessions_command() -> None:
    """List, show, archive and unarchive sessions."""


@sessions_command.command("list")
@options.limit_option
@options.cluster_answer
async def list_(limit: int, environment: dict[str, str]) -> options.Answer:
    """List sessions, newest update first."""
    async with as_tenant(environment) as api:
        request = session_pb2.ListSessionsRequest(page_size=limit)
        sessions = await list_first(limit, api.sessions.ListSessions, request, "sessions")
    yield {"sessions": sessions}
    lines = [
        (
            session.session_id,
            session.title,
            state_of(session),
            session.message_count,
            output.format_time(session.create_time),
            output.format_time(session.update_time),
        )
        for session in sessions
    ]
    table = output.table("session", "title", "state", "messages", "created", "updated", numbers=("messages",))
    output.print_table(table, lines, empty="There are no sessions.")


@sessions_command.command("show")
@click.argument("session_id")
@options.limit_option
@options.cluster_answer
async def show(session_id: str, limit: int, environment: dict[str, str]) -> options.Answer:
    """Show a session and its newest messages, oldest first."""
    async with as_tenant(environment) as api:
        response = await api.sessions.GetSession(session_pb2.GetSessionRequest(session_id=session_id))
        request = session_pb2.ListMessagesRequest(
            session_id=session_id, page_size=limit, newest_first=True, show_archived=True
        )
        newest = await list_first(limit, api.sessions.ListMessages, request, "messages")
    session, messages = response.session, newest[::-1]
    yield {
        "session": session,
        "messages": messages,
    }
    out = output.stdout_console()
    out.print(Text(one_line(session.title or session.session_id), style="bold"))
    out.print(Text(f"{session.session_id}, {state_of(session)}, {session.message_count} messages"))
    lines = [
        (message.sequence, output.format_time(message.create_time), _speaker(message), message.content)
        for message in messages
    ]
    output.print_table(output.table("#", "time", "role", "content", numbers=("#",)), lines, empty="It has no messages.")


def _speaker(message: session_pb2.Message) -> str:
    return speaker(
        message.name, role_of(message), message.created_by, message.updated_by, is_pending=message.pending_approval
    )


@sessions_command.command("archive")
@click.argument("session_id")
@options.cluster_answer
async def archive(session_id: str, environment: dict[str, str]) -> options.Answer:
    """Move the messages of a hidden session to cold storage."""
    async with as_tenant(environment) as api:
        response = await api.sessions.ArchiveSession(archives_pb2.ArchiveSessionRequest(session_id=session_id))
    yield response
    output.stdout_console().print(Text(f"Archived the messages of {session_id}."))


@sessions_command.command("unarchive")
@click.argument("session_id")
@options.cluster_answer
async def unarchive(session_id: str, environment: dict[str, str]) -> options.Answer:
    """Move the messages of a session back from cold storage."""
    async with as_tenant(environment) as api:
        response = await api.sessions.UnarchiveSession(archives_pb2.UnarchiveSessionRequest(session_id=session_id))
    yield response
    output.stdout_console().print(Text(f"Unarchived the messages of {session_id}."))


def state_of(session: session_pb2.Session) -> str:
    """Return its state as a word, such as "ended"."""
    return session_pb2.SessionState.Name(session.state).removeprefix("SESSION_STATE_").lower()


def role_of(message: session_pb2.Message) -> str:
    """Return the role as a word, such as "user"."""
    return session_pb2.MessageRole.Name(message.role).removeprefix("MESSAGE_ROLE_").lower()
