"""Removing sessions and messages for good, a bounded number at a time, until no table holds anything of them."""

from __future__ import annotations

import secrets
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from google.protobuf.message import Message

from skein.session.v1 import states_pb2 as pb
from skein_kit.database.named_queries import Queries
from skein_kit.errors import TransactionConflict
from skein_kit.ids import new_id, parse_id
from skein_kit.search_text import postings
from skein_session.cold_storage.store import next_archived_of_subject
from skein_session.errors import SessionNotFound
from skein_session.sessions.deletion import delete_session_rows
from skein_session.tombstones import store as tombstones

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from asyncpg import Record

    from skein_kit.database.transactions import Database, Transaction
    from skein_kit.idempotency.store import IdempotencyKey, IdempotencyStore
    from skein_kit.quotas.store import QuotaCounter
    from skein_session.cold_storage.store import ColdStorageStore, FileRef

_QUERIES = Queries.of("skein_session")
_SECRET_BYTES = 32
# Messages that one call removes where its caller names no number.
_DEFAULT_LIMIT = 1000
# Sessions of one person that one call looks at.
_SESSIONS_AT_ONCE = 100
# How far a dry run counts, and over how many sessions.
_MOST_COUNTED = 100_000
_MOST_SESSIONS = 10_000
# Accesses that one transaction clears.
_CLEARED_AT_ONCE = 5000
# How often messages are brought back that somebody stores while they are being purged.
_ATTEMPTS = 5
Response = TypeVar("Response", bound=Message)


