"""Sessions on their way to cold storage and back: whole rows, so that nothing is lost on the way.

A file is noted before it is written, and named by its session in the transaction that takes its messages out of the
tables. So a process that ends between two steps leaves a file that is noted and not named, which goes when it is due.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from skein.session.v1 import archives_pb2 as pb
from skein_kit.cold_storage.files import FileInfo
from skein_kit.database.named_queries import Queries
from skein_kit.errors import ArchiveDamaged, RpcError, TransactionConflict
from skein_kit.idempotency.store import IdempotencyKey
from skein_kit.ids import EPOCH, id_time, new_id
from skein_kit.rpc.well_known_types import to_timestamp
from skein_kit.search_text import postings
from skein_session.cold_storage import rows as cold_rows
from skein_session.errors import SessionNotFound, SessionNotHidden, SessionTooLong

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from asyncpg import Record

    from skein_kit.cold_storage.files import ColdFiles
    from skein_kit.database.monthly_partitions import MonthlyPartitions
    from skein_kit.database.transactions import Database, Transaction
    from skein_kit.idempotency.store import IdempotencyStore
    from skein_kit.policies.store import Policies
    from skein_kit.search_text.postings import Document

_QUERIES = Queries.of("skein_session")
# A file that nothing names after so long was cut off: no call lasts that long.
_CUT_OFF = timedelta(hours=1)
# Sessions that are looked at together, and how often: so many that are too long are passed over by one call.
_LOOKED = 100
_LOOKS = 50
# Messages that one purge of a person brings back, or those of one session more.
_BROUGHT_BACK = 2000
_FILES = 200

FileRef = tuple[UUID, bytes]


@dataclass(frozen=True, kw_only=True, slots=True)
class _PendingFile:
    """A file that nothing names yet."""

    session_id: str
    file_id: UUID
    held: cold_rows.SessionRows
    written: FileInfo


@dataclass(frozen=True, kw_only=True, slots=True)
class ArchivedSession:
    """A session's file as it was read: its checksum, what it holds, and whether the session is there."""

    checksum: bytes
    rows: cold_rows.ArchivedRows
    is_active: bool


