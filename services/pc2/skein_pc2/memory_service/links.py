"""Relations of memories on port 7140: parents, groups and relationships are links."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from skein.memory.v1 import memory_pb2 as pb
from skein_pc2.gateway_api.client import GatewayApi
from skein_pc2.memory_service import convert as records
from skein_pc2.protocol.concurrency import RequestContext
from skein_pc2.protocol.errors import VALIDATION_ERROR, RequestError
from skein_pc2.protocol.frames import Message

# Memories of one GetSubgraph call, and nodes of its reply.
_SUBGRAPH_MEMORIES, _MAX_SUBGRAPH_NODES = 20, 120
# Most children in one reply: those with the newest links.
MAX_CHILDREN = 500
_PAGE_SIZE = 200
# Memories of one page, and bytes of all memories in one reply: each is written two or three times.
MAX_PAGE_SIZE, MAX_REPLY_BYTES = 1000, 2 * 1024 * 1024
# Most calls of one list.
_MAX_CALLS = 20
# Depth of one traversal to descendants, and its nodes.
_MAX_HOPS, _MAX_TRAVERSED_NODES = 4, 1000
_TO_CHILDREN = pb.LinkFilter(relations=[records.PARENT_RELATION], direction=pb.LINK_DIRECTION_INCOMING)
# Most descendants of one cascading deletion.
MAX_DESCENDANTS = 2000


@dataclass(frozen=True, slots=True)
class Neighborhood:
    """Links of some memories, and the memories at their ends."""

    # Memories by id, and links by memory id and link id.
    memories: dict[str, pb.Memory] = field(default_factory=dict)
    links: dict[str, dict[str, pb.Link]] = field(default_factory=dict)

    def to_record(self, memory: pb.Memory) -> dict[str, Any]:
        """Return a memory as a record with its relations."""
        links = self.links.get(memory.memory_id, {}).values()
        outgoing = [link for link in links if link.from_memory_id == memory.memory_id]
        return {
            **records.to_record(memory),
            "relationships": [
                {
                    "source_id": self.name(link.from_memory_id),
                    "target_id": self.name(link.to_memory_id),
                    "relationship_type": records.relationship_type(link),
                    "strength": link.weight,
                }
                for link in links
                if link.relation not in records.STRUCTURAL_RELATIONS
            ],
            # Without a parent memory, the session is the parent.
            "parent_id": next(
                (self.name(link.to_memory_id) for link in outgoing if link.relation == records.PARENT_RELATION),
                memory.session_id or None,
            ),
            "group_ids": [
                records.group_number(self.name(link.to_memory_id))
                for link in outgoing
                if link.relation == records.MEMBER_RELATION
            ],
        }

    def name(self, memory_id: str) -> str:
        """Return a memory's name on the ports."""
        return records.name(self.memories[memory_id]) if memory_id in self.memories else memory_id

    def add(self, response: pb.GetSubgraphResponse) -> None:
        """Add the reply of one call."""
        for node in response.nodes:
            if node.HasField("memory"):
                self.memories[node.memory_id] = node.memory
        for link in response.links:
            for memory_id in {link.from_memory_id, link.to_memory_id}:
                self.links.setdefault(memory_id, {})[link.link_id] = link


async def read_neighborhood(api: GatewayApi, context: RequestContext, memory_ids: Sequence[str]) -> Neighborhood:
    """Read the links of memories. If a memory was deleted since, the links of its whole batch are missing."""
    result = Neighborhood()
    batches = [
        memory_ids[start : start + _SUBGRAPH_MEMORIES] for start in range(0, len(memory_ids), _SUBGRAPH_MEMORIES)
    ]

    async def read_batch(batch: Sequence[str]) -> None:
        call = pb.GetSubgraphRequest(memory_ids=batch, radius=1, max_nodes=_MAX_SUBGRAPH_NODES, include_memories=True)
        subgraph = await api.find(api.links.GetSubgraph, call, context)
        if subgraph is not None:
            result.add(subgraph)

    await asyncio.gather(*(read_batch(batch) for batch in batches))
    return result


