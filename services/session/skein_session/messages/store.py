"""Messages in the database: appending, reading, deleting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skein.session.v1 import session_pb2 as pb
from skein_kit.database.named_queries import Queries
from skein_kit.database.transactions import translate_constraint_errors
from skein_kit.errors import ExternalIdTaken, RevisionStale
from skein_kit.ids import parse_id
from skein_kit.message_rows import message as wired
from skein_kit.rpc.pagination import PAGE_BYTES, read_token, require_fit, resolve_page_size, write_token
from skein_kit.search_text import postings
from skein_session.errors import MessageNotFound, SessionArchived, SessionIdle, SessionNotFound
from skein_session.messages.model import document_of, require_content, sequence_of
from skein_session.sessions import convert as wire
from skein_session.sessions.lifecycle import END_REASON_IDLE
from skein_session.sessions.model import DEFAULT_TYPE, title_of
from skein_session.tombstones import store as tombstones

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from datetime import datetime
    from uuid import UUID

    from asyncpg import Record

    from skein_kit.database.monthly_partitions import MonthlyPartitions
    from skein_kit.database.transactions import Database, Transaction
    from skein_kit.idempotency.store import IdempotencyKey, IdempotencyStore
    from skein_kit.identity.identity_token import Caller
    from skein_kit.quotas.store import QuotaCounter
    from skein_kit.search_text.postings import Document
    from skein_session.messages.model import MessageBatch, MessageChange
    from skein_session.sessions.idle_store import IdleStore

_QUERIES = Queries.of("skein_session")
# Messages read at once, so that a page of the longest ones is never held whole.
_SLICE = 64
# Above every sequence number.
_END = 2**63 - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Appended:
    """An answer to AppendMessages, and whether it was given now or is the one that a repeated request had first."""

    response: pb.AppendMessagesResponse
    is_first: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Corrected:
    """An answer to UpdateMessage, and what is to get a vector: nothing when the answer was given before."""

    response: pb.UpdateMessageResponse
    document: Document | None


class MessageStore:
    """Messages, each a place in its session and a document of the search index."""

    def __init__(
        self,
        database: Database,
        requests: IdempotencyStore,
        quotas: QuotaCounter,
        months: MonthlyPartitions,
        idle: IdleStore,
    ) -> None:
        self._database = database
        self._idle = idle
        self._requests = requests
        self._quotas = quotas
        self._months = months

    async def append(self, who: Caller, once: IdempotencyKey, batch: MessageBatch, *, pending: int) -> Appended:
        """Add messages at the end of their session, all or none; the answer kept says that `pending` lack vectors."""
        await self._months.ensure(batch.months)
        try:
            with translate_constraint_errors({"message_external_ids_pkey": ExternalIdTaken}):
                return await self._append(who, once, batch, pending)
        except ExternalIdTaken as taken:
            if taken.facts:
                raise
            raise ExternalIdTaken(external_id=await self._taken(who.tenant(), batch)) from None
        except SessionIdle:
            # The refusal took back all that was done; that the session has ended stays.
            await self._idle.end(who.tenant(), batch.session_id, batch.at)
            raise

    async def correct(self, who: Caller, once: IdempotencyKey, response: pb.AppendMessagesResponse) -> None:
        """Replace the answer that is kept for a request."""
        async with self._database.tenant(who.tenant()) as tx:
            await self._requests.correct(tx, who.tenant(), once, response)

    async def get(self, tenant_id: UUID, name: str) -> pb.Message:
        """Read a message by its id or external id."""
        async with self._database.tenant(tenant_id, reads=True) as tx:
            return await self._named(tx, tenant_id, name)

    async def page(self, tenant_id: UUID, request: pb.ListMessagesRequest) -> pb.ListMessagesResponse:
        """Read a page of a session in order of sequence, or against it."""
        sequence = sequence_of(read_token(request.page_token, tenant_id, request))
        if sequence is None:
            sequence = _END if request.newest_first else 0
        size = resolve_page_size(request.page_size)
        response = pb.ListMessagesResponse()
        async with self._database.tenant(tenant_id, reads=True) as tx:
            query = "order_before" if request.newest_first else "order_after"
            order = await read_order(tx, tenant_id, request.session_id, query, sequence=sequence, limit=size + 1)
            if not order:
                await _must_exist(tx, tenant_id, request.session_id)
            is_cut = len(order) > size
            taken = 0
            ids = [row["message_id"] for row in order[:size]]
            async for message in read_in_order(tx, tenant_id, ids, session_id=request.session_id):
                taken += message.ByteSize()
                if response.messages and taken > PAGE_BYTES:
                    is_cut = True
                    break
                response.messages.append(message)
                sequence = message.sequence
        if is_cut:
            # Should all of a full page have been deleted while it was read, the list goes on after it nevertheless.
            last = sequence if response.messages else order[size - 1]["sequence"]
            response.next_page_token = write_token([str(last)], tenant_id, request)
        return response

    async def update(self, who: Caller, once: IdempotencyKey, correction: MessageChange, at: datetime) -> Corrected:
        """Change a message and what search knows of it, or return the answer that its request_id has."""
        tenant_id = who.tenant()
        async with self._database.tenant(tenant_id) as tx:
            first = await self._requests.claim(tx, tenant_id, once)
            if first is not None:
                return Corrected(response=pb.UpdateMessageResponse.FromString(first), document=None)
            before = await self._named(tx, tenant_id, correction.name_of)
            # The session first, as whoever changes its messages does.
            touched = await tx.row(_QUERIES["touch_session"], tenant_id=tenant_id, session_id=before.session_id, at=at)
            # Again, for others may have changed it until now.
            before = await self._named(tx, tenant_id, before.message_id)
            row = touched and await tx.row(
                _QUERIES["update_message"],
                tenant_id=tenant_id,
                message_id=parse_id(before.message_id),
                revision=correction.revision,
                fields=sorted(correction.fields),
                content=correction.content,
                name=correction.name,
                parts=correction.parts,
                tool_calls=correction.tool_calls,
                tool_returns=correction.tool_returns,
                metadata=correction.metadata,
                at=at,
                updated_by=who.principal,
            )
            if row is None:
                current = await self._named(tx, tenant_id, before.message_id)
                raise RevisionStale(given=correction.revision, current=current.revision)
            message = wired(row)
            require_content(message)
            document = document_of(message) if message.content != before.content else None
            if message.content != before.content:
                await self._retitle(tx, tenant_id, before, message)
                await postings.remove(tx, tenant_id, [row["message_id"]])
            if document is not None:
                await postings.add_documents(tx, tenant_id, [document])
            response = pb.UpdateMessageResponse(message=message)
            require_fit(response)
            await self._requests.answer(tx, tenant_id, once, response)
        return Corrected(response=response, document=document)

    async def delete(self, tenant_id: UUID, once: IdempotencyKey, name: str) -> pb.DeleteMessageResponse:
        """Take a message out of its session and out of search, once for each request."""
        response = pb.DeleteMessageResponse()
        async with self._database.tenant(tenant_id) as tx:
            if await self._requests.claim(tx, tenant_id, once, answer=response) is not None:
                return response
            message = await self._named(tx, tenant_id, name)
            of_session = {"tenant_id": tenant_id, "session_id": message.session_id}
            message_id = parse_id(message.message_id)
            # The session first: whoever changes its messages takes its row before theirs, so nobody waits in a circle.
            if await tx.row(_QUERIES["count_message_out"], **of_session) is None:
                raise MessageNotFound
            gone = await tx.row(_QUERIES["delete_message"], tenant_id=tenant_id, message_id=message_id)
            if message_id is None or gone is None:
                raise MessageNotFound
            await tx.execute(_QUERIES["delete_message_order"], **of_session, sequence=gone["sequence"])
            await postings.remove(tx, tenant_id, [message_id])
            await self._quotas.charge(tx, tenant_id, {"messages": -1})
        return response

    async def _append(self, who: Caller, once: IdempotencyKey, batch: MessageBatch, pending: int) -> Appended:
        tenant_id = who.tenant()
        async with self._database.tenant(tenant_id, plans_again=False) as tx:
            first = await self._requests.claim(tx, tenant_id, once)
            if first is not None:
                return Appended(response=pb.AppendMessagesResponse.FromString(first), is_first=False)
            await self._inherit(tx, tenant_id, batch)
            documents = batch.documents
            # The index rows come before the row lock of the session: they take most of the time.
            await postings.add_documents(tx, tenant_id, documents)
            since = await self._idle.since(tx, tenant_id, batch.at)
            session, opened = await self._advance(tx, tenant_id, batch, since)
            batch.inherit(session["agent_id"], session["subject_id"])
            # Only a session that was opened or changed between the read and the lock makes a difference here.
            for before, document in zip(documents, batch.documents, strict=True):
                if document != before:
                    await tx.execute(
                        _QUERIES["set_document_participants"],
                        tenant_id=tenant_id,
                        item_id=document.item_id,
                        agent_id=document.agent_id,
                        subject_id=document.subject_id,
                    )
            batch.number(session["last_sequence"])
            await tx.insert(_QUERIES["insert_messages"], tenant_id, batch.rows)
            await tx.insert(_QUERIES["insert_message_order"], tenant_id, batch.rows)
            if batch.external_ids:
                await tx.insert(_QUERIES["insert_message_external_ids"], tenant_id, batch.external_ids)
                # Afterwards: an id that was being purged has been waited for.
                await self._refuse_purged(tx, tenant_id, batch)
            response = pb.AppendMessagesResponse(messages=batch.messages, pending_embedding_count=pending)
            require_fit(response)
            await self._requests.answer(tx, tenant_id, once, response)
            await self._quotas.charge(tx, tenant_id, {"sessions": opened, "messages": len(batch.rows)})
        return Appended(response=response, is_first=True)

    @staticmethod
    async def _inherit(tx: Transaction, tenant_id: UUID, batch: MessageBatch) -> None:
        """Give the batch the agent and the subject that its session has now; the row is not locked yet."""
        if not batch.inherits:
            return
        session = await tx.row(_QUERIES["participants_of_session"], tenant_id=tenant_id, session_id=batch.session_id)
        batch.inherit(*(None, None) if session is None else (session["agent_id"], session["subject_id"]))

    @staticmethod
    async def _advance(
        tx: Transaction, tenant_id: UUID, batch: MessageBatch, idle_before: datetime | None
    ) -> tuple[Record, int]:
        """Return the session with the last sequence number of the batch, and how many sessions were opened."""
        opened = 0
        advance = {
            "tenant_id": tenant_id,
            "session_id": batch.session_id,
            "count": len(batch.rows),
            "title": batch.title,
            "at": batch.at,
            "update_time": batch.update_time,
            "idle_before": idle_before,
        }
        session = await tx.row(_QUERIES["advance_session"], **advance)
        if session is None and batch.create_session:
            if await tombstones.purged(tx, tenant_id, [tombstones.of_session(batch.session_id)]):
                raise SessionNotFound(session_id=batch.session_id)
            opened = await tx.execute(
                _QUERIES["open_session"],
                tenant_id=tenant_id,
                session_id=batch.session_id,
                session_type=DEFAULT_TYPE,
                agent_id=batch.agent_id,
                create_time=batch.create_time,
                update_time=batch.update_time,
                at=batch.at,
                created_by=batch.by,
            )
            session = await tx.row(_QUERIES["advance_session"], **advance)
        if session is None:
            row = await _must_exist(tx, tenant_id, batch.session_id)
            wire.state_of(row).must_be_open(session_id=batch.session_id)
            raise SessionIdle(session_id=batch.session_id, end_reason=END_REASON_IDLE)
        return session, opened

    @staticmethod
    async def _retitle(tx: Transaction, tenant_id: UUID, before: pb.Message, after: pb.Message) -> None:
        """Let a title that a session took from a message follow it."""
        title = title_of([before])
        if title is not None:
            await tx.execute(
                _QUERIES["retitle_session"],
                tenant_id=tenant_id,
                session_id=before.session_id,
                before=title,
                title=title_of([after]),
            )

    @staticmethod
    async def _refuse_purged(tx: Transaction, tenant_id: UUID, batch: MessageBatch) -> None:
        names = {tombstones.of_message(str(row["external_id"])): row["external_id"] for row in batch.external_ids}
        for name in await tombstones.purged(tx, tenant_id, names):
            raise ExternalIdTaken(external_id=names[name])

    async def _taken(self, tenant_id: UUID, batch: MessageBatch) -> str | None:
        external_ids = [row["external_id"] for row in batch.external_ids]
        async with self._database.tenant(tenant_id) as tx:
            taken: str | None = await tx.value(
                _QUERIES["taken_external_id"], tenant_id=tenant_id, external_ids=external_ids
            )
        return taken

    @staticmethod
    async def _named(tx: Transaction, tenant_id: UUID, name: str) -> pb.Message:
        message_id = parse_id(name)
        if message_id is not None:
            async for message in read_in_order(tx, tenant_id, [message_id]):
                return message
        # An external id may look like an id.
        held = await tx.value(_QUERIES["message_id_of_external_id"], tenant_id=tenant_id, external_id=name)
        if held is not None:
            async for message in read_in_order(tx, tenant_id, [held]):
                return message
        if ids := [id_ for id_ in (message_id, held) if id_ is not None]:
            stored = await tx.row(_QUERIES["stored_named"], tenant_id=tenant_id, message_ids=ids)
            if stored is not None:
                await _require_unarchived(tx, tenant_id, stored["session_id"])
            # It may have come back between the two questions.
            async for message in read_in_order(tx, tenant_id, ids):
                return message
        raise MessageNotFound


async def read_in_order(
    tx: Transaction, tenant_id: UUID, message_ids: Sequence[UUID], *, session_id: str = ""
) -> AsyncIterator[pb.Message]:
    """Read messages in the order of their ids' places, some at a time, passing over those that are deleted.

    Of the session that is named, if one is: raises SessionArchived when its messages went to cold storage meanwhile.
    """
    for start in range(0, len(message_ids), _SLICE):
        part = message_ids[start : start + _SLICE]
        rows = await tx.rows(_QUERIES["read_messages"], tenant_id=tenant_id, message_ids=list(part))
        found = {row["message_id"]: row for row in rows}
        if session_id and len(found) < len(part):
            await _require_unarchived(tx, tenant_id, session_id)
            # They may have come back between the two questions.
            rows = await tx.rows(_QUERIES["read_messages"], tenant_id=tenant_id, message_ids=list(part))
            found = {row["message_id"]: row for row in rows}
        for message_id in part:
            if message_id in found:
                yield wired(found[message_id])


async def read_order(
    tx: Transaction, tenant_id: UUID, session_id: str, query: str, *, sequence: int, limit: int
) -> list[Record]:
    """Read places of a session, by one of the two queries of orders. Raises SessionArchived when none are left."""
    wanted = {"tenant_id": tenant_id, "session_id": session_id, "sequence": sequence, "limit": limit}
    order = await tx.rows(_QUERIES[query], **wanted)
    if order:
        return order
    await _require_unarchived(tx, tenant_id, session_id)
    # They may have come back between the two questions.
    return await tx.rows(_QUERIES[query], **wanted)


async def _require_unarchived(tx: Transaction, tenant_id: UUID, session_id: str) -> None:
    """Raise SessionArchived when a session's messages lie in cold storage."""
    row = await tx.row(_QUERIES["get_session"], tenant_id=tenant_id, session_id=session_id)
    if row is not None and row["store_time"] is not None:
        raise SessionArchived(session_id=session_id)


async def _must_exist(tx: Transaction, tenant_id: UUID, session_id: str) -> Record:
    row = await tx.row(_QUERIES["get_session"], tenant_id=tenant_id, session_id=session_id)
    if row is None:
        raise SessionNotFound(session_id=session_id)
    return row
