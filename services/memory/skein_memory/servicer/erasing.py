"""Forgetting: each RPC reads its request, makes one call, and replies."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.call import Context, caller
from skein_kit.errors import PageTokenInvalid
from skein_kit.ids import now, parse_id
from skein_kit.pages import page_size, read_token, write_token
from skein_kit.requests import Once
from skein_kit.wire import time
from skein_memory import wire
from skein_memory.answers import Answer
from skein_memory.filters import Filter
from skein_memory.parts import Rpcs
from skein_memory.servicer.finding import versions_of
from skein_memory.store.erasing import Erased, Selection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skein_memory.erasing import Receipt
    from skein_memory.memories import Memory

DEFAULT_PURGE = 100
# Earlier versions and links that come with one exported memory.
_MOST_VERSIONS = 100
_MOST_LINKS = 1000


class ErasingRpcs(Rpcs):
    """Removing memories for good, taking them along before, and forgetting many at once."""

    async def ExportMatching(self, request: pb.ExportMatchingRequest, context: Context) -> pb.ExportMatchingResponse:
        tenant_id, size = caller(context).tenant(), page_size(request.page_size)
        selection = _selection(request.selection, request.page_token, tenant_id, size)
        memories, after = await self._parts.erasing.select(tenant_id, selection, at=now())
        answer = Answer[pb.ExportedMemory]()
        for memory in memories:
            if not answer.take([await self._exported(tenant_id, memory)]):
                after = UUID(answer.items[-1].memory.memory_id)
                break
        return pb.ExportMatchingResponse(
            memories=answer.items, next_page_token=_token(after, tenant_id, request.selection)
        )

    async def PurgeMemories(self, request: pb.PurgeMemoriesRequest, context: Context) -> pb.PurgeMemoriesResponse:
        who, at = caller(context), now()
        tenant_id = who.tenant()
        subject_id = _subject(request.selection)
        selection = replace(
            _selection(request.selection, request.page_token, tenant_id, request.page_size or DEFAULT_PURGE),
            subject_id=subject_id,
        )

        # What lies in cold storage is found by id and by person alone. It goes first, all at once: a call that is cut
        # off after it is repeated, and finds nothing more there.
        stored = (
            []
            if request.page_token
            else await self._parts.archives.expunge(
                tenant_id,
                names=list(request.selection.memory_ids),
                subject_id=subject_id,
                at=at,
                by=who.principal,
                dry_run=request.dry_run,
            )
        )

        def respond(erased: Erased) -> pb.PurgeMemoriesResponse:
            return pb.PurgeMemoriesResponse(
                archived_memory_ids=[str(id_) for id_ in stored],
                receipt=_receipt(erased.receipt),
                not_found=erased.not_found,
                next_page_token=_token(erased.after, tenant_id, request.selection, erased.blocks_after),
            )

        done = await self._parts.erasing.purge(
            tenant_id, Once.of(who, request), selection, respond, at=at, by=who.principal, dry_run=request.dry_run
        )
        return pb.PurgeMemoriesResponse.FromString(done) if isinstance(done, bytes) else done

    async def ForgetMemories(self, request: pb.ForgetMemoriesRequest, context: Context) -> pb.ForgetMemoriesResponse:
        who, at = caller(context), now()
        tenant_id = who.tenant()
        selection = _selection(
            request.selection, request.page_token, tenant_id, request.page_size or DEFAULT_PURGE, alive=not request.hard
        )

        def respond(erased: Erased) -> pb.ForgetMemoriesResponse:
            return pb.ForgetMemoriesResponse(
                memory_ids=[str(id_) for id_ in erased.memory_ids],
                receipt=_receipt(erased.receipt),
                not_found=erased.not_found,
                next_page_token=_token(erased.after, tenant_id, request.selection),
            )

        forget = self._parts.erasing.purge if request.hard else self._parts.erasing.forget
        done = await forget(
            tenant_id, Once.of(who, request), selection, respond, at=at, by=who.principal, dry_run=request.dry_run
        )
        return pb.ForgetMemoriesResponse.FromString(done) if isinstance(done, bytes) else done

    async def _exported(self, tenant_id: UUID, memory: Memory) -> pb.ExportedMemory:
        versions, has_all_versions = await self._parts.finding.versions_of(tenant_id, memory, _MOST_VERSIONS)
        links = await self._parts.finding.links_of(tenant_id, memory, _MOST_LINKS + 1)
        earlier, linked = Answer[pb.MemoryVersion](), Answer[pb.Link]()
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
    place = read_token(page_token, tenant_id, _question(asked))
    after, blocks_after = _places(place)
    return Selection(
        names=list(asked.memory_ids),
        filter=wanted.alive() if alive else wanted,
        after=after,
        count=count,
        blocks_after=blocks_after,
    )


def _places(place: Sequence[str] | None) -> tuple[UUID | None, str | None]:
    """Read the place among the memories or, after the last of them, among the blocks. Raises PageTokenInvalid."""
    if place is None:
        return None, None
    after = parse_id(place[0]) if len(place) == 1 else None
    blocks_after = place[1] if len(place) == len(("", "block")) and place[0] == "" else None
    if after is None and blocks_after is None:
        raise PageTokenInvalid
    return after, blocks_after


def _token(after: UUID | None, tenant_id: UUID, selection: pb.MemorySelection, blocks_after: str | None = None) -> str:
    """Bind a place to the selection alone: the next call has another request_id."""
    if after is None and blocks_after is None:
        return ""
    place = [str(after)] if blocks_after is None else ["", blocks_after]
    return write_token(place, tenant_id, _question(selection))


def _question(selection: pb.MemorySelection) -> pb.PurgeMemoriesRequest:
    return pb.PurgeMemoriesRequest(selection=selection)


def _subject(selection: pb.MemorySelection) -> str:
    """Return the person whose memories are meant, all of them; empty when the selection says anything else."""
    alone = pb.MemorySelection(filter=pb.MemoryFilter(subject_id=selection.filter.subject_id))
    return selection.filter.subject_id if selection == alone else ""


def _receipt(receipt: Receipt | None) -> pb.PurgeReceipt | None:
    if receipt is None:
        return None
    return pb.PurgeReceipt(
        receipt_id=str(receipt.receipt_id),
        purge_time=time(receipt.purge_time),
        memory_ids=[str(id_) for id_ in receipt.memory_ids],
        deleted_counts=receipt.deleted_counts,
        digest=receipt.digest,
        dry_run=receipt.dry_run,
    )