async def to_records(api: GatewayApi, context: RequestContext, memories: Sequence[pb.Memory]) -> list[dict[str, Any]]:
    """Return memories as records with their relations."""
    result = await read_neighborhood(api, context, [memory.memory_id for memory in memories])
    return [result.to_record(memory) for memory in memories]


async def read_memories(api: GatewayApi, context: RequestContext, memory_ids: Sequence[str]) -> list[pb.Memory]:
    """Read memories, without missing ones and those beyond the size of a reply."""
    if not memory_ids:
        return []
    call = pb.BatchGetMemoriesRequest(memory_ids=memory_ids)
    result = await api.call(api.memories.BatchGetMemories, call, context)
    return list(result.memories)


async def read_memory(api: GatewayApi, context: RequestContext, memory_id: str) -> pb.Memory | None:
    """Read a memory by either id without counting an access; None when it does not exist."""
    for name in ("external_id", "memory_id"):
        call = pb.ListMemoriesRequest(
            page_size=1, show_archived=True, filter=pb.MemoryFilter(where=f"{name} = {json.dumps(memory_id)}")
        )
        page = await api.call(api.memories.ListMemories, call, context)
        if page.memories:
            return page.memories[0]
    return None


async def memory_pages(
    api: GatewayApi, context: RequestContext, condition: pb.MemoryFilter, *, order_by: str, page_size: int
) -> AsyncIterator[list[pb.Memory]]:
    """Yield all matching memories in order; a page may be empty.

    A page scans a bounded number of memories, matching or not.
    """
    call = pb.ListMemoriesRequest(filter=condition, order_by=order_by, page_size=min(page_size, MAX_PAGE_SIZE))
    while True:
        page = await api.call(api.memories.ListMemories, call, context)
        yield list(page.memories)
        call.page_token = page.next_page_token
        if not page.next_page_token:
            return


async def list_memories(
    api: GatewayApi,
    context: RequestContext,
    condition: pb.MemoryFilter,
    *,
    order_by: str,
    limit: int,
    max_calls: int = _MAX_CALLS,
) -> tuple[list[pb.Memory], bool]:
    """Return up to `limit` matching memories in order, and whether there may be more.

    Each call scans a bounded number of memories; where few match, `max_calls` ends the scan early.
    """
    result: list[pb.Memory] = []
    call = pb.ListMemoriesRequest(filter=condition, order_by=order_by)
    for _ in range(max_calls):
        call.page_size = min(limit - len(result), MAX_PAGE_SIZE)
        page = await api.call(api.memories.ListMemories, call, context)
        result += page.memories
        call.page_token = page.next_page_token
        if not page.next_page_token:
            return result, False
        if len(result) >= limit:
            break
    return result, True


def fit_reply(memories: Sequence[pb.Memory], limit: int) -> list[pb.Memory]:
    """Return the first `limit` memories that fit into one reply, at least one."""
    size = 0
    for count, memory in enumerate(memories[:limit]):
        size += memory.ByteSize()
        if size > MAX_REPLY_BYTES and count:
            return list(memories[:count])
    return list(memories[:limit])


def list_reply(memories: list[dict[str, Any]], *names: str, is_truncated: bool = False) -> Message:
    """Return a reply with records under "memories" and `names`; `is_truncated` marks it as truncated."""
    return {
        **dict.fromkeys(("memories", *names), memories),
        "count": len(memories),
        **({"truncated": True} if is_truncated else {}),
    }


async def links_of(
    api: GatewayApi, context: RequestContext, memory_id: str, *, direction: pb.LinkDirection, relation: str, limit: int
) -> tuple[list[pb.Link], bool]:
    """Return a memory's links, newest first, and whether there are more than `limit`."""
    call = pb.ListLinksRequest(memory_id=memory_id, direction=direction, relation=relation, page_size=_PAGE_SIZE)
    links: list[pb.Link] = []
    while len(links) <= limit:
        page = await api.call(api.links.ListLinks, call, context)
        links += page.links
        call.page_token = page.next_page_token
        if not page.next_page_token:
            break
    return links[:limit], len(links) > limit


