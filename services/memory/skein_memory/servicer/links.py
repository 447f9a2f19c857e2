"""Links: each RPC reads its request, makes one call, and replies."""

from __future__ import annotations

from uuid import UUID

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.call import Context, caller
from skein_kit.ids import now
from skein_kit.pages import fitting, page_size, write_token
from skein_kit.requests import Once
from skein_memory import wire
from skein_memory.links import Link, LinkDraft
from skein_memory.memories import speaking_of
from skein_memory.parts import Rpcs
from skein_memory.servicer.places import place_of
from skein_memory.store.links import Question


class LinkRpcs(Rpcs):
    """Storing and reading links."""

    async def CreateLink(self, request: pb.CreateLinkRequest, context: Context) -> pb.CreateLinkResponse:
        who, at = caller(context), now()
        with speaking_of("link"):
            draft = LinkDraft.of(request.link)

        def between(from_id: UUID, to_id: UUID) -> Link:
            return draft.between(from_id, to_id, at=at, by=who.principal)

        def respond(link: Link) -> pb.CreateLinkResponse:
            return pb.CreateLinkResponse(link=wire.link(link))

        ends = draft.from_name, draft.to_name
        stored = await self._parts.links.create_link(who.tenant(), Once.of(who, request), ends, between, respond)
        return pb.CreateLinkResponse.FromString(stored) if isinstance(stored, bytes) else stored

    async def DeleteLink(self, request: pb.DeleteLinkRequest, context: Context) -> pb.DeleteLinkResponse:
        who, response = caller(context), pb.DeleteLinkResponse()
        await self._parts.links.delete_link(who.tenant(), Once.of(who, request), UUID(request.link_id), response)
        return response

    async def ListLinks(self, request: pb.ListLinksRequest, context: Context) -> pb.ListLinksResponse:
        tenant_id, size = caller(context).tenant(), page_size(request.page_size)
        question = Question(
            outgoing=request.direction != pb.LINK_DIRECTION_INCOMING,
            incoming=request.direction != pb.LINK_DIRECTION_OUTGOING,
            relation=request.relation or None,
        )
        links = await self._parts.links.list_links(
            tenant_id, request.memory_id, question, before=place_of(request, tenant_id), count=size + 1
        )
        page = fitting(wire.link(link) for link in links[:size])
        more = len(links) > len(page)
        return pb.ListLinksResponse(
            links=page, next_page_token=write_token([page[-1].link_id], tenant_id, request) if more else ""
        )
