"""Links between memories, and walks along them."""

from __future__ import annotations

from skein_gateway.mcp.tool import Effect, may, needs, tool

_SERVICE = "memory.v1.LinkService/"
_FOLLOWED = (
    may("relations", "filter.relations", "Follow only these relations."),
    may("direction", "filter.direction"),
    may("min_weight", "filter.min_weight"),
)

TOOLS = (
    tool(
        "list_links",
        "List links",
        _SERVICE + "ListLinks",
        Effect.READS,
        "List the links of one memory, newest first, with their ids.",
        "memory_id",
        "direction",
        "relations",
        "page_size",
        "page_token",
    ),
    tool(
        "link_many",
        "Link several memories",
        _SERVICE + "BatchCreateLinks",
        Effect.ADDS,
        "Make several links, all or none.",
        needs(
            "links",
            "links",
            "From one memory to another, each.",
            only=("from_memory_id", "to_memory_id", "relation", "label", "weight"),
        ),
    ),
    tool(
        "update_link",
        "Change a link",
        _SERVICE + "UpdateLink",
        Effect.CHANGES,
        "Change relation, label or weight of a link; what is not given stays.",
        needs("link_id", "link.link_id"),
        may("relation", "link.relation"),
        may("label", "link.label"),
        may("weight", "link.weight"),
        masked="link",
        row=frozenset({"link_id"}),
    ),
    tool(
        "unlink",
        "Remove a link",
        _SERVICE + "DeleteLink",
        Effect.CHANGES,
        "Remove a link by its id (list_links tells it). The memories stay.",
        "link_id",
    ),
    tool(
        "subgraph",
        "Draw what lies around memories",
        _SERVICE + "GetSubgraph",
        Effect.READS,
        "Return what lies around some memories: memories, links and, if asked, links inferred from shared tags.",
        "memory_ids",
        "radius",
        "max_nodes",
        "infer_links",
        *_FOLLOWED,
    ),
    tool(
        "find_paths",
        "Find paths",
        _SERVICE + "FindPaths",
        Effect.READS,
        "Return how one memory leads to another, along links; the shortest way first.",
        "from_memory_id",
        "to_memory_id",
        "max_hops",
        "max_paths",
        *_FOLLOWED,
    ),
    tool(
        "suggest_links",
        "Suggest links",
        _SERVICE + "SuggestLinks",
        Effect.READS,
        "Name memories that one could be linked with, and why.",
        "memory_id",
        "max_suggestions",
        "min_score",
    ),
    tool(
        "activate",
        "Spread activation",
        _SERVICE + "Activate",
        Effect.READS,
        "Let activation spread from some memories along their links; returns whom it reached, most active first.",
        "seeds",
        "hops",
        "max_nodes",
        *_FOLLOWED,
    ),
)
