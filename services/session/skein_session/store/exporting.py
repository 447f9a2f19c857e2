"""Reading everything of one person, deleted or not: what a purge of the person would remove."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.session.v1 import session_pb2 as pb
from skein_kit.ids import EPOCH
from skein_kit.messages import message as wired
from skein_kit.pages import PAGE_BYTES, page_size, read_token, write_token
from skein_kit.sql import Queries
from skein_session import wire
from skein_session.exporting import Place

if TYPE_CHECKING:
    from uuid import UUID

    from skein_kit.database import Database, Transaction

_QUERIES = Queries.of("skein_session")
# What is read at once, so that a page of the longest messages is never held whole.
_PORTION = 64
# Messages that are looked at in search of those in sessions of others, for one page.
_WINDOW = 1000

Step = tuple[Place, pb.SubjectRecord | None]


class ExportingStore:
    """Exports, page by page."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(self, tenant_id: UUID, request: pb.ExportSubjectRequest) -> pb.ExportSubjectResponse:
        """Read a page of a person's records."""
        place: Place | None = Place.of(read_token(request.page_token, tenant_id, request))
        size, taken, looked = page_size(request.page_size), 0, 0
        response = pb.ExportSubjectResponse()
        async with self._database.tenant(tenant_id) as tx:
            while place is not None and len(response.records) < size and looked < _WINDOW:
                portion = min(_PORTION, size - len(response.records))
                steps, following = await _portion(tx, tenant_id, request.subject_id, place, portion)
                for at, record in steps:
                    if record is not None:
                        taken += record.ByteSize()
                        if response.records and taken > PAGE_BYTES:
                            response.next_page_token = write_token(place.token(), tenant_id, request)
                            return response
                        response.records.append(record)
                    place = at
                looked += max(1, len(steps))
                place = following
        if place is not None:
            response.next_page_token = write_token(place.token(), tenant_id, request)
        return response


async def _portion(
    tx: Transaction, tenant_id: UUID, subject_id: str, place: Place, count: int
) -> tuple[list[Step], Place | None]:
    """Read the next records from a place on, each with the place after it; and where the next portion begins."""
    if place.stage == "sessions":
        row = await tx.row(
            _QUERIES["export_session"], tenant_id=tenant_id, subject_id=subject_id, after=place.session_id
        )
        if row is None:
            return [], Place("elsewhere")
        record = pb.SubjectRecord(session=wire.session(row), deleted=not row["is_active"])
        inside = Place("messages", row["session_id"])
        return [(inside, record)], inside
    if place.stage == "elsewhere":
        return await _elsewhere(tx, tenant_id, subject_id, place, count)
    steps = await _inside(tx, tenant_id, place, count)
    if len(steps) == count:
        return steps, steps[-1][0]
    after: dict[str, Place] = {
        "messages": Place("states", place.session_id),
        "states": Place("items", place.session_id),
        "items": Place("sessions", place.session_id),
    }
    return steps, after[place.stage]


async def _inside(tx: Transaction, tenant_id: UUID, place: Place, count: int) -> list[Step]:
    """Read what a session has, of the kind that the place names."""
    of_session = {"tenant_id": tenant_id, "session_id": place.session_id, "limit": count}
    if place.stage == "messages":
        rows = await tx.rows(_QUERIES["export_messages"], **of_session, after=place.sequence)
        return [
            (
                Place("messages", place.session_id, str(row["sequence"])),
                pb.SubjectRecord(message=wired(row), deleted=not row["is_active"]),
            )
            for row in rows
        ]
    # At the beginning of time nothing has expired yet.
    if place.stage == "states":
        rows = await tx.rows(
            _QUERIES["list_states_of_session"], **of_session, after_agent=place.after, agent_id=None, at=EPOCH
        )
        return [
            (Place("states", place.session_id, row["agent_id"]), pb.SubjectRecord(state=wire.state(row)))
            for row in rows
        ]
    rows = await tx.rows(_QUERIES["list_items"], **of_session, after=place.after, prefix=None, at=EPOCH)
    return [(Place("items", place.session_id, row["key"]), pb.SubjectRecord(item=wire.item(row))) for row in rows]


async def _elsewhere(
    tx: Transaction, tenant_id: UUID, subject_id: str, place: Place, count: int
) -> tuple[list[Step], Place | None]:
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
        (Place("elsewhere", "", str(row["message_id"])), records.get(row["message_id"])) for row in found
    ]
    return steps, steps[-1][0] if len(found) == count else None
