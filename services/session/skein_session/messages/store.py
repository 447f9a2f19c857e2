"""Messages in the database. Methods that take `tx` work in the caller's transaction, which sees the tenant."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from asyncpg import Record

from skein_kit.database.monthly_partitions import MonthlyPartitions
from skein_kit.database.named_queries import Queries, as_of
from skein_kit.database.transactions import Database, Transaction, translate_constraint_errors
from skein_kit.database.tx_options import TxOptions
from skein_kit.errors import ExternalIdTaken, RevisionStale, TransactionConflict
from skein_kit.ids import new_ids, now, parse_id
from skein_kit.policies.history import read_as_of
from skein_kit.quotas.store import QuotaCounter
from skein_kit.rpc.pagination import PAGE_BYTES
from skein_kit.search_text import postings
from skein_kit.search_text.postings import Document
from skein_kit.text.source_keys import MessageAuthors
from skein_session.erasure import lineage
from skein_session.errors import MessageNotFound, SessionArchived, SessionIdle, SessionNotFound
from skein_session.extractions.store import ExtractionStore
from skein_session.messages.model import (
    MessageBatch,
    MessageChange,
    character_count,
    default_title,
    require_content,
    to_document,
)
from skein_session.sessions.model import DEFAULT_TYPE, END_REASON_IDLE, ENDED, HIDDEN, columns_of
from skein_session.sessions.store import SessionStore, require_session, session_state
from skein_session.tombstones import store as tombstones

_QUERIES = Queries.load("skein_session")
# Messages of one read, so that a page of the longest messages is never in memory at once.
_READ_BATCH = 64
# Messages of one read of a stream.
_STREAM_BATCH = 32
# States that take no more messages.
_CLOSED_STATES = frozenset({ENDED, HIDDEN})
# The principal of what expires.
_WORKER = "system:worker"
_SUMMARIES = {"pending": "waits for approval", "pending_expired": "expired before approval"}


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamPosition:
    """The end of a session's messages."""

    last_sequence: int
    # The session takes no more messages.
    is_ended: bool
    # The messages lie in cold storage.
    is_archived: bool = False


