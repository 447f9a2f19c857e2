"""Purges in the database: each call removes a bounded number of messages, until no table has a row of the purged.

Methods that take `tx` work in the caller's transaction, which sees the tenant.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Self
from uuid import UUID

from asyncpg import Record

from skein_kit.calls.call import current_space_ids
from skein_kit.database.named_queries import Queries
from skein_kit.database.transactions import Database, Transaction, translate_constraint_errors
from skein_kit.errors import TransactionConflict
from skein_kit.identity.spaces import DEFAULT_SPACE
from skein_kit.ids import id_time, new_id, parse_id
from skein_kit.lineage import purges
from skein_kit.quotas.store import QuotaCounter
from skein_kit.search_text import postings
from skein_kit.search_text.purged_items import record_purge
from skein_session.cold_storage.store import ColdStorageStore, FileRef, next_archived_of_subject
from skein_session.erasure import lineage
from skein_session.errors import SessionNotFound
from skein_session.extractions import store as extractions
from skein_session.sessions.store import delete_session_rows
from skein_session.tombstones import store as tombstones

_QUERIES = Queries.load("skein_session")
_SECRET_BYTES = 32
# Sessions of one subject that one call purges.
_MAX_SESSIONS = 100
# The most rows of a kind, and sessions, that a dry run counts.
_MAX_COUNTED_ROWS = 100_000
_MAX_COUNTED_SESSIONS = 10_000
# Rows of the access log that one transaction clears.
_ACCESS_LOG_BATCH = 5000
# Messages that one call purges by default.
DEFAULT_LIMIT = 1000


class MessagesArchived(Exception):
    """A concurrent call has archived messages that are to be purged."""


class ErasureStore:
    """Purges sessions, messages and subjects."""

    def __init__(self, database: Database, quotas: QuotaCounter, archives: ColdStorageStore) -> None:
        self._database = database
        self._quotas = quotas
        self._archives = archives

    async def purge_session(
        self, tx: Transaction, tenant_id: UUID, session_id: str, options: PurgeOptions, at: datetime
    ) -> Receipt:
        """Purge a session, deleted or not, and all its rows. Raises SessionNotFound."""
        session = await tx.row(_QUERIES["lock_session_any"], tenant_id=tenant_id, session_id=session_id)
        if session is None:
            raise SessionNotFound(session_id=session_id)
        if options.is_dry_run:
            return await _count_rows(tx, tenant_id, [session_id], keeps_states=True)
        purge = await _PurgeTransaction.begin(tx, tenant_id, at, self._archives, limit=options.limit)
        is_complete = await purge.purge_session(session_id, session["subject_id"], keeps_states=True)
        await self._quotas.charge(tx, tenant_id, purge.charges)
        purge.receipt.has_more = not is_complete
        purge.receipt.tombstones = await tombstones.list_of_purge(tx, tenant_id, at)
        return purge.receipt

    async def unarchive_messages(self, tenant_id: UUID, names: Sequence[str], at: datetime) -> None:
        """Unarchive the sessions of messages, because only rows of the tables are purged. Raises ArchiveDamaged."""
        async with self._database.transaction(tenant_id) as tx:
            rows = await _find_messages(tx, tenant_id, names)
        await self._archives.unarchive_all(tenant_id, {row["session_id"] for row in rows if row["is_stored"]}, at)

    async def purge_messages(
        self, tx: Transaction, tenant_id: UUID, names: Sequence[str], *, is_dry_run: bool, at: datetime
    ) -> Receipt:
        """Purge messages, deleted or not, by ids or external ids; skip unknown names. Raises MessagesArchived."""
        rows = await _find_messages(tx, tenant_id, names)
        sessions = {row["message_id"]: row["session_id"] for row in rows}
        if is_dry_run:
            return Receipt(message_ids=sorted(sessions), counts=Counter({"session.messages": len(sessions)}))
        purge = await _PurgeTransaction.begin(tx, tenant_id, at, self._archives, limit=len(sessions))
        await purge.purge_messages(sessions)
        if await tx.rows(_QUERIES["find_archived_messages"], tenant_id=tenant_id, message_ids=sorted(sessions)):
            raise MessagesArchived
        await self._quotas.charge(tx, tenant_id, purge.charges)
        purge.receipt.tombstones = await tombstones.list_of_purge(tx, tenant_id, at)
        return purge.receipt

    async def unarchive_subject(self, tenant_id: UUID, subject_id: str, at: datetime) -> None:
        """Unarchive sessions with messages about a subject that has no sessions of its own. Raises ArchiveDamaged."""
        async with self._database.transaction(tenant_id) as tx:
            own_sessions = await tx.rows(
                _QUERIES["sessions_of_subject"], tenant_id=tenant_id, subject_id=subject_id, limit=1
            )
        if not own_sessions:
            await self._archives.unarchive_of_subject(tenant_id, subject_id, at)

    async def purge_subject(
        self, tx: Transaction, tenant_id: UUID, subject_id: str, options: PurgeOptions, at: datetime
    ) -> Receipt:
        """Purge a subject's sessions, and then messages about it in other sessions."""
        if options.is_dry_run:
            return await _count_subject(tx, tenant_id, subject_id)
        purge = await _PurgeTransaction.begin(tx, tenant_id, at, self._archives, limit=options.limit, with_person=True)
        subject_key = {"tenant_id": tenant_id, "subject_id": subject_id}
        purge.receipt.subject_tombstone = await tombstones.renew_subject(tx, tenant_id, subject_id, at)
        await purge.purge_ledgers_of_subject(subject_id)
        has_more = True
        for _ in range(_MAX_SESSIONS):
            session = await tx.row(_QUERIES["lock_session_of_subject"], **subject_key)
            if session is None:
                if await tx.rows(_QUERIES["sessions_of_subject"], **subject_key, limit=1):
                    # A concurrent call has purged the session that the lock waited for; there are others.
                    continue
                has_more = await self._purge_messages_of_subject(purge, tx, tenant_id, subject_id)
                break
            if not await purge.purge_session(session["session_id"], session["subject_id"]):
                break
        await self._quotas.charge(tx, tenant_id, purge.charges)
        if not has_more:
            await _insert_erasures(tx, tenant_id, [f"subject:{subject_id}"], at=at)
        purge.receipt.has_more = has_more
        purge.receipt.tombstones = await tombstones.list_of_purge(tx, tenant_id, at)
        return purge.receipt

    async def next_space_of_subject(self, tenant_id: UUID, subject_id: str) -> UUID | None:
        """Return a space, among those that the call reaches, that has something of a subject; None: none has."""
        async with self._database.transaction(tenant_id) as tx:
            space_id: UUID | None = await tx.value(
                _QUERIES["next_space_of_subject"], tenant_id=tenant_id, subject_id=subject_id
            )
        return space_id

    async def purge_access_log(self, tenant_id: UUID, subject_id: str) -> None:
        """Clear receipts of answers about a subject, and the subject's rows of the access log, in batches.

        The log has what callers of every space asked.
        """
        database = self._database.for_all_spaces()
        async with database.transaction(tenant_id) as tx:
            await tx.execute(_QUERIES["erase_receipts_of_subject"], tenant_id=tenant_id, subject_id=subject_id)
        count = _ACCESS_LOG_BATCH
        while count == _ACCESS_LOG_BATCH:
            async with database.transaction(tenant_id) as tx:
                count = await tx.execute(
                    _QUERIES["purge_access_log_of_subject"], tenant_id=tenant_id, subject_id=subject_id, count=count
                )

    @staticmethod
    async def _purge_messages_of_subject(
        purge: _PurgeTransaction, tx: Transaction, tenant_id: UUID, subject_id: str
    ) -> bool:
        """Purge messages about a subject in sessions of others; return whether there are more."""
        limit = purge.remaining
        # Before and after, because a session that a concurrent call moves is in cold storage at one of the two times.
        next_archived = await next_archived_of_subject(tx, tenant_id, subject_id, "")
        rows = await tx.rows(
            _QUERIES["messages_naming_subject"],
            tenant_id=tenant_id,
            subject_id=subject_id,
            after=None,
            limit=limit + 1,
        )
        sessions = {row["message_id"]: row["session_id"] for row in rows[:limit]}
        await purge.purge_messages(sessions)
        await purge.erase_receipts(sorted(set(sessions.values())))
        next_archived = next_archived or await next_archived_of_subject(tx, tenant_id, subject_id, "")
        return len(rows) > limit or next_archived is not None


