"""Reads of transcripts: pages of a session, messages of an agent or subject, the newest within a budget of tokens."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from asyncpg import Record

from skein_kit.database.named_queries import Queries, as_of
from skein_kit.database.transactions import Database, Transaction
from skein_kit.database.tx_options import READ_ONLY
from skein_kit.policies.history import read_as_of
from skein_kit.rpc.pagination import PAGE_BYTES
from skein_kit.text.summary import MAX_READ_MESSAGES
from skein_kit.text.token_estimate import estimate_tokens, token_units, tokens_of_units
from skein_session.cold_storage.store import ArchivedSession, ColdStorageStore
from skein_session.errors import SessionArchived, SessionNotFound
from skein_session.messages.model import LIST_FIELDS, character_count, id_ranges
from skein_session.messages.store import read_in_order, read_order, take_page
from skein_session.page_tokens import MAX_SEQUENCE
from skein_session.sessions.store import require_session, require_unarchived_session

if TYPE_CHECKING:
    from skein_session.messages.model import MessageRow


_QUERIES = Queries.load("skein_session")
# Messages that one page of an agent's messages scans.
_SCAN_WINDOW = 1000
# Archived messages that one query parses, so that a page of the longest ones is never in memory at once.
_PARSE_BATCH = 64
TOKENS_OF_A_MESSAGE = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class TranscriptPage:
    """Messages of one page, which may end before `page_size` messages because of their length."""

    rows: list[Record]
    # The sequence number that the next page begins after; None on the last page.
    next_sequence: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentMessagesPage:
    """Messages of one page."""

    rows: list[Record]
    # The message that the next page begins after; None on the last page.
    next_id: UUID | None


class TranscriptStore:
    """Transcripts, from the tables and from cold storage."""

    def __init__(self, database: Database, archives: ColdStorageStore) -> None:
        self._database = database
        self._archives = archives

    async def list_messages(
        self,
        tenant_id: UUID,
        session_id: str,
        *,
        sequence: int | None,
        newest_first: bool,
        page_size: int,
        show_archived: bool,
    ) -> TranscriptPage:
        """Read a page of a session after (newest first: before) a sequence number; None is the first page.

        Raises SessionNotFound. For an archived session raises SessionArchived without `show_archived`, and
        ArchiveDamaged with it.
        """
        if sequence is None:
            sequence = MAX_SEQUENCE if newest_first else 0
        try:
            return await self._list_active(
                tenant_id, session_id, sequence, newest_first=newest_first, page_size=page_size
            )
        except SessionArchived:
            if not show_archived:
                raise
        archived_session = await self._archives.read(tenant_id, session_id)
        if archived_session is None:
            # A concurrent call has unarchived the session.
            return await self._list_active(
                tenant_id, session_id, sequence, newest_first=newest_first, page_size=page_size
            )
        return await self._list_archived(
            tenant_id, archived_session, sequence, newest_first=newest_first, page_size=page_size
        )

    async def list_messages_as_of(
        self,
        tenant_id: UUID,
        session_id: str,
        as_of_time: datetime,
        *,
        sequence: int | None,
        newest_first: bool,
        page_size: int,
        at: datetime,
    ) -> TranscriptPage:
        """Read the page that `list_messages` read at a time, asked at `at`.

        Raises SessionNotFound, NotKnownThen, HistoryNotKept, and SessionArchived while cold storage has the messages.
        """
        query = _QUERIES["shown_before" if newest_first else "shown_after"]
        if sequence is None:
            sequence = MAX_SEQUENCE if newest_first else 0
        async with read_as_of(self._database, tenant_id, as_of_time, at=at) as tx:
            await _summary_as_of(tx, tenant_id, session_id)
            order = await tx.rows(
                as_of(query), tenant_id=tenant_id, session_id=session_id, sequence=sequence, limit=page_size + 1
            )
            ids = [row["message_id"] for row in order[:page_size]]
            rows, is_truncated = await take_page(read_in_order(tx, tenant_id, ids, is_as_of=True))
        has_more = is_truncated or len(order) > page_size
        return TranscriptPage(rows=rows, next_sequence=rows[-1]["sequence"] if has_more and rows else None)

    async def list_agent_messages(
        self,
        tenant_id: UUID,
        *,
        agent_id: str | None,
        subject_id: str | None,
        pending_approval: bool,
        lowest_id: UUID | None,
        before_id: UUID | None,
        page_size: int,
        at: datetime,
    ) -> AgentMessagesPage:
        """Read a page of messages of an agent or a subject in all sessions, newest first: only those that wait, or not.

        With neither, all that wait.

        The ids are from `lowest_id` (inclusive) to `before_id` (exclusive); None is no bound.
        """
        async with self._database.transaction(tenant_id) as tx:
            scanned_rows: list[Record] = []
            for range_start, range_end in id_ranges(lowest_id, before_id, at):
                id_range = {"from_id": range_start, "before_id": range_end, "window": _SCAN_WINDOW - len(scanned_rows)}
                query, values = "messages_that_wait", dict[str, object]()
                if agent_id is not None:
                    query, values = "messages_of_agent", {"agent_id": agent_id, "subject_id": subject_id}
                elif subject_id is not None:
                    query, values = "messages_of_subject", {"subject_id": subject_id}
                if values:
                    values["pending_approval"] = pending_approval
                scanned_rows += await tx.rows(_QUERIES[query], tenant_id=tenant_id, **id_range, **values)
                if len(scanned_rows) == _SCAN_WINDOW or sum(row["is_match"] for row in scanned_rows) > page_size:
                    break
            matching_ids = [row["message_id"] for row in scanned_rows if row["is_match"]]
            next_id: UUID | None = None
            if len(matching_ids) > page_size:
                next_id = matching_ids[page_size - 1]
            elif len(scanned_rows) == _SCAN_WINDOW:
                next_id = scanned_rows[-1]["message_id"]
            rows, is_truncated = await take_page(read_in_order(tx, tenant_id, matching_ids[:page_size]))
        return AgentMessagesPage(rows=rows, next_id=rows[-1]["message_id"] if is_truncated else next_id)

    async def read_window(self, tenant_id: UUID, session_id: str, token_budget: int) -> RecentWindow:
        """Read the newest messages that fit the budget; the caller closes the window.

        Raises SessionNotFound and SessionArchived.
        """
        async with self._database.transaction(tenant_id) as tx:
            session = await require_unarchived_session(tx, tenant_id, session_id)
            window = RecentWindow(token_budget, session["message_count"], session["summary"] or "")
            ids = await newest_message_ids(tx, tenant_id, session_id)
            await _fill(window, read_in_order(tx, tenant_id, ids, session_id=session_id))
        return window

    async def read_window_as_of(
        self, tenant_id: UUID, session_id: str, token_budget: int, as_of_time: datetime, *, at: datetime
    ) -> RecentWindow:
        """Read what `read_window` read at a time, asked at `at`.

        Raises SessionNotFound, NotKnownThen, HistoryNotKept, and SessionArchived while cold storage has the messages.
        """
        async with read_as_of(self._database, tenant_id, as_of_time, at=at) as tx:
            summary = await _summary_as_of(tx, tenant_id, session_id)
            # One more, which tells that others are left out.
            rows = await tx.rows(
                as_of(_QUERIES["shown_before"]),
                tenant_id=tenant_id,
                session_id=session_id,
                sequence=MAX_SEQUENCE,
                limit=MAX_READ_MESSAGES + 1,
            )
            window = RecentWindow(token_budget, len(rows), summary)
            ids = [row["message_id"] for row in rows[:MAX_READ_MESSAGES]]
            await _fill(window, read_in_order(tx, tenant_id, ids, is_as_of=True))
        return window

    async def _list_active(
        self, tenant_id: UUID, session_id: str, sequence: int, *, newest_first: bool, page_size: int
    ) -> TranscriptPage:
        async with self._database.transaction(tenant_id, READ_ONLY) as tx:
            query = "order_before" if newest_first else "order_after"
            order = await read_order(tx, tenant_id, session_id, query, sequence=sequence, limit=page_size + 1)
            if not order:
                await require_session(tx, tenant_id, session_id)
            ids = [row["message_id"] for row in order[:page_size]]
            rows, is_truncated = await take_page(read_in_order(tx, tenant_id, ids, session_id=session_id))
        if not is_truncated and len(order) <= page_size:
            return TranscriptPage(rows=rows)
        # When a concurrent call has deleted all messages of a full page, the list goes on after it.
        next_sequence = rows[-1]["sequence"] if rows else order[page_size - 1]["sequence"]
        return TranscriptPage(rows=rows, next_sequence=next_sequence)

    async def _list_archived(
        self, tenant_id: UUID, archived_session: ArchivedSession, sequence: int, *, newest_first: bool, page_size: int
    ) -> TranscriptPage:
        archived_rows = [
            row
            for row in archived_session.rows.messages
            if row["is_active"] and (row["sequence"] < sequence if newest_first else row["sequence"] > sequence)
        ]
        if newest_first:
            archived_rows.reverse()
        rows, is_truncated = await take_page(self._parse_archived(tenant_id, archived_rows[:page_size]))
        has_more = is_truncated or len(archived_rows) > page_size
        return TranscriptPage(rows=rows, next_sequence=rows[-1]["sequence"] if has_more else None)

    async def _parse_archived(self, tenant_id: UUID, rows: Sequence[dict[str, Any]]) -> AsyncIterator[Record]:
        for start in range(0, len(rows), _PARSE_BATCH):
            for record in await self._archives.to_records(tenant_id, rows[start : start + _PARSE_BATCH]):
                yield record


async def _summary_as_of(tx: Transaction, tenant_id: UUID, session_id: str) -> str:
    """Return the summary of a session at the transaction's time; empty for none.

    Raises SessionNotFound, and SessionArchived while cold storage has the messages.
    """
    session_key = {"tenant_id": tenant_id, "session_id": session_id}
    session = await tx.row(as_of(_QUERIES["read_summary"]), **session_key)
    if session is None:
        raise SessionNotFound(session_id=session_id)
    if await tx.value(_QUERIES["read_archive_time"], **session_key) is not None:
        raise SessionArchived(session_id=session_id)
    return session["summary"] or ""


async def _fill(window: RecentWindow, newest_first: AsyncIterator[Record]) -> None:
    """Add messages to a window while they fit."""
    count = 0
    async for row in newest_first:
        count += character_count(row)
        if not window.add(row) or count > PAGE_BYTES:
            break


async def newest_message_ids(tx: Transaction, tenant_id: UUID, session_id: str) -> list[UUID]:
    """Return the ids of the newest MAX_READ_MESSAGES messages of a session, newest first."""
    rows = await tx.rows(
        _QUERIES["order_before"],
        tenant_id=tenant_id,
        session_id=session_id,
        sequence=MAX_SEQUENCE,
        limit=MAX_READ_MESSAGES,
    )
    return [row["message_id"] for row in rows]


def tokens_of(row: MessageRow) -> int:
    """Estimate the tokens of a message: its content and name, and its parts and tool calls and returns as JSON.

    Each costs its text (`skein_kit.text.token_estimate`) and four tokens for its role and wrapping.
    """
    # Numbers count as doubles, as protobuf writes them.
    lists = (json.loads(row[column], parse_int=float) for column in LIST_FIELDS if row[column] is not None)
    other_units = sum(token_units(json.dumps(values, ensure_ascii=False)) for values in lists if values)
    units = token_units(row["content"]) + token_units(row["name"] or "") + other_units
    return TOKENS_OF_A_MESSAGE + tokens_of_units(units)


@dataclass(slots=True)
class RecentWindow:
    """The newest messages that fit a budget, added one by one, newest first.

    A window that leaves messages out has the session's summary. A summary of more than half of the budget is left
    out whole, because a part of it may say the opposite.
    """

    budget: int
    # The messages of the session.
    message_count: int
    summary: str = ""
    # Newest first.
    rows: list[MessageRow] = field(default_factory=list)
    token_count: int = 0
    # True when older messages are left out; set by close.
    is_truncated: bool = False

    def add(self, row: MessageRow) -> bool:
        """Add the next older message; return False when it does not fit."""
        tokens = tokens_of(row)
        if self.token_count + tokens > self.budget:
            return False
        self.rows.append(row)
        self.token_count += tokens
        return True

    def trim(self, *, limit: int) -> None:
        """Keep the newest `limit` messages, and reserve tokens for the summary when others are left out."""
        while len(self.rows) > limit:
            self._drop_oldest()
        self.is_truncated = len(self.rows) < self.message_count
        tokens = estimate_tokens(self.summary)
        if not self.is_truncated or tokens > self.budget // 2:
            self.summary = ""
        if not self.summary:
            return
        while self.rows and self.token_count + tokens > self.budget:
            self._drop_oldest()
        self.token_count += tokens

    def _drop_oldest(self) -> None:
        self.token_count -= tokens_of(self.rows.pop())
