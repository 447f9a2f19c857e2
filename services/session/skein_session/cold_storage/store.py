"""Archives and unarchives the messages of sessions, as whole rows.

A pending file is inserted before the file is written, and linked to its session in the transaction that deletes the
messages from the tables. A process that dies between the two steps leaves a pending file, which is deleted when due.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from asyncpg import Record

from skein_kit.cold_storage import ColdFiles, FileInfo
from skein_kit.database.monthly_partitions import MonthlyPartitions
from skein_kit.database.named_queries import Queries
from skein_kit.database.transactions import Database, Transaction
from skein_kit.errors import ArchiveDamaged, RpcError, TransactionConflict
from skein_kit.ids import EPOCH, id_time, new_id
from skein_kit.policies.store import PolicyCache
from skein_kit.search_text import postings
from skein_kit.search_text.postings import Document
from skein_session.cold_storage.rows import (
    BATCH,
    MAX_MESSAGES,
    ArchivedRows,
    SessionRows,
    insert_rows,
    parse_lines,
    read_session_rows,
    to_records,
    with_header,
)
from skein_session.errors import SessionNotFound, SessionNotHidden, SessionTooLong
from skein_session.sessions.store import lock_session, require_session

_QUERIES = Queries.load("skein_session")
# A pending file of this age is abandoned, because no call lasts that long.
_ABANDONED_AFTER = timedelta(hours=1)
# Sessions of one scan, and scans of one call, which may find only sessions that are too long.
_SCAN_BATCH = 100
_MAX_SCANS = 50
# One purge of a subject unarchives sessions until it has this many messages.
_MAX_UNARCHIVED = 2000
# Files that one purge of due files deletes.
_FILE_BATCH = 200

FileRef = tuple[UUID, bytes]


@dataclass(kw_only=True, slots=True)
class PendingFile:
    """A file with a session's messages."""

    session_id: str
    file_id: UUID
    session_rows: SessionRows
    info: FileInfo
    # True once a transaction has linked the file to its session.
    is_linked: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ArchivedSession:
    """The contents of a session's file, its checksum, and whether the session is not deleted."""

    checksum: bytes
    rows: ArchivedRows
    is_active: bool


