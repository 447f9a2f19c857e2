"""Handlers of the RPCs for links."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.calls.call import Context, caller
from skein_kit.errors import FieldInvalid, UpdateMaskInvalid
from skein_kit.idempotency.key import IdempotencyKey
from skein_kit.ids import now, parse_id
from skein_kit.rpc.pagination import fit_items, require_fit, resolve_page_size, write_token
from skein_kit.rpc.row_times import ImportTimes
from skein_kit.rpc.well_known_types import merge_masked, read_time, updated_fields
from skein_memory.links import convert
from skein_memory.links.model import Link, LinkDraft, LinkFilter
from skein_memory.paging import read_id_cursor
from skein_memory.validation import prefix_field_paths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skein_memory.links.store import LinkStore

UPDATABLE = frozenset({"relation", "label", "weight", "metadata"})


class LinkHandlers:
    """Storing and reading links."""

    def __init__(self, store: LinkStore) -> None:
        """Use the store."""
        self._store = store

    async def CreateLink(self, request: pb.CreateLinkRequest, context: Context) -> pb.CreateLinkResponse:
        who, at = caller(context), now()
        with prefix_field_paths("link"):
            times = ImportTimes.of(request.link, who, at, keep_times=request.keep_times)
            draft = LinkDraft.of(request.link, times)

        def respond(links: Sequence[Link]) -> pb.CreateLinkResponse:
            return pb.CreateLinkResponse(link=convert.link(links[0]))

        stored = await self._store.create_links(
            who.tenant(), IdempotencyKey.of(who, request), [draft], respond, at=at, by=who.principal
        )
        return pb.CreateLinkResponse.FromString(stored) if isinstance(stored, bytes) else stored

    async def BatchCreateLinks(
        self, request: pb.BatchCreateLinksRequest, context: Context
    ) -> pb.BatchCreateLinksResponse:
        who, at = caller(context), now()
        drafts = []
        for index, link in enumerate(request.links):
            with prefix_field_paths(f"links[{index}]", index=index):
                times = ImportTimes.of(link, who, at, keep_times=request.keep_times)
                drafts.append(LinkDraft.of(link, times))

        def respond(links: Sequence[Link]) -> pb.BatchCreateLinksResponse:
            response = pb.BatchCreateLinksResponse(links=[convert.link(link) for link in links])
            require_fit(response)
            return response

        stored = await self._store.create_links(
            who.tenant(), IdempotencyKey.of(who, request), drafts, respond, at=at, by=who.principal
        )
        return pb.BatchCreateLinksResponse.FromString(stored) if isinstance(stored, bytes) else stored

    async def UpsertLink(self, request: pb.UpsertLinkRequest, context: Context) -> pb.UpsertLinkResponse:
        who, at = caller(context), now()
        with prefix_field_paths("link"):
            draft = LinkDraft.of(request.link)

        def respond(link: Link, created: bool) -> pb.UpsertLinkResponse:  # noqa: FBT001 - the store says both.
            return pb.UpsertLinkResponse(link=convert.link(link), created=created)

        stored = await self._store.upsert_link(
            who.tenant(),
            IdempotencyKey.of(who, request),
            draft,
            respond,
            either_direction=request.either_direction,
            at=at,
            by=who.principal,
        )
        return pb.UpsertLinkResponse.FromString(stored) if isinstance(stored, bytes) else stored

    async def GetLink(self, request: pb.GetLinkRequest, context: Context) -> pb.GetLinkResponse:
        link = await self._store.get_link(caller(context).tenant(), UUID(request.link_id), at=now())
        return pb.GetLinkResponse(link=convert.link(link))

    async def UpdateLink(self, request: pb.UpdateLinkRequest, context: Context) -> pb.UpdateLinkResponse:
        who, at = caller(context), now()
        link_id = parse_id(request.link.link_id)
        if link_id is None:
            raise FieldInvalid(violations=[("link.link_id", "must be the id of a link")])
        if not request.update_mask.paths:
            raise UpdateMaskInvalid(violations=[("update_mask", "must name at least one field")])
        updated_fields(request.update_mask, UPDATABLE)

        def change(link: Link) -> Link:
            link.check_revision(request.link.revision)
            message = convert.link(link)
            merge_masked(request.update_mask, request.link, message)
            with prefix_field_paths("link"):
                return link.revise(LinkDraft.of(message), at=at, by=who.principal)

        def respond(link: Link) -> pb.UpdateLinkResponse:
            return pb.UpdateLinkResponse(link=convert.link(link))

        stored = await self._store.change_link(
            who.tenant(), IdempotencyKey.of(who, request), link_id, change, respond, at=at
        )
        return pb.UpdateLinkResponse.FromString(stored) if isinstance(stored, bytes) else stored

    async def DeleteLink(self, request: pb.DeleteLinkRequest, context: Context) -> pb.DeleteLinkResponse:
        who, at, response = caller(context), now(), pb.DeleteLinkResponse()
        await self._store.delete_link(
            who.tenant(),
            IdempotencyKey.of(who, request),
            UUID(request.link_id),
            response,
            revision=request.revision,
            at=at,
            by=who.principal,
        )
        return response

    async def ListLinks(self, request: pb.ListLinksRequest, context: Context) -> pb.ListLinksResponse:
        tenant_id, size = caller(context).tenant(), resolve_page_size(request.page_size)
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
            before=read_id_cursor(request, tenant_id),
            count=size + 1,
            at=now(),
            as_of_time=read_time(request, "as_of_time"),
        )
        page = fit_items(convert.link(link) for link in links[:size])
        more = len(links) > len(page)
        return pb.ListLinksResponse(
            links=page, next_page_token=write_token([page[-1].link_id], tenant_id, request) if more else ""
        )
