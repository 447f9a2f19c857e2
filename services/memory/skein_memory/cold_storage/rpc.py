"""Handlers of the RPCs for cold storage."""

from __future__ import annotations

from uuid import UUID

import asyncpg

from skein.memory.v1 import archives_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.errors import FieldInvalid
from skein_kit.idempotency.store import IdempotencyKey, IdempotencyStore
from skein_kit.ids import min_id_at, now
from skein_kit.rpc.pagination import read_id, resolve_page_size
from skein_kit.rpc.well_known_types import read_time, to_message
from skein_kit.search_text.embedding_requests import EmbeddingClient
from skein_memory.cold_storage.store import ArchiveSelection, ArchiveStore
from skein_memory.errors import ArchiveNotFound
from skein_memory.memories.model import documents_of
from skein_memory.paging import cut_page


class ArchiveHandlers:
    """Archives memories in cold storage, and unarchives them."""

    def __init__(self, store: ArchiveStore, idempotency: IdempotencyStore, *, embeddings: EmbeddingClient) -> None:
        """Documents of unarchived memories get embeddings."""
        self._store = store
        self._idempotency = idempotency
        self._embeddings = embeddings

    async def ArchiveMemories(self, request: pb.ArchiveMemoriesRequest, context: Context) -> pb.ArchiveMemoriesResponse:
        caller, at = caller_of(context), now()
        idle_since = read_time(request, "idle_since_time")
        if idle_since is None or idle_since > at:
            raise FieldInvalid(violations=[("idle_since_time", "lies in the future")])
        selection = ArchiveSelection(
            idle_since=idle_since,
            before_id=min_id_at(idle_since),
            after_id=UUID(request.after_memory_id or str(UUID(int=0))),
            session_id=request.session_id or None,
        )
        batch = await self._store.select_batch(caller.require_tenant(), selection)
        file = await self._store.write_file(caller.require_tenant(), batch, at) if batch.memory_ids else None
        row: asyncpg.Record | None = None
        async with self._idempotency.begin_with_key(
            caller.require_tenant(), IdempotencyKey.of(caller, request), sees_repeats=True
        ) as write:
            if write.saved_response is not None:
                response = pb.ArchiveMemoriesResponse.FromString(write.saved_response)
            else:
                if file is not None:
                    row = await self._store.move_to_archive(
                        write.tx, caller.require_tenant(), batch, file, label=request.label, at=at, by=caller.principal
                    )
                after_id = batch.after_id if row is not None or file is None else selection.after_id
                response = pb.ArchiveMemoriesResponse(
                    archive=None if row is None else _archive(row),
                    next_memory_id="" if after_id is None else str(after_id),
                )
                await write.save(response)
        if file is not None and row is None:
            await self._store.delete_file(caller.require_tenant(), file)
        return response

    async def ListArchives(self, request: pb.ListArchivesRequest, context: Context) -> pb.ListArchivesResponse:
        tenant_id, size = caller_of(context).require_tenant(), resolve_page_size(request.page_size)
        rows = await self._store.list_archives(tenant_id, before=read_id(tenant_id, request), count=size + 1)
        page, token = cut_page(map(_archive, rows), size, "archive_id", tenant_id, request)
        return pb.ListArchivesResponse(archives=page, next_page_token=token)

    async def UnarchiveMemories(
        self, request: pb.UnarchiveMemoriesRequest, context: Context
    ) -> pb.UnarchiveMemoriesResponse:
        caller, at = caller_of(context), now()
        archive = await self._store.read_archive(caller.require_tenant(), UUID(request.archive_id))
        async with self._idempotency.begin(caller, request) as write:
            if archive is None:
                raise ArchiveNotFound
            memories = await self._store.unarchive(
                write.tx, caller.require_tenant(), archive, at=at, by=caller.principal
            )
            response = pb.UnarchiveMemoriesResponse(
                unarchived_count=len(memories), skipped_count=len(archive.memory_ids) - len(memories)
            )
            await write.save(response)
        await self._store.delete_file(caller.require_tenant(), archive)
        response.pending_embedding_count = await self._embeddings.request_embeddings(
            documents_of(memories, at=at), remaining=context.time_remaining()
        )
        return response


def _archive(row: asyncpg.Record) -> pb.Archive:
    return to_message(pb.Archive, row, checksum=row["checksum"].hex())
