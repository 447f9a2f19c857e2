"""Handlers of the RPCs for cold storage."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from skein.memory.v1 import archives_pb2 as pb
from skein_kit.calls.call import Context, caller
from skein_kit.errors import FieldInvalid
from skein_kit.idempotency.key import IdempotencyKey
from skein_kit.ids import min_id_at, now
from skein_kit.rpc.pagination import fit_items, resolve_page_size, write_token
from skein_kit.rpc.well_known_types import read_time, to_timestamp
from skein_memory.cold_storage.store import ArchiveSelection
from skein_memory.paging import read_id_cursor

if TYPE_CHECKING:
    import asyncpg

    from skein_kit.search_text.embedding_requests import EmbeddingClient
    from skein_memory.cold_storage.store import ArchiveStore


class ArchiveHandlers:
    """Taking memories to cold storage and back."""

    def __init__(self, store: ArchiveStore, *, embeddings: EmbeddingClient) -> None:
        """Use the store; documents of unarchived memories get embeddings."""
        self._store = store
        self._embeddings = embeddings

    async def CreateArchive(self, request: pb.CreateArchiveRequest, context: Context) -> pb.CreateArchiveResponse:
        who, at = caller(context), now()
        idle_since = read_time(request, "idle_since_time")
        if idle_since is None or idle_since > at:
            raise FieldInvalid(violations=[("idle_since_time", "lies in the future")])
        selection = ArchiveSelection(
            idle_since=idle_since,
            before_id=min_id_at(idle_since),
            after_id=UUID(request.after_memory_id or str(UUID(int=0))),
            session_id=request.session_id or None,
        )
        stored = await self._store.archive(
            who.tenant(), IdempotencyKey.of(who, request), selection, _created, label=request.label, at=at
        )
        return pb.CreateArchiveResponse.FromString(stored) if isinstance(stored, bytes) else stored

    async def ListArchives(self, request: pb.ListArchivesRequest, context: Context) -> pb.ListArchivesResponse:
        tenant_id, size = caller(context).tenant(), resolve_page_size(request.page_size)
        rows = await self._store.list_archives(tenant_id, before=read_id_cursor(request, tenant_id), count=size + 1)
        page = fit_items(_archive(row) for row in rows[:size])
        more = len(rows) > len(page)
        return pb.ListArchivesResponse(
            archives=page, next_page_token=write_token([page[-1].archive_id], tenant_id, request) if more else ""
        )

    async def RestoreArchive(self, request: pb.RestoreArchiveRequest, context: Context) -> pb.RestoreArchiveResponse:
        who = caller(context)
        stored = await self._store.unarchive(
            who.tenant(), IdempotencyKey.of(who, request), UUID(request.archive_id), _restored, at=now()
        )
        if isinstance(stored, bytes):
            return pb.RestoreArchiveResponse.FromString(stored)
        response, documents = stored
        pending = await self._embeddings.make(documents, remaining=context.time_remaining())
        response.pending_embedding_count = pending
        return response


def _created(row: asyncpg.Record | None, after_id: UUID | None) -> pb.CreateArchiveResponse:
    return pb.CreateArchiveResponse(
        archive=None if row is None else _archive(row), next_memory_id="" if after_id is None else str(after_id)
    )


def _restored(restored: int, skipped: int) -> pb.RestoreArchiveResponse:
    return pb.RestoreArchiveResponse(restored_count=restored, skipped_count=skipped)


def _archive(row: asyncpg.Record) -> pb.Archive:
    return pb.Archive(
        archive_id=str(row["archive_id"]),
        label=row["label"],
        memory_count=row["memory_count"],
        byte_count=row["byte_count"],
        checksum=row["checksum"].hex(),
        from_time=to_timestamp(row["from_time"]),
        to_time=to_timestamp(row["to_time"]),
        create_time=to_timestamp(row["create_time"]),
        created_by=row["created_by"],
    )
