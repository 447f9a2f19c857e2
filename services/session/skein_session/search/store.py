"""Searching messages in the database, and showing what was found with its neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from skein.session.v1 import session_pb2 as pb
from skein_kit.database.named_queries import Queries
from skein_kit.database.transactions import group_rows
from skein_kit.ids import id_time, min_id_at
from skein_kit.policies.store import shared_policy_cache
from skein_kit.rpc.pagination import PAGE_BYTES
from skein_kit.rpc.well_known_types import read_time
from skein_session.errors import SessionArchived, SessionNotFound
from skein_session.messages.id_ranges import LAST_ID, NO_ID, id_ranges
from skein_session.messages.store import read_in_order
from skein_session.search import literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from skein_kit.database.transactions import Database, Transaction

_QUERIES = Queries.of("skein_session")
DEFAULT_LIMIT = 10
# Hits that are read with their neighbours at once.
_SLICE = 10
# Ids carry milliseconds.
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class _ScanIds:
    """Ids of messages to look into, newest first, and whether there were more than a search looks into."""

    ids: list[UUID]
    is_cut: bool


class SearchStore:
    """What was said: found by its words or as it was written."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def _language(self, tx: Transaction, tenant_id: UUID) -> str:
        """Return what the words of the tenant's messages are stemmed by."""
        return (await shared_policy_cache(tx.database).of(tx, tenant_id)).search_language

    async def by_words(self, tenant_id: UUID, request: pb.SearchMessagesRequest) -> pb.SearchMessagesResponse:
        """Find messages by any of the words, best first."""
        lowest, below = range_of(request)
        async with self._database.tenant(tenant_id) as tx:
            await self._must_exist(tx, tenant_id, request.session_id)
            rows = await tx.rows(
                _QUERIES["search_messages"],
                tenant_id=tenant_id,
                words=request.query,
                language=await self._language(tx, tenant_id),
                lowest=lowest,
                below=below,
                session_id=request.session_id or None,
                limit=request.limit or DEFAULT_LIMIT,
            )
            scores = {row["item_id"]: row["score"] for row in rows}
            return await self._shown(tx, tenant_id, request, scores)

    async def by_literal(
        self, tenant_id: UUID, request: pb.SearchMessagesRequest, at: datetime
    ) -> pb.SearchMessagesResponse:
        """Find messages that contain the query as it is written, in any case, newest first.

        Of a session, or of a tenant, the newest messages are looked into up to a bound; a tenant's older ones as well
        when they hold a rare word of the query. Says when there were more.
        """
        limit = request.limit or DEFAULT_LIMIT
        async with self._database.tenant(tenant_id) as tx:
            await self._must_exist(tx, tenant_id, request.session_id)
            near = (
                await self._of_session(tx, tenant_id, request)
                if request.session_id
                else await self._of_tenant(tx, tenant_id, request, at)
            )
            found: dict[UUID, float] = {}
            for start in range(0, len(near.ids), literal.SLICE):
                rows = await tx.rows(
                    _QUERIES["messages_containing"],
                    tenant_id=tenant_id,
                    message_ids=near.ids[start : start + literal.SLICE],
                    pattern=literal.like_pattern(request.query),
                    count=limit - len(found),
                )
                found |= dict.fromkeys((row["message_id"] for row in rows), 0.0)
                if len(found) == limit:
                    break
            response = await self._shown(tx, tenant_id, request, found)
        if near.is_cut and len(found) < limit:
            response.truncated = True
            oldest = id_time(near.ids[-1])
            # Others of its millisecond may be left; unless all were of it, for then nobody would get any further.
            response.horizon_time.FromDatetime(oldest + _MILLISECOND if id_time(near.ids[0]) > oldest else oldest)
        return response

    async def shown(
        self, tenant_id: UUID, request: pb.SearchMessagesRequest, scores: Mapping[UUID, float]
    ) -> pb.SearchMessagesResponse:
        """Show messages that were found elsewhere, in the order given."""
        async with self._database.tenant(tenant_id) as tx:
            return await self._shown(tx, tenant_id, request, scores)

    async def must_exist(self, tenant_id: UUID, session_id: str) -> None:
        """Raise SessionNotFound or SessionArchived unless the session's messages are there; "" names none."""
        async with self._database.tenant(tenant_id) as tx:
            await self._must_exist(tx, tenant_id, session_id)

    async def _of_session(self, tx: Transaction, tenant_id: UUID, request: pb.SearchMessagesRequest) -> _ScanIds:
        lowest, below = range_of(request)
        rows = await tx.rows(
            _QUERIES["newest_of_session"],
            tenant_id=tenant_id,
            session_id=request.session_id,
            from_id=lowest or NO_ID,
            before_id=below or LAST_ID,
            count=literal.WINDOW,
        )
        return _ScanIds([row["message_id"] for row in rows], is_cut=len(rows) == literal.WINDOW)

    async def _of_tenant(
        self, tx: Transaction, tenant_id: UUID, request: pb.SearchMessagesRequest, at: datetime
    ) -> _ScanIds:
        lowest, below = range_of(request)
        newest: list[UUID] = []
        for from_id, before_id in id_ranges(lowest, below, at):
            rows = await tx.rows(
                _QUERIES["newest_messages"],
                tenant_id=tenant_id,
                from_id=from_id,
                before_id=before_id,
                count=literal.WINDOW - len(newest),
            )
            newest += [row["message_id"] for row in rows]
            if len(newest) == literal.WINDOW:
                break
        if len(newest) < literal.WINDOW:
            return _ScanIds(newest, is_cut=False)
        words = literal.required_words(request.query)
        rarest = await tx.row(
            _QUERIES["rarest_term"],
            tenant_id=tenant_id,
            words=words,
            language=await self._language(tx, tenant_id),
            count=literal.WINDOW,
        )
        if rarest is None:
            return _ScanIds(newest, is_cut=True)
        rows = await tx.rows(
            _QUERIES["holders_of_term"],
            tenant_id=tenant_id,
            term=rarest["term"],
            from_id=lowest or NO_ID,
            before_id=newest[-1],
            count=literal.WINDOW,
        )
        older = [row["item_id"] for row in rows]
        return _ScanIds([*newest, *older], is_cut=len(older) == literal.WINDOW)

    async def _shown(
        self, tx: Transaction, tenant_id: UUID, request: pb.SearchMessagesRequest, scores: Mapping[UUID, float]
    ) -> pb.SearchMessagesResponse:
        """Read hits and neighbours; the last hits are left out when the answer would outgrow what a client takes."""
        response = pb.SearchMessagesResponse()
        taken = 0
        ids = list(scores)
        # What is a hit is nobody's neighbour, and what is a hit's neighbour is no worse hit's.
        told = {str(id_) for id_ in ids}
        by_id = {str(id_): score for id_, score in scores.items()}
        for start in range(0, len(ids), _SLICE):
            messages = [message async for message in read_in_order(tx, tenant_id, ids[start : start + _SLICE])]
            hits = [pb.MessageHit(message=message, score=by_id[message.message_id]) for message in messages]
            await self._surround(tx, tenant_id, hits, request.context_size, told)
            for hit in hits:
                taken += hit.ByteSize()
                if response.hits and taken > PAGE_BYTES:
                    return response
                response.hits.append(hit)
        return response

    @staticmethod
    async def _surround(
        tx: Transaction, tenant_id: UUID, hits: Sequence[pb.MessageHit], context_size: int, told: set[str]
    ) -> None:
        if not hits or not context_size:
            return
        rows = await tx.rows(
            _QUERIES["neighbours"],
            tenant_id=tenant_id,
            session_ids=[hit.message.session_id for hit in hits],
            sequences=[hit.message.sequence for hit in hits],
            context_size=context_size,
        )
        ids = list(dict.fromkeys(row["message_id"] for row in rows if str(row["message_id"]) not in told))
        messages = {message.message_id: message async for message in read_in_order(tx, tenant_id, ids)}
        for place, near in group_rows(rows, "place").items():
            hit = hits[place - 1]
            for row in near:
                message = messages.pop(str(row["message_id"]), None)
                if message is not None:
                    told.add(message.message_id)
                    (hit.before if row["sequence"] < hit.message.sequence else hit.after).append(message)

    @staticmethod
    async def _must_exist(tx: Transaction, tenant_id: UUID, session_id: str) -> None:
        if not session_id:
            return
        row = await tx.row(_QUERIES["get_session"], tenant_id=tenant_id, session_id=session_id)
        if row is None:
            raise SessionNotFound(session_id=session_id)
        if row["store_time"] is not None:
            raise SessionArchived(session_id=session_id)


def range_of(request: pb.SearchMessagesRequest) -> tuple[UUID | None, UUID | None]:
    """Return the range of ids that a search is restricted to; None restricts nothing."""
    start, end = read_time(request, "start_time"), read_time(request, "end_time")
    return (None if start is None else min_id_at(start)), (None if end is None else min_id_at(end))
