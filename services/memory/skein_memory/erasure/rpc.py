"""Forgetting: each RPC reads its request, makes one call, and replies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from uuid import UUID

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.calls.call import Context, caller
from skein_kit.errors import PageTokenInvalid
from skein_kit.idempotency.store import IdempotencyKey
from skein_kit.ids import now, parse_id
from skein_kit.rpc.pagination import read_token, resolve_page_size, write_token
from skein_kit.rpc.well_known_types import to_timestamp
from skein_memory.erasure.archive_purge import ArchivePurge, PurgeOptions
from skein_memory.erasure.store import PurgeResult, Selection
from skein_memory.listing.filter import Filter
from skein_memory.listing.rpc import versions_of
from skein_memory.memories import convert as wire
from skein_memory.page_builder import PageBuilder
from skein_memory.parts import Rpcs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skein_memory.erasure.model import PurgeReceipt
    from skein_memory.memories.model import Memory

DEFAULT_PURGE = 100
# Earlier versions and links that come with one exported memory.
_MOST_VERSIONS = 100
_MOST_LINKS = 1000


class PurgeHandlers(Rpcs):
    """Removing memories for good, taking them along before, and forgetting many at once."""

    async def ExportMatching(self, request: pb.ExportMatchingRequest, context: Context) -> pb.ExportMatchingResponse:
        tenant_id, size = caller(context).tenant(), resolve_page_size(request.page_size)
        selection = _selection(request.selection, request.page_token, tenant_id, size)
        selection = replace(selection, filter=selection.filter.visible())
        memories, after = await self._parts.erasing.select(tenant_id, selection, at=now())
        answer = PageBuilder[pb.ExportedMemory]()
        for memory in memories:
            if not answer.take([await self._exported(tenant_id, memory)]):
                after = UUID(answer.items[-1].memory.memory_id)
                break
        return pb.ExportMatchingResponse(
            memories=answer.items,
            next_page_token=_token(_PurgeCursor(after=after), tenant_id, request.selection) if after else "",
        )

    async def PurgeMemories(self, request: pb.PurgeMemoriesRequest, context: Context) -> pb.PurgeMemoriesResponse:
        who, at = caller(context), now()
        tenant_id, once = who.tenant(), IdempotencyKey.of(who, request)
        first = await self._parts.erasing.first_answer(tenant_id, once)
        if first is not None:
            answer = pb.PurgeMemoriesResponse.FromString(first)
            # The process that gave it may have died before it was through.
            await self._after_purge(tenant_id, request, answer)
            return answer
        wish = PurgeOptions(at=at, by=who.principal, dry_run=request.dry_run)
        selection = _selection(request.selection, request.page_token, tenant_id, request.page_size or DEFAULT_PURGE)
        stored = await self._expunged(tenant_id, request.selection, request.page_token, selection.filter, wish)
        selection = replace(selection, subject_id=_subject(request.selection), seen=stored.seen)

        def respond(erased: PurgeResult) -> pb.PurgeMemoriesResponse:
            return pb.PurgeMemoriesResponse(
                archived_memory_ids=[str(id_) for id_ in stored.memory_ids],
                receipt=receipt_of(erased.receipt),
                not_found=[name for name in erased.not_found if name not in stored.names],
                next_page_token=_going_on(erased, stored, tenant_id, request.selection),
            )

        done = await self._parts.erasing.purge(
            tenant_id, once, selection, respond, at=at, by=who.principal, dry_run=request.dry_run
        )
        response = pb.PurgeMemoriesResponse.FromString(done) if isinstance(done, bytes) else done
        await self._after_purge(tenant_id, request, response)
        return response

    async def _after_purge(
        self, tenant_id: UUID, request: pb.PurgeMemoriesRequest, response: pb.PurgeMemoriesResponse
    ) -> None:
        """Take a person of whom nothing else is left out of the access log; doing it again changes nothing."""
        subject_id = _subject(request.selection)
        if subject_id and not request.dry_run and not response.next_page_token:
            await self._parts.erasures.clear_subject(tenant_id, subject_id)
            self._parts.erasure_completer.schedule(tenant_id)

    async def ForgetMemories(self, request: pb.ForgetMemoriesRequest, context: Context) -> pb.ForgetMemoriesResponse:
        who, at = caller(context), now()
        tenant_id, once = who.tenant(), IdempotencyKey.of(who, request)
        first = await self._parts.erasing.first_answer(tenant_id, once)
        if first is not None:
            return pb.ForgetMemoriesResponse.FromString(first)
        wish = PurgeOptions(at=at, by=who.principal, dry_run=request.dry_run)
        selection = _selection(
            request.selection, request.page_token, tenant_id, request.page_size or DEFAULT_PURGE, alive=not request.hard
        )
        stored = ArchivePurge(memory_ids=[])
        if request.hard:
            stored = await self._expunged(tenant_id, request.selection, request.page_token, selection.filter, wish)
            selection = replace(selection, seen=stored.seen)

        def respond(erased: PurgeResult) -> pb.ForgetMemoriesResponse:
            return pb.ForgetMemoriesResponse(
                memory_ids=[str(id_) for id_ in erased.memory_ids],
                archived_memory_ids=[str(id_) for id_ in stored.memory_ids],
                receipt=receipt_of(erased.receipt),
                not_found=[name for name in erased.not_found if name not in stored.names],
                next_page_token=_going_on(erased, stored, tenant_id, request.selection),
            )

        forget = self._parts.erasing.purge if request.hard else self._parts.erasing.forget
        done = await forget(tenant_id, once, selection, respond, at=at, by=who.principal, dry_run=request.dry_run)
        return pb.ForgetMemoriesResponse.FromString(done) if isinstance(done, bytes) else done

    async def _expunged(
        self, tenant_id: UUID, asked: pb.MemorySelection, page_token: str, wanted: Filter, wish: PurgeOptions
    ) -> ArchivePurge:
        """Take what is meant out of cold storage: named memories and a person's at once, others archive by archive.

        It goes first: a call that is cut off after it is repeated, and finds nothing more there. Each call looks at
        what came there after the one before.
        """
        place = _places(read_token(page_token, tenant_id, _question(asked)))
        if asked.memory_ids:
            return await self._parts.expunging.named(
                tenant_id, asked.memory_ids, wanted, after=place.cold_after, wish=wish
            )
        if subject_id := _subject(asked):
            person = replace(wish, of_person=subject_id)
            return await self._parts.expunging.of_subject(tenant_id, subject_id, after=place.cold_after, wish=person)
        return await self._parts.expunging.passing(tenant_id, wanted, after=place.cold_after, wish=wish)

    async def _exported(self, tenant_id: UUID, memory: Memory) -> pb.ExportedMemory:
        versions, has_all_versions = await self._parts.finding.versions_of(tenant_id, memory, _MOST_VERSIONS)
        links = await self._parts.finding.links_of(tenant_id, memory, _MOST_LINKS + 1)
        earlier, linked = PageBuilder[pb.MemoryVersion](), PageBuilder[pb.Link]()
        made = versions_of(versions, _MOST_VERSIONS, is_all=has_all_versions)
        has_all_versions &= earlier.take(made) == len(made)
        has_all_links = linked.take(wire.link(link) for link in links[:_MOST_LINKS]) == len(links)
        return pb.ExportedMemory(
            memory=wire.memory(memory),
            versions=earlier.items,
            links=linked.items,
            truncated=not (has_all_versions and has_all_links),
        )


def _selection(
    asked: pb.MemorySelection, page_token: str, tenant_id: UUID, count: int, *, alive: bool = False
) -> Selection:
    wanted = Filter.selecting(asked)
    place = _places(read_token(page_token, tenant_id, _question(asked)))
    return Selection(
        names=list(asked.memory_ids),
        filter=wanted.alive() if alive else wanted,
        after=place.after,
        count=count,
        blocks_after=place.blocks_after,
        is_done=place.cold_after is not None and place.after is None and place.blocks_after is None,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _PurgeCursor:
    """Where a purge goes on: among the memories, after the last of them among the blocks, and in cold storage."""

    after: UUID | None = None
    blocks_after: str | None = None
    cold_after: UUID | None = None


def _places(place: Sequence[str] | None) -> _PurgeCursor:
    """Read where to go on. Raises PageTokenInvalid."""
    match place:
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


def _going_on(erased: PurgeResult, stored: ArchivePurge, tenant_id: UUID, selection: pb.MemorySelection) -> str:
    """Return where a purge goes on; nowhere when nothing is left in the tables and in cold storage."""
    if erased.after is None and erased.blocks_after is None and not (stored.more or erased.is_behind):
        return ""
    place = _PurgeCursor(after=erased.after, blocks_after=erased.blocks_after, cold_after=stored.seen)
    return _token(place, tenant_id, selection)


def _token(place: _PurgeCursor, tenant_id: UUID, selection: pb.MemorySelection) -> str:
    """Bind a place to the selection alone: the next call has another request_id."""
    said = [place.after or "", place.blocks_after or "", place.cold_after or ""]
    return write_token([str(part) for part in said], tenant_id, _question(selection))


def _question(selection: pb.MemorySelection) -> pb.PurgeMemoriesRequest:
    return pb.PurgeMemoriesRequest(selection=selection)


def _subject(selection: pb.MemorySelection) -> str:
    """Return the person whose memories are meant, all of them; empty when the selection says anything else."""
    alone = pb.MemorySelection(filter=pb.MemoryFilter(subject_id=selection.filter.subject_id))
    return selection.filter.subject_id if selection == alone else ""


def receipt_of(receipt: PurgeReceipt | None) -> pb.PurgeReceipt | None:
    if receipt is None:
        return None
    return pb.PurgeReceipt(
        receipt_id=str(receipt.receipt_id),
        purge_time=to_timestamp(receipt.purge_time),
        memory_ids=[str(id_) for id_ in receipt.memory_ids],
        deleted_counts=receipt.deleted_counts,
        digest=receipt.digest,
        dry_run=receipt.dry_run,
        block_ids=receipt.block_ids,
        log_position=receipt.log_position,
    )
