"""What memories are related to, as port 7140 tells it: parents, groups and relationships are links."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import grpc
from grpc import aio

from skein.memory.v1 import memory_pb2 as pb
from skein_pc2.errors import VALIDATION_ERROR, Rejected
from skein_pc2.memory_service import records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skein_pc2.api import Api
    from skein_pc2.messages import Message
    from skein_pc2.work import Errand

# Memories whose surroundings are asked for with one call, and memories that such an answer holds.
_AT_ONCE, _NODES = 20, 120
# The same without what they say.
_CHILDREN = 500
_PAGE = 200
# How far one walk down from a memory goes, and how many it meets.
_HOPS, _WALKED = 4, 1000
_DOWN = pb.LinkFilter(relations=[records.PARENT], direction=pb.LINK_DIRECTION_INCOMING)
# A memory with more descendants is not deleted with all of them in one go.
MOST_DESCENDANTS = 2000


@dataclass(frozen=True, slots=True)
class Around:
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
            "parent_id": next(
                (self.name(link.to_memory_id) for link in outgoing if link.relation == records.PARENT), None
            ),
            "group_ids": [self.name(link.to_memory_id) for link in outgoing if link.relation == records.MEMBER],
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


async def around(api: Api, errand: Errand, memory_ids: Sequence[str]) -> Around:
    """Look around memories; of those that went away meanwhile, and their companions of one call, nothing is told."""
    found = Around()
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


async def written(api: Api, errand: Errand, memories: Sequence[pb.Memory]) -> list[dict[str, Any]]:
    """Write memories with what they are related to."""
    found = await around(api, errand, [memory.memory_id for memory in memories])
    return [found.record(memory) for memory in memories]


async def read(api: Api, errand: Errand, memory_ids: Sequence[str]) -> list[pb.Memory]:
    """Read those of some memories that are there and that an answer has room for."""
    if not memory_ids:
        return []
    request = pb.BatchGetMemoriesRequest(memory_ids=memory_ids)
    found = await api.call(api.memories.BatchGetMemories, request, errand)
    at = datetime.now(UTC)
    return [memory for memory in found.memories if not records.is_expired(memory, at)]


def listed(memories: list[dict[str, Any]], *, more: bool = False) -> Message:
    """Answer with memories, and say so when there are more than these."""
    return {"memories": memories, "count": len(memories), **({"truncated": True} if more else {})}


async def must_be_there(api: Api, errand: Errand, memory_id: str) -> None:
    """Raise AioRpcError (NOT_FOUND) for a memory that is not there. It does not count as a use of the memory."""
    await api.call(api.links.ListLinks, pb.ListLinksRequest(memory_id=memory_id, page_size=1), errand)


async def links_of(
    api: Api, errand: Errand, memory_id: str, *, direction: pb.LinkDirection, relation: str, most: int
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


async def set_parent(api: Api, errand: Errand, memory_id: str, parent_id: str) -> None:
    """Put a memory under a parent, or under none (empty)."""
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


async def descendants(api: Api, errand: Errand, memory_id: str) -> list[list[str]]:
    """Return the ids of a memory's children, of theirs, and so on, by generation."""
    walk = pb.TraverseRequest(memory_id=memory_id, hops=_HOPS, max_nodes=_WALKED, filter=_DOWN)
    near = await api.call(api.links.Traverse, walk, errand)
    if not near.truncated and all(node.hop < _HOPS for node in near.nodes):
        found = [[node.memory_id for node in near.nodes if node.hop == hop] for hop in range(1, _HOPS)]
        return [generation for generation in found if generation]
    return await _by_generation(api, errand, memory_id)


async def _by_generation(api: Api, errand: Errand, memory_id: str) -> list[list[str]]:
    """Find what a walk of some steps does not reach."""
    seen: set[str] = set()
    generation, generations = [memory_id], []
    while generation:
        children: list[str] = []
        for start in range(0, len(generation), _AT_ONCE):
            children += await _children(api, errand, generation[start : start + _AT_ONCE])
        seen |= set(generation)
        generation = [child for child in dict.fromkeys(children) if child not in seen]
        generations.append(generation)
        if len(seen) + len(generation) > MOST_DESCENDANTS:
            text = f"More than {MOST_DESCENDANTS} memories would be deleted; delete a part of them first"
            raise Rejected(VALIDATION_ERROR, text)
    return generations


async def _children(api: Api, errand: Errand, parents: Sequence[str]) -> list[str]:
    request = pb.GetSubgraphRequest(
        memory_ids=parents,
        radius=1,
        max_nodes=_CHILDREN,
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