class ColdStorageStore:
    """Takes the messages of archived sessions to cold storage and back."""

    def __init__(
        self,
        database: Database,
        requests: IdempotencyStore,
        policies: Policies,
        months: MonthlyPartitions,
        cold: ColdFiles,
    ) -> None:
        self._database = database
        self._requests = requests
        self._policies = policies
        self._months = months
        self._cold = cold

    async def store(
        self, tenant_id: UUID, once: IdempotencyKey, session_id: str, at: datetime
    ) -> pb.StoreSessionResponse:
        """Take a session's messages out of the tables, or return the answer that the request has.

        Raises SessionNotFound, SessionNotHidden, SessionTooLong, and TransactionConflict when the session changed
        meanwhile.
        """
        first = await self._first(tenant_id, once)
        if first is not None:
            return pb.StoreSessionResponse.FromString(first)
        response, _ = await self._store(tenant_id, once, session_id, at)
        return response

    async def restore(
        self, tenant_id: UUID, once: IdempotencyKey, session_id: str, at: datetime
    ) -> tuple[pb.RestoreSessionResponse, list[Document]]:
        """Bring a session back, or return the answer that the request has; with what is to get vectors.

        Raises SessionNotFound and ArchiveDamaged.
        """
        first = await self._first(tenant_id, once)
        if first is not None:
            return pb.RestoreSessionResponse.FromString(first), []
        async with self._database.tenant(tenant_id) as tx:
            if await tx.row(_QUERIES["get_session"], tenant_id=tenant_id, session_id=session_id) is None:
                raise SessionNotFound(session_id=session_id)
        return await self._restore(tenant_id, once, session_id, at)

    async def listed(self, tenant_id: UUID, *, before: datetime, after_id: str, count: int) -> list[Record]:
        """Read up to `count` of the sessions that are stored, newest first, from after one on."""
        async with self._database.tenant(tenant_id) as tx:
            return await tx.rows(
                _QUERIES["list_stored_sessions"],
                tenant_id=tenant_id,
                before_time=before,
                after_id=after_id,
                count=count,
            )

    async def store_some(self, tenant_id: UUID, *, at: datetime, by: str, count: int) -> tuple[int, bool]:
        """Store sessions that are put away for longer than the tenant's policy says; say whether there may be more."""
        more = await self.sweep(tenant_id, at)
        once = IdempotencyKey(principal=by, method="", request_id="", fingerprint=b"")
        stored, after = 0, (EPOCH, "")
        for _ in range(_LOOKS):
            async with self._database.tenant(tenant_id) as tx:
                days = (await self._policies.of(tx, tenant_id)).archive_days
                if not days:
                    break
                rows = await tx.rows(
                    _QUERIES["storable_sessions"],
                    tenant_id=tenant_id,
                    archived_before=at - timedelta(days=days),
                    most_messages=cold_rows.MAX_MESSAGES,
                    after_time=after[0],
                    after_id=after[1],
                    count=_LOOKED,
                )
            for row in rows:
                if stored == count:
                    return stored, True
                with suppress(SessionNotFound, SessionNotHidden, SessionTooLong, TransactionConflict):
                    _, is_done = await self._store(tenant_id, once, row["session_id"], at)
                    stored += is_done
                after = (row["archive_time"], row["session_id"])
            if len(rows) < _LOOKED:
                break
        return stored, more

    async def read(self, tenant_id: UUID, session_id: str) -> ArchivedSession | None:
        """Read what a session has in cold storage and was not purged there; None when it is not stored.

        Raises ArchiveDamaged.
        """
        checksum = None
        while True:
            of_session = {"tenant_id": tenant_id, "session_id": session_id}
            async with self._database.tenant(tenant_id) as tx:
                stored = await tx.row(_QUERIES["get_stored_session"], **of_session)
                limit = cold_rows.MAX_MESSAGES
                named = await tx.rows(_QUERIES["stored_of_session"], **of_session, limit=limit) if stored else ()
            if stored is None:
                return None
            try:
                written = FileInfo(checksum=stored["checksum"], byte_count=stored["byte_count"])
                lines = await self._cold.read(tenant_id, stored["file_id"], written)
            except ArchiveDamaged:
                # Somebody else may just have restored it.
                if checksum == stored["checksum"]:
                    raise
                checksum = stored["checksum"]
                continue
            rows = (await asyncio.to_thread(cold_rows.read, lines)).among({row["message_id"] for row in named})
            rows.inherit(stored["agent_id"], stored["subject_id"])
            return ArchivedSession(checksum=stored["checksum"], rows=rows, is_active=stored["is_active"])

    async def records(self, tenant_id: UUID, rows: Sequence[dict[str, Any]]) -> list[Record]:
        """Return messages from a file as the tables would return them."""
        async with self._database.tenant(tenant_id) as tx:
            return await cold_rows.records(tx, tenant_id, rows)

    async def bring_back(self, tenant_id: UUID, session_ids: Iterable[str], at: datetime) -> None:
        """Restore sessions, be they deleted; those that are not stored are passed over."""
        for session_id in sorted(set(session_ids)):
            await self._restore(tenant_id, _NO_KEY, session_id, at)

    async def bring_back_naming(self, tenant_id: UUID, subject_id: str, at: datetime) -> None:
        """Restore some of the sessions in whose files messages of a person lie."""
        count = 0
        while count < _BROUGHT_BACK:
            async with self._database.tenant(tenant_id) as tx:
                row = await next_archived_of_subject(tx, tenant_id, subject_id, "")
                stored = row and await tx.row(
                    _QUERIES["get_stored_session"], tenant_id=tenant_id, session_id=row["session_id"]
                )
            if row is None:
                return
            await self._restore(tenant_id, _NO_KEY, row["session_id"], at)
            count += max(1, stored["message_count"] if stored else 1)

    async def unname(self, tx: Transaction, tenant_id: UUID, session_id: str) -> None:
        """Let a session name its file no more, which is then due."""
        file = await tx.row(_QUERIES["delete_stored_session"], tenant_id=tenant_id, session_id=session_id)
        if file is not None:
            await _insert_pending_file(tx, tenant_id, (file["file_id"], file["checksum"]), None, EPOCH)

    @staticmethod
    async def void(tx: Transaction, tenant_id: UUID, session_ids: Iterable[str]) -> list[FileRef]:
        """Let no session name files that are being written for it; return them, to be removed after the commit."""
        rows = await tx.rows(_QUERIES["void_files"], tenant_id=tenant_id, session_ids=sorted(session_ids))
        return [(row["file_id"], row["checksum"]) for row in rows]

    async def clear(self, tenant_id: UUID, voided: Iterable[FileRef], at: datetime) -> None:
        """Remove what a purge took away: files that are due, and those that may be written still, which stay noted."""
        for file_id, checksum in voided:
            await self._cold.delete(tenant_id, file_id, checksum)
        await self.sweep(tenant_id, at)

    async def sweep(self, tenant_id: UUID, at: datetime) -> bool:
        """Remove some of the files that are due; say whether there may be more."""
        async with self._database.tenant(tenant_id) as tx:
            due = await tx.rows(_QUERIES["due_files"], tenant_id=tenant_id, at=at, count=_FILES)
        for file in due:
            async with self._database.tenant(tenant_id) as tx:
                # Within the transaction: whoever would name the file waits, and finds that it may not.
                if await tx.row(_QUERIES["delete_leaving_file"], tenant_id=tenant_id, file_id=file["file_id"]):
                    await self._cold.delete(tenant_id, file["file_id"], file["checksum"])
        return len(due) == _FILES

    async def delete_files(self, tenant_id: UUID) -> None:
        """Remove every file of a tenant that is being deleted."""
        await self._cold.delete_tenant(tenant_id)

    async def _first(self, tenant_id: UUID, once: IdempotencyKey) -> bytes | None:
        """Return the answer that a request has; it is claimed later, together with the work."""
        if not once.request_id:
            return None
        with suppress(_NoSavedResponse):
            async with self._database.tenant(tenant_id) as tx:
                first = await self._requests.claim(tx, tenant_id, once)
                if first is None:
                    raise _NoSavedResponse
                return first
        return None

    async def _store(
        self, tenant_id: UUID, once: IdempotencyKey, session_id: str, at: datetime
    ) -> tuple[pb.StoreSessionResponse, bool]:
        """Store a session; return the answer, and whether it was done now."""
        file = await self._written(tenant_id, session_id, at)
        is_named = False
        try:
            async with self._database.tenant(tenant_id) as tx:
                first = await self._requests.claim(tx, tenant_id, once)
                if first is not None:
                    return pb.StoreSessionResponse.FromString(first), False
                store_time = (await _require_hidden(tx, tenant_id, session_id, lock=True))["store_time"]
                is_done = store_time is None
                if is_done:
                    await self._take(tx, tenant_id, file, at=at, by=once.principal)
                response = pb.StoreSessionResponse(store_time=to_timestamp(store_time or at))
                await self._requests.answer(tx, tenant_id, once, response)
            is_named = is_done
            return response, is_done
        finally:
            if file is not None and not is_named:
                with suppress(RpcError):
                    await self._drop(tenant_id, file)

    async def _written(self, tenant_id: UUID, session_id: str, at: datetime) -> _PendingFile | None:
        """Write a session's messages to a file, which is noted before; None when they are stored already."""
        async with self._database.tenant(tenant_id) as tx:
            if (await _require_hidden(tx, tenant_id, session_id, lock=False))["store_time"] is not None:
                return None
            held = await cold_rows.read_session_rows(tx, tenant_id, session_id)
        # Between two transactions: packing takes seconds.
        packed, written = await asyncio.to_thread(self._cold.pack, cold_rows.with_header(held.lines))
        file = _PendingFile(session_id=session_id, file_id=new_id(at), held=held, written=written)
        async with self._database.tenant(tenant_id) as tx:
            await _insert_pending_file(tx, tenant_id, (file.file_id, written.checksum), session_id, at + _CUT_OFF)
        try:
            await self._cold.write_packed(tenant_id, file.file_id, packed, written)
        except FileNotFoundError:
            # A purge took it away while it was being written.
            raise TransactionConflict from None
        return file

    async def _take(
        self, tx: Transaction, tenant_id: UUID, file: _PendingFile | None, *, at: datetime, by: str
    ) -> None:
        """Take what a file holds out of the tables of a session that the transaction holds.

        Raises TransactionConflict when the session changed meanwhile.
        """
        if file is None:
            raise TransactionConflict
        of_session = {"tenant_id": tenant_id, "session_id": file.session_id}
        if (await cold_rows.read_session_rows(tx, tenant_id, file.session_id)).lines != file.held.lines:
            raise TransactionConflict
        if await tx.row(_QUERIES["name_file"], **of_session, file_id=file.file_id) is None:
            # Something in it was purged, or it took longer than any call lasts and the file is gone.
            raise TransactionConflict
        await tx.execute(_QUERIES["delete_order_of_session"], **of_session)
        await postings.subtract_session_counts(tx, tenant_id, file.session_id)
        await tx.execute(_QUERIES["delete_documents_of_session"], **of_session)
        ids = file.held.message_ids
        for start in range(0, len(ids), cold_rows.SLICE):
            part = ids[start : start + cold_rows.SLICE]
            await tx.execute(_QUERIES["drop_messages"], tenant_id=tenant_id, message_ids=part)
        await tx.execute(
            _QUERIES["insert_stored_session"],
            **of_session,
            file_id=file.file_id,
            checksum=file.written.checksum,
            byte_count=file.written.byte_count,
            message_count=file.held.active_count,
            store_time=at,
            stored_by=by,
        )
        await tx.insert(_QUERIES["insert_stored_messages"], tenant_id, file.held.index)
        await tx.execute(_QUERIES["mark_stored"], **of_session, store_time=at)

    async def _restore(
        self, tenant_id: UUID, once: IdempotencyKey, session_id: str, at: datetime
    ) -> tuple[pb.RestoreSessionResponse, list[Document]]:
        """Put a session's messages back, deleted ones too; of a session that was deleted they come back deleted."""
        stored = await self.read(tenant_id, session_id)
        if stored is not None:
            # Months that have no partition get one; an id begins with the time of its month.
            await self._months.ensure({id_time(UUID(row["message_id"])) for row in stored.rows.messages})
        of_session = {"tenant_id": tenant_id, "session_id": session_id}
        async with self._database.tenant(tenant_id) as tx:
            first = await self._requests.claim(tx, tenant_id, once)
            if first is not None:
                return pb.RestoreSessionResponse.FromString(first), []
            session = await tx.row(_QUERIES["hold_session"], **of_session)
            held = await tx.row(_QUERIES["get_stored_session"], **of_session)
            documents: list[Document] = []
            if session is not None and held is not None:
                if stored is None or held["checksum"] != stored.checksum:
                    raise TransactionConflict
                # Again, for some may have been purged meanwhile.
                named = await tx.rows(_QUERIES["stored_of_session"], **of_session, limit=cold_rows.MAX_MESSAGES)
                rows = stored.rows.among({row["message_id"] for row in named})
                documents = await cold_rows.insert_rows(tx, tenant_id, rows, is_active=session["is_active"])
                await self.unname(tx, tenant_id, session_id)
                await tx.execute(_QUERIES["mark_stored"], **of_session, store_time=None)
            response = pb.RestoreSessionResponse(pending_embedding_count=len(documents))
            await self._requests.answer(tx, tenant_id, once, response)
        await self.sweep(tenant_id, at)
        return response, documents

    async def _drop(self, tenant_id: UUID, file: _PendingFile) -> None:
        """Remove a file that was written in vain, unless its session names it after all."""
        of_file = {"tenant_id": tenant_id, "file_id": file.file_id}
        async with self._database.tenant(tenant_id) as tx:
            # Waits for a commit of which no answer came.
            await tx.row(_QUERIES["delete_leaving_file"], **of_file)
            if not await tx.value(_QUERIES["is_named"], **of_file, session_id=file.session_id):
                await self._cold.delete(tenant_id, file.file_id, file.written.checksum)


