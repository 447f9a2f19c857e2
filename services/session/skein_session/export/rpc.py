"""The RPC that exports a person's records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from asyncpg import Record

from skein.session.v1 import session_pb2 as pb
from skein_kit import message_rows
from skein_kit.calls.call import Call, Context, current_space_ids, narrow_spaces, reach_all_spaces
from skein_kit.calls.call import caller as caller_of
from skein_kit.identity.spaces import ALL_SPACES, DEFAULT_SPACE, READER
from skein_kit.rpc.pagination import PAGE_BYTES, fit_items, read_token, resolve_page_size, write_token
from skein_kit.rpc.well_known_types import to_timestamp
from skein_session.agent_states.convert import agent_state
from skein_session.export.model import ExportPosition
from skein_session.export.store import ExportedRow, ExportStore
from skein_session.items.convert import session_item
from skein_session.ledgers.convert import exported_ledger
from skein_session.sessions.convert import session

_CONVERTERS: Mapping[str, Callable[[Any], Any]] = {
    "session": session,
    "message": message_rows.message,
    "state": agent_state,
    "item": session_item,
    "ledger": exported_ledger,
}


# Former versions of one exported message.
_MAX_VERSIONS = 100


class ExportHandlers:
    """Exports subjects page by page."""

    def __init__(self, exports: ExportStore) -> None:
        self._exports = exports

    async def ExportSubject(self, request: pb.ExportSubjectRequest, context: Context) -> pb.ExportSubjectResponse:
        tenant_id = caller_of(context).require_tenant()
        reach = _reach(request, context)
        position = ExportPosition.of(read_token(request.page_token, tenant_id, request))
        if reach is not None:
            position = await self._narrow(context, tenant_id, request.subject_id, position, reach)
        rows, next_position = await self._exports.read_page(
            tenant_id,
            request.subject_id,
            position,
            page_size=resolve_page_size(request.page_size),
            of_one_space=reach is not None,
        )
        records = await self._read_records(tenant_id, rows)
        if len(records) < len(rows):
            next_position = rows[len(records) - 1].position
        response = pb.ExportSubjectResponse(records=records)
        if reach is not None:
            if reach != ALL_SPACES:
                response.space_ids.extend(map(str, reach))
            if position.space_id not in (None, DEFAULT_SPACE):
                for record in response.records:
                    record.space_id = str(position.space_id)
            if next_position is not None:
                next_position = replace(next_position, space_id=position.space_id)
        if next_position is not None:
            response.next_page_token = write_token(next_position.to_page_token(), tenant_id, request)
        return response

    async def _narrow(
        self,
        context: Context,
        tenant_id: UUID,
        subject_id: str,
        position: ExportPosition,
        reach: tuple[UUID, ...],
    ) -> ExportPosition:
        """Narrow the call to the space of a position, or the next one with something of a subject.

        An id of a session is that of one space, so each page is of one. Return the position in it; that of the ledgers,
        which lie in none, after the last space.
        """
        if not isinstance(context, Call) or position.is_in_ledgers:
            return replace(position, space_id=None)
        is_visible = reach == ALL_SPACES or position.space_id in reach
        if position.space_id is None or position.is_end_of_space or not is_visible:
            space_id = await self._exports.next_space(tenant_id, subject_id, after=position.space_id)
            position = ExportPosition("ledgers") if space_id is None else ExportPosition(space_id=space_id)
        if position.space_id is not None:
            context.narrow_to(position.space_id)
        return position

    async def _read_records(self, tenant_id: UUID, rows: Sequence[ExportedRow]) -> list[pb.SubjectRecord]:
        """Convert the first rows that fit one response, messages with their former versions."""
        message_ids = [row["message_id"] for row in map(_message_row, rows) if row is not None]
        changed_ids = await self._exports.find_former(tenant_id, message_ids) if message_ids else set()
        records: list[pb.SubjectRecord] = []
        total_bytes = 0
        for exported_row in rows:
            record, row = _subject_record(exported_row), _message_row(exported_row)
            if row is not None and row["message_id"] in changed_ids:
                await self._add_former_versions(tenant_id, row["message_id"], record)
            total_bytes += record.ByteSize()
            if records and total_bytes > PAGE_BYTES:
                break
            records.append(record)
        return records

    async def _add_former_versions(self, tenant_id: UUID, message_id: UUID, record: pb.SubjectRecord) -> None:
        versions = await self._exports.read_former_versions(tenant_id, message_id, limit=_MAX_VERSIONS + 1)
        fitting_versions = fit_items(map(_version, versions[:_MAX_VERSIONS]), used_bytes=record.ByteSize())
        record.former_versions.extend(fitting_versions)
        record.truncated = len(fitting_versions) < len(versions)


def _reach(request: pb.ExportSubjectRequest, context: Context) -> tuple[UUID, ...] | None:
    """Return the spaces from which a call exports, and have it reach them; None in a tenant without spaces.

    Deleted rows are exported, which a reader of a space does not see.
    """
    if request.all_spaces:
        reach_all_spaces(context)
    elif (roles := caller_of(context).spaces) is not None:
        narrow_spaces(context, (space_id for space_id, role in roles if role != READER))
    return current_space_ids()


def _message_row(exported_row: ExportedRow) -> Record | None:
    return exported_row.row if exported_row.kind == "message" else None


def _version(row: Record) -> pb.MessageVersion:
    return pb.MessageVersion(message=message_rows.message(row), until_time=to_timestamp(row["until_time"]))


def _subject_record(exported_row: ExportedRow) -> pb.SubjectRecord:
    row: Any = exported_row.row
    # States and items have no such column: they are deleted for good.
    is_deleted = not row.get("is_active", True)
    return pb.SubjectRecord(deleted=is_deleted, **{exported_row.kind: _CONVERTERS[exported_row.kind](row)})
