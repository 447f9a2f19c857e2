"""Rows of a session's messages from the tables to the lines of a file, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from asyncpg import Record

from skein_kit.database.named_queries import Queries
from skein_kit.database.transactions import Transaction
from skein_kit.json_values import exact
from skein_kit.search_text import postings
from skein_kit.search_text.postings import Document
from skein_session.errors import SessionTooLong
from skein_session.messages.model import to_document

_QUERIES = Queries.load("skein_session")
# Rows of one statement.
BATCH = 200
# The most that one file holds, because a process has it in memory.
MAX_MESSAGES = 10_000
MAX_CHARACTERS = 64 * 1024 * 1024
_FORMAT = "skein_session_archive_v1"


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionRows:
    """The messages of a session as lines of a file, with their rows for session.archived_messages."""

    lines: list[str]
    index: list[dict[str, Any]]
    active_count: int

    @property
    def message_ids(self) -> list[UUID]:
        """The ids of the messages, by sequence."""
        return [row["message_id"] for row in self.index]


@dataclass(frozen=True, kw_only=True, slots=True)
class ArchivedRows:
    """The rows of a file: messages by sequence, and the positions of those that are not deleted."""

    messages: list[dict[str, Any]]
    order: list[dict[str, Any]]

    def inherit(self, agent_id: str | None, subject_id: str | None) -> None:
        """Set the session's agent and subject on messages without; the file may be older than they are."""
        for row in self.messages:
            row["agent_id"] = row["agent_id"] or agent_id
            row["subject_id"] = row["subject_id"] or subject_id

    def filter_ids(self, message_ids: set[UUID]) -> ArchivedRows:
        """Return the rows of these messages alone."""
        return ArchivedRows(
            messages=[row for row in self.messages if UUID(row["message_id"]) in message_ids],
            order=[row for row in self.order if UUID(row["message_id"]) in message_ids],
        )


async def read_session_rows(tx: Transaction, tenant_id: UUID, session_id: str) -> SessionRows:
    """Read all messages of a session. Raises SessionTooLong."""
    lines: list[str] = []
    index: list[dict[str, Any]] = []
    active_count, character_count, after = 0, 0, 0
    session_key = {"tenant_id": tenant_id, "session_id": session_id, "count": BATCH}
    while rows := await tx.rows(_QUERIES["messages_to_archive"], **session_key, after=after):
        after = rows[-1]["sequence"]
        index += [
            {"message_id": row["message_id"], "session_id": session_id, "subject_id": row["subject_id"]} for row in rows
        ]
        active_count += sum(row["is_active"] for row in rows)
        lines += [_line("messages", row["row"]) for row in rows]
        character_count += sum(len(row["row"]) for row in rows)
        if len(index) > MAX_MESSAGES or character_count > MAX_CHARACTERS:
            raise SessionTooLong(session_id=session_id)
    after = 0
    while rows := await tx.rows(_QUERIES["order_to_archive"], **session_key, after=after):
        after = rows[-1]["sequence"]
        lines += [_line("order", row["row"]) for row in rows]
    return SessionRows(lines=lines, index=index, active_count=active_count)


def with_header(lines: Sequence[str]) -> list[str]:
    """Return the lines of a file, which begin with its format and a unique id."""
    return [exact.dumps({"format": _FORMAT, "file_id": str(uuid4())}), *lines]


def parse_lines(lines: Sequence[str]) -> ArchivedRows:
    """Parse the lines of a file."""
    rows = ArchivedRows(messages=[], order=[])
    tables = {"messages": rows.messages, "order": rows.order}
    for line in lines[1:]:
        entry = exact.loads(line)
        tables[entry["table"]].append(entry["row"])
    return rows


async def insert_rows(tx: Transaction, tenant_id: UUID, rows: ArchivedRows, *, is_active: bool) -> list[Document]:
    """Insert rows, all as deleted when the session is deleted. Return the documents to embed."""
    messages = rows.messages if is_active else [{**row, "is_active": False} for row in rows.messages]
    # A deleted session has no positions, because nothing reads its messages.
    for query, table_rows in (("unarchive_messages", messages), ("unarchive_order", rows.order if is_active else [])):
        for start in range(0, len(table_rows), BATCH):
            await tx.execute(_QUERIES[query], tenant_id=tenant_id, rows=exact.dumps(table_rows[start : start + BATCH]))
    documents: list[Document] = []
    for start in range(0, len(messages), BATCH):
        active_rows = [row for row in messages[start : start + BATCH] if row["is_active"]]
        records = await to_records(tx, tenant_id, active_rows)
        batch = [document for record in records if (document := to_document(record)) is not None]
        await postings.add_documents(tx, tenant_id, batch)
        documents += batch
    return documents


async def to_records(tx: Transaction, tenant_id: UUID, rows: Sequence[dict[str, Any]]) -> list[Record]:
    """Convert rows of a file into records of session.messages, in their order."""
    if not rows:
        return []
    records = await tx.rows(_QUERIES["parse_archived_messages"], tenant_id=tenant_id, rows=exact.dumps(rows))
    by_id = {row["message_id"]: row for row in records}
    return [by_id[UUID(row["message_id"])] for row in rows]


def _line(table: str, row: str) -> str:
    return f'{{"table":"{table}","row":{row}}}'
