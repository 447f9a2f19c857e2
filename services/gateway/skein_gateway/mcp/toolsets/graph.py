"""Links between memories, and traversals along them."""

from __future__ import annotations

from skein_gateway.mcp.tool import Effect, optional, required, tool
from skein_gateway.mcp.toolsets.standard import SUBJECT

_SERVICE = "memory.v1.LinkService/"
_LINK_FILTER = (
    optional("relations", "filter.relations", "Follow only these relations."),
    optional("direction", "filter.direction"),
    optional("min_weight", "filter.min_weight"),
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
        "Create several links, all or none.",
        required(
            "links",
            "links",
            "Links, each from one memory to another.",
            only=("from_memory_id", "to_memory_id", "relation", "label", "weight"),
        ),
    ),
    tool(
        "update_link",
        "Change a link",
        _SERVICE + "UpdateLink",
        Effect.CHANGES,
        "Change relation, label or weight of a link; omitted fields stay.",
        required("link_id", "link.link_id"),
        optional("relation", "link.relation"),
        optional("label", "link.label"),
        optional("weight", "link.weight"),
        masked_field="link",
        key_fields=frozenset({"link_id"}),
    ),
    tool(
        "unlink",
        "Remove a link",
        _SERVICE + "DeleteLink",
        Effect.CHANGES,
        "Delete a link by its id, which list_links returns. The memories are kept.",
        "link_id",
    ),
    tool(
        "subgraph",
        "Get a subgraph",
        _SERVICE + "GetSubgraph",
        Effect.READS,
        "Return the subgraph around some memories: memories, links and, if requested, links inferred from shared tags.",
        "memory_ids",
        "radius",
        "max_nodes",
        "infer_links",
        *_LINK_FILTER,
    ),
    tool(
        "find_paths",
        "Find paths",
        _SERVICE + "FindPaths",
        Effect.READS,
        "Return the paths of links from one memory to another, shortest first.",
        "from_memory_id",
        "to_memory_id",
        "max_hops",
        "max_paths",
        *_LINK_FILTER,
    ),
    tool(
        "suggest_links",
        "Suggest links",
        _SERVICE + "SuggestLinks",
        Effect.READS,
        "Suggest memories to link with a memory, each with the reason.",
        "memory_id",
        "max_suggestions",
        "min_score",
    ),
    tool(
        "find_similar",
        "Find similar items",
        "recall.v1.RecallService/FindSimilar",
        Effect.READS,
        "Return the memories and messages most like a stored one, best first, each with the components of its score.",
        "item_id",
        optional("subject_id", "subject_id", SUBJECT),
        "mode",
        "limit",
        "min_similarity",
    ),
    tool(
        "spread_activation",
        "Spread activation",
        _SERVICE + "SpreadActivation",
        Effect.READS,
        "Spread activation from some memories along their links; returns the reached memories, most active first.",
        "seeds",
        "hops",
        "max_nodes",
        *_LINK_FILTER,
    ),
)
