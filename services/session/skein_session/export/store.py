"""Exports of a subject from the database: all rows that a purge would remove, deleted or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from asyncpg import Record

from skein_kit.database.named_queries import Queries
from skein_kit.database.transactions import Database, Transaction
from skein_kit.ids import EPOCH
from skein_kit.rpc.pagination import PAGE_BYTES
from skein_session.cold_storage.store import ColdStorageStore, next_archived_of_subject
from skein_session.export.model import ExportPosition, Stage

_QUERIES = Queries.load("skein_session")
# Rows of one read, so that a page of the longest messages is never in memory at once.
_READ_BATCH = 64
# Messages that one page scans for those in sessions of others.
_SCAN_WINDOW = 1000


@dataclass(frozen=True, slots=True)
class ExportedRow:
    """A row of a subject, and the position after it."""

    position: ExportPosition
    kind: Literal["session", "message", "state", "item", "ledger"]
    # None for a row that is skipped.
    row: Record | None


@dataclass(frozen=True, slots=True)
class _ExportBatch:
    """The next rows, and the position after them; None at the end."""

    rows: list[ExportedRow]
    next_position: ExportPosition | None
    # The session whose file has the next rows; empty when the tables have them.
    archived_session_id: str = ""


class ExportStore:
    """Reads pages of exports."""

    def __init__(self, database: Database, archives: ColdStorageStore) -> None:
        self._database = database
        self._archives = archives

    async def read_page(
        self, tenant_id: UUID, subject_id: str, position: ExportPosition, *, page_size: int, of_one_space: bool = False
    ) -> tuple[list[ExportedRow], ExportPosition | None]:
        """Read a page of a subject's rows, and the position after it; None at the end. Raises ArchiveDamaged.

        With `of_one_space` a page ends before the ledgers, which lie in no space, or begins with them.
        """
        page = _PageBuilder(subject_id, position, page_size, stops=of_one_space and position.stage != "ledgers")
        while page.has_more:
            session_id = await self._read_tables(tenant_id, page)
            if session_id and page.has_more:
                # Outside of a transaction, because reading a file takes long.
                page.add(await self._read_file(tenant_id, page, session_id))
        return page.rows, page.position

    async def next_space(self, tenant_id: UUID, subject_id: str, *, after: UUID | None) -> UUID | None:
        """Return the first space, after one, of those that the call reaches, with something of a subject."""
        async with self._database.transaction(tenant_id) as tx:
            space_id: UUID | None = await tx.value(
                _QUERIES["next_space_to_export"], tenant_id=tenant_id, subject_id=subject_id, after=after
            )
        return space_id

    async def find_former(self, tenant_id: UUID, message_ids: Sequence[UUID]) -> set[UUID]:
        """Return which of some messages have former versions."""
        async with self._database.transaction(tenant_id) as tx:
            rows = await tx.rows(_QUERIES["find_former_messages"], tenant_id=tenant_id, message_ids=message_ids)
        return {row["message_id"] for row in rows}

    async def read_former_versions(self, tenant_id: UUID, message_id: UUID, *, limit: int) -> list[Record]:
        """Read up to `limit` former versions of a message, newest first."""
        async with self._database.transaction(tenant_id) as tx:
            return await tx.rows(
                _QUERIES["export_former_versions"], tenant_id=tenant_id, message_id=message_id, limit=limit
            )

    async def _read_tables(self, tenant_id: UUID, page: _PageBuilder) -> str:
        """Add rows of the tables until the page is full; return the session whose file has the next rows, or ""."""
        async with self._database.transaction(tenant_id) as tx:
            while page.has_more and page.position is not None:
                batch = await _read_batch(tx, tenant_id, page.subject_id, page.position, page.remaining)
                page.add(batch)
                if batch.archived_session_id:
                    return batch.archived_session_id
        return ""

    async def _read_file(self, tenant_id: UUID, page: _PageBuilder, session_id: str) -> _ExportBatch:
        """Read archived messages of a session after the page's position."""
        position = page.position or ExportPosition()
        is_own = position.stage == "messages"
        stage: Stage = "messages" if is_own else "stored"
        after = position.sequence
        archived_session = await self._archives.read(tenant_id, session_id)
        if archived_session is None:
            # A concurrent call has unarchived the session.
            return _ExportBatch([], position if is_own else ExportPosition("elsewhere"))
        archived_rows = [
            {**row, "is_active": row["is_active"] and archived_session.is_active}
            for row in archived_session.rows.messages
            if row["sequence"] > after and (is_own or row["subject_id"] == page.subject_id)
        ]
        rows = [
            ExportedRow(ExportPosition(stage, session_id, str(row["sequence"])), "message", row)
            for row in await self._archives.to_records(tenant_id, archived_rows[: page.remaining])
        ]
        if len(archived_rows) > page.remaining:
            return _ExportBatch(rows, rows[-1].position)
        return _ExportBatch(
            rows, ExportPosition("states", session_id) if is_own else position.after_archive(session_id)
        )


