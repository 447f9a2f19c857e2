"""The RPC that exports a person's records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.session.v1 import session_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.rpc.pagination import read_token, resolve_page_size, write_token
from skein_session.export.model import ExportPosition

if TYPE_CHECKING:
    from skein_session.export.store import ExportStore


class ExportHandlers:
    """Exports subjects page by page."""

    def __init__(self, exports: ExportStore) -> None:
        self._exports = exports

    async def ExportSubject(self, request: pb.ExportSubjectRequest, context: Context) -> pb.ExportSubjectResponse:
        tenant_id = caller_of(context).require_tenant()
        position = ExportPosition.of(read_token(request.page_token, tenant_id, request))
        records, next_position = await self._exports.read_page(
            tenant_id, request.subject_id, position, page_size=resolve_page_size(request.page_size)
        )
        response = pb.ExportSubjectResponse(records=records)
        if next_position is not None:
            response.next_page_token = write_token(next_position.to_page_token(), tenant_id, request)
        return response