async def set_parent(api: GatewayApi, context: RequestContext, memory_id: str, parent_id: str) -> None:
    """Set a memory's parent memory; "" for none."""
    parent_link_id = ""
    if parent_id:
        link = pb.Link(from_memory_id=memory_id, to_memory_id=parent_id, relation=records.PARENT_RELATION)
        stored = await api.call(api.links.UpsertLink, pb.UpsertLinkRequest(link=link), context)
        parent_link_id = stored.link.link_id
    old_links, _ = await links_of(
        api,
        context,
        memory_id,
        direction=pb.LINK_DIRECTION_OUTGOING,
        relation=records.PARENT_RELATION,
        limit=_PAGE_SIZE,
    )
    for link in old_links:
        if link.link_id != parent_link_id:
            await api.call(api.links.DeleteLink, pb.DeleteLinkRequest(link_id=link.link_id), context)


async def list_children(api: GatewayApi, context: RequestContext, memory_id: str) -> tuple[list[pb.Memory], bool]:
    """Return a memory's children, newest links first, and whether there are more."""
    call = pb.GetSubgraphRequest(
        memory_ids=[memory_id], radius=1, max_nodes=MAX_CHILDREN, filter=_TO_CHILDREN, include_memories=True
    )
    response = await api.call(api.links.GetSubgraph, call, context)
    nodes = [node for node in response.nodes if node.hop]
    memories = {node.memory_id: node.memory for node in nodes if node.HasField("memory")}
    # Large children do not all fit into one reply.
    missing_ids = [node.memory_id for node in nodes if node.memory_id not in memories]
    for start in range(0, len(missing_ids), _PAGE_SIZE):
        memories |= {
            memory.memory_id: memory
            for memory in await read_memories(api, context, missing_ids[start : start + _PAGE_SIZE])
        }
    result = [memories[node.memory_id] for node in nodes if node.memory_id in memories]
    return result, response.truncated or len(result) < len(nodes)


async def descendants(api: GatewayApi, context: RequestContext, memory_id: str) -> list[list[str]]:
    """Return the ids of a memory's descendants by generation."""
    traversal = pb.TraverseLinksRequest(
        memory_id=memory_id, hops=_MAX_HOPS, max_nodes=_MAX_TRAVERSED_NODES, filter=_TO_CHILDREN
    )
    response = await api.call(api.links.TraverseLinks, traversal, context)
    if not response.truncated and all(node.hop < _MAX_HOPS for node in response.nodes):
        result = [[node.memory_id for node in response.nodes if node.hop == hop] for hop in range(1, _MAX_HOPS)]
        return [generation for generation in result if generation]
    return await generations(api, context, [memory_id])


async def generations(api: GatewayApi, context: RequestContext, memory_ids: Sequence[str]) -> list[list[str]]:
    """Return the ids of descendants by generation, at any depth."""
    visited_ids: set[str] = set()
    generation, descendant_ids = list(memory_ids), []
    while generation:
        children: list[str] = []
        for start in range(0, len(generation), _SUBGRAPH_MEMORIES):
            children += await _read_child_ids(api, context, generation[start : start + _SUBGRAPH_MEMORIES])
        visited_ids |= set(generation)
        generation = [child for child in dict.fromkeys(children) if child not in visited_ids]
        descendant_ids.append(generation)
        if len(visited_ids) + len(generation) > MAX_DESCENDANTS:
            raise RequestError(
                VALIDATION_ERROR, f"More than {MAX_DESCENDANTS} memories would be deleted; delete a part of them first"
            )
    return descendant_ids


async def _read_child_ids(api: GatewayApi, context: RequestContext, parents: Sequence[str]) -> list[str]:
    call = pb.GetSubgraphRequest(
        memory_ids=parents,
        radius=1,
        max_nodes=MAX_CHILDREN,
        filter=_TO_CHILDREN,
    )
    response = await api.call(api.links.GetSubgraph, call, context)
    if not response.truncated:
        return [node.memory_id for node in response.nodes if node.hop]
    result = []
    for parent in call.memory_ids:
        links, _ = await links_of(
            api,
            context,
            parent,
            direction=pb.LINK_DIRECTION_INCOMING,
            relation=records.PARENT_RELATION,
            limit=MAX_DESCENDANTS + 1,
        )
        result += [link.from_memory_id for link in links]
    return result
