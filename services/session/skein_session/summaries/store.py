"""Transcripts to summarize, and summaries of sessions, in the database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skein.session.v1 import session_pb2 as pb
from skein_kit.database.named_queries import Queries
from skein_kit.text.summary import MAX_READ_CHARACTERS
from skein_session.messages.store import read_in_order
from skein_session.sessions import convert
from skein_session.sessions.rows import lock_session, require_unarchived_session
from skein_session.transcripts.store import newest_message_ids

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from skein_kit.database.transactions import Database
    from skein_kit.idempotency.key import IdempotencyKey
    from skein_session.idempotency import SessionIdempotencyStore

_QUERIES = Queries.of("skein_session")


class TranscriptChanged(Exception):
    """A message of the transcript was deleted after it was read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Transcript:
    """A session and its newest messages, oldest first, with nothing but their text, role and name."""

    session: pb.Session
    messages: Sequence[pb.Message]
    # True when older messages are left out.
    is_cut: bool


class SummaryStore:
    """Reads what a summary is made of, and saves the summary."""

    def __init__(self, database: Database, idempotency: SessionIdempotencyStore) -> None:
        self._database = database
        self._idempotency = idempotency

    async def read_transcript(self, tenant_id: UUID, session_id: str) -> Transcript:
        """Read up to MAX_READ_CHARACTERS of a session. Raises SessionNotFound and SessionArchived."""
        async with self._database.transaction(tenant_id) as tx:
            session = convert.session(await require_unarchived_session(tx, tenant_id, session_id))
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
        return Transcript(session=session, messages=messages[::-1], is_cut=len(messages) < session.message_count)

    async def save_summary(
        self,
        tenant_id: UUID,
        key: IdempotencyKey,
        response: pb.SummarizeSessionResponse,
        at: datetime,
        *,
        is_stored: bool,
        source_message_ids: Sequence[UUID],
    ) -> pb.SummarizeSessionResponse:
        """Save the response and, with `is_stored`, the session's summary; or return the saved response.

        Raises TranscriptChanged when a source message is deleted: no summary repeats what was purged.
        """
        session_id = response.session.session_id
        if not (is_stored or key.request_id):
            return response
        async with self._database.transaction(tenant_id) as tx:
            saved = (await self._idempotency.claim(tx, tenant_id, key)).saved_response
            if saved is not None:
                return pb.SummarizeSessionResponse.FromString(saved)
            await lock_session(tx, tenant_id, session_id)
            message_count = await tx.value(
                _QUERIES["count_messages"], tenant_id=tenant_id, message_ids=list(source_message_ids)
            )
            if message_count < len(source_message_ids):
                raise TranscriptChanged
            if is_stored and response.summary:
                row = await tx.row(
                    _QUERIES["set_summary"],
                    tenant_id=tenant_id,
                    session_id=session_id,
                    summary=response.summary,
                    at=at,
                )
                if row is not None:
                    response.session.CopyFrom(convert.session(row))
            await self._idempotency.save_response(tx, tenant_id, key, response)
        return response
