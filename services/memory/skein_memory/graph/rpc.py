"""Handlers of the RPCs for the graph of links; each response stays within its bytes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar
from uuid import UUID

from google.protobuf.message import Message

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.admission.processor_time import run_by_size, with_pauses
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.ids import now
from skein_kit.policies.history import read_as_of_time
from skein_kit.rpc.well_known_types import to_message
from skein_memory.graph.model import (
    ACTIVATION_HOPS,
    DEFAULT_HOPS,
    DEFAULT_NODES,
    MAX_TAGS,
    MAX_TITLE,
    SUBGRAPH_NODES,
    InferredLink,
    Node,
    Suggestion,
)
from skein_memory.graph.store import Graph, GraphStore
from skein_memory.links import convert as links_convert
from skein_memory.links.model import DEFAULT_RELATION, LinkFilter
from skein_memory.listing.store import MemoryListStore
from skein_memory.memories import convert as memories_convert
from skein_memory.memories.model import Memory
from skein_memory.memories.rows import size_of

Item = TypeVar("Item", bound=Message)

# Bytes of each part of a response; together they stay below the limit of clients (4 MiB).
_NODE_BYTES = 1024 * 1024
_LINK_BYTES = 1024 * 1024
_MEMORY_BYTES = 1536 * 1024
_MEMORIES_BATCH_SIZE = 20
# What converting a node or a link costs, in bytes of text (`run_by_size`).
_ITEM_BYTES = 512
# Seconds of the call's time that a search for paths must leave, and the limit of its own time.
_SPARE_SECONDS = 0.5
_SEARCH_SECONDS = 2.0
_DEFAULT_STRENGTH = 1.0


class GraphHandlers:
    """Traversals of links."""

    def __init__(self, store: GraphStore, *, lists: MemoryListStore) -> None:
        self._store = store
        self._lists = lists

    async def TraverseLinks(self, request: pb.TraverseLinksRequest, context: Context) -> pb.TraverseLinksResponse:
        at, tenant_id = now(), caller_of(context).require_tenant()
        as_of_time = read_as_of_time(request, at=at)
        graph = await self._store.read_subgraph(
            tenant_id,
            [request.memory_id],
            _filter(request.filter),
            hops=request.hops or DEFAULT_HOPS,
            max_nodes=request.max_nodes or DEFAULT_NODES,
            infer=False,
            at=at,
            as_of_time=as_of_time,
        )
        nodes, links, truncated = await run_by_size(_size_of(graph), _fit_response, graph)
        if request.include_memories:
            await self._hydrate(tenant_id, nodes, as_of_time)
        return pb.TraverseLinksResponse(nodes=nodes, links=links, truncated=truncated)

    async def GetSubgraph(self, request: pb.GetSubgraphRequest, context: Context) -> pb.GetSubgraphResponse:
        at, tenant_id = now(), caller_of(context).require_tenant()
        as_of_time = read_as_of_time(request, at=at)
        graph = await self._store.read_subgraph(
            tenant_id,
            request.memory_ids,
            _filter(request.filter),
            hops=request.radius or None,
            max_nodes=request.max_nodes or SUBGRAPH_NODES,
            infer=request.infer_links,
            at=at,
            as_of_time=as_of_time,
        )
        nodes, links, truncated = await run_by_size(_size_of(graph), _fit_response, graph)
        if request.include_memories:
            await self._hydrate(tenant_id, nodes, as_of_time)
        return pb.GetSubgraphResponse(
            nodes=nodes,
            links=links,
            inferred_links=[_inferred_link(link) for link in graph.inferred],
            truncated=truncated,
        )

    async def FindPaths(self, request: pb.FindPathsRequest, context: Context) -> pb.FindPathsResponse:
        at = now()
        result = await self._store.find_paths(
            caller_of(context).require_tenant(),
            (request.from_memory_id, request.to_memory_id),
            _filter(request.filter),
            hops=request.max_hops or None,
            count=request.max_paths or None,
            at=at,
            as_of_time=read_as_of_time(request, at=at),
            has_time=_timer(context),
        )
        paths = [
            pb.LinkPath(memory_ids=map(str, memory_ids), links=[links_convert.link(link) for link in links])
            for memory_ids, links in result.paths
        ]
        return pb.FindPathsResponse(
            paths=paths, nodes=[_node(node) for node in result.nodes], truncated=result.truncated
        )

    async def SpreadActivation(
        self, request: pb.SpreadActivationRequest, context: Context
    ) -> pb.SpreadActivationResponse:
        at = now()
        result = await self._store.activate(
            caller_of(context).require_tenant(),
            [
                (seed.memory_id, seed.strength if seed.HasField("strength") else _DEFAULT_STRENGTH)
                for seed in request.seeds
            ],
            _filter(request.filter),
            hops=request.hops or ACTIVATION_HOPS,
            max_nodes=request.max_nodes or DEFAULT_NODES,
            at=at,
            as_of_time=read_as_of_time(request, at=at),
        )
        memories = [pb.ActivatedMemory(node=_node(node), activation=activation) for node, activation in result.memories]
        page = _prefix(memories, _NODE_BYTES)
        return pb.SpreadActivationResponse(memories=page, truncated=result.truncated or len(page) < len(memories))

    async def SuggestLinks(self, request: pb.SuggestLinksRequest, context: Context) -> pb.SuggestLinksResponse:
        at = now()
        suggestions = await self._store.suggest_links(
            caller_of(context).require_tenant(),
            request.memory_id,
            min_score=request.min_score if request.HasField("min_score") else None,
            count=request.max_suggestions or None,
            at=at,
            as_of_time=read_as_of_time(request, at=at),
        )
        return pb.SuggestLinksResponse(suggestions=[_suggestion(suggestion) for suggestion in suggestions])

    async def suggestions(self, tenant_id: UUID, memory_id: UUID, at: datetime) -> list[pb.LinkSuggestion]:
        suggestions = await self._store.suggest_links(tenant_id, str(memory_id), at=at)
        return [_suggestion(suggestion) for suggestion in suggestions]

    async def _hydrate(self, tenant_id: UUID, nodes: Sequence[pb.GraphNode], as_of_time: datetime | None) -> None:
        """Put complete memories, as of a time, into the nearest nodes, within the limit of bytes."""
        remaining_bytes, at = _MEMORY_BYTES, now()
        start, batch_size = 0, _MEMORIES_BATCH_SIZE
        while start < len(nodes):
            batch = nodes[start : start + batch_size]
            start += len(batch)
            ids = [UUID(node.memory_id) for node in batch]
            read = await self._lists.read_memories(tenant_id, ids, as_of_time, at=at)
            memories = {str(memory.memory_id): memory for memory in read}
            remaining_bytes = await run_by_size(
                size_of(read), _put_memories, batch, memories, remaining_bytes, at=as_of_time or at
            )
            if remaining_bytes < 0:
                return
            # From now on as many as fit if they are as long as those before.
            batch_size = max(1, remaining_bytes * start // max(1, _MEMORY_BYTES - remaining_bytes))


def _put_memories(
    nodes: Sequence[pb.GraphNode], memories: Mapping[str, Memory], remaining_bytes: int, *, at: datetime
) -> int:
    """Put those of some memories into their nodes that fit; return the bytes that remain, below 0 at the end."""
    for node in with_pauses(nodes):
        if node.memory_id in memories and memories[node.memory_id].is_visible(at):
            memory = memories_convert.memory(memories[node.memory_id])
            remaining_bytes -= memory.ByteSize()
            if remaining_bytes < 0:
                break
            node.memory.CopyFrom(memory)
    return remaining_bytes


def _size_of(graph: Graph) -> int:
    return (len(graph.nodes) + len(graph.links)) * _ITEM_BYTES


def _filter(link_filter: pb.LinkFilter) -> LinkFilter:
    return LinkFilter(
        outgoing=link_filter.direction != pb.LINK_DIRECTION_INCOMING,
        incoming=link_filter.direction != pb.LINK_DIRECTION_OUTGOING,
        relations=sorted(link_filter.relations) or None,
        min_weight=link_filter.min_weight,
    )


def _fit_response(graph: Graph) -> tuple[list[pb.GraphNode], list[pb.Link], bool]:
    nodes = _prefix([_node(node) for node in with_pauses(graph.nodes)], _NODE_BYTES)
    node_ids = {node.memory_id for node in nodes}
    all_links = [links_convert.link(link) for link in with_pauses(graph.links)]
    all_links = [link for link in all_links if link.from_memory_id in node_ids and link.to_memory_id in node_ids]
    links = _prefix(all_links, _LINK_BYTES)
    return nodes, links, graph.truncated or len(nodes) < len(graph.nodes) or len(links) < len(all_links)


def _prefix(items: Iterable[Item], max_bytes: int) -> list[Item]:
    prefix: list[Item] = []
    for item in items:
        max_bytes -= item.ByteSize()
        if max_bytes < 0:
            break
        prefix.append(item)
    return prefix


def _node(node: Node) -> pb.GraphNode:
    return to_message(pb.GraphNode, node)


def _inferred_link(value: InferredLink) -> pb.InferredLink:
    return pb.InferredLink(
        from_memory_id=str(value.from_memory_id),
        to_memory_id=str(value.to_memory_id),
        shared_tag_count=len(value.shared_tags),
        shared_tags=value.shared_tags[:MAX_TAGS],
        weight=value.weight,
    )


def _timer(context: Context) -> Callable[[], bool]:
    """Return a function that returns whether a search may continue."""
    deadline = time.monotonic() + _SEARCH_SECONDS

    def has_time() -> bool:
        return time.monotonic() < deadline and context.time_remaining() > _SPARE_SECONDS

    return has_time


def _suggestion(value: Suggestion) -> pb.LinkSuggestion:
    other = value.memory
    return to_message(
        pb.LinkSuggestion,
        value,
        memory_id=str(other.memory_id),
        type=other.type,
        title=(other.title or "")[:MAX_TITLE],
        relation=DEFAULT_RELATION,
        shared_tags=value.shared_tags[:MAX_TAGS],
    )
