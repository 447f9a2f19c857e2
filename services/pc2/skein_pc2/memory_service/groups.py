"""Context groups of port 7140: a memory of the type context_group, and a link from each member to it."""

from __future__ import annotations

import grpc
from grpc import aio

from skein.memory.v1 import memory_pb2 as pb
from skein_pc2.gateway_api.client import GatewayApi
from skein_pc2.memory_service import convert as records
from skein_pc2.memory_service import links as relations
from skein_pc2.protocol import fields
from skein_pc2.protocol.actions import ActionRequest
from skein_pc2.protocol.errors import MEMORY_NOT_FOUND, RequestError, to_request_error
from skein_pc2.protocol.frames import Message

TYPE = "context_group"
_DEFAULT_LIMIT, _MAX_LIMIT = 100, 200
_MAX_ADDED_MEMBERS = 100


class Groups:
    """create_context_group, add_to_group, get_memories_by_group."""

    def __init__(self, api: GatewayApi) -> None:
        self._api = api

    async def create(self, request: ActionRequest) -> Message:
        name = fields.required_text(request.fields, "name")
        metadata = fields.mapping(request.fields.get("metadata"), "metadata")
        number = request.new_id().int % records.MAX_GROUP_NUMBER + 1
        group_id = (
            f"{records.GROUP_PREFIX}{number}"
            if request.fields.get("group_id") is None
            else records.parse_group_id(request.fields["group_id"])
        )
        group = pb.Memory(
            external_id=group_id,
            type=TYPE,
            title=name,
            content=fields.text(request.fields, "description").strip() or name,
            metadata=fields.struct(metadata, "metadata") if metadata else None,
        )
        call = pb.CreateMemoryRequest(defer_embedding=True, memory=group, request_id=request.repeat_id)
        stored = await self._api.call(self._api.memories.CreateMemory, call, request)
        return {"group_id": records.group_number(records.name(stored.memory)), "name": name}

    async def add(self, request: ActionRequest) -> Message:
        """Add one memory to a group, or several with a failure reported for each."""
        group_id = await self._find_group_id(request)
        memory_ids = fields.texts(request.fields.get("memory_ids"), "memory_ids")
        if not memory_ids:
            await self._add_member(fields.required_text(request.fields, "memory_id"), group_id, request)
            return {"group_id": records.group_number(group_id), "added_count": 1}
        if len(memory_ids) > _MAX_ADDED_MEMBERS:
            raise fields.invalid("memory_ids", f"holds at most {_MAX_ADDED_MEMBERS} ids")
        failures = []
        for memory_id in memory_ids:
            try:
                await self._add_member(memory_id, group_id, request)
            except aio.AioRpcError as error:
                if error.code() not in {grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INVALID_ARGUMENT}:
                    raise
                failures.append({"memory_id": memory_id, "message": to_request_error(error, transient_code="").message})
        return {
            "group_id": records.group_number(group_id),
            "added_count": len(memory_ids) - len(failures),
            "failures": failures,
        }

    async def list_memories(self, request: ActionRequest) -> Message:
        group_id = await self._find_group_id(request)
        limit = min(_MAX_LIMIT, fields.integer(request.fields.get("limit"), "limit", default=_DEFAULT_LIMIT, minimum=1))
        links, has_more = await relations.links_of(
            self._api,
            request,
            group_id,
            direction=pb.LINK_DIRECTION_INCOMING,
            relation=records.MEMBER_RELATION,
            limit=limit,
        )
        memories = await relations.read_memories(self._api, request, [link.from_memory_id for link in links])
        memory_records = await relations.to_records(self._api, request, memories)
        return relations.list_reply(memory_records, is_truncated=has_more or len(memories) < len(links))

    async def _find_group_id(self, request: ActionRequest) -> str:
        """Return the id of the request's group."""
        memory = await relations.read_memory(self._api, request, records.parse_group_id(request.fields.get("group_id")))
        if memory is None or memory.type != TYPE:
            raise RequestError(MEMORY_NOT_FOUND, "There is no context group of this id")
        return records.name(memory)

    async def _add_member(self, memory_id: str, group_id: str, request: ActionRequest) -> None:
        link = pb.Link(from_memory_id=memory_id, to_memory_id=group_id, relation=records.MEMBER_RELATION)
        await self._api.call(self._api.links.UpsertLink, pb.UpsertLinkRequest(link=link), request)
