"""Handlers of the RPCs for links."""

from __future__ import annotations

from uuid import UUID

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.errors import FieldInvalid, UpdateMaskInvalid
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.ids import now, parse_id
from skein_kit.policies.history import read_as_of_time
from skein_kit.rpc.pagination import read_id, require_fit, resolve_page_size
from skein_kit.rpc.row_times import ImportTimes
from skein_kit.rpc.well_known_types import merge_masked, updated_fields
from skein_memory.links import convert
from skein_memory.links.model import LinkFilter
from skein_memory.links.store import LinkStore
from skein_memory.paging import cut_page
from skein_memory.validation import prefix_field_paths

UPDATABLE = frozenset({"relation", "label", "weight", "metadata"})


class LinkHandlers:
    """Storing and reading links."""

    def __init__(self, store: LinkStore, idempotency: IdempotencyStore) -> None:
        self._store = store
        self._idempotency = idempotency

    async def CreateLink(self, request: pb.CreateLinkRequest, context: Context) -> pb.CreateLinkResponse:
        caller, at = caller_of(context), now()
        with prefix_field_paths("link"):
            times = ImportTimes.read(request.link, caller, at, keep_times=request.keep_times)
            draft = convert.draft(request.link, times)

        async with self._idempotency.begin(caller, request) as write:
            (link,) = await self._store.create_links(
                write.tx, caller.require_tenant(), [draft], at=at, by=caller.principal
            )
            return await write.save(pb.CreateLinkResponse(link=convert.link(link)))

    async def BatchCreateLinks(
        self, request: pb.BatchCreateLinksRequest, context: Context
    ) -> pb.BatchCreateLinksResponse:
        caller, at = caller_of(context), now()
        drafts = []
        for index, link in enumerate(request.links):
            with prefix_field_paths(f"links[{index}]", index=index):
                times = ImportTimes.read(link, caller, at, keep_times=request.keep_times)
                drafts.append(convert.draft(link, times))

        async with self._idempotency.begin(caller, request) as write:
            links = await self._store.create_links(
                write.tx, caller.require_tenant(), drafts, at=at, by=caller.principal
            )
            response = pb.BatchCreateLinksResponse(links=[convert.link(link) for link in links])
            require_fit(response)
            return await write.save(response)

    async def UpsertLink(self, request: pb.UpsertLinkRequest, context: Context) -> pb.UpsertLinkResponse:
        caller, at = caller_of(context), now()
        with prefix_field_paths("link"):
            draft = convert.draft(request.link)

        async with self._idempotency.begin(caller, request) as write:
            link, is_new = await self._store.upsert_link(
                write.tx,
                caller.require_tenant(),
                draft,
                either_direction=request.either_direction,
                at=at,
                by=caller.principal,
            )
            return await write.save(pb.UpsertLinkResponse(link=convert.link(link), created=is_new))

    async def GetLink(self, request: pb.GetLinkRequest, context: Context) -> pb.GetLinkResponse:
        link = await self._store.get_link(caller_of(context).require_tenant(), UUID(request.link_id), at=now())
        return pb.GetLinkResponse(link=convert.link(link))

    async def UpdateLink(self, request: pb.UpdateLinkRequest, context: Context) -> pb.UpdateLinkResponse:
        caller, at = caller_of(context), now()
        link_id = parse_id(request.link.link_id)
        if link_id is None:
            raise FieldInvalid(violations=[("link.link_id", "must be the id of a link")])
        if not request.update_mask.paths:
            raise UpdateMaskInvalid(violations=[("update_mask", "must name at least one field")])
        updated_fields(request.update_mask, UPDATABLE)

        async with self._idempotency.begin(caller, request) as write:
            before = await self._store.lock_link(write.tx, caller.require_tenant(), link_id, at=at)
            before.check_revision(request.link.revision)
            message = convert.link(before)
            merge_masked(request.update_mask, request.link, message)
            with prefix_field_paths("link"):
                after = before.revise(convert.draft(message), at=at, by=caller.principal)
            await self._store.update_link(write.tx, caller.require_tenant(), before, after)
            return await write.save(pb.UpdateLinkResponse(link=convert.link(after)))

    async def DeleteLink(self, request: pb.DeleteLinkRequest, context: Context) -> pb.DeleteLinkResponse:
        caller, at, link_id = caller_of(context), now(), UUID(request.link_id)
        async with self._idempotency.begin(caller, request) as write:
            await self._store.delete_link(
                write.tx, caller.require_tenant(), link_id, revision=request.revision, at=at, by=caller.principal
            )
            await write.save(pb.DeleteLinkResponse())
        return pb.DeleteLinkResponse()

    async def ListLinks(self, request: pb.ListLinksRequest, context: Context) -> pb.ListLinksResponse:
        at, tenant_id, size = now(), caller_of(context).require_tenant(), resolve_page_size(request.page_size)
        relations = sorted({*request.relations, *([request.relation] if request.relation else [])})
        link_filter = LinkFilter(
            outgoing=request.direction != pb.LINK_DIRECTION_INCOMING,
            incoming=request.direction != pb.LINK_DIRECTION_OUTGOING,
            relations=relations or None,
            min_weight=request.min_weight,
        )
        links = await self._store.list_links(
            tenant_id,
            request.memory_id,
            link_filter,
            before=read_id(tenant_id, request),
            count=size + 1,
            at=at,
            as_of_time=read_as_of_time(request, at=at),
        )
        page, token = cut_page(map(convert.link, links), size, "link_id", tenant_id, request)
        return pb.ListLinksResponse(links=page, next_page_token=token)