async def next_archived_of_subject(tx: Transaction, tenant_id: UUID, subject_id: str, after: str) -> Record | None:
    """Find the next session, after one, in whose file messages of a person lie."""
    return await tx.row(_QUERIES["next_stored_of_subject"], tenant_id=tenant_id, subject_id=subject_id, after=after)


class _NoSavedResponse(Exception):
    """The request has no answer yet."""


_NO_KEY = IdempotencyKey(principal="", method="", request_id="", fingerprint=b"")


async def _insert_pending_file(
    tx: Transaction, tenant_id: UUID, file: FileRef, session_id: str | None, due_time: datetime
) -> None:
    file_id, checksum = file
    await tx.execute(
        _QUERIES["insert_leaving_file"],
        tenant_id=tenant_id,
        file_id=file_id,
        checksum=checksum,
        session_id=session_id,
        due_time=due_time,
    )


async def _require_hidden(tx: Transaction, tenant_id: UUID, session_id: str, *, lock: bool) -> Record:
    query = _QUERIES["lock_session" if lock else "get_session"]
    row = await tx.row(query, tenant_id=tenant_id, session_id=session_id)
    if row is None:
        raise SessionNotFound(session_id=session_id)
    if row["state"] != "archived":
        raise SessionNotHidden(session_id=session_id)
    return row
