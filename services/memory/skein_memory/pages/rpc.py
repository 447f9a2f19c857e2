"""Handlers of the RPCs for pages, and pages from protobuf and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from google.protobuf import json_format

from skein.memory.v1 import memory_pb2
from skein.memory.v1 import pages_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.errors import FieldInvalid, PageTokenInvalid, UpdateMaskInvalid
from skein_kit.filters.expression import In
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.ids import new_id, now, parse_id
from skein_kit.policies.history import read_as_of_time
from skein_kit.rpc.pagination import fit_items, read_token, resolve_page_size, write_token
from skein_kit.rpc.well_known_types import merge_masked, to_message, to_timestamp, updated_fields
from skein_memory.errors import PageNotFound
from skein_memory.listing.convert import list_filter, named_days
from skein_memory.listing.filter import Filter
from skein_memory.listing.store import MemoryListStore
from skein_memory.pages.model import (
    BRIEF_SECTIONS,
    DEFAULT_LIMIT,
    PROFILE_PREFIX,
    PROFILE_SECTIONS,
    Section,
    compose,
)
from skein_memory.pages.store import PageStore, StoredPage
from skein_memory.validation import check_revision, check_storable, prefix_field_paths

_UPDATABLE = frozenset({"title", "subject_id", "entity_memory_id", "filter", "sections", "pinned"})
# The parts of a list, in their order.
_PINNED, _OTHERS, _PROFILES = "pinned", "others", "profiles"
_NEXT_PART = {_PINNED: _OTHERS, _OTHERS: _PROFILES}


class PageHandlers:
    """Pages: their questions, and the answers of this moment."""

    def __init__(self, store: PageStore, idempotency: IdempotencyStore, *, lists: MemoryListStore) -> None:
        """Ask `lists` for the zones of the days that filters name."""
        self._store = store
        self._idempotency = idempotency
        self._lists = lists

    async def CreatePage(self, request: pb.CreatePageRequest, context: Context) -> pb.CreatePageResponse:
        caller, at = caller_of(context), now()
        tenant_id, message = caller.require_tenant(), request.page
        with prefix_field_paths("page"):
            await self._check(tenant_id, message, at=at)
        async with self._idempotency.begin(caller, request) as write:
            page = StoredPage(
                page_id=new_id(at),
                subject_id=message.subject_id or None,
                entity_memory_id=await self._store.find_entity(write.tx, tenant_id, message.entity_memory_id, at=at),
                is_pinned=message.pinned,
                question=_question(message),
                revision=1,
                create_time=at,
                update_time=at,
                created_by=caller.principal,
                updated_by=caller.principal,
            )
            await self._store.create_page(write.tx, tenant_id, page)
            return await write.save(pb.CreatePageResponse(page=_page(page)))

    async def GetPage(self, request: pb.GetPageRequest, context: Context) -> pb.GetPageResponse:
        at, tenant_id = now(), caller_of(context).require_tenant()
        as_of_time = read_as_of_time(request, at=at)
        subject_id = request.page_id.removeprefix(PROFILE_PREFIX)
        is_profile = subject_id != request.page_id
        if is_profile and not subject_id:
            raise PageNotFound
        page = _profile(subject_id) if is_profile else _page(await self._store.get_page(tenant_id, request.page_id))
        base = await self._filter(tenant_id, page, as_of_time, at=at, reader=request.visible_to)
        sections: Sequence[Section] = [_section(section) for section in page.sections]
        if not sections:
            sections = BRIEF_SECTIONS if is_profile and request.brief else PROFILE_SECTIONS
        named = (In(("memory_id",), tuple(request.memory_ids)),) if request.memory_ids else ()
        filters = [replace(base, conditions=(*base.conditions, *named, *section.conditions)) for section in sections]
        memories, is_truncated = await self._store.read_answer(
            tenant_id,
            filters,
            # Some of them are superseded, and are not shown.
            counts=[2 * section.limit for section in sections],
            entity_memory_id=parse_id(page.entity_memory_id),
            as_of_time=as_of_time,
            at=at,
        )
        composed = compose(page.title or page.subject_id, sections, memories, is_truncated=is_truncated)
        if is_profile and not composed.sections:
            raise PageNotFound
        return pb.GetPageResponse(
            page=page,
            sections=[
                pb.PageText(title=title, sentences=[to_message(pb.PageSentence, sentence) for sentence in sentences])
                for title, sentences in composed.sections
            ],
            text=composed.text,
            etag=composed.etag,
            truncated=composed.is_truncated,
        )

    async def ListPages(self, request: pb.ListPagesRequest, context: Context) -> pb.ListPagesResponse:
        at, tenant_id, size = now(), caller_of(context).require_tenant(), resolve_page_size(request.page_size)
        part, after = _read_cursor(read_token(request.page_token, tenant_id, request))
        pages: list[pb.Page] = []
        next_part: str | None = part
        while next_part is not None:
            part, room = next_part, size - len(pages)
            listed = await self._list(tenant_id, part, after, room + 1, at=at)
            shown = fit_items(listed[:room], used_bytes=sum(page.ByteSize() for page in pages))
            pages += shown
            if len(shown) < len(listed):
                last = after if not shown else shown[-1].page_id.removeprefix(PROFILE_PREFIX)
                return pb.ListPagesResponse(pages=pages, next_page_token=write_token([part, last], tenant_id, request))
            next_part, after = (None if request.pinned_only else _NEXT_PART.get(part)), ""
        return pb.ListPagesResponse(pages=pages)

    async def UpdatePage(self, request: pb.UpdatePageRequest, context: Context) -> pb.UpdatePageResponse:
        caller, at = caller_of(context), now()
        tenant_id = caller.require_tenant()
        if not request.update_mask.paths:
            raise UpdateMaskInvalid(violations=[("update_mask", "must name at least one field")])
        changed_fields = updated_fields(request.update_mask, _UPDATABLE)
        async with self._idempotency.begin(caller, request) as write:
            before = await self._store.lock_page(write.tx, tenant_id, request.page.page_id)
            check_revision(request.page.revision, before.revision)
            message = _page(before)
            merge_masked(request.update_mask, request.page, message)
            with prefix_field_paths("page"):
                await self._check(tenant_id, message, at=at)
            entity_id = before.entity_memory_id
            if "entity_memory_id" in changed_fields:
                entity_id = await self._store.find_entity(write.tx, tenant_id, message.entity_memory_id, at=at)
            page = replace(
                before,
                subject_id=message.subject_id or None,
                entity_memory_id=entity_id,
                is_pinned=message.pinned,
                question=_question(message),
                revision=before.revision + 1,
                update_time=at,
                updated_by=caller.principal,
            )
            await self._store.update_page(write.tx, tenant_id, page)
            return await write.save(pb.UpdatePageResponse(page=_page(page)))

    async def DeletePage(self, request: pb.DeletePageRequest, context: Context) -> pb.DeletePageResponse:
        caller, at = caller_of(context), now()
        tenant_id = caller.require_tenant()
        async with self._idempotency.begin(caller, request) as write:
            page = await self._store.lock_page(write.tx, tenant_id, request.page_id)
            check_revision(request.revision, page.revision)
            await self._store.delete_page(write.tx, tenant_id, page.page_id, at=at, by=caller.principal)
            return await write.save(pb.DeletePageResponse())

    async def _list(self, tenant_id: UUID, part: str, after: str, count: int, *, at: datetime) -> Sequence[pb.Page]:
        if part == _PROFILES:
            subject_ids = await self._store.list_profiles(tenant_id, after=after, count=count, at=at)
            return [_profile(subject_id) for subject_id in subject_ids]
        pages = await self._store.list_pages(tenant_id, is_pinned=part == _PINNED, after=parse_id(after), count=count)
        return [_page(page) for page in pages]

    async def _check(self, tenant_id: UUID, page: pb.Page, *, at: datetime) -> None:
        """Check what a page is about. Raises FieldInvalid, FilterInvalid, FilterFieldUnknown and TextNotStorable."""
        check_storable([("subject_id", page.subject_id)], [("title", _question(page))])
        violations = []
        if not (page.subject_id or page.entity_memory_id or page.filter.ByteSize()):
            violations.append(("subject_id", "or entity_memory_id or filter must be set"))
        if not (page.subject_id or page.title):
            violations.append(("title", "must be set on a page about no subject"))
        if page.filter.HasField("visible_to"):
            violations.append(("filter.visible_to", "is the reader of a page: name it in GetPage"))
        filter_ = await self._filter(tenant_id, pb.Page(filter=page.filter), None, at=at)
        # A purge finds the pages about a person by this field of theirs.
        if filter_.subject_id is not None:
            violations.append(("filter", "names a subject, which is the page's subject_id"))
        if violations:
            raise FieldInvalid(violations=violations)

    async def _filter(
        self,
        tenant_id: UUID,
        page: pb.Page,
        as_of_time: datetime | None,
        *,
        at: datetime,
        reader: memory_pb2.ScopeContext | None = None,
    ) -> Filter:
        """Return the conditions of all memories of a page that are current at a time, for a reader.

        Raises FieldInvalid, FilterInvalid and FilterFieldUnknown.
        """
        request = memory_pb2.ListMemoriesRequest(filter=page.filter, as_of_time=to_timestamp(as_of_time))
        about = memory_pb2.MemoryFilter(subject_id=page.subject_id)
        if reader is not None and reader.ByteSize():
            about.visible_to.CopyFrom(reader)
        if not page.filter.HasField("valid_at_time"):
            about.MergeFrom(memory_pb2.MemoryFilter(valid_at_time=to_timestamp(as_of_time or at)))
        request.filter.MergeFrom(about)
        zone = await self._lists.zone_of_days(tenant_id, *named_days(request.filter))
        return list_filter(request, zone, at=at)


def _read_cursor(cursor: Sequence[str] | None) -> tuple[str, str]:
    """Return the part of a list that a page begins in, and the last id before. Raises PageTokenInvalid."""
    match cursor:
        case None:
            return _PINNED, ""
        case [part, after] if part in {_PINNED, _OTHERS, _PROFILES} and "\0" not in after:
            return part, after
    raise PageTokenInvalid


def _profile(subject_id: str) -> pb.Page:
    return pb.Page(page_id=PROFILE_PREFIX + subject_id, subject_id=subject_id)


def _question(page: pb.Page) -> str:
    """Return the parts of a page that are stored as JSON text."""
    filter_ = page.filter if page.filter.ByteSize() else None
    question = pb.Page(title=page.title, filter=filter_, sections=page.sections)
    return json_format.MessageToJson(question, preserving_proto_field_name=True, indent=None)


def _page(page: StoredPage) -> pb.Page:
    question = json_format.Parse(page.question, pb.Page())
    return to_message(
        pb.Page,
        page,
        title=question.title,
        filter=question.filter if question.HasField("filter") else None,
        sections=question.sections,
        pinned=page.is_pinned,
    )


def _section(section: pb.PageSection) -> Section:
    return Section(
        title=section.title,
        types=tuple(section.types),
        keys=tuple(section.keys),
        limit=section.limit or DEFAULT_LIMIT,
    )