class _PageBuilder:
    """The rows of a page, and the position after them."""

    def __init__(self, subject_id: str, position: ExportPosition, page_size: int, *, stops: bool) -> None:
        """With `stops` the page ends before the ledgers."""
        self._stops = stops
        self.subject_id = subject_id
        self.position: ExportPosition | None = position
        self.rows: list[ExportedRow] = []
        self._page_size = page_size
        self._character_count = self._scanned_count = 0
        self._is_full = False

    @property
    def has_more(self) -> bool:
        """Whether there are more rows, and space for them."""
        return (
            self.position is not None
            and not (self._stops and self.position.stage == "ledgers")
            and not self._is_full
            and self.remaining > 0
            and self._scanned_count < _SCAN_WINDOW
        )

    @property
    def remaining(self) -> int:
        """The number of rows to read next."""
        return min(_READ_BATCH, self._page_size - len(self.rows))

    def add(self, batch: _ExportBatch) -> None:
        """Add rows of up to PAGE_BYTES characters."""
        for exported_row in batch.rows:
            if exported_row.row is not None:
                self._character_count += sum(
                    len(value) for value in exported_row.row.values() if isinstance(value, str)
                )
                if self.rows and self._character_count > PAGE_BYTES:
                    self._is_full = True
                    return
                self.rows.append(exported_row)
            self.position = exported_row.position
        self._scanned_count += max(1, len(batch.rows))
        self.position = batch.next_position


async def _read_batch(
    tx: Transaction, tenant_id: UUID, subject_id: str, position: ExportPosition, count: int
) -> _ExportBatch:
    """Read the next rows of the tables after a position."""
    if position.stage == "sessions":
        row = await tx.row(
            _QUERIES["export_session"], tenant_id=tenant_id, subject_id=subject_id, after=position.session_id
        )
        if row is None:
            return _ExportBatch([], ExportPosition("elsewhere"))
        next_position = ExportPosition("messages", row["session_id"])
        return _ExportBatch([ExportedRow(next_position, "session", row)], next_position)
    if position.stage == "messages":
        return await _read_messages(tx, tenant_id, position, count)
    if read_stage := _STAGES_OF_SUBJECT.get(position.stage):
        return await read_stage(tx, tenant_id, subject_id, position, count)
    rows = await _read_states_or_items(tx, tenant_id, position, count)
    if len(rows) == count:
        return _ExportBatch(rows, rows[-1].position)
    return _ExportBatch(
        rows, ExportPosition("items" if position.stage == "states" else "sessions", position.session_id)
    )


async def _read_messages(tx: Transaction, tenant_id: UUID, position: ExportPosition, count: int) -> _ExportBatch:
    """Read messages of a session, or find that its file has them."""
    session_key = {"tenant_id": tenant_id, "session_id": position.session_id}
    archived_before = await tx.row(_QUERIES["get_archived_session"], **session_key)
    rows = [
        ExportedRow(ExportPosition("messages", position.session_id, str(row["sequence"])), "message", row)
        for row in await tx.rows(_QUERIES["export_messages"], **session_key, limit=count, after=position.sequence)
    ]
    next_position = rows[-1].position if rows else position
    if len(rows) == count:
        return _ExportBatch(rows, next_position)
    if await tx.row(_QUERIES["get_archived_session"], **session_key) is not None:
        return _ExportBatch(rows, next_position, archived_session_id=position.session_id)
    # The session was unarchived between the first read and the last: read its messages again.
    if archived_before is not None:
        return _ExportBatch(rows, next_position)
    return _ExportBatch(rows, ExportPosition("states", position.session_id))


