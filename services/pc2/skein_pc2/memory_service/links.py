"""What memories are related to, as port 7140 tells it: parents, groups and relationships are links."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import grpc
from grpc import aio

from skein.memory.v1 import memory_pb2 as pb
from skein_pc2.memory_service import convert as records
from skein_pc2.protocol.errors import VALIDATION_ERROR, RequestError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from skein_pc2.gateway_api.client import GatewayApi
    from skein_pc2.protocol.frames import Message
    from skein_pc2.protocol.concurrency import RequestContext

# Memories whose surroundings are asked for with one call, and memories that such an answer holds.
_AT_ONCE, _NODES = 20, 120
# Children that one look shows; of more, the newest links.
MOST_CHILDREN = 500
_PAGE = 200
# Memories of one page of a list, and what all memories of one answer may weigh: each is written two or three times.
MOST_LISTED, MOST_BYTES = 1000, 2 * 1024 * 1024
# Calls that one list takes at most.
_CALLS = 20
# How far one walk down from a memory goes, and how many it meets.
_HOPS, _WALKED = 4, 1000
_DOWN = pb.LinkFilter(relations=[records.PARENT], direction=pb.LINK_DIRECTION_INCOMING)
# A memory with more descendants is not deleted with all of them in one go.
MOST_DESCENDANTS = 2000


@dataclass(frozen=True, slots=True)
class Neighborhood:
    """What lies around some memories."""

    # By their ids: those memories that were met, and the links of each by theirs.
    memories: dict[str, pb.Memory] = field(default_factory=dict)
    links: dict[str, dict[str, pb.Link]] = field(default_factory=dict)

    def record(self, memory: pb.Memory) -> dict[str, Any]:
        """Write a memory with what it is related to."""
        links = self.links.get(memory.memory_id, {}).values()
        outgoing = [link for link in links if link.from_memory_id == memory.memory_id]
        return {
            **records.record(memory),
            "relationships": [
                {
                    "source_id": self.name(link.from_memory_id),
                    "target_id": self.name(link.to_memory_id),
                    "relationship_type": records.relationship_type(link),
                    "strength": link.weight,
                }
                for link in links
                if link.relation not in records.STRUCTURAL
            ],
            # A memory without a parent among memories is its session's.
            "parent_id": next(
                (self.name(link.to_memory_id) for link in outgoing if link.relation == records.PARENT),
                memory.session_id or None,
            ),
            "group_ids": [
                records.group_number(self.name(link.to_memory_id))
                for link in outgoing
                if link.relation == records.MEMBER
            ],
        }

    def name(self, memory_id: str) -> str:
        """Return what a memory is called on the ports."""
        return records.name(self.memories[memory_id]) if memory_id in self.memories else memory_id

    def take(self, answer: pb.GetSubgraphResponse) -> None:
        """Add what one call found."""
        for node in answer.nodes:
            if node.HasField("memory"):
                self.memories[node.memory_id] = node.memory
        for link in answer.links:
            for memory_id in {link.from_memory_id, link.to_memory_id}:
                self.links.setdefault(memory_id, {})[link.link_id] = link


async def read_neighborhood(api: GatewayApi, errand: RequestContext, memory_ids: Sequence[str]) -> Neighborhood:
    """Look around memories; of those that went away meanwhile, and their companions of one call, nothing is told."""
    found = Neighborhood()
    portions = [memory_ids[start : start + _AT_ONCE] for start in range(0, len(memory_ids), _AT_ONCE)]

    async def look(portion: Sequence[str]) -> None:
        request = pb.GetSubgraphRequest(memory_ids=portion, radius=1, max_nodes=_NODES, include_memories=True)
        try:
            found.take(await api.call(api.links.GetSubgraph, request, errand))
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise

    await asyncio.gather(*(look(portion) for portion in portions))
    return found


async def to_records(api: GatewayApi, errand: RequestContext, memories: Sequence[pb.Memory]) -> list[dict[str, Any]]:
    """Write memories with what they are related to."""
    found = await read_neighborhood(api, errand, [memory.memory_id for memory in memories])
    return [found.record(memory) for memory in memories]


async def read(api: GatewayApi, errand: RequestContext, memory_ids: Sequence[str]) -> list[pb.Memory]:
    """Read those of some memories that are there and that an answer has room for."""
    if not memory_ids:
        return []
    request = pb.BatchGetMemoriesRequest(memory_ids=memory_ids)
    found = await api.call(api.memories.BatchGetMemories, request, errand)
    return list(found.memories)


async def read_memory(api: GatewayApi, errand: RequestContext, memory_id: str) -> pb.Memory | None:
    """Read a memory by either id, which does not count as a use of it; None when it is not there."""
    for name in ("external_id", "memory_id"):
        request = pb.ListMemoriesRequest(
            page_size=1, show_archived=True, filter=pb.MemoryFilter(where=f"{name} = {json.dumps(memory_id)}")
        )
        page = await api.call(api.memories.ListMemories, request, errand)
        if page.memories:
            return page.memories[0]
    return None


async def pages(
    api: GatewayApi, errand: RequestContext, condition: pb.MemoryFilter, *, order_by: str, page_size: int
) -> AsyncIterator[list[pb.Memory]]:
    """Yield memories that pass a filter, in order, until there are no more; a page may be empty.

    A page looks at a bounded number of memories, whether they pass or not.
    """
    request = pb.ListMemoriesRequest(filter=condition, order_by=order_by, page_size=min(page_size, MOST_LISTED))
    while True:
        page = await api.call(api.memories.ListMemories, request, errand)
        yield list(page.memories)
        request.page_token = page.next_page_token
        if not page.next_page_token:
            return


async def listing(
    api: GatewayApi,
    errand: RequestContext,
    condition: pb.MemoryFilter,
    *,
    order_by: str,
    most: int,
    calls: int = _CALLS,
) -> tuple[list[pb.Memory], bool]:
    """Return up to `most` memories that pass a filter, in order, and whether there may be more.

    Each call looks at a bounded number of memories; where few pass, the calls end before the memories do.
    """
    found: list[pb.Memory] = []
    request = pb.ListMemoriesRequest(filter=condition, order_by=order_by)
    for _ in range(calls):
        request.page_size = min(most - len(found), MOST_LISTED)
        page = await api.call(api.memories.ListMemories, request, errand)
        found += page.memories
        request.page_token = page.next_page_token
        if not page.next_page_token:
            return found, False
        if len(found) >= most:
            break
    return found, True


def fit_reply(memories: Sequence[pb.Memory], limit: int) -> list[pb.Memory]:
    """Return the first memories, as many as are asked for and an answer has room for: one at least."""
    size = 0
    for count, memory in enumerate(memories[:limit]):
        size += memory.ByteSize()
        if size > MOST_BYTES and count:
            return list(memories[:count])
    return list(memories[:limit])


def list_reply(memories: list[dict[str, Any]], *names: str, more: bool = False) -> Message:
    """Answer with memories, also under other names, and say so when there are more than these."""
    return {
        **dict.fromkeys(("memories", *names), memories),
        "count": len(memories),
        **({"truncated": True} if more else {}),
    }


async def require_memory(api: GatewayApi, errand: RequestContext, memory_id: str) -> None:
    """Raise AioRpcError (NOT_FOUND) for a memory that is not there. It does not count as a use of the memory."""
    await api.call(api.links.ListLinks, pb.ListLinksRequest(memory_id=memory_id, page_size=1), errand)


async def links_of(
    api: GatewayApi, errand: RequestContext, memory_id: str, *, direction: pb.LinkDirection, relation: str, most: int
) -> tuple[list[pb.Link], bool]:
    """Return a memory's links, newest first, and whether there are more than `most`."""
    request = pb.ListLinksRequest(memory_id=memory_id, direction=direction, relation=relation, page_size=_PAGE)
    links: list[pb.Link] = []
    while len(links) <= most:
        page = await api.call(api.links.ListLinks, request, errand)
        links += page.links
        request.page_token = page.next_page_token
        if not page.next_page_token:
            break
    return links[:most], len(links) > most