class MessageStore:
    """Messages, each with a position in its session and a document of the search index."""

    def __init__(
        self,
        database: Database,
        sessions: SessionStore,
        quotas: QuotaCounter,
        months: MonthlyPartitions,
        extractions: ExtractionStore,
    ) -> None:
        self._database = database
        self._sessions = sessions
        self._quotas = quotas
        self._months = months
        self._extractions = extractions

    @asynccontextmanager
    async def prepare_append(self, tenant_id: UUID, batch: MessageBatch) -> AsyncIterator[None]:
        """Prepare the transaction of the block, which appends a batch, and complete its errors.

        Raises SessionIdle and ExternalIdTaken after work in transactions of their own: the error rolls the append back.
        """
        await self._months.ensure(batch.months)
        try:
            with translate_constraint_errors({"message_external_ids_pkey": ExternalIdTaken}):
                yield
        except ExternalIdTaken as error:
            if error.metadata:
                raise
            raise ExternalIdTaken(external_id=await self._find_taken_external_id(tenant_id, batch)) from None
        except SessionIdle:
            await self._sessions.end_if_idle(tenant_id, batch.session_id, batch.append_time)
            raise

    async def append_messages(self, tx: Transaction, tenant_id: UUID, batch: MessageBatch) -> None:
        """Add messages at the end of their session, and complete the batch; within `prepare_append`.

        Raises SessionNotFound, SessionHidden, SessionEnded, SessionIdle, ExternalIdTaken and QuotaExceeded.
        """
        # Before the session is locked; the agent and the subject that it gives its messages are no terms.
        terms = await postings.count_terms(tx, tenant_id, batch.documents)
        idle_cutoff = await self._sessions.idle_cutoff(tx, tenant_id, batch.append_time)
        session, new_sessions = await self._advance_session(tx, tenant_id, batch, idle_cutoff)
        batch.inherit(session["agent_id"], session["subject_id"])
        batch.assign_sequences(session["last_sequence"])
        await tx.insert_all(
            tenant_id,
            [
                (_QUERIES["insert_messages"], batch.rows),
                (_QUERIES["insert_message_order"], batch.rows),
                (_QUERIES["insert_message_external_ids"], batch.with_external_id),
                *await postings.new_documents(tx, tenant_id, batch.documents, terms),
            ],
        )
        if batch.with_external_id:
            # After the insert, which has waited for a concurrent purge of the same id.
            await self._require_unpurged(tx, tenant_id, batch)
        await self._quotas.charge(tx, tenant_id, {"sessions": new_sessions, "messages": len(batch.rows)})
        await self._extractions.note_new(tx, tenant_id, batch.session_id, batch.rows, at=batch.append_time)
        waiting_ids = [row["message_id"] for row in batch.rows if row["pending_approval"]]
        await _record_approvals(tx, tenant_id, "pending", waiting_ids, at=batch.append_time, by=batch.created_by)

    async def get_message(
        self, tenant_id: UUID, name: str, *, at: datetime, as_of_time: datetime | None, revision: int
    ) -> Record:
        """Read a message by its id or external id, as of a time, asked at `at`; or one revision by its id, unless 0.

        Raises MessageNotFound, SessionArchived, NotKnownThen and HistoryNotKept.
        """
        if not revision:
            async with read_as_of(self._database, tenant_id, as_of_time, at=at) as tx:
                return await self._find_message(tx, tenant_id, name, is_as_of=as_of_time is not None)
        async with self._database.transaction(tenant_id, TxOptions(read_only=True, skip_replica=True)) as tx:
            key = {"tenant_id": tenant_id, "message_id": parse_id(name)}
            row = await tx.row(_QUERIES["read_message_revision"], **key, revision=revision)
            if row is None:
                row = await self._find_message(tx, tenant_id, name)
                if row["revision"] != revision:
                    raise MessageNotFound
            return row

    async def update_message(
        self, tx: Transaction, tenant_id: UUID, change: MessageChange, *, at: datetime, updated_by: str
    ) -> tuple[Record, Document | None]:
        """Change a message and its document; return its row, and the document when its text or name changed.

        Raises MessageNotFound, SessionArchived, RevisionStale and ContentEmpty.
        """
        previous_row = await self._find_message(tx, tenant_id, change.message_name)
        # Every change of messages locks the session before its messages, which avoids deadlocks.
        session = await tx.row(
            _QUERIES["touch_session"], tenant_id=tenant_id, session_id=previous_row["session_id"], at=at
        )
        # Again, because a concurrent call may have changed the message before the lock.
        previous_row = await self._find_message(tx, tenant_id, str(previous_row["message_id"]))
        row = session and await tx.row(
            _QUERIES["update_message"],
            **columns_of(change, excluded_field="message_name"),
            tenant_id=tenant_id,
            message_id=previous_row["message_id"],
            at=at,
            updated_by=updated_by,
        )
        if row is None:
            current = await self._find_message(tx, tenant_id, str(previous_row["message_id"]))
            raise RevisionStale(requested=change.revision, current=current["revision"])
        require_content(row)
        if row["pending_approval"] or previous_row["pending_approval"]:
            step = "pending" if row["pending_approval"] else "approved"
            await _record_approvals(tx, tenant_id, step, [row["message_id"]], at=at, by=updated_by)
        if MessageAuthors.of_row(row) != MessageAuthors.of_row(previous_row):
            await lineage.note_authors(tx, tenant_id, row["message_id"])
        if default_title(row) != default_title(previous_row):
            await self._update_title(tx, tenant_id, previous_row, row)
        if all(row[column] == previous_row[column] for column in ("name", "content", "pending_approval")):
            return row, None
        is_approved = previous_row["pending_approval"] and not row["pending_approval"]
        await self._extractions.note_changed(tx, tenant_id, row, is_new=is_approved, at=at)
        await postings.remove_documents(tx, tenant_id, [row["message_id"]])
        document = to_document(row)
        if document is not None:
            await postings.add_documents(tx, tenant_id, [document])
        return row, document

    async def delete_expired(self, tenant_id: UUID, at: datetime, *, count: int) -> int:
        """Delete up to `count` messages that have waited for approval for too long; return how many."""
        async with self._database.transaction(tenant_id) as tx:
            before = await self._sessions.approval_cutoff(tx, tenant_id, at)
            rows = await tx.rows(
                _QUERIES["find_expired_pending_messages"], tenant_id=tenant_id, before=before, count=count
            )
        deleted_count = 0
        for row in rows:
            # One by one, as a deletion locks its session; another caller may have decided meanwhile.
            with suppress(MessageNotFound, SessionArchived):
                async with self._database.transaction(tenant_id) as tx:
                    await self.delete_message(
                        tx,
                        tenant_id,
                        str(row["message_id"]),
                        at=at,
                        by=_WORKER,
                        event="pending_expired",
                        must_wait=True,
                    )
                deleted_count += 1
        return deleted_count

    async def delete_message(
        self,
        tx: Transaction,
        tenant_id: UUID,
        name: str,
        *,
        at: datetime,
        by: str,
        event: str = "refused",
        must_wait: bool = False,
    ) -> None:
        """Delete a message and its document; of one that waits for approval, record the `event`.

        Raises MessageNotFound, also for one that does not wait when it `must_wait`, and SessionArchived.
        """
        message = await self._find_message(tx, tenant_id, name)
        session_key = {"tenant_id": tenant_id, "session_id": message["session_id"]}
        # Every change of messages locks the session before its messages, which avoids deadlocks.
        if await tx.row(_QUERIES["decrement_message_count"], **session_key) is None:
            raise MessageNotFound
        deleted_row = await tx.row(_QUERIES["delete_message"], tenant_id=tenant_id, message_id=message["message_id"])
        if deleted_row is None:
            raise MessageNotFound
        if must_wait and not deleted_row["pending_approval"]:
            raise MessageNotFound
        await tx.execute(_QUERIES["delete_message_order"], **session_key, sequence=deleted_row["sequence"])
        await postings.remove_documents(tx, tenant_id, [message["message_id"]])
        await self._extractions.note_deleted_message(tx, tenant_id, message, at=at)
        await self._quotas.charge(tx, tenant_id, {"messages": -1})
        if deleted_row["pending_approval"]:
            await _record_approvals(tx, tenant_id, event, [message["message_id"]], at=at, by=by)

    async def undelete_message(self, tx: Transaction, tenant_id: UUID, name: str) -> tuple[Record, Document | None]:
        """Bring a deleted message back; return its row, and its document if it was deleted and has text.

        Raises MessageNotFound, SessionArchived and QuotaExceeded.
        """
        other_id = await tx.value(_QUERIES["message_id_of_external_id"], tenant_id=tenant_id, external_id=name)
        ids = [id_ for id_ in (parse_id(name), other_id) if id_ is not None]
        deleted_row = await tx.row(_QUERIES["find_deleted_message"], tenant_id=tenant_id, message_ids=ids)
        if deleted_row is None:
            return await self._find_message(tx, tenant_id, name), None
        session_key = {"tenant_id": tenant_id, "session_id": deleted_row["session_id"]}
        # Every change of messages locks the session before its messages, which avoids deadlocks.
        session = await tx.row(_QUERIES["increment_message_count"], **session_key)
        if session is None:
            raise MessageNotFound
        if session["archive_time"] is not None:
            raise SessionArchived(session_id=deleted_row["session_id"])
        row = await tx.row(_QUERIES["undelete_message"], tenant_id=tenant_id, message_id=deleted_row["message_id"])
        if row is None:
            # A concurrent call has undeleted it; this one has counted it again.
            raise TransactionConflict
        await tx.insert(_QUERIES["insert_message_order"], tenant_id, [dict(row)])
        document = to_document(row)
        if document is not None:
            await postings.add_documents(tx, tenant_id, [document])
        await self._extractions.note_changed(tx, tenant_id, row, at=now())
        await self._quotas.charge(tx, tenant_id, {"messages": 1})
        return row, document

    async def read_stream_positions(
        self, tenant_id: UUID, session_ids: Collection[str]
    ) -> Mapping[str, StreamPosition]:
        """Return the positions of sessions by id, without those that are missing."""
        async with self._database.transaction(tenant_id) as tx:
            rows = await tx.rows(_QUERIES["read_stream_positions"], tenant_id=tenant_id, session_ids=list(session_ids))
        return {
            row["session_id"]: StreamPosition(
                last_sequence=row["last_sequence"],
                is_ended=row["state"] in _CLOSED_STATES,
                is_archived=row["archive_time"] is not None,
            )
            for row in rows
        }

    async def read_stream_messages(
        self, tenant_id: UUID, session_id: str, after_sequence: int
    ) -> tuple[list[Record], int]:
        """Read the next messages of a session, and the sequence number of the last position read.

        The number is `after_sequence` when no position follows, as when all later messages are deleted.
        Raises SessionArchived.
        """
        async with self._database.transaction(tenant_id) as tx:
            order = await read_order(
                tx, tenant_id, session_id, "order_after", sequence=after_sequence, limit=_STREAM_BATCH
            )
            # A slow caller may keep the messages for long, so they are a page at most.
            messages, is_truncated = await take_page(
                read_in_order(tx, tenant_id, [row["message_id"] for row in order], session_id=session_id)
            )
        if is_truncated:
            return messages, messages[-1]["sequence"]
        return messages, order[-1]["sequence"] if order else after_sequence

    @staticmethod
    async def _advance_session(
        tx: Transaction, tenant_id: UUID, batch: MessageBatch, idle_cutoff: datetime | None
    ) -> tuple[Record, int]:
        """Lock the session and return it with the last sequence number of the batch, and the count of new sessions."""
        new_sessions = 0
        advance_values = {
            "tenant_id": tenant_id,
            "session_id": batch.session_id,
            "count": len(batch.rows),
            "title": batch.title,
            "active_time": batch.active_time,
            "update_time": batch.update_time,
            "idle_cutoff": idle_cutoff,
            "is_import": batch.is_import,
        }
        session = await tx.row(_QUERIES["advance_session"], **advance_values)
        if session is None and batch.create_session:
            if await tombstones.find_purged(tx, tenant_id, [tombstones.of_session(batch.session_id)]):
                raise SessionNotFound(session_id=batch.session_id)
            new_sessions = await tx.execute(
                _QUERIES["insert_session_if_missing"],
                tenant_id=tenant_id,
                session_id=batch.session_id,
                session_type=DEFAULT_TYPE,
                agent_id=batch.agent_id,
                subject_id=batch.subject_id,
                create_time=batch.create_time,
                update_time=batch.update_time,
                active_time=batch.active_time,
                created_by=batch.created_by,
            )
            session = await tx.row(_QUERIES["advance_session"], **advance_values)
        if session is None:
            row = await require_session(tx, tenant_id, batch.session_id)
            session_state(row).require_open(session_id=batch.session_id)
            raise SessionIdle(session_id=batch.session_id, end_reason=END_REASON_IDLE)
        is_first = session["last_sequence"] == len(batch.rows)
        if is_first and not new_sessions and batch.title is not None and session["title"] == batch.title:
            # An import gives a session the title that it once took from this message.
            session_key = {"tenant_id": tenant_id, "session_id": batch.session_id}
            await tx.execute(_QUERIES["delete_title_terms"], **session_key)
        return session, new_sessions

    @staticmethod
    async def _update_title(tx: Transaction, tenant_id: UUID, previous_row: Record, row: Record) -> None:
        """Update a session title that was taken from the message."""
        title = default_title(previous_row)
        if title is None:
            return
        session_key = {"tenant_id": tenant_id, "session_id": previous_row["session_id"]}
        if await tx.execute(_QUERIES["retitle_session"], **session_key, before=title, title=default_title(row)):
            # A caller may have given the session the text of the message as its title.
            await tx.execute(_QUERIES["delete_title_terms"], **session_key)

    @staticmethod
    async def _require_unpurged(tx: Transaction, tenant_id: UUID, batch: MessageBatch) -> None:
        names = {tombstones.of_message(str(row["external_id"])): row["external_id"] for row in batch.with_external_id}
        for name in await tombstones.find_purged(tx, tenant_id, names):
            raise ExternalIdTaken(external_id=names[name])

    async def _find_taken_external_id(self, tenant_id: UUID, batch: MessageBatch) -> str | None:
        external_ids = [row["external_id"] for row in batch.with_external_id]
        async with self._database.transaction(tenant_id) as tx:
            external_id: str | None = await tx.value(
                _QUERIES["find_taken_external_id"], tenant_id=tenant_id, external_ids=external_ids
            )
        return external_id

    @staticmethod
    async def _find_message(tx: Transaction, tenant_id: UUID, name: str, *, is_as_of: bool = False) -> Record:
        message_id = parse_id(name)
        if message_id is not None:
            async for message in read_in_order(tx, tenant_id, [message_id], is_as_of=is_as_of):
                return message
        # An external id may have the form of an id.
        other_id = await tx.value(_QUERIES["message_id_of_external_id"], tenant_id=tenant_id, external_id=name)
        if other_id is not None:
            async for message in read_in_order(tx, tenant_id, [other_id], is_as_of=is_as_of):
                return message
        if ids := [id_ for id_ in (message_id, other_id) if id_ is not None]:
            archived_message = await tx.row(_QUERIES["find_archived_messages"], tenant_id=tenant_id, message_ids=ids)
            if archived_message is not None:
                await _require_unarchived(tx, tenant_id, archived_message["session_id"])
            # A concurrent call may have unarchived the session between the two reads.
            async for message in read_in_order(tx, tenant_id, ids, is_as_of=is_as_of):
                return message
        raise MessageNotFound


