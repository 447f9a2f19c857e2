"""Transcripts to summarize, and summaries of sessions, in the database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from asyncpg import Record

from skein_kit.database.named_queries import Queries
from skein_kit.database.transactions import Database, Transaction
from skein_kit.message_rows import speaker
from skein_kit.text.summary import MAX_READ_CHARACTERS, SpeakerTurn
from skein_session.messages.store import read_in_order
from skein_session.sessions.store import lock_session, require_unarchived_session
from skein_session.transcripts.store import newest_message_ids

_QUERIES = Queries.load("skein_session")
_SUMMARIZED_ROLES = ("user", "assistant")


class TranscriptChanged(Exception):
    """A message of the transcript was deleted after it was read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Transcript:
    """A session's row, the ids of its newest messages, and the turns of the conversation in them, oldest first."""

    session: Record
    message_ids: Sequence[UUID]
    # Without tool and system messages, which are no conversation.
    turns: Sequence[SpeakerTurn]
    # True when older messages are left out.
    is_truncated: bool


class SummaryStore:
    """Reads transcripts and saves their summaries."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read_transcript(self, tenant_id: UUID, session_id: str) -> Transcript:
        """Read up to MAX_READ_CHARACTERS of a session. Raises SessionNotFound and SessionArchived."""
        async with self._database.transaction(tenant_id) as tx:
            session = await require_unarchived_session(tx, tenant_id, session_id)
            message_ids: list[UUID] = []
            turns: list[SpeakerTurn] = []
            character_count = 0
            ids = await newest_message_ids(tx, tenant_id, session_id)
            async for message in read_in_order(tx, tenant_id, ids, session_id=session_id):
                role, content = message["role"], message["content"]
                character_count += len(content)
                if character_count > MAX_READ_CHARACTERS:
                    break
                message_ids.append(message["message_id"])
                # Lists of sessions show a summary, so what waits for approval is no part of it.
                if role in _SUMMARIZED_ROLES and content.strip() and not message["pending_approval"]:
                    authors = message["created_by"], message["updated_by"] or ""
                    name = speaker(message["name"] or "", role, *authors, is_pending=False)
                    turns.append(SpeakerTurn(name, content, is_user=role == "user"))
        is_truncated = len(message_ids) < session["message_count"]
        return Transcript(session=session, message_ids=message_ids, turns=turns[::-1], is_truncated=is_truncated)

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
        message_count = await tx.value(_QUERIES["count_messages"], tenant_id=tenant_id, message_ids=source_message_ids)
        if message_count < len(source_message_ids):
            raise TranscriptChanged
        if not summary:
            return None
        return await tx.row(_QUERIES["set_summary"], tenant_id=tenant_id, session_id=session_id, summary=summary, at=at)