class _PurgeTransaction:
    """The purges of one transaction, up to a limit of messages."""

    def __init__(
        self,
        tx: Transaction,
        tenant_id: UUID,
        at: datetime,
        archives: ColdStorageStore,
        *,
        limit: int,
        with_person: bool,
    ) -> None:
        """Purge up to `limit` messages; `with_person`: and note what was made of them, as it goes with the person."""
        self._tx = tx
        self._tenant_id = tenant_id
        self._at = at
        self._archives = archives
        self.remaining = limit
        self._with_person = with_person
        self.receipt = Receipt()
        # The change of the tenant's row counts, by kind.
        self.charges: Counter[str] = Counter()

    @classmethod
    async def begin(
        cls,
        tx: Transaction,
        tenant_id: UUID,
        at: datetime,
        archives: ColdStorageStore,
        *,
        limit: int,
        with_person: bool = False,
    ) -> Self:
        """From now on the transaction keeps no former versions."""
        await tx.stop_history()
        return cls(tx, tenant_id, at, archives, limit=limit, with_person=with_person)

    async def purge_session(self, session_id: str, subject_id: str | None, *, keeps_states: bool = False) -> bool:
        """Purge a session of a subject, which the transaction has locked; return False when messages remain.

        With `keeps_states` the states of agents in it become their states outside of sessions, where they have none.
        """
        session_key = {"tenant_id": self._tenant_id, "session_id": session_id}
        self.charges["session_items"] -= await self._execute("session.items", "delete_items_of_session", **session_key)
        await self._purge_ledgers_of_sessions([session_id])
        await postings.subtract_session_counts(self._tx, self._tenant_id, session_id)
        await self._execute("recall.documents", "delete_documents_of_session", **session_key)
        self.charges.update(await delete_session_rows(self._tx, self._tenant_id, session_id, self._at) or {})
        await self._purge_title_terms_history([session_id])
        await self._clear_responses([session_id])
        self.receipt.cancelled_files += await self._archives.cancel_pending_files(
            self._tx, self._tenant_id, [session_id]
        )
        rows = await self._tx.rows(_QUERIES["messages_to_purge"], **session_key, limit=self.remaining + 1)
        ids = [row["message_id"] for row in rows[: self.remaining]]
        await self._purge_rows(ids)
        if len(rows) > len(ids) or not await self._purge_archive(session_id):
            return False
        if keeps_states:
            # A concurrent call may store the agent's state outside of sessions.
            with translate_constraint_errors({"agent_states_pkey": TransactionConflict}):
                await self._tx.execute(_QUERIES["detach_states_of_session"], **session_key)
        self.charges["agent_states"] -= await self._execute(
            "session.agent_states", "purge_states_of_session", **session_key
        )
        await self._tx.execute(_QUERIES["delete_done_session"], **session_key)
        await self._execute("session.sessions", "purge_session", **session_key)
        await self._execute("session.sessions_history", "purge_session_history", **session_key)
        await tombstones.insert(self._tx, self._tenant_id, [tombstones.of_session(session_id)], self._at)
        # Calls of a namesake in another space are that one's. Without one, those of each space that it lay in go.
        space_id = next(iter(current_space_ids() or (DEFAULT_SPACE,)))
        async with self._tx.in_all_spaces():
            namesake_space_id = (
                space_id if await self._tx.value(_QUERIES["has_namesake"], **session_key, space_id=space_id) else None
            )
        await self.erase_receipts([session_id], space_id=namesake_space_id)
        async with self._tx.in_all_spaces():
            await self._tx.execute(
                _QUERIES["purge_access_log_of_session"],
                **session_key,
                subject_id=subject_id,
                space_id=namesake_space_id,
            )
        prefix = "" if namesake_space_id is None else f"{namesake_space_id}:"
        names = [f"{prefix}session:{session_id}"]
        if subject_id is not None:
            names.append(f"{prefix}subject-session:{len(subject_id)}:{subject_id}:{session_id}")
        await _insert_erasures(self._tx, self._tenant_id, names, at=self._at)
        self.receipt.session_ids.append(session_id)
        return True

    async def purge_messages(self, sessions: Mapping[UUID, str]) -> None:
        """Purge messages, by their ids with session ids, and the titles and summaries that were taken from them."""
        if not sessions:
            return
        ids, session_ids = sorted(sessions), sorted(set(sessions.values()))
        session_keys = {"tenant_id": self._tenant_id, "session_ids": session_ids}
        await self._tx.rows(_QUERIES["lock_sessions"], **session_keys)
        await self._tx.execute(_QUERIES["purge_titles"], **session_keys, message_ids=ids)
        await self._tx.execute(_QUERIES["purge_title_terms"], **session_keys)
        # All of them, because a former title may show a purged message and nothing says which one.
        await self._purge_title_terms_history(session_ids)
        purged_rows = await self._purge_rows(ids)
        changed_session_ids = {row["session_id"] for row in purged_rows}
        self.receipt.cancelled_files += await self._archives.cancel_pending_files(
            self._tx, self._tenant_id, changed_session_ids
        )
        await self._tx.execute(
            _QUERIES["purge_message_order"],
            tenant_id=self._tenant_id,
            session_ids=[row["session_id"] for row in purged_rows],
            sequences=[row["sequence"] for row in purged_rows],
        )
        active_counts = Counter(row["session_id"] for row in purged_rows if row["is_active"])
        counts = [active_counts[session_id] for session_id in session_ids]
        await self._tx.execute(_QUERIES["decrement_message_counts"], **session_keys, counts=counts)
        await self._tx.execute(_QUERIES["clear_former_summaries"], **session_keys)
        await postings.subtract_counts(self._tx, self._tenant_id, ids)
        await self._execute("recall.documents", "purge_documents", tenant_id=self._tenant_id, message_ids=ids)
        await postings.purge_history(self._tx, self._tenant_id, ids)
        await self._clear_responses(session_ids)
        await self._purge_ledgers_of_sessions(session_ids)
        self.charges["messages"] -= active_counts.total()

    async def erase_receipts(self, session_ids: Sequence[str], *, space_id: UUID | None = None) -> None:
        """Erase the inputs of contexts that had the recent window of sessions, in a space or in all."""
        async with self._tx.in_all_spaces():
            await self._tx.execute(
                _QUERIES["erase_receipts_of_sessions"],
                tenant_id=self._tenant_id,
                session_ids=list(session_ids),
                space_id=space_id,
            )

    async def _purge_archive(self, session_id: str) -> bool:
        """Purge archived messages of a session, and then its file; return False when messages remain."""
        rows = await self._tx.rows(
            _QUERIES["messages_of_archive"], tenant_id=self._tenant_id, session_id=session_id, limit=self.remaining + 1
        )
        ids = [row["message_id"] for row in rows[: self.remaining]]
        await self._purge_rows(ids, table="session.archived_messages", query="purge_archived_messages")
        if len(rows) > len(ids):
            return False
        await self._archives.unlink_file(self._tx, self._tenant_id, session_id)
        return True

    async def _purge_rows(
        self, ids: Sequence[UUID], *, table: str = "session.messages", query: str = "purge_messages"
    ) -> list[Record]:
        """Purge messages and their external ids; return the ids, sequences and states of the purged rows."""
        if not ids:
            return []
        message_keys = {"tenant_id": self._tenant_id, "message_ids": list(ids)}
        if self._with_person:
            await purges.note_made_of(self._tx, self._tenant_id, ids)
        await extractions.note_purged(self._tx, self._tenant_id, ids)
        await lineage.mark_erased(self._tx, self._tenant_id, ids)
        external_ids = await self._tx.rows(_QUERIES["purge_external_ids"], **message_keys)
        names = [
            *map(tombstones.of_message_id, ids),
            *(tombstones.of_message(row["external_id"]) for row in external_ids),
        ]
        await tombstones.insert(self._tx, self._tenant_id, names, self._at)
        known_rows = await self._tx.rows(_QUERIES["messages_known"], **message_keys)
        known_times = {row["message_id"]: row["known_time"] for row in known_rows}
        # Of an archived message, its id tells when it was created.
        await record_purge(
            self._tx, self._tenant_id, [known_times.get(id_) or id_time(id_) for id_ in ids], at=self._at
        )
        purged_rows = await self._tx.rows(_QUERIES[query], **message_keys)
        await postings.purge_history(self._tx, self._tenant_id, ids)
        self.receipt.add_count("session.message_external_ids", len(external_ids))
        self.receipt.add_count(table, len(purged_rows))
        await self._execute("session.messages_history", "purge_messages_history", **message_keys)
        self.receipt.message_ids += [row["message_id"] for row in purged_rows]
        self.remaining -= len(ids)
        return purged_rows

    async def _purge_title_terms_history(self, session_ids: Sequence[str]) -> None:
        await self._tx.execute(
            _QUERIES["purge_title_terms_history"], tenant_id=self._tenant_id, session_ids=list(session_ids)
        )

    async def purge_ledgers_of_subject(self, subject_id: str) -> None:
        self.charges["session_items"] -= await self._execute(
            "session.context_ledgers", "purge_ledgers_of_subject", tenant_id=self._tenant_id, subject_id=subject_id
        )

    async def _purge_ledgers_of_sessions(self, session_ids: Sequence[str]) -> None:
        self.charges["session_items"] -= await self._execute(
            "session.context_ledgers",
            "purge_ledgers_of_sessions",
            tenant_id=self._tenant_id,
            session_ids=list(session_ids),
        )

    async def _clear_responses(self, session_ids: Sequence[str]) -> None:
        await self._execute(
            "session.requests", "clear_responses", tenant_id=self._tenant_id, session_ids=list(session_ids)
        )

    async def _execute(self, table: str, query: str, **values: object) -> int:
        """Execute a query and add its row count to the receipt."""
        count = await self._tx.execute(_QUERIES[query], **values)
        self.receipt.add_count(table, count)
        return count


