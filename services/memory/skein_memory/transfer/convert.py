"""Imports, exports and their page tokens as protobuf."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from google.protobuf.message import Message

from skein.memory.v1 import snapshots_pb2 as pb
from skein_kit.errors import PageTokenInvalid
from skein_kit.rpc.pagination import (
    read_token,
    write_token,
)
from skein_memory.transfer import model as transfer_model
from skein_memory.transfer.importer import Importer
from skein_memory.transfer.model import KINDS, TransferCursor

_MAX_ERRORS = 1000


def import_counts(importer: Importer) -> pb.ImportCounts:
    return pb.ImportCounts(
        created=transfer_model.count_kinds(importer.created),
        updated=transfer_model.count_kinds(importer.updated),
        unchanged=transfer_model.count_kinds(importer.unchanged),
        removed=transfer_model.count_kinds(importer.removed),
        refused=transfer_model.count_kinds([problem.kind for problem in importer.errors]),
        expired=transfer_model.count_kinds(importer.expired),
    )


def import_errors(importer: Importer) -> Sequence[pb.ImportError]:
    problems = sorted(importer.errors, key=lambda problem: problem.line_number)[:_MAX_ERRORS]
    return [
        pb.ImportError(line=problem.line_number, kind=problem.kind, reason=problem.reason, field=problem.field)
        for problem in problems
    ]


def page_token(cursor: TransferCursor | None, tenant_id: UUID, request: Message, *ignored_fields: str) -> str:
    if cursor is None:
        return ""
    return write_token([cursor.phase, cursor.kind, cursor.after], tenant_id, _token_request(request, ignored_fields))


def read_cursor(request: Message, tenant_id: UUID, *ignored_fields: str) -> TransferCursor | None:
    token: str = request.page_token  # type: ignore[attr-defined]  # Every request of these has one.
    parts = read_token(token, tenant_id, _token_request(request, ignored_fields))
    if parts is None:
        return None
    if len(parts) != len(("phase", "kind", "after")) or parts[1] not in KINDS or "\0" in parts[2]:
        raise PageTokenInvalid
    return TransferCursor(phase=parts[0], kind=parts[1], after=parts[2])


def _token_request(request: Message, ignored_fields: Sequence[str]) -> Message:
    """Return a request without the fields that differ between pages."""
    token_request = type(request)()
    token_request.CopyFrom(request)
    for name in ignored_fields:
        token_request.ClearField(name)
    return token_request
