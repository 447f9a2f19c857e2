"""Transcripts to summarize, and summaries of sessions, in the database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skein.session.v1 import session_pb2 as pb
from skein_kit.database.named_queries import Queries
from skein_kit.text.summary import MAX_READ_CHARACTERS
from skein_session.messages.store import read_in_order
from skein_session.sessions.store import lock_session, require_unarchived_session
from skein_session.transcripts.store import newest_message_ids

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from asyncpg import Record

    from skein_kit.database.transactions import Database, Transaction

_QUERIES = Queries.load("skein_session")


class TranscriptChanged(Exception):
    """A message of the transcript was deleted after it was read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Transcript:
    """A session's row and its newest messages, oldest first, with nothing but their id, text, role and name."""

    session: Record
    messages: Sequence[pb.Message]
    # True when older messages are left out.
    is_cut: bool


class SummaryStore:
    """Reads transcripts and saves their summaries."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read_transcript(self, tenant_id: UUID, session_id: str) -> Transcript:
        """Read up to MAX_READ_CHARACTERS of a session. Raises SessionNotFound and SessionArchived."""
        async with self._database.transaction(tenant_id) as tx:
            session = await require_unarchived_session(tx, tenant_id, session_id)
            messages: list[pb.Message] = []
            character_count = 0
            ids = await newest_message_ids(tx, tenant_id, session_id)
            async for message in read_in_order(tx, tenant_id, ids, session_id=session_id):
                character_count += len(message.content)
                if character_count > MAX_READ_CHARACTERS:
                    break
                # Without parts and tool returns, which may be a thousand times as long as the text.
                messages.append(
                    pb.Message(
                        message_id=message.message_id, role=message.role, name=message.name, content=message.content
                    )
                )
        return Transcript(session=session, messages=messages[::-1], is_cut=len(messages) < session["message_count"])

    @staticmethod
    async def save_summary(
        tx: Transaction,
        tenant_id: UUID,
        session_id: str,
        summary: str,
        *,
        source_message_ids: Sequence[UUID],
        at: datetime,
    ) -> Record | None:
        """Save a session's summary and return its row; an empty summary saves nothing and returns None.

        Raises SessionNotFound, and TranscriptChanged when a source message is deleted: no summary may
        repeat purged text.
        """
        await lock_session(tx, tenant_id, session_id)
        message_count = await tx.value(
            _QUERIES["count_messages"], tenant_id=tenant_id, message_ids=list(source_message_ids)
        )
        if message_count < len(source_message_ids):
            raise TranscriptChanged
        if not summary:
            return None
        return await tx.row(_QUERIES["set_summary"], tenant_id=tenant_id, session_id=session_id, summary=summary, at=at)