async def _insert_erasures(tx: Transaction, tenant_id: UUID, names: Sequence[str], *, at: datetime) -> None:
    """Let the memory service clear the access log again, after the calls that are now in progress are logged.

    The query `clear_late_accesses` of the memory service reads the forms of the names.
    """
    secret: bytes | None = await tx.value(_QUERIES["read_erasure_secret"], tenant_id=tenant_id)
    secret = secret or secrets.token_bytes(_SECRET_BYTES)
    rows = [
        {
            "erasure_id": new_id(at),
            "secret": secret,
            "digest": hashlib.sha256(secret + name.encode()).digest(),
            "erase_time": at,
        }
        for name in names
    ]
    await tx.insert(_QUERIES["insert_erasures"], tenant_id, rows)


async def _find_messages(tx: Transaction, tenant_id: UUID, names: Sequence[str]) -> list[Record]:
    """Find messages by ids or external ids, archived ones too."""
    ids = {id_ for id_ in map(parse_id, names) if id_ is not None}
    rows = await tx.rows(_QUERIES["messages_of_external_ids"], tenant_id=tenant_id, external_ids=list(names))
    ids |= {row["message_id"] for row in rows}
    return await tx.rows(_QUERIES["find_messages"], tenant_id=tenant_id, message_ids=sorted(ids))


