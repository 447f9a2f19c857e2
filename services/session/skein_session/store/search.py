"""Search by words: hits of the search index, read with what was said around them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.session.v1 import session_pb2 as pb
from skein_kit.database import grouped
from skein_kit.ids import first_id
from skein_kit.pages import PAGE_BYTES
from skein_kit.sql import Queries
from skein_kit.wire import moment
from skein_session.errors import SessionNotFound
from skein_session.store.messages import in_order

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from skein_kit.database import Database, Transaction

_QUERIES = Queries.of("skein_session")
DEFAULT_LIMIT = 10
# Hits that are read with their neighbours at once.
_SLICE = 10


class SearchStore:
    """What was said, found by its words."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def search(self, tenant_id: UUID, request: pb.SearchMessagesRequest) -> pb.SearchMessagesResponse:
        """Find messages, best first; the last hits are left out when the answer would outgrow what a client takes."""
        lowest, below = _first(moment(request, "start_time")), _first(moment(request, "end_time"))
        response = pb.SearchMessagesResponse()
        taken = 0
        async with self._database.tenant(tenant_id) as tx:
            if request.session_id:
                await self._must_exist(tx, tenant_id, request.session_id)
            rows = await tx.rows(
                _QUERIES["search_messages"],
                tenant_id=tenant_id,
                words=request.query,
                lowest=lowest,
                below=below,
                session_id=request.session_id or None,
                limit=request.limit or DEFAULT_LIMIT,
            )
            scores = {str(row["item_id"]): row["score"] for row in rows}
            ids = [row["item_id"] for row in rows]
            for start in range(0, len(ids), _SLICE):
                messages = [message async for message in in_order(tx, tenant_id, ids[start : start + _SLICE])]
                hits = [pb.MessageHit(message=message, score=scores[message.message_id]) for message in messages]
                await self._surround(tx, tenant_id, hits, request.context_size)
                for hit in hits:
                    taken += hit.ByteSize()
                    if response.hits and taken > PAGE_BYTES:
                        return response
                    response.hits.append(hit)
        return response

    @staticmethod
    async def _surround(tx: Transaction, tenant_id: UUID, hits: Sequence[pb.MessageHit], context_size: int) -> None:
        if not hits or not context_size:
            return
        rows = await tx.rows(
            _QUERIES["neighbours"],
            tenant_id=tenant_id,
            session_ids=[hit.message.session_id for hit in hits],
            sequences=[hit.message.sequence for hit in hits],
            context_size=context_size,
        )
        ids = list(dict.fromkeys(row["message_id"] for row in rows))
        messages = {message.message_id: message async for message in in_order(tx, tenant_id, ids)}
        for place, near in grouped(rows, "place").items():
            hit = hits[place - 1]
            for row in near:
                message = messages.get(str(row["message_id"]))
                if message is not None:
                    (hit.before if row["sequence"] < hit.message.sequence else hit.after).append(message)

    @staticmethod
    async def _must_exist(tx: Transaction, tenant_id: UUID, session_id: str) -> None:
        if await tx.row(_QUERIES["get_session"], tenant_id=tenant_id, session_id=session_id) is None:
            raise SessionNotFound(session_id=session_id)


def _first(time: datetime | None) -> UUID | None:
    return None if time is None else first_id(time)
