"""Handlers of the RPCs for snapshots."""

from __future__ import annotations

import json
from uuid import UUID

from skein.memory.v1 import snapshots_pb2 as pb
from skein_kit.calls.call import Context, current_space_ids, narrow_spaces
from skein_kit.calls.call import caller as caller_of
from skein_kit.errors import FieldInvalid
from skein_kit.idempotency.store import IdempotencyKey, IdempotencyStore
from skein_kit.identity.permissions import may_rate_sources
from skein_kit.identity.spaces import DEFAULT_SPACE
from skein_kit.ids import now, parse_id
from skein_kit.rpc.pagination import read_id, resolve_page_size
from skein_kit.rpc.well_known_types import to_message
from skein_kit.search_text.embedding_requests import EmbeddingClient
from skein_memory.paging import cut_page
from skein_memory.snapshots.model import Snapshot
from skein_memory.snapshots.store import SnapshotStore
from skein_memory.transfer import convert as transfer_convert
from skein_memory.transfer.model import KINDS, TransferCursor

# Batches that one page of differences scans, and items of each.
_MAX_SCANS = 10
_SCAN_BATCH_SIZE = 100


class SnapshotHandlers:
    """Snapshots: created, compared, restored and deleted."""

    def __init__(self, store: SnapshotStore, idempotency: IdempotencyStore, *, embeddings: EmbeddingClient) -> None:
        """Documents of restored memories get embeddings."""
        self._store = store
        self._idempotency = idempotency
        self._embeddings = embeddings

    async def CreateSnapshot(self, request: pb.CreateSnapshotRequest, context: Context) -> pb.CreateSnapshotResponse:
        caller = caller_of(context)
        tenant_id, idempotency_key = caller.require_tenant(), IdempotencyKey.of(caller, request)
        async with self._idempotency.begin_with_key(tenant_id, idempotency_key) as write:
            snapshot = await self._store.create_snapshot(
                write.tx, tenant_id, request.label, request.summary, at=now(), by=caller.principal
            )
            await write.save(pb.CreateSnapshotResponse(snapshot=_snapshot(snapshot)))
        snapshot = await self._store.copy_items(tenant_id, snapshot)
        async with self._idempotency.begin_with_key(tenant_id, idempotency_key, sees_repeats=True) as write:
            return await write.save(pb.CreateSnapshotResponse(snapshot=_snapshot(snapshot)))

    async def GetSnapshot(self, request: pb.GetSnapshotRequest, context: Context) -> pb.GetSnapshotResponse:
        snapshot = await self._store.get_snapshot(caller_of(context).require_tenant(), UUID(request.snapshot_id))
        return pb.GetSnapshotResponse(snapshot=_snapshot(snapshot))

    async def ListSnapshots(self, request: pb.ListSnapshotsRequest, context: Context) -> pb.ListSnapshotsResponse:
        tenant_id, size = caller_of(context).require_tenant(), resolve_page_size(request.page_size)
        snapshots = await self._store.list_snapshots(tenant_id, before=read_id(tenant_id, request), count=size + 1)
        page, token = cut_page(map(_snapshot, snapshots), size, "snapshot_id", tenant_id, request)
        return pb.ListSnapshotsResponse(snapshots=page, next_page_token=token)

    async def DiffSnapshots(self, request: pb.DiffSnapshotsRequest, context: Context) -> pb.DiffSnapshotsResponse:
        tenant_id, size = caller_of(context).require_tenant(), resolve_page_size(request.page_size)
        other_id = parse_id(request.other_snapshot_id) if request.other_snapshot_id else None
        if request.other_snapshot_id and other_id is None:
            raise FieldInvalid(violations=[("other_snapshot_id", "must be a UUID")])
        if other_id is None:
            # What lies in other spaces is not missing in the snapshot.
            snapshot = await self._store.get_snapshot(tenant_id, UUID(request.snapshot_id))
            narrow_spaces(context, [snapshot.space_id or DEFAULT_SPACE])
        cursor: TransferCursor | None = transfer_convert.read_cursor(request, tenant_id) or TransferCursor(
            phase="of", kind=KINDS[0], after=""
        )
        differences_of_page: list[pb.Difference] = []
        for _ in range(_MAX_SCANS):
            if cursor is None or len(differences_of_page) >= size:
                break
            differences, cursor = await self._store.diff(
                tenant_id,
                UUID(request.snapshot_id),
                other_id,
                cursor=cursor,
                count=min(_SCAN_BATCH_SIZE, size - len(differences_of_page)),
                at=now(),
            )
            differences_of_page += [
                pb.Difference(
                    kind=difference.kind,
                    item_id=difference.item_id,
                    type=f"DIFFERENCE_TYPE_{difference.type.upper()}",
                    fields=difference.fields,
                )
                for difference in differences
            ]
        return pb.DiffSnapshotsResponse(
            differences=differences_of_page, next_page_token=transfer_convert.page_token(cursor, tenant_id, request)
        )

    async def RestoreSnapshot(self, request: pb.RestoreSnapshotRequest, context: Context) -> pb.RestoreSnapshotResponse:
        caller, at = caller_of(context), now()
        tenant_id, idempotency_key = caller.require_tenant(), IdempotencyKey.of(caller, request)
        first_cursor = TransferCursor(phase="remove" if request.replace else "store", kind=KINDS[0], after="")
        batch = await self._store.read_restore_batch(
            tenant_id,
            UUID(request.snapshot_id),
            transfer_convert.read_cursor(request, tenant_id, "request_id") or first_cursor,
            count=resolve_page_size(request.page_size),
            at=at,
            by=caller.principal,
            may_rate=may_rate_sources(caller, current_space_ids()),
        )
        async with self._idempotency.begin_with_key(tenant_id, idempotency_key) as write:
            importer, next_cursor = await self._store.restore(write.tx, tenant_id, batch, at=at, by=caller.principal)
            response = pb.RestoreSnapshotResponse(
                counts=transfer_convert.import_counts(importer),
                errors=transfer_convert.import_errors(importer),
                next_page_token=transfer_convert.page_token(next_cursor, tenant_id, request, "request_id"),
            )
            await write.save(response)
        await self._embeddings.request_embeddings(importer.documents, remaining=context.time_remaining())
        return response

    async def DeleteSnapshot(self, request: pb.DeleteSnapshotRequest, context: Context) -> pb.DeleteSnapshotResponse:
        caller, snapshot_id = caller_of(context), UUID(request.snapshot_id)
        async with self._idempotency.begin_with_key(
            caller.require_tenant(), IdempotencyKey.of(caller, request), sees_repeats=True
        ) as write:
            if write.saved_response is not None:
                return pb.DeleteSnapshotResponse()
            await self._store.delete_snapshot(
                write.tx, caller.require_tenant(), snapshot_id, at=now(), by=caller.principal
            )
            await write.save(pb.DeleteSnapshotResponse())
        await self._store.continue_snapshots(caller.require_tenant())
        return pb.DeleteSnapshotResponse()


def _snapshot(value: Snapshot) -> pb.Snapshot:
    return to_message(pb.Snapshot, value, item_counts=json.loads(value.counts))