class ColdStorageStore:
    """Moves messages of hidden sessions to cold storage and back."""

    def __init__(self, database: Database, policies: PolicyCache, months: MonthlyPartitions, files: ColdFiles) -> None:
        self._database = database
        self._policies = policies
        self._months = months
        self._files = files

    @asynccontextmanager
    async def pending_file(self, tenant_id: UUID, session_id: str, at: datetime) -> AsyncIterator[PendingFile | None]:
        """Write a session's messages to a file, which `archive_session` links within the block; None when archived.

        A file that the block does not link is deleted at its end. Raises SessionNotFound, SessionNotHidden,
        SessionTooLong, and TransactionConflict after a concurrent purge.
        """
        file = await self._write_file(tenant_id, session_id, at)
        is_committed = False
        try:
            yield file
            is_committed = True
        finally:
            if file is not None and not (is_committed and file.is_linked):
                with suppress(RpcError):
                    await self._discard_file(tenant_id, file)

    async def archive_session(
        self,
        tx: Transaction,
        tenant_id: UUID,
        session_id: str,
        file: PendingFile | None,
        *,
        at: datetime,
        archived_by: str,
    ) -> datetime:
        """Move a session's messages to its file; return when they were moved, perhaps by an earlier call.

        Raises SessionNotFound, SessionNotHidden, and TransactionConflict when the session has changed since the file
        was written.
        """
        session = await _require_hidden(tx, tenant_id, session_id, lock=True)
        if session["archive_time"] is not None:
            archive_time: datetime = session["archive_time"]
            return archive_time
        if file is None:
            raise TransactionConflict
        await self._move_rows(tx, tenant_id, file, at=at, archived_by=archived_by)
        file.is_linked = True
        return at

    async def read_to_unarchive(self, tenant_id: UUID, session_id: str) -> ArchivedSession | None:
        """Read the archived messages of a session, and prepare their partitions; None when it is not archived.

        Raises ArchiveDamaged.
        """
        archived_session = await self.read(tenant_id, session_id)
        if archived_session is not None:
            # Ids begin with the time that chooses their partition.
            await self._months.ensure({id_time(UUID(row["message_id"])) for row in archived_session.rows.messages})
        return archived_session

    async def unarchive_session(
        self, tx: Transaction, tenant_id: UUID, session_id: str, archived_session: ArchivedSession | None
    ) -> list[Document]:
        """Insert a session's messages into the tables, deleted ones too; return the documents to embed.

        All messages of a deleted session are deleted. A session that is not archived is unchanged. The file is due for
        deletion after the commit. Raises TransactionConflict when the session was archived again since
        `archived_session` was read.
        """
        session_key = {"tenant_id": tenant_id, "session_id": session_id}
        session = await tx.row(_QUERIES["lock_session_any"], **session_key)
        current = await tx.row(_QUERIES["get_archived_session"], **session_key)
        if session is None or current is None:
            return []
        if archived_session is None or current["checksum"] != archived_session.checksum:
            raise TransactionConflict
        # Again, because a concurrent call may have purged some.
        index = await tx.rows(_QUERIES["messages_of_archive"], **session_key, limit=MAX_MESSAGES)
        rows = archived_session.rows.filter_ids({row["message_id"] for row in index})
        documents = await insert_rows(tx, tenant_id, rows, is_active=session["is_active"])
        await self.unlink_file(tx, tenant_id, session_id)
        await tx.execute(_QUERIES["mark_archived"], **session_key, archive_time=None)
        return documents

    async def require_session(self, tenant_id: UUID, session_id: str) -> None:
        """Raise SessionNotFound unless there is such a session."""
        async with self._database.transaction(tenant_id) as tx:
            await require_session(tx, tenant_id, session_id)

    async def list_archived(self, tenant_id: UUID, *, before_time: datetime, after_id: str, limit: int) -> list[Record]:
        """Read archived sessions, newest first, after the time and id of another."""
        async with self._database.transaction(tenant_id) as tx:
            return await tx.rows(
                _QUERIES["list_archived_sessions"],
                tenant_id=tenant_id,
                before_time=before_time,
                after_id=after_id,
                count=limit,
            )

    async def archive_batch(self, tenant_id: UUID, *, at: datetime, archived_by: str, count: int) -> tuple[int, bool]:
        """Archive up to `count` sessions that are hidden for longer than the policy allows.

        Return how many, and whether there may be more.
        """
        has_more = await self.purge_due_files(tenant_id, at)
        archived_count, after = 0, (EPOCH, "")
        for _ in range(_MAX_SCANS):
            async with self._database.transaction(tenant_id) as tx:
                days = (await self._policies.get(tx, tenant_id)).archive_days
                if not days:
                    break
                rows = await tx.rows(
                    _QUERIES["archivable_sessions"],
                    tenant_id=tenant_id,
                    hidden_before=at - timedelta(days=days),
                    max_messages=MAX_MESSAGES,
                    after_time=after[0],
                    after_id=after[1],
                    count=_SCAN_BATCH,
                )
            for row in rows:
                if archived_count == count:
                    return archived_count, True
                with suppress(SessionNotFound, SessionNotHidden, SessionTooLong, TransactionConflict):
                    archived_count += await self._archive(tenant_id, row["session_id"], at=at, archived_by=archived_by)
                after = (row["hide_time"], row["session_id"])
            if len(rows) < _SCAN_BATCH:
                break
        return archived_count, has_more

    async def read(self, tenant_id: UUID, session_id: str) -> ArchivedSession | None:
        """Read the archived messages of a session, without purged ones; None when it is not archived.

        Raises ArchiveDamaged.
        """
        damaged_checksum = None
        while True:
            session_key = {"tenant_id": tenant_id, "session_id": session_id}
            async with self._database.transaction(tenant_id) as tx:
                session = await tx.row(_QUERIES["get_archived_session"], **session_key)
                if session is None:
                    return None
                index = await tx.rows(_QUERIES["messages_of_archive"], **session_key, limit=MAX_MESSAGES)
            try:
                info = FileInfo(checksum=session["checksum"], byte_count=session["byte_count"])
                lines = await self._files.read(tenant_id, session["file_id"], info)
            except ArchiveDamaged:
                # A concurrent call may have unarchived the session and deleted the file: read the row again.
                if damaged_checksum == session["checksum"]:
                    raise
                damaged_checksum = session["checksum"]
                continue
            archived_rows = await asyncio.to_thread(parse_lines, lines)
            rows = archived_rows.filter_ids({row["message_id"] for row in index})
            rows.inherit(session["agent_id"], session["subject_id"])
            return ArchivedSession(checksum=session["checksum"], rows=rows, is_active=session["is_active"])

    async def to_records(self, tenant_id: UUID, rows: Sequence[dict[str, Any]]) -> list[Record]:
        """Convert rows of a file into records of session.messages."""
        async with self._database.transaction(tenant_id) as tx:
            return await to_records(tx, tenant_id, rows)

    async def unarchive_all(self, tenant_id: UUID, session_ids: Iterable[str], at: datetime) -> None:
        """Unarchive sessions, deleted ones too; skip those that are not archived."""
        for session_id in sorted(set(session_ids)):
            await self._unarchive(tenant_id, session_id, at)

    async def unarchive_of_subject(self, tenant_id: UUID, subject_id: str, at: datetime) -> None:
        """Unarchive some of the sessions that have archived messages of a subject."""
        count = 0
        while count < _MAX_UNARCHIVED:
            async with self._database.transaction(tenant_id) as tx:
                row = await next_archived_of_subject(tx, tenant_id, subject_id, "")
                archived_session = row and await tx.row(
                    _QUERIES["get_archived_session"], tenant_id=tenant_id, session_id=row["session_id"]
                )
            if row is None:
                return
            await self._unarchive(tenant_id, row["session_id"], at)
            count += max(1, archived_session["message_count"] if archived_session else 1)

    async def unlink_file(self, tx: Transaction, tenant_id: UUID, session_id: str) -> None:
        """Unlink a session's file and make it due for deletion."""
        file = await tx.row(_QUERIES["delete_archived_session"], tenant_id=tenant_id, session_id=session_id)
        if file is not None:
            await _insert_pending_file(tx, tenant_id, (file["file_id"], file["checksum"]), None, EPOCH)

    @staticmethod
    async def cancel_pending_files(tx: Transaction, tenant_id: UUID, session_ids: Iterable[str]) -> list[FileRef]:
        """Keep pending files from being linked to sessions; return them for deletion after the commit."""
        rows = await tx.rows(_QUERIES["cancel_files"], tenant_id=tenant_id, session_ids=sorted(session_ids))
        return [(row["file_id"], row["checksum"]) for row in rows]

    async def delete_cancelled_files(self, tenant_id: UUID, files: Iterable[FileRef], at: datetime) -> None:
        """Delete due files, and cancelled ones, which stay pending because a call may still write them."""
        for file_id, checksum in files:
            await self._files.delete(tenant_id, file_id, checksum)
        await self.purge_due_files(tenant_id, at)

    async def purge_due_files(self, tenant_id: UUID, at: datetime) -> bool:
        """Delete a batch of due files; return whether there may be more."""
        async with self._database.transaction(tenant_id) as tx:
            due_files = await tx.rows(_QUERIES["list_due_files"], tenant_id=tenant_id, at=at, count=_FILE_BATCH)
        for file in due_files:
            async with self._database.transaction(tenant_id) as tx:
                # Within the transaction: a concurrent link of the file waits for the row and then fails.
                if await tx.row(_QUERIES["delete_pending_file"], tenant_id=tenant_id, file_id=file["file_id"]):
                    await self._files.delete(tenant_id, file["file_id"], file["checksum"])
        return len(due_files) == _FILE_BATCH

    async def delete_tenant_files(self, tenant_id: UUID) -> None:
        """Delete every file of a deleted tenant."""
        await self._files.delete_tenant(tenant_id)

    async def _archive(self, tenant_id: UUID, session_id: str, *, at: datetime, archived_by: str) -> bool:
        """Archive a session; return whether this call has archived it."""
        async with (
            self.pending_file(tenant_id, session_id, at) as file,
            self._database.transaction(tenant_id) as tx,
        ):
            await self.archive_session(tx, tenant_id, session_id, file, at=at, archived_by=archived_by)
        return file is not None and file.is_linked

    async def _unarchive(self, tenant_id: UUID, session_id: str, at: datetime) -> None:
        archived_session = await self.read_to_unarchive(tenant_id, session_id)
        async with self._database.transaction(tenant_id) as tx:
            await self.unarchive_session(tx, tenant_id, session_id, archived_session)
        await self.purge_due_files(tenant_id, at)

    async def _write_file(self, tenant_id: UUID, session_id: str, at: datetime) -> PendingFile | None:
        """Write a session's messages to a pending file; None when the session is archived already."""
        async with self._database.transaction(tenant_id) as tx:
            if (await _require_hidden(tx, tenant_id, session_id, lock=False))["archive_time"] is not None:
                return None
            session_rows = await read_session_rows(tx, tenant_id, session_id)
        # Outside of a transaction, because packing takes seconds.
        packed_bytes, info = await asyncio.to_thread(self._files.pack, with_header(session_rows.lines))
        file = PendingFile(session_id=session_id, file_id=new_id(at), session_rows=session_rows, info=info)
        async with self._database.transaction(tenant_id) as tx:
            await _insert_pending_file(tx, tenant_id, (file.file_id, info.checksum), session_id, at + _ABANDONED_AFTER)
        try:
            await self._files.write_packed(tenant_id, file.file_id, packed_bytes, info)
        except FileNotFoundError:
            # A concurrent purge has deleted the file.
            raise TransactionConflict from None
        return file

    @staticmethod
    async def _move_rows(
        tx: Transaction, tenant_id: UUID, file: PendingFile, *, at: datetime, archived_by: str
    ) -> None:
        """Link a file to its session, which the transaction has locked, and delete its rows from the tables.

        Raises TransactionConflict when the session has changed since the file was written.
        """
        session_key = {"tenant_id": tenant_id, "session_id": file.session_id}
        if (await read_session_rows(tx, tenant_id, file.session_id)).lines != file.session_rows.lines:
            raise TransactionConflict
        if await tx.row(_QUERIES["link_file"], **session_key, file_id=file.file_id) is None:
            # A purge has cancelled the file, or the file was abandoned and deleted.
            raise TransactionConflict
        await tx.stop_history()
        await tx.execute(_QUERIES["delete_order_of_session"], **session_key)
        await postings.subtract_session_counts(tx, tenant_id, file.session_id)
        await tx.execute(_QUERIES["delete_documents_of_session"], **session_key)
        ids = file.session_rows.message_ids
        for start in range(0, len(ids), BATCH):
            batch = ids[start : start + BATCH]
            await tx.execute(_QUERIES["delete_archived_messages"], tenant_id=tenant_id, message_ids=batch)
            # Archived messages are not found, neither now nor as of a time.
            await postings.purge_history(tx, tenant_id, batch)
        await tx.execute(
            _QUERIES["insert_archived_session"],
            **session_key,
            file_id=file.file_id,
            checksum=file.info.checksum,
            byte_count=file.info.byte_count,
            message_count=file.session_rows.active_count,
            archive_time=at,
            archived_by=archived_by,
        )
        await tx.insert(_QUERIES["insert_archived_messages"], tenant_id, file.session_rows.index)
        await tx.execute(_QUERIES["mark_archived"], **session_key, archive_time=at)

    async def _discard_file(self, tenant_id: UUID, file: PendingFile) -> None:
        """Delete a file that is not linked to its session."""
        file_key = {"tenant_id": tenant_id, "file_id": file.file_id}
        async with self._database.transaction(tenant_id) as tx:
            # Waits for a commit whose result the process has not received.
            await tx.row(_QUERIES["delete_pending_file"], **file_key)
            if not await tx.value(_QUERIES["is_linked"], **file_key, session_id=file.session_id):
                await self._files.delete(tenant_id, file.file_id, file.info.checksum)


async def next_archived_of_subject(tx: Transaction, tenant_id: UUID, subject_id: str, after: str) -> Record | None:
    """Find the next session, after another, that has archived messages of a subject."""
    return await tx.row(_QUERIES["next_archived_of_subject"], tenant_id=tenant_id, subject_id=subject_id, after=after)


async def _insert_pending_file(
    tx: Transaction, tenant_id: UUID, file: FileRef, session_id: str | None, due_time: datetime
) -> None:
    file_id, checksum = file
    await tx.execute(
        _QUERIES["insert_pending_file"],
        tenant_id=tenant_id,
        file_id=file_id,
        checksum=checksum,
        session_id=session_id,
        due_time=due_time,
    )


async def _require_hidden(tx: Transaction, tenant_id: UUID, session_id: str, *, lock: bool) -> Record:
    row = await (lock_session if lock else require_session)(tx, tenant_id, session_id)
    if row["state"] != "hidden":
        raise SessionNotHidden(session_id=session_id)
    return row
