"""Whole rows of a session's messages: out of the tables, as lines of a file, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from skein_kit.database.named_queries import Queries
from skein_kit.json_values import exact
from skein_kit.message_rows import message as wired
from skein_kit.search_text import postings
from skein_session.errors import SessionTooLong
from skein_session.messages.model import document_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asyncpg import Record

    from skein_kit.database.transactions import Transaction
    from skein_kit.search_text.postings import Document

_QUERIES = Queries.of("skein_session")
# Rows read or stored by one statement, and the most that one file holds: a process has it in memory once.
SLICE = 200
MAX_MESSAGES = 10_000
MAX_CHARACTERS = 64 * 1024 * 1024
_FORMAT = "skein_session_archive_v1"


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionRows:
    """All that a session has of messages: as lines of a file, and what is to be known of them meanwhile."""

    lines: list[str]
    index: list[dict[str, Any]]
    active_count: int

    @property
    def message_ids(self) -> list[UUID]:
        """The messages, by sequence."""
        return [row["message_id"] for row in self.index]


@dataclass(frozen=True, kw_only=True, slots=True)
class ArchivedRows:
    """What a file holds: messages by sequence, and places of those that are not deleted."""

    messages: list[dict[str, Any]]
    order: list[dict[str, Any]]

    def inherit(self, agent_id: str | None, subject_id: str | None) -> None:
        """Give the session's agent and subject to messages that name none: a file may be older than they are."""
        for row in self.messages:
            row["agent_id"] = row["agent_id"] or agent_id
            row["subject_id"] = row["subject_id"] or subject_id

    def among(self, message_ids: set[UUID]) -> ArchivedRows:
        """Return these without messages that are not named."""
        return ArchivedRows(
            messages=[row for row in self.messages if UUID(row["message_id"]) in message_ids],
            order=[row for row in self.order if UUID(row["message_id"]) in message_ids],
        )


async def read_session_rows(tx: Transaction, tenant_id: UUID, session_id: str) -> SessionRows:
    """Read all that a session has of messages. Raises SessionTooLong."""
    lines: list[str] = []
    index: list[dict[str, Any]] = []
    active_count, characters, after = 0, 0, 0
    of_session = {"tenant_id": tenant_id, "session_id": session_id, "count": SLICE}
    while rows := await tx.rows(_QUERIES["cold_messages"], **of_session, after=after):
        after = rows[-1]["sequence"]
        index += [
            {"message_id": row["message_id"], "session_id": session_id, "subject_id": row["subject_id"]} for row in rows
        ]
        active_count += sum(row["is_active"] for row in rows)
        lines += [_line("messages", row["row"]) for row in rows]
        characters += sum(len(row["row"]) for row in rows)
        if len(index) > MAX_MESSAGES or characters > MAX_CHARACTERS:
            raise SessionTooLong(session_id=session_id)
    after = 0
    while rows := await tx.rows(_QUERIES["cold_order"], **of_session, after=after):
        after = rows[-1]["sequence"]
        lines += [_line("order", row["row"]) for row in rows]
    return SessionRows(lines=lines, index=index, active_count=active_count)


def with_header(lines: Sequence[str]) -> list[str]:
    """Return the lines of a file, which begin with what it is; no two files are the same one."""
    return [exact.dumps({"format": _FORMAT, "file_id": str(uuid4())}), *lines]


def read(lines: Sequence[str]) -> ArchivedRows:
    """Return what the lines of a file hold."""
    rows = ArchivedRows(messages=[], order=[])
    tables = {"messages": rows.messages, "order": rows.order}
    for line in lines[1:]:
        said = exact.loads(line)
        tables[said["table"]].append(said["row"])
    return rows


async def insert_rows(tx: Transaction, tenant_id: UUID, rows: ArchivedRows, *, is_active: bool) -> list[Document]:
    """Store rows; of a session that is deleted all of them as deleted. Return what is to get vectors."""
    messages = rows.messages if is_active else [{**row, "is_active": False} for row in rows.messages]
    # Places only of what can be read.
    for query, found in (("warm_messages", messages), ("warm_order", rows.order if is_active else [])):
        for start in range(0, len(found), SLICE):
            await tx.execute(_QUERIES[query], tenant_id=tenant_id, rows=exact.dumps(found[start : start + SLICE]))
    documents: list[Document] = []
    for start in range(0, len(messages), SLICE):
        shown = await records(tx, tenant_id, [row for row in messages[start : start + SLICE] if row["is_active"]])
        part = [document for row in shown if (document := document_of(wired(row))) is not None]
        await postings.add_documents(tx, tenant_id, part)
        documents += part
    return documents


async def records(tx: Transaction, tenant_id: UUID, rows: Sequence[dict[str, Any]]) -> list[Record]:
    """Return messages from a file as the tables would return them, in their order."""
    if not rows:
        return []
    found = await tx.rows(_QUERIES["read_cold_messages"], tenant_id=tenant_id, rows=exact.dumps(rows))
    by_id = {row["message_id"]: row for row in found}
    return [by_id[UUID(row["message_id"])] for row in rows]


def _line(table: str, row: str) -> str:
    return f'{{"table":"{table}","row":{row}}}'
