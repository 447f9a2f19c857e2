"""Handlers of the RPCs that purge, delete and export many memories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from uuid import UUID

from skein.memory.v1 import blocks_pb2
from skein.memory.v1 import memory_pb2 as pb
from skein_kit.calls.call import Context, reach_all_spaces
from skein_kit.calls.call import caller as caller_of
from skein_kit.errors import AgentBound, PageTokenInvalid
from skein_kit.idempotency.store import IdempotencyKey, IdempotencyStore
from skein_kit.ids import now, parse_id
from skein_kit.rpc.pagination import read_token, resolve_page_size, write_token
from skein_kit.rpc.well_known_types import to_message
from skein_memory.erasure.access_log_erasure import AccessLogErasure
from skein_memory.erasure.archive_purge import ArchivePurge, ArchivePurgeStore, PurgeOptions
from skein_memory.erasure.completion import ErasureCompleter
from skein_memory.erasure.receipt import PurgeReceipt
from skein_memory.erasure.store import PurgeResult, PurgeStore, Selection
from skein_memory.idempotent_writes import begin_write
from skein_memory.links import convert as links_convert
from skein_memory.listing.convert import named_days, selection_filter
from skein_memory.listing.filter import Filter
from skein_memory.listing.rpc import versions_of
from skein_memory.listing.store import MemoryListStore
from skein_memory.memories import convert as memories_convert
from skein_memory.memories.model import Memory
from skein_memory.paging import PageBuilder

DEFAULT_PURGE = 100
# Earlier versions and links of one exported memory.
_MAX_VERSIONS = 100
_MAX_LINKS = 1000


class PurgeHandlers:
    """Purges of memories and blocks, exports before them, and deletion of many memories at once."""

    def __init__(
        self,
        store: PurgeStore,
        idempotency: IdempotencyStore,
        *,
        archives: ArchivePurgeStore,
        lists: MemoryListStore,
        access_log: AccessLogErasure,
        completer: ErasureCompleter,
    ) -> None:
        self._store = store
        self._idempotency = idempotency
        self._archives = archives
        self._lists = lists
        self._access_log = access_log
        self._completer = completer

    async def ExportMemories(self, request: pb.ExportMemoriesRequest, context: Context) -> pb.ExportMemoriesResponse:
        tenant_id, size = caller_of(context).require_tenant(), resolve_page_size(request.page_size)
        zone = await self._lists.zone_of_days(tenant_id, *named_days(request.selection.filter))
        selection = _selection(request.selection, request.page_token, tenant_id, size, zone)
        selection = replace(selection, filter=selection.filter.without_expired())
        memories, after = await self._store.select(tenant_id, selection, at=now())
        builder = PageBuilder[pb.ExportedMemory]()
        for memory in memories:
            if not builder.add([await self._export(tenant_id, memory)]):
                after = UUID(builder.items[-1].memory.memory_id)
                break
        return pb.ExportMemoriesResponse(
            memories=builder.items,
            next_page_token=_token(_PurgeCursor(after=after), tenant_id, request.selection) if after else "",
        )

    async def PurgeMemories(self, request: pb.PurgeMemoriesRequest, context: Context) -> pb.PurgeMemoriesResponse:
        caller, at = caller_of(context), now()
        tenant_id, idempotency_key = caller.require_tenant(), IdempotencyKey.of(caller, request)
        if caller.agent_id and _subject(request.selection):
            # A person is purged from all agents' memories, or from none.
            raise AgentBound(agent_id=caller.agent_id)
        if _subject(request.selection):
            # And from every space, or from none.
            reach_all_spaces(context)
        saved_response = await self._idempotency.saved_response(tenant_id, idempotency_key)
        if saved_response is not None:
            response = pb.PurgeMemoriesResponse.FromString(saved_response)
            # The first call may have ended before this.
            await self._after_purge(tenant_id, request, response)
            return response
        options = PurgeOptions(at=at, by=caller.principal, dry_run=request.dry_run)
        zone = await self._lists.zone_of_days(tenant_id, *named_days(request.selection.filter))
        size = request.page_size or DEFAULT_PURGE
        selection = _selection(request.selection, request.page_token, tenant_id, size, zone)
        archive_purge = await self._purge_archives(
            tenant_id, request.selection, request.page_token, selection.filter, options
        )
        selection = replace(
            selection, subject_id=_subject(request.selection), newest_archive_id=archive_purge.newest_archive_id
        )

        def to_response(result: PurgeResult) -> pb.PurgeMemoriesResponse:
            return pb.PurgeMemoriesResponse(
                archived_memory_ids=[str(id_) for id_ in archive_purge.memory_ids],
                receipt=_receipt(result.receipt),
                not_found_ids=[name for name in result.not_found_ids if name not in archive_purge.names],
                next_page_token=_next_page_token(result, archive_purge, tenant_id, request.selection),
                remaining_memory_ids=[str(id_) for id_ in result.remaining_ids],
            )

        async with begin_write(self._idempotency, tenant_id, idempotency_key, dry_run=request.dry_run) as write:
            result = await self._store.purge(
                write.tx, tenant_id, selection, at=at, by=caller.principal, dry_run=request.dry_run
            )
            response = to_response(result)
            # Callers choose the ids of blocks, which may name a person: the saved response leaves them out.
            await write.save(to_response(result.without_block_ids()) if selection.subject_id else response)
        await self._after_purge(tenant_id, request, response)
        return response

    async def _after_purge(
        self, tenant_id: UUID, request: pb.PurgeMemoriesRequest, response: pb.PurgeMemoriesResponse
    ) -> None:
        """Clear a person without remaining memories from the access log; repeating it changes nothing."""
        subject_id = _subject(request.selection)
        if subject_id and not request.dry_run and not response.next_page_token:
            await self._access_log.clear_subject(tenant_id, subject_id)
            self._completer.schedule(tenant_id)

    async def DeleteMemories(self, request: pb.DeleteMemoriesRequest, context: Context) -> pb.DeleteMemoriesResponse:
        caller, at = caller_of(context), now()
        tenant_id, idempotency_key = caller.require_tenant(), IdempotencyKey.of(caller, request)
        saved_response = await self._idempotency.saved_response(tenant_id, idempotency_key)
        if saved_response is not None:
            return pb.DeleteMemoriesResponse.FromString(saved_response)
        options = PurgeOptions(at=at, by=caller.principal, dry_run=request.dry_run)
        zone = await self._lists.zone_of_days(tenant_id, *named_days(request.selection.filter))
        selection = _selection(
            request.selection,
            request.page_token,
            tenant_id,
            request.page_size or DEFAULT_PURGE,
            zone,
            active_only=not request.purge,
        )
        archive_purge = ArchivePurge(memory_ids=[])
        if request.purge:
            archive_purge = await self._purge_archives(
                tenant_id, request.selection, request.page_token, selection.filter, options
            )
            selection = replace(selection, newest_archive_id=archive_purge.newest_archive_id)

        operation = self._store.purge if request.purge else self._store.delete_selected
        async with begin_write(self._idempotency, tenant_id, idempotency_key, dry_run=request.dry_run) as write:
            result = await operation(
                write.tx, tenant_id, selection, at=at, by=caller.principal, dry_run=request.dry_run
            )
            response = pb.DeleteMemoriesResponse(
                memory_ids=[str(id_) for id_ in result.memory_ids],
                archived_memory_ids=[str(id_) for id_ in archive_purge.memory_ids],
                receipt=_receipt(result.receipt),
                not_found_ids=[name for name in result.not_found_ids if name not in archive_purge.names],
                next_page_token=_next_page_token(result, archive_purge, tenant_id, request.selection),
            )
            await write.save(response)
        return response

    async def PurgeBlock(
        self, request: blocks_pb2.PurgeBlockRequest, context: Context
    ) -> blocks_pb2.PurgeBlockResponse:
        caller, at = caller_of(context), now()
        tenant_id, idempotency_key = caller.require_tenant(), IdempotencyKey.of(caller, request)
        async with begin_write(self._idempotency, tenant_id, idempotency_key, dry_run=request.dry_run) as write:
            receipt = await self._store.purge_block(
                write.tx, tenant_id, request.block_id, at=at, by=caller.principal, dry_run=request.dry_run
            )
            return await write.save(blocks_pb2.PurgeBlockResponse(receipt=_receipt(receipt)))

    async def _purge_archives(
        self, tenant_id: UUID, message: pb.MemorySelection, page_token: str, filter_: Filter, options: PurgeOptions
    ) -> ArchivePurge:
        """Purge the selection from cold storage: named memories and a person's at once, others archive by archive.

        It goes first: a call that is cut off after it is repeated, and finds nothing more there. Each call scans
        what came there after the one before.
        """
        cursor = _read_cursor(read_token(page_token, tenant_id, _token_request(message)))
        if message.memory_ids:
            return await self._archives.purge_by_names(
                tenant_id, message.memory_ids, filter_, after=cursor.cold_after, options=options
            )
        if subject_id := _subject(message):
            person = replace(options, subject_id=subject_id)
            return await self._archives.purge_subject(tenant_id, subject_id, after=cursor.cold_after, options=person)
        return await self._archives.purge_matching(tenant_id, filter_, after=cursor.cold_after, options=options)

    async def _export(self, tenant_id: UUID, memory: Memory) -> pb.ExportedMemory:
        versions, has_all_versions = await self._lists.versions_of(tenant_id, memory, _MAX_VERSIONS)
        links = await self._lists.links_of(tenant_id, memory, _MAX_LINKS + 1)
        version_page, link_page = PageBuilder[pb.MemoryVersion](), PageBuilder[pb.Link]()
        messages = versions_of(versions, _MAX_VERSIONS, is_all=has_all_versions)
        has_all_versions &= version_page.add(messages) == len(messages)
        has_all_links = link_page.add(links_convert.link(link) for link in links[:_MAX_LINKS]) == len(links)
        return pb.ExportedMemory(
            memory=memories_convert.memory(memory),
            versions=version_page.items,
            links=link_page.items,
            truncated=not (has_all_versions and has_all_links),
        )


def _selection(
    message: pb.MemorySelection,
    page_token: str,
    tenant_id: UUID,
    count: int,
    zone: tzinfo,
    *,
    active_only: bool = False,
) -> Selection:
    filter_ = selection_filter(message, zone)
    cursor = _read_cursor(read_token(page_token, tenant_id, _token_request(message)))
    return Selection(
        names=list(message.memory_ids),
        filter=filter_.without_deleted() if active_only else filter_,
        after=cursor.after,
        count=count,
        blocks_after=cursor.blocks_after,
        is_table_done=cursor.cold_after is not None and cursor.after is None and cursor.blocks_after is None,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _PurgeCursor:
    """The cursor of a purge: among the memories, then among the blocks, and in cold storage."""

    after: UUID | None = None
    blocks_after: str | None = None
    cold_after: UUID | None = None


def _read_cursor(cursor: Sequence[str] | None) -> _PurgeCursor:
    """Read the next cursor. Raises PageTokenInvalid."""
    match cursor:
        case None:
            return _PurgeCursor()
        case [after, blocks_after, cold_after]:
            return _PurgeCursor(after=_read(after), blocks_after=blocks_after or None, cold_after=_read(cold_after))
    raise PageTokenInvalid


def _read(text: str) -> UUID | None:
    if not text:
        return None
    if (id_ := parse_id(text)) is None:
        raise PageTokenInvalid
    return id_


def _next_page_token(
    result: PurgeResult, archive_purge: ArchivePurge, tenant_id: UUID, selection: pb.MemorySelection
) -> str:
    """Return the token of the next page; empty when nothing remains in the tables and in cold storage."""
    if (
        result.after is None
        and result.blocks_after is None
        and not (archive_purge.has_more or result.has_newer_archive or result.has_lineage)
    ):
        return ""
    cursor = _PurgeCursor(
        after=result.after, blocks_after=result.blocks_after, cold_after=archive_purge.newest_archive_id
    )
    return _token(cursor, tenant_id, selection)


def _token(cursor: _PurgeCursor, tenant_id: UUID, selection: pb.MemorySelection) -> str:
    """Bind a page token to the selection alone: the next call has another request_id."""
    parts = [cursor.after or "", cursor.blocks_after or "", cursor.cold_after or ""]
    return write_token([str(part) for part in parts], tenant_id, _token_request(selection))


def _token_request(selection: pb.MemorySelection) -> pb.PurgeMemoriesRequest:
    return pb.PurgeMemoriesRequest(selection=selection)


def _subject(selection: pb.MemorySelection) -> str:
    """Return the subject of a selection of all memories about one person; empty for any other selection."""
    subject_only = pb.MemorySelection(filter=pb.MemoryFilter(subject_id=selection.filter.subject_id))
    return selection.filter.subject_id if selection == subject_only else ""


def _receipt(receipt: PurgeReceipt | None) -> pb.PurgeReceipt | None:
    if receipt is None:
        return None
    return to_message(
        pb.PurgeReceipt,
        receipt,
        deleted_counts=receipt.deleted_counts,
        event_position="" if receipt.dry_run else receipt.event_position,
        tombstones=() if receipt.dry_run else receipt.tombstones,
    )
