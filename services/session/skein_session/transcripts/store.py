"""What was said, newest first: of an agent over all sessions, of a session up to a budget, and summaries of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.session.v1 import session_pb2 as pb
from skein_kit.database.named_queries import Queries
from skein_kit.errors import PageTokenInvalid
from skein_kit.ids import min_id_at, parse_id
from skein_kit.rpc.pagination import PAGE_BYTES, read_token, resolve_page_size, write_token
from skein_kit.rpc.well_known_types import read_time
from skein_kit.text.summary import MAX_READ_CHARACTERS, MAX_READ_MESSAGES
from skein_kit.text.token_estimate import DEFAULT_BUDGET
from skein_session.errors import SessionArchived, SessionNotFound
from skein_session.messages.id_ranges import id_ranges
from skein_session.messages.store import read_in_order
from skein_session.sessions import convert as wire
from skein_session.transcripts.window import RecentWindow

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from asyncpg import Record

    from skein_kit.database.transactions import Database, Transaction
    from skein_kit.idempotency.store import IdempotencyKey, IdempotencyStore
    from skein_kit.identity.identity_token import Caller

_QUERIES = Queries.of("skein_session")
# Messages that one page of an agent's looks at.
_WINDOW = 1000
# Above every sequence number.
_END = 2**63 - 1


class TranscriptChanged(Exception):
    """What was said has changed since it was read."""


class TranscriptStore:
    """Reads transcripts from their end."""

    def __init__(self, database: Database, requests: IdempotencyStore) -> None:
        self._database = database
        self._requests = requests

    async def of_agent(
        self, tenant_id: UUID, request: pb.ListAgentMessagesRequest, at: datetime
    ) -> pb.ListAgentMessagesResponse:
        """Read a page of what an agent or a subject said in any session, newest first."""
        start, end = read_time(request, "start_time"), read_time(request, "end_time")
        lowest = None if start is None else min_id_at(start)
        below = _id_of(read_token(request.page_token, tenant_id, request))
        if below is None and end is not None:
            below = min_id_at(end)
        size = resolve_page_size(request.page_size)
        response = pb.ListAgentMessagesResponse()
        async with self._database.tenant(tenant_id) as tx:
            looked: list[Record] = []
            for from_id, before_id in id_ranges(lowest, below, at):
                looked += await self._looked(tx, tenant_id, request, from_id, before_id, _WINDOW - len(looked))
                if len(looked) == _WINDOW or sum(row["passes"] for row in looked) > size:
                    break
            passing = [row["message_id"] for row in looked if row["passes"]]
            next_place: UUID | None = None
            if len(passing) > size:
                next_place = passing[size - 1]
            elif len(looked) == _WINDOW:
                next_place = looked[-1]["message_id"]
            taken = 0
            async for message in read_in_order(tx, tenant_id, passing[:size]):
                taken += message.ByteSize()
                if response.messages and taken > PAGE_BYTES:
                    next_place = parse_id(response.messages[-1].message_id)
                    break
                response.messages.append(message)
        if next_place is not None:
            response.next_page_token = write_token([str(next_place)], tenant_id, request)
        return response

    async def window(self, tenant_id: UUID, request: pb.GetRecentWindowRequest) -> pb.GetRecentWindowResponse:
        """Read the newest messages that fit the budget, and the summary when something is left out."""
        async with self._database.tenant(tenant_id) as tx:
            session = await self._session(tx, tenant_id, request.session_id)
            window = RecentWindow(request.token_budget or DEFAULT_BUDGET, session["summary"] or "")
            ids = await self._newest(tx, tenant_id, request.session_id)
            taken = 0
            async for message in read_in_order(tx, tenant_id, ids, session_id=request.session_id):
                taken += message.ByteSize()
                if taken > PAGE_BYTES or not window.take(message):
                    break
        is_cut = len(window.taken) < session["message_count"]
        summary = window.close(is_cut=is_cut)
        return pb.GetRecentWindowResponse(
            messages=window.messages(), summary=summary, token_count=window.token_count, truncated=is_cut
        )

    async def said(self, tenant_id: UUID, session_id: str) -> tuple[pb.Session, Sequence[pb.Message], bool]:
        """Read a session and what its summary is made of, oldest first; say whether something older was left out."""
        async with self._database.tenant(tenant_id) as tx:
            session = wire.session(await self._session(tx, tenant_id, session_id))
            messages: list[pb.Message] = []
            characters = 0
            ids = await self._newest(tx, tenant_id, session_id)
            async for message in read_in_order(tx, tenant_id, ids, session_id=session_id):
                characters += len(message.content)
                if characters > MAX_READ_CHARACTERS:
                    break
                # What comes with the words may be a thousand times as long.
                messages.append(
                    pb.Message(
                        message_id=message.message_id, role=message.role, name=message.name, content=message.content
                    )
                )
        return session, messages[::-1], len(messages) < session.message_count

    async def keep_summary(
        self,
        who: Caller,
        once: IdempotencyKey,
        response: pb.SummarizeSessionResponse,
        at: datetime,
        *,
        store: bool,
        made_of: Sequence[UUID],
    ) -> pb.SummarizeSessionResponse:
        """Store a summary if it is to be kept, and the answer; or return the answer that the request has.

        Raises Outdated when a message that it is made of is gone: what is kept says nothing of what was purged.
        """
        tenant_id, session_id = who.tenant(), response.session.session_id
        if not (store or once.request_id):
            return response
        async with self._database.tenant(tenant_id) as tx:
            first = await self._requests.claim(tx, tenant_id, once)
            if first is not None:
                return pb.SummarizeSessionResponse.FromString(first)
            row = await tx.row(_QUERIES["lock_session"], tenant_id=tenant_id, session_id=session_id)
            if row is None:
                raise SessionNotFound(session_id=session_id)
            left = await tx.value(_QUERIES["count_messages"], tenant_id=tenant_id, message_ids=list(made_of))
            if left < len(made_of):
                raise TranscriptChanged
            if store and response.summary:
                row = await tx.row(
                    _QUERIES["store_summary"],
                    tenant_id=tenant_id,
                    session_id=session_id,
                    summary=response.summary,
                    at=at,
                )
                if row is not None:
                    response.session.CopyFrom(wire.session(row))
            await self._requests.answer(tx, tenant_id, once, response)
        return response

    @staticmethod
    async def _looked(
        tx: Transaction,
        tenant_id: UUID,
        request: pb.ListAgentMessagesRequest,
        from_id: UUID,
        before_id: UUID,
        count: int,
    ) -> list[Record]:
        of = {"tenant_id": tenant_id, "from_id": from_id, "before_id": before_id, "window": count}
        if not request.agent_id:
            return await tx.rows(_QUERIES["messages_of_subject"], **of, subject_id=request.subject_id)
        return await tx.rows(
            _QUERIES["messages_of_agent"], **of, agent_id=request.agent_id, subject_id=request.subject_id or None
        )

    @staticmethod
    async def _session(tx: Transaction, tenant_id: UUID, session_id: str) -> Record:
        row = await tx.row(_QUERIES["get_session"], tenant_id=tenant_id, session_id=session_id)
        if row is None:
            raise SessionNotFound(session_id=session_id)
        if row["store_time"] is not None:
            raise SessionArchived(session_id=session_id)
        return row

    @staticmethod
    async def _newest(tx: Transaction, tenant_id: UUID, session_id: str) -> list[UUID]:
        rows = await tx.rows(
            _QUERIES["order_before"],
            tenant_id=tenant_id,
            session_id=session_id,
            sequence=_END,
            limit=MAX_READ_MESSAGES,
        )
        return [row["message_id"] for row in rows]


def _id_of(place: Sequence[str] | None) -> UUID | None:
    """Read the message that a page token names; None for the first page."""
    if place is None:
        return None
    message_id = parse_id(place[0]) if len(place) == 1 else None
    if message_id is None:
        raise PageTokenInvalid
    return message_id
