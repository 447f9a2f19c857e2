"""Reading everything of one person, deleted or not: what a purge of the person would remove."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skein.session.v1 import session_pb2 as pb
from skein_kit.database.named_queries import Queries
from skein_kit.ids import EPOCH
from skein_kit.message_rows import message as wired
from skein_kit.rpc.pagination import PAGE_BYTES, read_token, resolve_page_size, write_token
from skein_session.cold_storage.store import next_archived_of_subject
from skein_session.export.model import ExportPosition
from skein_session.sessions import convert as wire

if TYPE_CHECKING:
    from uuid import UUID

    from skein_kit.database.transactions import Database, Transaction
    from skein_session.cold_storage.store import ColdStorageStore
    from skein_session.export.model import Stage

_QUERIES = Queries.of("skein_session")
# What is read at once, so that a page of the longest messages is never held whole.
_PORTION = 64
# Messages that are looked at in search of those in sessions of others, for one page.
_WINDOW = 1000

Step = tuple[ExportPosition, pb.SubjectRecord | None]


@dataclass(frozen=True, slots=True)
class _ExportBatch:
    """The next records, each with the place after it, and where the next portion begins."""

    steps: list[Step]
    following: ExportPosition | None
    # The session whose file has what comes next, after the records.
    stored_in: str = ""


class ExportStore:
    """Exports, page by page."""

    def __init__(self, database: Database, archives: ColdStorageStore) -> None:
        self._database = database
        self._archives = archives

    async def page(self, tenant_id: UUID, request: pb.ExportSubjectRequest) -> pb.ExportSubjectResponse:
        """Read a page of a person's records. Raises ArchiveDamaged."""
        page = _PageBuilder(request, ExportPosition.of(read_token(request.page_token, tenant_id, request)))
        while page.goes_on:
            stored_in = await self._from_tables(tenant_id, page)
            if stored_in and page.goes_on:
                # Outside of a transaction: a file is read.
                page.take(await self._from_file(tenant_id, request.subject_id, page, stored_in))
        if page.place is not None:
            page.response.next_page_token = write_token(page.place.token(), tenant_id, request)
        return page.response

    async def _from_tables(self, tenant_id: UUID, page: _PageBuilder) -> str:
        """Add what the tables have to a page, until it is full, or what comes next lies in a session's file."""
        async with self._database.tenant(tenant_id) as tx:
            while page.goes_on and page.place is not None:
                portion = await _portion(tx, tenant_id, page.subject_id, page.place, page.room)
                page.take(portion)
                if portion.stored_in:
                    return portion.stored_in
        return ""

    async def _from_file(self, tenant_id: UUID, subject_id: str, page: _PageBuilder, session_id: str) -> _ExportBatch:
        """Read messages of a session in cold storage, from the page's place on."""
        place = page.place or ExportPosition()
        is_own = place.stage == "messages"
        stage: Stage = "messages" if is_own else "stored"
        after = place.sequence
        stored = await self._archives.read(tenant_id, session_id)
        if stored is None:
            # It was brought back meanwhile.
            return _ExportBatch([], place if is_own else ExportPosition("elsewhere"))
        rows = [
            row
            for row in stored.rows.messages
            if row["sequence"] > after and (is_own or row["subject_id"] == subject_id)
        ]
        steps: list[Step] = [
            (
                ExportPosition(stage, session_id, str(row["sequence"])),
                pb.SubjectRecord(message=wired(row), deleted=not (row["is_active"] and stored.is_active)),
            )
            for row in await self._archives.records(tenant_id, rows[: page.room])
        ]
        if len(rows) > page.room:
            return _ExportBatch(steps, steps[-1][0])
        return _ExportBatch(steps, ExportPosition("states", session_id) if is_own else place.through(session_id))


class _PageBuilder:
    """A page that is being filled: what is on it, and the place after that."""

    def __init__(self, request: pb.ExportSubjectRequest, place: ExportPosition) -> None:
        self.response = pb.ExportSubjectResponse()
        self.subject_id = request.subject_id
        self.place: ExportPosition | None = place
        self._size = resolve_page_size(request.page_size)
        self._taken = self._looked = 0
        self._is_full = False

    @property
    def goes_on(self) -> bool:
        """There is more, and room for it."""
        return self.place is not None and not self._is_full and self.room > 0 and self._looked < _WINDOW

    @property
    def room(self) -> int:
        """How many records are read next."""
        return min(_PORTION, self._size - len(self.response.records))

    def take(self, portion: _ExportBatch) -> None:
        """Add records as far as there is room."""
        for place, record in portion.steps:
            if record is not None:
                self._taken += record.ByteSize()
                if self.response.records and self._taken > PAGE_BYTES:
                    self._is_full = True
                    return
                self.response.records.append(record)
            self.place = place
        self._looked += max(1, len(portion.steps))
        self.place = portion.following