async def read_in_order(
    tx: Transaction, tenant_id: UUID, message_ids: Sequence[UUID], *, session_id: str = "", is_as_of: bool = False
) -> AsyncIterator[Record]:
    """Read messages in the order of `message_ids`, in batches, without deleted ones.

    With `session_id`, raises SessionArchived when the session was archived after its ids were read. `is_as_of`: of the
    transaction's time.
    """
    query = as_of(_QUERIES["read_messages"]) if is_as_of else _QUERIES["read_messages"]
    for start in range(0, len(message_ids), _READ_BATCH):
        batch = message_ids[start : start + _READ_BATCH]
        rows = await tx.rows(query, tenant_id=tenant_id, message_ids=list(batch))
        rows_by_id = {row["message_id"]: row for row in rows}
        if session_id and len(rows_by_id) < len(batch):
            await _require_unarchived(tx, tenant_id, session_id)
            # A concurrent call may have unarchived the session between the two reads.
            rows = await tx.rows(query, tenant_id=tenant_id, message_ids=list(batch))
            rows_by_id = {row["message_id"]: row for row in rows}
        for message_id in batch:
            if message_id in rows_by_id:
                yield rows_by_id[message_id]


async def take_page(messages: AsyncIterator[Record]) -> tuple[list[Record], bool]:
    """Return messages of up to PAGE_BYTES characters, but at least one, and whether others follow."""
    page: list[Record] = []
    count = 0
    async for message in messages:
        count += character_count(message)
        if page and count > PAGE_BYTES:
            return page, True
        page.append(message)
    return page, False


