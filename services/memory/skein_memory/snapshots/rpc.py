"""Snapshots, export and import: each RPC reads its request, makes one call, and replies."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from skein.memory.v1 import snapshots_pb2 as pb
from skein_kit.calls.call import Context, caller
from skein_kit.errors import FieldInvalid, PageTokenInvalid
from skein_kit.idempotency.store import IdempotencyKey
from skein_kit.ids import now, parse_id
from skein_kit.json_values.fields import fields
from skein_kit.rpc.pagination import (
    DEFAULT_PAGE_SIZE,
    PAGE_BYTES,
    fit_items,
    read_token,
    resolve_page_size,
    write_token,
)
from skein_kit.rpc.well_known_types import to_timestamp
from skein_memory.page_token import read_id_cursor
from skein_memory.parts import Rpcs
from skein_memory.snapshots.model import READY, Snapshot
from skein_memory.snapshots.store import TransferCursor
from skein_memory.transfer import memoryvault
from skein_memory.transfer import model as portable
from skein_memory.transfer.import_items import ImportMode
from skein_memory.transfer.model import KINDS, MAX_ITEMS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from google.protobuf.message import Message

    from skein_memory.transfer.importer import Importer

_MODES = {
    pb.IMPORT_MODE_UNSPECIFIED: ImportMode.MERGE,
    pb.IMPORT_MODE_MERGE: ImportMode.MERGE,
    pb.IMPORT_MODE_OVERWRITE: ImportMode.OVERWRITE,
    pb.IMPORT_MODE_SKIP_EXISTING: ImportMode.SKIP,
}
# Portions that one page of differences looks at, and items of each.
_LOOKS = 10
_LOOKED_AT = 100
_MAX_ERRORS = 1000


class SnapshotRpcs(Rpcs):
    """Copies of a whole memory: made, compared, restored, sent away and taken in."""

    async def CreateSnapshot(self, request: pb.CreateSnapshotRequest, context: Context) -> pb.CreateSnapshotResponse:
        who, once = caller(context), IdempotencyKey.of(caller(context), request)
        created = await self._parts.snapshots.create_snapshot(
            who.tenant(),
            once,
            request.label,
            request.summary,
            lambda snapshot: pb.CreateSnapshotResponse(snapshot=_snapshot(snapshot)),
            at=now(),
            by=who.principal,
        )
        return pb.CreateSnapshotResponse.FromString(created) if isinstance(created, bytes) else created

    async def GetSnapshot(self, request: pb.GetSnapshotRequest, context: Context) -> pb.GetSnapshotResponse:
        found = await self._parts.snapshots.get_snapshot(caller(context).tenant(), UUID(request.snapshot_id))
        return pb.GetSnapshotResponse(snapshot=_snapshot(found))

    async def ListSnapshots(self, request: pb.ListSnapshotsRequest, context: Context) -> pb.ListSnapshotsResponse:
        tenant_id, size = caller(context).tenant(), resolve_page_size(request.page_size)
        found = await self._parts.snapshots.list_snapshots(
            tenant_id, before=read_id_cursor(request, tenant_id), count=size + 1
        )
        page = fit_items(_snapshot(snapshot) for snapshot in found[:size])
        more = len(found) > len(page)
        token = write_token([page[-1].snapshot_id], tenant_id, request) if more else ""
        return pb.ListSnapshotsResponse(snapshots=page, next_page_token=token)

    async def DiffSnapshots(self, request: pb.DiffSnapshotsRequest, context: Context) -> pb.DiffSnapshotsResponse:
        tenant_id, size = caller(context).tenant(), resolve_page_size(request.page_size)
        other = parse_id(request.other_snapshot_id) if request.other_snapshot_id else None
        if request.other_snapshot_id and other is None:
            raise FieldInvalid(violations=[("other_snapshot_id", "must be a UUID")])
        place: TransferCursor | None = _place(request, tenant_id) or TransferCursor(phase="of", kind=KINDS[0], after="")
        found: list[pb.Difference] = []
        for _ in range(_LOOKS):
            if place is None or len(found) >= size:
                break
            differences, place = await self._parts.snapshots.diff(
                tenant_id,
                UUID(request.snapshot_id),
                other,
                place=place,
                count=min(_LOOKED_AT, size - len(found)),
                at=now(),
            )
            found += [
                pb.Difference(
                    kind=one.kind, item_id=one.item_id, type=f"DIFFERENCE_TYPE_{one.type.upper()}", fields=one.fields
                )
                for one in differences
            ]
        return pb.DiffSnapshotsResponse(differences=found, next_page_token=_token(place, tenant_id, request))

    async def RestoreSnapshot(self, request: pb.RestoreSnapshotRequest, context: Context) -> pb.RestoreSnapshotResponse:
        who, tenant_id = caller(context), caller(context).tenant()
        first = TransferCursor(phase="remove" if request.replace else "store", kind=KINDS[0], after="")

        def respond(applying: Importer, beyond: TransferCursor | None) -> pb.RestoreSnapshotResponse:
            token = _token(beyond, tenant_id, request, "request_id")
            return pb.RestoreSnapshotResponse(counts=_counts(applying), errors=_errors(applying), next_page_token=token)

        restored, applying = await self._parts.snapshots.restore(
            tenant_id,
            IdempotencyKey.of(who, request),
            UUID(request.snapshot_id),
            respond,
            place=_place(request, tenant_id, "request_id") or first,
            count=resolve_page_size(request.page_size),
            at=now(),
            by=who.principal,
        )
        if applying is not None:
            await self._parts.embeddings.make(applying.documents, remaining=context.time_remaining())
        return pb.RestoreSnapshotResponse.FromString(restored) if isinstance(restored, bytes) else restored

    async def DeleteSnapshot(self, request: pb.DeleteSnapshotRequest, context: Context) -> pb.DeleteSnapshotResponse:
        who, response = caller(context), pb.DeleteSnapshotResponse()
        once = IdempotencyKey.of(who, request)
        await self._parts.snapshots.delete_snapshot(
            who.tenant(), once, UUID(request.snapshot_id), response, at=now(), by=who.principal
        )
        return response

    async def ExportData(self, request: pb.ExportDataRequest, context: Context) -> pb.ExportDataResponse:
        who, tenant_id, size = caller(context), caller(context).tenant(), resolve_page_size(request.page_size)
        place: TransferCursor | None = _place(request, tenant_id)
        lines: list[str] = []
        if place is None:
            at = now()
            await self._parts.snapshots.settled(tenant_id, await self._parts.snapshots.horizon(tenant_id))
            await self._parts.transfer.tell(tenant_id, "data_exported", at=at, by=who.principal)
            lines.append(portable.header(at.isoformat()))
            place = TransferCursor(phase=at.isoformat(), kind=KINDS[0], after="")
        at, items, length = _moment(place.phase), 0, 0
        while place is not None and items < size and length < PAGE_BYTES:
            found, beyond = await self._parts.transfer.portion(
                tenant_id, place, count=min(DEFAULT_PAGE_SIZE, size - items), at=at, now=now()
            )
            for item in found:
                line = portable.format_line(item)
                length += len(line.encode())
                if items and length > PAGE_BYTES:
                    beyond = place
                    break
                lines.append(line)
                items += 1
                place = TransferCursor(phase=place.phase, kind=place.kind, after=item.item_id)
            place = beyond
        return pb.ExportDataResponse(
            lines="".join(lines),
            item_count=items,
            as_of_time=to_timestamp(at),
            next_page_token=_token(place, tenant_id, request),
        )

    async def ImportData(self, request: pb.ImportDataRequest, context: Context) -> pb.ImportDataResponse:
        who, at = caller(context), now()
        is_vault = request.format == pb.IMPORT_FORMAT_MEMORYVAULT_EXPORT_V1
        given = list((memoryvault.parse_document if is_vault else portable.parse_lines)(request.lines))
        if len(given) > MAX_ITEMS:
            raise FieldInvalid(violations=[("lines", f"hold more than {MAX_ITEMS} items")])

        def respond(applying: Importer) -> pb.ImportDataResponse:
            pending = self._parts.embeddings.expected_pending(applying.documents)
            return pb.ImportDataResponse(
                counts=_counts(applying),
                errors=_errors(applying),
                pending_embedding_count=pending,
                kept_embedding_count=applying.vectors.kept,
                remade_embeddings=applying.vectors.remade,
            )

        imported, applying = await self._parts.transfer.import_items(
            who.tenant(),
            IdempotencyKey.of(who, request),
            given,
            _MODES[request.mode],
            respond,
            dry_run=request.dry_run,
            at=at,
            by=who.principal,
        )
        if applying is not None and not request.dry_run:
            await self._parts.embeddings.make(applying.documents, remaining=context.time_remaining())
        return pb.ImportDataResponse.FromString(imported) if isinstance(imported, bytes) else imported


def _snapshot(value: Snapshot) -> pb.Snapshot:
    return pb.Snapshot(
        snapshot_id=str(value.snapshot_id),
        label=value.label,
        summary=value.summary or "",
        state=pb.SNAPSHOT_STATE_READY if value.state == READY else pb.SNAPSHOT_STATE_CREATING,
        as_of_time=to_timestamp(value.as_of_time),
        item_counts=json.loads(value.counts),
        create_time=to_timestamp(value.create_time),
        created_by=value.created_by,
        **fields(policy=value.policy),
    )


def _counts(applying: Importer) -> pb.ImportCounts:
    return pb.ImportCounts(
        created=portable.count_kinds(applying.created),
        updated=portable.count_kinds(applying.updated),
        unchanged=portable.count_kinds(applying.unchanged),
        removed=portable.count_kinds(applying.removed),
        refused=portable.count_kinds([trouble.kind for trouble in applying.troubles]),
        expired=portable.count_kinds(applying.expired),
    )


def _errors(applying: Importer) -> Sequence[pb.ImportError]:
    ordered = sorted(applying.troubles, key=lambda trouble: trouble.place)[:_MAX_ERRORS]
    return [pb.ImportError(line=one.place, kind=one.kind, reason=one.reason, field=one.field) for one in ordered]


def _token(place: TransferCursor | None, tenant_id: UUID, request: Message, *ignored: str) -> str:
    if place is None:
        return ""
    return write_token([place.phase, place.kind, place.after], tenant_id, _question(request, ignored))


def _place(request: Message, tenant_id: UUID, *ignored: str) -> TransferCursor | None:
    token: str = request.page_token  # type: ignore[attr-defined]  # Every request of these has one.
    parts = read_token(token, tenant_id, _question(request, ignored))
    if parts is None:
        return None
    if len(parts) != len(("phase", "kind", "after")) or parts[1] not in KINDS or "\0" in parts[2]:
        raise PageTokenInvalid
    return TransferCursor(phase=parts[0], kind=parts[1], after=parts[2])


def _question(request: Message, ignored: Sequence[str]) -> Message:
    """Return a request without what differs from page to page."""
    question = type(request)()
    question.CopyFrom(request)
    for name in ignored:
        question.ClearField(name)
    return question


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise PageTokenInvalid from None