async def _portion(
    tx: Transaction, tenant_id: UUID, subject_id: str, place: ExportPosition, count: int
) -> _ExportBatch:
    """Read the next records from a place on."""
    if place.stage == "sessions":
        row = await tx.row(
            _QUERIES["export_session"], tenant_id=tenant_id, subject_id=subject_id, after=place.session_id
        )
        if row is None:
            return _ExportBatch([], ExportPosition("elsewhere"))
        record = pb.SubjectRecord(session=wire.session(row), deleted=not row["is_active"])
        inside = ExportPosition("messages", row["session_id"])
        return _ExportBatch([(inside, record)], inside)
    if place.stage == "messages":
        return await _messages(tx, tenant_id, place, count)
    if place.stage in ("elsewhere", "stored"):
        others = _elsewhere if place.stage == "elsewhere" else _stored
        return await others(tx, tenant_id, subject_id, place, count)
    steps = await _inside(tx, tenant_id, place, count)
    if len(steps) == count:
        return _ExportBatch(steps, steps[-1][0])
    return _ExportBatch(steps, ExportPosition("items" if place.stage == "states" else "sessions", place.session_id))


async def _messages(tx: Transaction, tenant_id: UUID, place: ExportPosition, count: int) -> _ExportBatch:
    """Read messages of a session, or say that its file has them."""
    of_session = {"tenant_id": tenant_id, "session_id": place.session_id}
    before = await tx.row(_QUERIES["get_stored_session"], **of_session)
    rows = await tx.rows(_QUERIES["export_messages"], **of_session, limit=count, after=place.sequence)
    steps: list[Step] = [
        (
            ExportPosition("messages", place.session_id, str(row["sequence"])),
            pb.SubjectRecord(message=wired(row), deleted=not row["is_active"]),
        )
        for row in rows
    ]
    following = steps[-1][0] if steps else place
    if len(steps) == count:
        return _ExportBatch(steps, following)
    if await tx.row(_QUERIES["get_stored_session"], **of_session) is not None:
        return _ExportBatch(steps, following, stored_in=place.session_id)
    # They may have come back between the first question and the second: once more.
    return _ExportBatch(steps, ExportPosition("states", place.session_id) if before is None else following)


async def _inside(tx: Transaction, tenant_id: UUID, place: ExportPosition, count: int) -> list[Step]:
    """Read what else a session has, of the kind that the place names."""
    of_session = {"tenant_id": tenant_id, "session_id": place.session_id, "limit": count}
    # At the beginning of time nothing has expired yet.
    if place.stage == "states":
        rows = await tx.rows(
            _QUERIES["list_states_of_session"],
            **of_session,
            after_agent=place.after,
            agent_id=None,
            at=EPOCH,
            show_deleted=True,
        )
        return [
            (ExportPosition("states", place.session_id, row["agent_id"]), pb.SubjectRecord(state=wire.state(row)))
            for row in rows
        ]
    rows = await tx.rows(_QUERIES["list_items"], **of_session, after=place.after, prefix=None, at=EPOCH)
    return [
        (ExportPosition("items", place.session_id, row["key"]), pb.SubjectRecord(item=wire.item(row))) for row in rows
    ]


async def _elsewhere(
    tx: Transaction, tenant_id: UUID, subject_id: str, place: ExportPosition, count: int
) -> _ExportBatch:
    """Read messages that name the person in sessions of others; a step without a record is one in the person's own."""
    found = await tx.rows(
        _QUERIES["messages_naming_subject"],
        tenant_id=tenant_id,
        subject_id=subject_id,
        after=place.message_id,
        limit=count,
    )
    others = [row["message_id"] for row in found if not row["is_own"]]
    rows = await tx.rows(_QUERIES["export_named_messages"], tenant_id=tenant_id, message_ids=others)
    records = {row["message_id"]: pb.SubjectRecord(message=wired(row), deleted=not row["is_active"]) for row in rows}
    steps: list[Step] = [
        (ExportPosition("elsewhere", "", str(row["message_id"])), records.get(row["message_id"])) for row in found
    ]
    return _ExportBatch(steps, steps[-1][0] if len(found) == count else ExportPosition("stored"))


async def _stored(
    tx: Transaction, tenant_id: UUID, subject_id: str, place: ExportPosition, _count: int
) -> _ExportBatch:
    """Find the file that has the next messages that name the person in sessions of others."""
    if place.session_id and not place.is_through:
        return _ExportBatch([], place, stored_in=place.session_id)
    row = await next_archived_of_subject(tx, tenant_id, subject_id, place.session_id)
    if row is None:
        return _ExportBatch([], None)
    if row["is_own"]:
        return _ExportBatch([], place.through(row["session_id"]))
    return _ExportBatch([], ExportPosition("stored", row["session_id"]), stored_in=row["session_id"])