async def set_parent(api: GatewayApi, errand: RequestContext, memory_id: str, parent_id: str) -> None:
    """Put a memory under another memory, or under none (empty)."""
    kept = ""
    if parent_id:
        link = pb.Link(from_memory_id=memory_id, to_memory_id=parent_id, relation=records.PARENT)
        stored = await api.call(api.links.UpsertLink, pb.UpsertLinkRequest(link=link), errand)
        kept = stored.link.link_id
    before, _ = await links_of(
        api, errand, memory_id, direction=pb.LINK_DIRECTION_OUTGOING, relation=records.PARENT, most=_PAGE
    )
    for link in before:
        if link.link_id != kept:
            await api.call(api.links.DeleteLink, pb.DeleteLinkRequest(link_id=link.link_id), errand)


async def children(api: GatewayApi, errand: RequestContext, memory_id: str) -> tuple[list[pb.Memory], bool]:
    """Return the children of a memory, the newest links first, and whether there are more than one look shows."""
    request = pb.GetSubgraphRequest(
        memory_ids=[memory_id], radius=1, max_nodes=MOST_CHILDREN, filter=_DOWN, include_memories=True
    )
    answer = await api.call(api.links.GetSubgraph, request, errand)
    nodes = [node for node in answer.nodes if node.hop]
    memories = {node.memory_id: node.memory for node in nodes if node.HasField("memory")}
    # An answer has no room for all of them when they are large.
    rest = [node.memory_id for node in nodes if node.memory_id not in memories]
    for start in range(0, len(rest), _PAGE):
        memories |= {memory.memory_id: memory for memory in await read(api, errand, rest[start : start + _PAGE])}
    found = [memories[node.memory_id] for node in nodes if node.memory_id in memories]
    return found, answer.truncated or len(found) < len(nodes)