async def _count_rows(
    tx: Transaction,
    tenant_id: UUID,
    session_ids: list[str],
    *,
    subject_id: str = "",
    other_messages: int = 0,
    keeps_states: bool = False,
) -> Receipt:
    """Count the rows of sessions for a dry run; `other_messages` are added to the count of messages."""
    row = await tx.row(
        _QUERIES["count_rows_of_sessions"],
        tenant_id=tenant_id,
        session_ids=session_ids,
        subject_id=subject_id,
        keeps_states=keeps_states,
        limit=_MAX_COUNTED_ROWS,
    )
    counts = Counter({"session.sessions": len(session_ids)})
    if row is not None:
        counts["session.messages"] = row["messages"] + other_messages
        counts["session.archived_messages"] = row["archived_messages"]
        counts["session.agent_states"] = row["states"]
        counts["session.items"] = row["items"]
        counts["session.context_ledgers"] = row["ledgers"]
    return Receipt(counts=+counts)


async def _count_subject(tx: Transaction, tenant_id: UUID, subject_id: str) -> Receipt:
    subject_key = {"tenant_id": tenant_id, "subject_id": subject_id}
    rows = await tx.rows(_QUERIES["sessions_of_subject"], **subject_key, limit=_MAX_COUNTED_SESSIONS)
    session_ids = [row["session_id"] for row in rows]
    other_messages = await tx.value(
        _QUERIES["count_messages_naming_subject"], **subject_key, session_ids=session_ids, limit=_MAX_COUNTED_ROWS
    )
    return await _count_rows(tx, tenant_id, session_ids, subject_id=subject_id, other_messages=other_messages)


@dataclass(frozen=True, kw_only=True, slots=True)
class PurgeOptions:
    """How much one call purges; a dry run counts and changes nothing."""

    limit: int = DEFAULT_LIMIT
    is_dry_run: bool = False


@dataclass(kw_only=True, slots=True)
class Receipt:
    """The purged rows: ids of sessions and messages, and counts by table."""

    session_ids: list[str] = field(default_factory=list)
    message_ids: list[UUID] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    # Pending files that are deleted after the commit.
    cancelled_files: list[FileRef] = field(default_factory=list)
    # True when another call has to purge the rest.
    has_more: bool = False
    # Digests that the purge wrote, and that of the person.
    tombstones: list[bytes] = field(default_factory=list)
    subject_tombstone: bytes = b""

    def add_count(self, table: str, count: int) -> None:
        """Add purged rows of a table; zero adds no entry."""
        if count:
            self.counts[table] += count
