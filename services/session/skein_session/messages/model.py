"""Messages and the rules they obey. Their value is a row of session.messages, which a reply converts once. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from skein_kit.errors import ContentEmpty
from skein_kit.ids import EPOCH, id_time, min_id_at
from skein_kit.search_text.postings import Document
from skein_session.sessions.model import MAX_CLOCK_SKEW

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from asyncpg import Record

    MessageRow = Record | Mapping[str, Any]

# The bounds of ids.
NO_ID = UUID(int=0)
LAST_ID = UUID(int=(1 << 128) - 1)
# The columns with JSON arrays.
LIST_FIELDS = ("parts", "tool_calls", "tool_returns")
# The columns without a low limit of their length.
_LONG_COLUMNS = ("content", *LIST_FIELDS, "metadata")
# Characters of a session's default title.
MAX_TITLE_CHARACTERS = 100
# Longest content of a message; a document of a long conversation fits.
MAX_CONTENT_CHARACTERS = 100_000
# The first ranges of ids, newest first.
_RANGE_SPANS = (timedelta(days=31), timedelta(days=366))


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageBatch:
    """Messages to append, complete except for the sequence numbers, which the session assigns."""

    session_id: str
    create_session: bool
    append_time: datetime
    # The create_time of a session that is created for the batch: now, or the oldest time of an import.
    create_time: datetime
    # The update_time of the session: now, or the newest time of an import.
    update_time: datetime
    # The rows keep the times of another system, and so does the time since which their session is idle.
    is_import: bool
    created_by: str
    # The agent that the request names, or else the caller's, and the subject that it names: of a session that is
    # created for the batch.
    agent_id: str | None
    subject_id: str | None
    rows: list[dict[str, Any]]
    # Rows without an agent, or a subject, of their own.
    without_agent: list[dict[str, Any]]
    without_subject: list[dict[str, Any]]
    # The months of their create_times.
    months: frozenset[datetime]
    # The default title of the session.
    title: str | None

    @property
    def active_time(self) -> datetime:
        """The time at which the messages were written: the session is idle from then on."""
        return self.update_time if self.is_import else self.append_time

    @property
    def documents(self) -> list[Document]:
        """The search documents of the messages that have text."""
        return [document for row in self.rows if (document := to_document(row)) is not None]

    def inherit(self, agent_id: str | None, subject_id: str | None) -> None:
        """Set the session's agent and subject on messages without; the default agent is that of the batch."""
        for row in self.without_agent:
            row["agent_id"] = agent_id or self.agent_id
        for row in self.without_subject:
            row["subject_id"] = subject_id

    def assign_sequences(self, last_sequence: int) -> None:
        """Set consecutive sequence numbers; the last message gets `last_sequence`."""
        for sequence, row in enumerate(self.rows, last_sequence - len(self.rows) + 1):
            row["sequence"] = sequence

    @property
    def with_external_id(self) -> list[dict[str, Any]]:
        """The rows with an external id."""
        return [row for row in self.rows if row["external_id"] is not None]


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageChange:
    """An update of a message; only the values of `fields` take effect. Lists and metadata are JSON text."""

    # The id or external id.
    message_name: str
    # 0 for any revision.
    revision: int
    fields: frozenset[str]
    content: str
    name: str | None
    parts: str | None
    tool_calls: str | None
    tool_returns: str | None
    metadata: str | None
    pending_approval: bool = False


def require_content(row: MessageRow) -> None:
    """Raise ContentEmpty for a message without text, parts, tool calls and tool returns."""
    if not (row["content"].strip() or any(row[field] not in (None, "[]") for field in LIST_FIELDS)):
        raise ContentEmpty


def default_title(row: MessageRow) -> str | None:
    """Return the title that a session takes from a message of the user: its start; None for other messages.

    Lists of sessions show it, so a message that waits for approval gives none.
    """
    if row["role"] != "user" or row["pending_approval"]:
        return None
    return row["content"].strip()[:MAX_TITLE_CHARACTERS] or None


def character_count(row: MessageRow) -> int:
    """Return the characters of a row's content and JSON, which take at least as many bytes in a reply."""
    return sum([len(row[column]) for column in _LONG_COLUMNS if row[column] is not None])


def id_ranges(lowest: UUID | None, below: UUID | None, at: datetime) -> Iterator[tuple[UUID, UUID]]:
    """Yield ranges (inclusive, exclusive) of ids from `below` down to `lowest`; None is no bound.

    The first ranges are short, so that most reads plan only the partitions of the newest months. No message lies
    further ahead of `at` than MAX_CLOCK_SKEW.
    """
    bottom = NO_ID if lowest is None else lowest
    end = min_id_at(at + 2 * MAX_CLOCK_SKEW)
    before = end if below is None else min(below, end)
    for span in _RANGE_SPANS:
        since = max(id_time(before) - span, EPOCH)
        from_id = max(bottom, min_id_at(since))
        if from_id < before:
            yield from_id, before
        before = min(before, from_id)
    if bottom < before:
        yield bottom, before


def embedded_text(row: MessageRow) -> str:
    """Return the text whose meaning is searched: the speaker's name, if there is one, and the content.

    Recall composes the same text in its query message_texts.
    """
    return f"{row['name']}: {row['content']}" if row["name"] else str(row["content"])


def to_document(row: MessageRow) -> Document | None:
    """Return the search document of a message; None without content, and for one that waits for approval."""
    if row["pending_approval"] or not row["content"].strip():
        return None
    return Document(
        item_id=row["message_id"],
        kind="message",
        text=row["content"],
        header=row["name"] or "",
        embedded_text=embedded_text(row),
        agent_id=row["agent_id"],
        subject_id=row["subject_id"],
        session_id=row["session_id"],
        role=row["role"],
        speaker=row["name"],
        revision=row["revision"],
    )