class ErasureStore:
    """Purges; each removes what it can within its limit, and says whether there is more."""

    def __init__(
        self, database: Database, requests: IdempotencyStore, quotas: QuotaCounter, archives: ColdStorageStore
    ) -> None:
        self._database = database
        self._requests = requests
        self._quotas = quotas
        self._archives = archives

    async def session(
        self, tenant_id: UUID, once: IdempotencyKey, request: pb.PurgeSessionRequest, at: datetime
    ) -> pb.PurgeSessionResponse:
        """Purge a session, deleted or not, with everything in it."""
        voided: list[FileRef] = []

        async def work(tx: Transaction) -> pb.PurgeReceipt:
            held = await tx.row(_QUERIES["hold_session"], tenant_id=tenant_id, session_id=request.session_id)
            if held is None:
                raise SessionNotFound(session_id=request.session_id)
            if request.dry_run:
                return await _counted(tx, tenant_id, [request.session_id])
            erasure = _PurgeTransaction(tx, tenant_id, at, self._archives, limit=request.limit or _DEFAULT_LIMIT)
            is_whole = await erasure.session(request.session_id, held["subject_id"])
            await self._quotas.charge(tx, tenant_id, erasure.charges)
            voided.extend(erasure.voided)
            return erasure.receipt(more=not is_whole)

        response = await self._once(tenant_id, once, work, lambda receipt: pb.PurgeSessionResponse(receipt=receipt))
        await self._archives.clear(tenant_id, voided, at)
        return response

    async def messages(
        self, tenant_id: UUID, once: IdempotencyKey, request: pb.PurgeMessagesRequest, at: datetime
    ) -> pb.PurgeMessagesResponse:
        """Purge messages, deleted or not, by their ids or external ids; names of nothing are passed over.

        Those in cold storage are brought back first, with their sessions. Raises ArchiveDamaged.
        """
        voided: list[FileRef] = []

        async def work(tx: Transaction) -> pb.PurgeReceipt:
            rows = await _named(tx, tenant_id, request.message_ids)
            found = {row["message_id"]: row["session_id"] for row in rows}
            if request.dry_run:
                return pb.PurgeReceipt(message_ids=map(str, sorted(found)), counts={"session.messages": len(found)})
            erasure = _PurgeTransaction(tx, tenant_id, at, self._archives, limit=len(found))
            await erasure.messages(found)
            if await tx.rows(_QUERIES["stored_named"], tenant_id=tenant_id, message_ids=sorted(found)):
                raise _ArchivedMeanwhile
            await self._quotas.charge(tx, tenant_id, erasure.charges)
            voided.extend(erasure.voided)
            return erasure.receipt()

        for _ in range(_ATTEMPTS):
            if not request.dry_run:
                async with self._database.tenant(tenant_id) as tx:
                    rows = await _named(tx, tenant_id, request.message_ids)
                stored = {row["session_id"] for row in rows if row["is_stored"]}
                await self._archives.bring_back(tenant_id, stored, at)
            with suppress(_ArchivedMeanwhile):
                response = await self._once(
                    tenant_id, once, work, lambda receipt: pb.PurgeMessagesResponse(receipt=receipt)
                )
                await self._archives.clear(tenant_id, voided, at)
                return response
        raise TransactionConflict

    async def subject(
        self, tenant_id: UUID, once: IdempotencyKey, request: pb.PurgeSubjectRequest, at: datetime
    ) -> pb.PurgeSubjectResponse:
        """Purge a person's sessions, and what names the person in the sessions of others and in the access log."""
        response = await self._purge_subject(tenant_id, once, request, at)
        # Also for a repeated request: the process of the first one may have died before it got here.
        if not request.dry_run and not response.receipt.more:
            await self._clear_accesses(tenant_id, request.subject_id)
        return response

    async def _purge_subject(
        self, tenant_id: UUID, once: IdempotencyKey, request: pb.PurgeSubjectRequest, at: datetime
    ) -> pb.PurgeSubjectResponse:
        of_subject = {"tenant_id": tenant_id, "subject_id": request.subject_id}
        voided: list[FileRef] = []

        async def work(tx: Transaction) -> pb.PurgeReceipt:
            if request.dry_run:
                return await _counted_of_subject(tx, tenant_id, request.subject_id)
            await tombstones.put_subject(tx, tenant_id, request.subject_id, at)
            erasure, more = (
                _PurgeTransaction(tx, tenant_id, at, self._archives, limit=request.limit or _DEFAULT_LIMIT),
                True,
            )
            for _ in range(_SESSIONS_AT_ONCE):
                held = await tx.row(_QUERIES["hold_session_of_subject"], **of_subject)
                if held is None:
                    if await tx.rows(_QUERIES["sessions_of_subject"], **of_subject, limit=1):
                        # Another call held the first of them, and it is gone; there are others.
                        continue
                    room = erasure.left
                    # Asked before and after: a session that is on its way to cold storage or back is in one of both.
                    stored = await next_archived_of_subject(tx, tenant_id, request.subject_id, "")
                    rows = await tx.rows(_QUERIES["messages_naming_subject"], **of_subject, after=None, limit=room + 1)
                    await erasure.messages({row["message_id"]: row["session_id"] for row in rows[:room]})
                    stored = stored or await next_archived_of_subject(tx, tenant_id, request.subject_id, "")
                    more = len(rows) > room or stored is not None
                    break
                if not await erasure.session(held["session_id"], held["subject_id"]):
                    break
            await self._quotas.charge(tx, tenant_id, erasure.charges)
            voided.extend(erasure.voided)
            if not more:
                await _note(tx, tenant_id, [f"subject:{request.subject_id}"], at=at)
            return erasure.receipt(more=more)

        if not request.dry_run:
            async with self._database.tenant(tenant_id) as tx:
                has_own = await tx.rows(_QUERIES["sessions_of_subject"], **of_subject, limit=1)
            if not has_own:
                await self._archives.bring_back_naming(tenant_id, request.subject_id, at)
        response = await self._once(
            tenant_id, once, work, lambda receipt: pb.PurgeSubjectResponse(receipt=receipt), keeps_names=False
        )
        await self._archives.clear(tenant_id, voided, at)
        return response

    async def _clear_accesses(self, tenant_id: UUID, subject_id: str) -> None:
        """Take a person out of the access log, a bounded number of accesses in each transaction."""
        count = _CLEARED_AT_ONCE
        while count == _CLEARED_AT_ONCE:
            async with self._database.tenant(tenant_id) as tx:
                count = await tx.execute(
                    _QUERIES["clear_accesses_of_subject"], tenant_id=tenant_id, subject_id=subject_id, count=count
                )

    async def _once(
        self,
        tenant_id: UUID,
        once: IdempotencyKey,
        work: Callable[[Transaction], Awaitable[pb.PurgeReceipt]],
        respond: Callable[[pb.PurgeReceipt], Response],
        *,
        keeps_names: bool = True,
    ) -> Response:
        """Do a piece of work once; without `keeps_names` the answer that is kept for repetitions names no session."""
        async with self._database.tenant(tenant_id) as tx:
            first = await self._requests.claim(tx, tenant_id, once)
            if first is not None:
                response = respond(pb.PurgeReceipt())
                response.ParseFromString(first)
                return response
            receipt = await work(tx)
            response = respond(receipt)
            if not keeps_names:
                receipt.ClearField("session_ids")
            await self._requests.answer(tx, tenant_id, once, response if keeps_names else respond(receipt))
        return response