async def _read_states_or_items(
    tx: Transaction, tenant_id: UUID, position: ExportPosition, count: int
) -> list[ExportedRow]:
    """Read agent states or items of a session, by the stage of the position."""
    session_key = {"tenant_id": tenant_id, "session_id": position.session_id, "limit": count}
    # EPOCH, because at that time no row has expired.
    if position.stage == "states":
        rows = await tx.rows(
            _QUERIES["list_states_of_session"],
            **session_key,
            after_agent=position.after,
            agent_id=None,
            at=EPOCH,
            show_deleted=True,
        )
        return [
            ExportedRow(ExportPosition("states", position.session_id, row["agent_id"]), "state", row) for row in rows
        ]
    rows = await tx.rows(_QUERIES["list_items"], **session_key, after=position.after, prefix=None, at=EPOCH)
    return [ExportedRow(ExportPosition("items", position.session_id, row["key"]), "item", row) for row in rows]


async def _read_elsewhere(
    tx: Transaction, tenant_id: UUID, subject_id: str, position: ExportPosition, count: int
) -> _ExportBatch:
    """Read messages about the subject in sessions of others; messages in its own sessions are skipped."""
    scanned_rows = await tx.rows(
        _QUERIES["messages_naming_subject"],
        tenant_id=tenant_id,
        subject_id=subject_id,
        after=position.message_id,
        limit=count,
    )
    other_ids = [row["message_id"] for row in scanned_rows if not row["is_own"]]
    own_rows = await tx.rows(_QUERIES["export_named_messages"], tenant_id=tenant_id, message_ids=other_ids)
    messages = {row["message_id"]: row for row in own_rows}
    rows = [
        ExportedRow(ExportPosition("elsewhere", "", str(row["message_id"])), "message", messages.get(row["message_id"]))
        for row in scanned_rows
    ]
    return _ExportBatch(rows, rows[-1].position if len(scanned_rows) == count else ExportPosition("stored"))


async def _find_archive_elsewhere(
    tx: Transaction, tenant_id: UUID, subject_id: str, position: ExportPosition, _count: int
) -> _ExportBatch:
    """Find the file with the next archived messages about the subject in sessions of others."""
    if position.session_id and not position.is_archive_done:
        return _ExportBatch([], position, archived_session_id=position.session_id)
    row = await next_archived_of_subject(tx, tenant_id, subject_id, position.session_id)
    if row is None:
        return _ExportBatch([], ExportPosition("ledgers"))
    if row["is_own"]:
        return _ExportBatch([], position.after_archive(row["session_id"]))
    return _ExportBatch([], ExportPosition("stored", row["session_id"]), archived_session_id=row["session_id"])


async def _read_ledgers(
    tx: Transaction, tenant_id: UUID, subject_id: str, position: ExportPosition, count: int
) -> _ExportBatch:
    """Read context ledgers for the subject."""
    after_principal, after_agent, after_ledger = position.ledger_key
    ledgers = await tx.rows(
        _QUERIES["list_ledgers_of_subject"],
        tenant_id=tenant_id,
        subject_id=subject_id,
        after_principal=after_principal,
        after_agent=after_agent,
        after_ledger=after_ledger,
        limit=count,
    )
    rows = [ExportedRow(ExportPosition.after_ledger(row), "ledger", row) for row in ledgers]
    return _ExportBatch(rows, rows[-1].position if len(ledgers) == count else None)


# The stages that read no session of the subject.
_STAGES_OF_SUBJECT = {"elsewhere": _read_elsewhere, "stored": _find_archive_elsewhere, "ledgers": _read_ledgers}