async def read_order(
    tx: Transaction, tenant_id: UUID, session_id: str, query: str, *, sequence: int, limit: int
) -> list[Record]:
    """Read positions of a session by the query order_after or order_before. Raises SessionArchived."""
    values = {"tenant_id": tenant_id, "session_id": session_id, "sequence": sequence, "limit": limit}
    order = await tx.rows(_QUERIES[query], **values)
    if order:
        return order
    await _require_unarchived(tx, tenant_id, session_id)
    # A concurrent call may have unarchived the session between the two reads.
    return await tx.rows(_QUERIES[query], **values)


async def _require_unarchived(tx: Transaction, tenant_id: UUID, session_id: str) -> None:
    """Raise SessionArchived when a session's messages lie in cold storage."""
    row = await tx.row(_QUERIES["get_session"], tenant_id=tenant_id, session_id=session_id)
    if row is not None and row["archive_time"] is not None:
        raise SessionArchived(session_id=session_id)


async def _record_approvals(
    tx: Transaction, tenant_id: UUID, step: str, message_ids: Sequence[UUID], *, at: datetime, by: str
) -> None:
    """Add events of messages that wait for approval to the tenant's log; they name ids alone."""
    rows = [
        {
            "change_id": change_id,
            "event_type": f"message_{step}",
            "entity_id": str(message_id),
            "summary": f"message {_SUMMARIES.get(step, step)}",
            "principal": by,
            "create_time": at,
        }
        for change_id, message_id in zip(new_ids(at, len(message_ids)), message_ids, strict=True)
    ]
    await tx.insert(_QUERIES["insert_message_changes"], tenant_id, rows)