async def _note(tx: Transaction, tenant_id: UUID, names: Sequence[str], *, at: datetime) -> None:
    """Have the access log cleared of what is erased once more, when calls that are at work now are recorded.

    The memory service does that; its query `clear_late_accesses` knows the forms of the names.
    """
    await tx.execute(
        _QUERIES["note_erasures"],
        tenant_id=tenant_id,
        erasure_ids=[new_id(at) for _ in names],
        names=list(names),
        secret=secrets.token_bytes(_SECRET_BYTES),
        erase_time=at,
    )


class _ArchivedMeanwhile(Exception):
    """Messages that are to be purged went to cold storage."""


class _PurgeTransaction:
    """What one call removes, within its transaction and its limit of messages."""

    def __init__(
        self, tx: Transaction, tenant_id: UUID, at: datetime, archives: ColdStorageStore, *, limit: int
    ) -> None:
        self._archives = archives
        self._tx = tx
        self._tenant_id = tenant_id
        self._at = at
        self.left = limit
        # Files that were being written, which go after the commit.
        self.voided: list[FileRef] = []
        # What the tenant has less of, by kind.
        self.charges: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()
        self._session_ids: list[str] = []
        self._message_ids: list[UUID] = []

    def receipt(self, *, more: bool = False) -> pb.PurgeReceipt:
        """Say what went."""
        return pb.PurgeReceipt(
            session_ids=self._session_ids,
            message_ids=map(str, self._message_ids),
            counts={table: count for table, count in self._counts.items() if count},
            more=more,
        )

    async def session(self, session_id: str, subject_id: str | None) -> bool:
        """Remove a person's session, or one of no person, as far as the limit goes; say whether nothing is left of it.

        The transaction has locked it.
        """
        of_session = {"tenant_id": self._tenant_id, "session_id": session_id}
        self.charges["session_items"] -= await self._count("session.items", "delete_items_of_session", **of_session)
        await postings.subtract_session_counts(self._tx, self._tenant_id, session_id)
        await self._count("recall.documents", "delete_documents_of_session", **of_session)
        self.charges.update(await delete_session_rows(self._tx, self._tenant_id, session_id, self._at) or {})
        await self._empty_answers([session_id])
        self.voided += await self._archives.void(self._tx, self._tenant_id, [session_id])
        rows = await self._tx.rows(_QUERIES["messages_to_erase"], **of_session, limit=self.left + 1)
        ids = [row["message_id"] for row in rows[: self.left]]
        await self._erase(ids)
        if len(rows) > len(ids) or not await self._stored(session_id):
            return False
        self.charges["agent_states"] -= await self._count(
            "session.agent_states", "erase_states_of_session", **of_session
        )
        await self._count("session.sessions", "erase_session", **of_session)
        await tombstones.put(self._tx, self._tenant_id, [tombstones.of_session(session_id)], self._at)
        await self._tx.execute(_QUERIES["clear_accesses_of_session"], **of_session, subject_id=subject_id)
        names = [f"session:{session_id}"]
        if subject_id is not None:
            names.append(f"subject-session:{len(subject_id)}:{subject_id}:{session_id}")
        await _note(self._tx, self._tenant_id, names, at=self._at)
        self._session_ids.append(session_id)
        return True

    async def _stored(self, session_id: str) -> bool:
        """Forget what a session has in cold storage, as far as the limit goes; the file goes with the last of it."""
        rows = await self._tx.rows(
            _QUERIES["stored_of_session"], tenant_id=self._tenant_id, session_id=session_id, limit=self.left + 1
        )
        ids = [row["message_id"] for row in rows[: self.left]]
        await self._erase(ids, table="session.stored_messages", name="erase_stored_messages")
        if len(rows) > len(ids):
            return False
        await self._archives.unname(self._tx, self._tenant_id, session_id)
        return True

    async def messages(self, found: Mapping[UUID, str]) -> None:
        """Remove messages, given with their sessions, which stay, and what was made of them there."""
        if not found:
            return
        ids, session_ids = sorted(found), sorted(set(found.values()))
        of_sessions = {"tenant_id": self._tenant_id, "session_ids": session_ids}
        await self._tx.rows(_QUERIES["hold_sessions"], **of_sessions)
        await self._tx.execute(_QUERIES["erase_titles"], **of_sessions, message_ids=ids)
        gone = await self._erase(ids)
        changed = {row["session_id"] for row in gone}
        self.voided += await self._archives.void(self._tx, self._tenant_id, changed)
        await self._tx.execute(
            _QUERIES["erase_message_order"],
            tenant_id=self._tenant_id,
            session_ids=[row["session_id"] for row in gone],
            sequences=[row["sequence"] for row in gone],
        )
        seen = Counter(row["session_id"] for row in gone if row["is_active"])
        counts = [seen[session_id] for session_id in session_ids]
        await self._tx.execute(_QUERIES["count_messages_out"], **of_sessions, counts=counts)
        await postings.subtract_counts(self._tx, self._tenant_id, ids)
        await self._count("recall.documents", "erase_documents", tenant_id=self._tenant_id, message_ids=ids)
        await self._empty_answers(session_ids)
        self.charges["messages"] -= seen.total()

    async def _erase(
        self, ids: Sequence[UUID], *, table: str = "session.messages", name: str = "erase_messages"
    ) -> list[Record]:
        """Remove messages and the ids that they have elsewhere; return what they were, without what they said."""
        if not ids:
            return []
        of_messages = {"tenant_id": self._tenant_id, "message_ids": list(ids)}
        held = await self._tx.rows(_QUERIES["erase_external_ids"], **of_messages)
        names = [*map(tombstones.of_message_id, ids), *(tombstones.of_message(row["external_id"]) for row in held)]
        await tombstones.put(self._tx, self._tenant_id, names, self._at)
        gone = await self._tx.rows(_QUERIES[name], **of_messages)
        self._counts["session.message_external_ids"] += len(held)
        self._counts[table] += len(gone)
        self._message_ids += [row["message_id"] for row in gone]
        self.left -= len(ids)
        return gone

    async def _empty_answers(self, session_ids: Sequence[str]) -> None:
        await self._count("session.requests", "empty_answers", tenant_id=self._tenant_id, session_ids=list(session_ids))

    async def _count(self, table: str, name: str, **values: object) -> int:
        removed = await self._tx.execute(_QUERIES[name], **values)
        self._counts[table] += removed
        return removed


