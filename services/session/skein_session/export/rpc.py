"""The RPC that exports a person's records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skein.session.v1 import session_pb2 as pb
from skein_kit import message_rows
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.rpc.pagination import PAGE_BYTES, fit_items, read_token, resolve_page_size, write_token
from skein_kit.rpc.well_known_types import to_timestamp
from skein_session.agent_states.convert import agent_state
from skein_session.export.model import ExportPosition
from skein_session.items.convert import session_item
from skein_session.ledgers.convert import exported_ledger
from skein_session.sessions.convert import session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from uuid import UUID

    from asyncpg import Record

    from skein_session.export.store import ExportedRow, ExportStore

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
        position = ExportPosition.of(read_token(request.page_token, tenant_id, request))
        rows, next_position = await self._exports.read_page(
            tenant_id, request.subject_id, position, page_size=resolve_page_size(request.page_size)
        )
        records = await self._read_records(tenant_id, rows)
        if len(records) < len(rows):
            next_position = rows[len(records) - 1].position
        response = pb.ExportSubjectResponse(records=records)
        if next_position is not None:
            response.next_page_token = write_token(next_position.to_page_token(), tenant_id, request)
        return response

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


def _message_row(exported_row: ExportedRow) -> Record | None:
    return exported_row.row if exported_row.kind == "message" else None


def _version(row: Record) -> pb.MessageVersion:
    return pb.MessageVersion(message=message_rows.message(row), until_time=to_timestamp(row["until_time"]))


def _subject_record(exported_row: ExportedRow) -> pb.SubjectRecord:
    row: Any = exported_row.row
    # States and items have no such column: they are deleted for good.
    is_deleted = not row.get("is_active", True)
    return pb.SubjectRecord(deleted=is_deleted, **{exported_row.kind: _CONVERTERS[exported_row.kind](row)})
