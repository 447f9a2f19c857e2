"""Searches of messages in the database, and their hits with the neighbouring messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from skein_kit.calls.call import current_space_ids
from skein_kit.database.named_queries import Queries, with_condition
from skein_kit.database.transactions import Database, Transaction
from skein_kit.policies.store import PolicyCache
from skein_kit.rpc.pagination import PAGE_BYTES
from skein_kit.search_text.segmentation import segment
from skein_session.messages.model import LAST_ID, NO_ID, character_count, id_ranges
from skein_session.messages.store import read_in_order
from skein_session.search.model import (
    MAX_SCANNED_MESSAGES,
    SCAN_BATCH,
    MessageHit,
    SearchQuery,
    literal_condition,
    required_words,
)
from skein_session.sessions.store import require_unarchived_session

_QUERIES = Queries.load("skein_session")
# Hits whose neighbours are read at once.
_HIT_BATCH = 10


@dataclass(frozen=True, slots=True)
class _ScanIds:
    """Ids of messages to scan, newest first, and whether older ones are left out."""

    ids: list[UUID]
    is_truncated: bool


class SearchStore:
    """Searches messages by terms and by literal text."""

    def __init__(self, database: Database, policies: PolicyCache) -> None:
        self._database = database
        self._policies = policies

    async def search_terms(self, tenant_id: UUID, query: SearchQuery) -> list[MessageHit]:
        """Find messages by any term of the query, best first. Raises SessionNotFound and SessionArchived."""
        async with self._database.transaction(tenant_id) as tx:
            await self._require_session(tx, tenant_id, query.session_id)
            rows = await tx.rows(
                _QUERIES["search_messages"],
                tenant_id=tenant_id,
                words=segment(query.text),
                language=await self._language(tx, tenant_id),
                lowest=query.lowest_id,
                below=query.before_id,
                session_id=query.session_id or None,
                in_spaces=current_space_ids() is not None,
                limit=query.limit,
            )
            scores = {row["item_id"]: row["score"] for row in rows}
            return await self._read_hits(tx, tenant_id, query, scores)

    async def search_literal(
        self, tenant_id: UUID, query: SearchQuery, at: datetime
    ) -> tuple[list[MessageHit], UUID | None]:
        """Find messages that contain the query literally, in any case, newest first.

        Scans the newest MAX_SCANNED_MESSAGES messages of the session or tenant, and older messages of the tenant
        that have a rare word of the query. Also returns the id below which messages were not scanned, None when all
        were scanned. Raises SessionNotFound and SessionArchived.
        """
        async with self._database.transaction(tenant_id) as tx:
            await self._require_session(tx, tenant_id, query.session_id)
            scan = (
                await self._scan_session(tx, tenant_id, query)
                if query.session_id
                else await self._scan_tenant(tx, tenant_id, query, at)
            )
            ids: list[UUID] = []
            condition, pattern = literal_condition(query.text)
            for start in range(0, len(scan.ids), SCAN_BATCH):
                rows = await tx.rows(
                    with_condition(_QUERIES["messages_containing"], condition),
                    tenant_id=tenant_id,
                    message_ids=scan.ids[start : start + SCAN_BATCH],
                    pattern=pattern,
                    session_id=query.session_id,
                    count=query.limit - len(ids),
                )
                ids += [row["message_id"] for row in rows]
                if len(ids) == query.limit:
                    break
            hits = await self._read_hits(tx, tenant_id, query, dict.fromkeys(ids, 0.0))
        # A long response leaves its last hits to the next page.
        last_id = hits[-1].row["message_id"] if hits else None
        if last_id is not None and (len(hits) < len(ids) or len(ids) == query.limit):
            return hits, None if last_id == scan.ids[-1] and not scan.is_truncated else last_id
        return hits, scan.ids[-1] if scan.is_truncated else None

    async def read_hits(self, tenant_id: UUID, query: SearchQuery, scores: Mapping[UUID, float]) -> list[MessageHit]:
        """Read hits of another search, in the order of `scores`, with their neighbours."""
        async with self._database.transaction(tenant_id) as tx:
            return await self._read_hits(tx, tenant_id, query, scores)

    async def require_session(self, tenant_id: UUID, session_id: str) -> None:
        """Raise SessionNotFound or SessionArchived unless a session is searchable; "" is no session."""
        async with self._database.transaction(tenant_id) as tx:
            await self._require_session(tx, tenant_id, session_id)

    @staticmethod
    async def _require_session(tx: Transaction, tenant_id: UUID, session_id: str) -> None:
        if session_id:
            await require_unarchived_session(tx, tenant_id, session_id)

    async def _language(self, tx: Transaction, tenant_id: UUID) -> str:
        """Return the language in which the tenant's messages are stemmed."""
        return (await self._policies.get(tx, tenant_id)).search_language

    @staticmethod
    async def _scan_session(tx: Transaction, tenant_id: UUID, query: SearchQuery) -> _ScanIds:
        rows = await tx.rows(
            _QUERIES["newest_of_session"],
            tenant_id=tenant_id,
            session_id=query.session_id,
            from_id=query.lowest_id or NO_ID,
            before_id=query.before_id or LAST_ID,
            count=MAX_SCANNED_MESSAGES,
        )
        return _ScanIds([row["message_id"] for row in rows], is_truncated=len(rows) == MAX_SCANNED_MESSAGES)

    async def _scan_tenant(self, tx: Transaction, tenant_id: UUID, query: SearchQuery, at: datetime) -> _ScanIds:
        newest: list[UUID] = []
        for from_id, before_id in id_ranges(query.lowest_id, query.before_id, at):
            rows = await tx.rows(
                _QUERIES["newest_messages"],
                tenant_id=tenant_id,
                from_id=from_id,
                before_id=before_id,
                count=MAX_SCANNED_MESSAGES - len(newest),
            )
            newest += [row["message_id"] for row in rows]
            if len(newest) == MAX_SCANNED_MESSAGES:
                break
        if len(newest) < MAX_SCANNED_MESSAGES:
            return _ScanIds(newest, is_truncated=False)
        rarest_row = await tx.row(
            _QUERIES["rarest_term"],
            tenant_id=tenant_id,
            words=required_words(query.text),
            language=await self._language(tx, tenant_id),
            count=MAX_SCANNED_MESSAGES,
        )
        if rarest_row is None:
            return _ScanIds(newest, is_truncated=True)
        rows = await tx.rows(
            _QUERIES["messages_with_term"],
            tenant_id=tenant_id,
            term=rarest_row["term"],
            from_id=query.lowest_id or NO_ID,
            before_id=newest[-1],
            in_spaces=current_space_ids() is not None,
            count=MAX_SCANNED_MESSAGES,
        )
        older = [row["item_id"] for row in rows]
        return _ScanIds([*newest, *older], is_truncated=len(older) == MAX_SCANNED_MESSAGES)

    async def _read_hits(
        self, tx: Transaction, tenant_id: UUID, query: SearchQuery, scores: Mapping[UUID, float]
    ) -> list[MessageHit]:
        """Read hits and neighbours of up to PAGE_BYTES characters; the last hits are left out of a longer response."""
        result: list[MessageHit] = []
        count = 0
        ids = list(scores)
        # A hit is no other hit's neighbour, and a neighbour is returned with its best hit alone.
        returned_ids = set(ids)
        for start in range(0, len(ids), _HIT_BATCH):
            hits = [
                MessageHit(row, scores[row["message_id"]])
                async for row in read_in_order(tx, tenant_id, ids[start : start + _HIT_BATCH])
            ]
            await self._add_neighbours(tx, tenant_id, hits, query, returned_ids)
            for hit in hits:
                count += sum(map(character_count, (hit.row, *hit.before, *hit.after)))
                if result and count > PAGE_BYTES:
                    return result
                result.append(hit)
        return result

    @staticmethod
    async def _add_neighbours(
        tx: Transaction, tenant_id: UUID, hits: Sequence[MessageHit], query: SearchQuery, returned_ids: set[UUID]
    ) -> None:
        if not hits or not query.context_size:
            return
        positions = await tx.rows(
            _QUERIES["neighbours"],
            tenant_id=tenant_id,
            session_ids=[hit.row["session_id"] for hit in hits],
            sequences=[hit.row["sequence"] for hit in hits],
            message_ids=[hit.row["message_id"] for hit in hits],
            context_size=query.context_size,
        )
        ids = list(dict.fromkeys(row["message_id"] for row in positions if row["message_id"] not in returned_ids))
        neighbours = {
            row["message_id"]: row
            async for row in read_in_order(tx, tenant_id, ids)
            if not row["pending_approval"] or row["session_id"] == query.session_id
        }
        for position in positions:
            neighbour = neighbours.pop(position["message_id"], None)
            if neighbour is not None:
                returned_ids.add(position["message_id"])
                hit = hits[position["hit_number"] - 1]
                (hit.before if position["sequence"] < hit.row["sequence"] else hit.after).append(neighbour)