async def descendants(api: GatewayApi, errand: RequestContext, memory_id: str) -> list[list[str]]:
    """Return the ids of a memory's children, of theirs, and so on, by generation."""
    walk = pb.TraverseRequest(memory_id=memory_id, hops=_HOPS, max_nodes=_WALKED, filter=_DOWN)
    near = await api.call(api.links.Traverse, walk, errand)
    if not near.truncated and all(node.hop < _HOPS for node in near.nodes):
        found = [[node.memory_id for node in near.nodes if node.hop == hop] for hop in range(1, _HOPS)]
        return [generation for generation in found if generation]
    return await generations(api, errand, [memory_id])


async def generations(api: GatewayApi, errand: RequestContext, memory_ids: Sequence[str]) -> list[list[str]]:
    """Return the ids of the children of some memories, of theirs, and so on: also what one walk does not reach."""
    seen: set[str] = set()
    generation, below = list(memory_ids), []
    while generation:
        children: list[str] = []
        for start in range(0, len(generation), _AT_ONCE):
            children += await _children(api, errand, generation[start : start + _AT_ONCE])
        seen |= set(generation)
        generation = [child for child in dict.fromkeys(children) if child not in seen]
        below.append(generation)
        if len(seen) + len(generation) > MOST_DESCENDANTS:
            text = f"More than {MOST_DESCENDANTS} memories would be deleted; delete a part of them first"
            raise RequestError(VALIDATION_ERROR, text)
    return below


async def _children(api: GatewayApi, errand: RequestContext, parents: Sequence[str]) -> list[str]:
    request = pb.GetSubgraphRequest(
        memory_ids=parents,
        radius=1,
        max_nodes=MOST_CHILDREN,
        filter=_DOWN,
    )
    answer = await api.call(api.links.GetSubgraph, request, errand)
    if not answer.truncated:
        return [node.memory_id for node in answer.nodes if node.hop]
    found = []
    for parent in request.memory_ids:
        links, _ = await links_of(
            api,
            errand,
            parent,
            direction=pb.LINK_DIRECTION_INCOMING,
            relation=records.PARENT,
            most=MOST_DESCENDANTS + 1,
        )
        found += [link.from_memory_id for link in links]
    return found