async def _named(tx: Transaction, tenant_id: UUID, names: Sequence[str]) -> list[Record]:
    """Find messages by their ids or external ids, in cold storage too."""
    ids = {id_ for id_ in map(parse_id, names) if id_ is not None}
    held = await tx.rows(_QUERIES["messages_of_external_ids"], tenant_id=tenant_id, external_ids=list(names))
    ids |= {row["message_id"] for row in held}
    return await tx.rows(_QUERIES["named_messages"], tenant_id=tenant_id, message_ids=sorted(ids))


async def _counted(tx: Transaction, tenant_id: UUID, session_ids: list[str], **more: int) -> pb.PurgeReceipt:
    row = await tx.row(_QUERIES["count_of_sessions"], tenant_id=tenant_id, session_ids=session_ids, most=_MOST_COUNTED)
    counts = Counter({"session.sessions": len(session_ids)})
    if row is not None:
        counts["session.messages"] = row["messages"] + more.get("messages", 0)
        counts["session.stored_messages"] = row["stored"]
        counts["session.agent_states"] = row["states"]
        counts["session.items"] = row["items"]
    return pb.PurgeReceipt(counts={table: count for table, count in counts.items() if count})


async def _counted_of_subject(tx: Transaction, tenant_id: UUID, subject_id: str) -> pb.PurgeReceipt:
    of_subject = {"tenant_id": tenant_id, "subject_id": subject_id}
    rows = await tx.rows(_QUERIES["sessions_of_subject"], **of_subject, limit=_MOST_SESSIONS)
    session_ids = [row["session_id"] for row in rows]
    elsewhere = await tx.value(
        _QUERIES["count_naming_subject"], **of_subject, session_ids=session_ids, most=_MOST_COUNTED
    )
    return await _counted(tx, tenant_id, session_ids, messages=elsewhere)
