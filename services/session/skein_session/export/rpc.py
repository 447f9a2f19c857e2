"""The RPC that exports a person's records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skein.session.v1 import session_pb2 as pb
from skein_kit import message_rows
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.rpc.pagination import fit_items, read_token, resolve_page_size, write_token
from skein_session.agent_states.convert import agent_state
from skein_session.export.model import ExportPosition
from skein_session.items.convert import session_item
from skein_session.sessions.convert import session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from skein_session.export.store import ExportedRow, ExportStore

_CONVERTERS: Mapping[str, Callable[[Any], Any]] = {
    "session": session,
    "message": message_rows.message,
    "state": agent_state,
    "item": session_item,
}


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
        records = fit_items(map(_subject_record, rows))
        if len(records) < len(rows):
            next_position = rows[len(records) - 1].position
        response = pb.ExportSubjectResponse(records=records)
        if next_position is not None:
            response.next_page_token = write_token(next_position.to_page_token(), tenant_id, request)
        return response


def _subject_record(exported_row: ExportedRow) -> pb.SubjectRecord:
    row: Any = exported_row.row
    # States and items have no such column: they are deleted for good.
    is_deleted = not row.get("is_active", True)
    return pb.SubjectRecord(deleted=is_deleted, **{exported_row.kind: _CONVERTERS[exported_row.kind](row)})
