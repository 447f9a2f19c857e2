"""Memories beyond the default tools: batches, versions, types, levels, purges."""

from __future__ import annotations

from skein_gateway.mcp.tool import Effect, optional, required, tool
from skein_gateway.mcp.toolsets.standard import MEMORY_FIELDS, conditions

_SERVICE = "memory.v1.MemoryService/"

TOOLS = (
    tool(
        "remember_many",
        "Remember several things",
        _SERVICE + "BatchCreateMemories",
        Effect.ADDS,
        "Store several memories, all or none.",
        required(
            "memories",
            "memories",
            "Memories, each with the fields of remember.",
            only=("content", "external_id", "derived_from", *MEMORY_FIELDS),
        ),
    ),
    tool(
        "get_memories",
        "Read several memories",
        _SERVICE + "BatchGetMemories",
        Effect.READS,
        "Read several memories by their ids; missing ids are listed.",
        "memory_ids",
    ),
    tool(
        "undelete_memory",
        "Undelete a memory",
        _SERVICE + "UndeleteMemory",
        Effect.CHANGES,
        "Undelete a memory that was deleted but not purged.",
        "memory_id",
    ),
    tool(
        "purge_memories",
        "Purge memories",
        _SERVICE + "PurgeMemories",
        Effect.CHANGES,
        "Purge memories for good with every copy, by id or by conditions; returns a receipt. Try with dry_run first.",
        optional("memory_ids", "selection.memory_ids", "Ids of the memories."),
        *conditions("selection.filter"),
        "dry_run",
        "page_size",
        "page_token",
        fixed={"selection": {}},
    ),
    tool(
        "export_memories",
        "Export memories",
        _SERVICE + "ExportMemories",
        Effect.READS,
        "Read memories with their versions and links, by id or by conditions.",
        optional("memory_ids", "selection.memory_ids", "Ids of the memories."),
        *conditions("selection.filter"),
        "page_size",
        "page_token",
        fixed={"selection": {}},
        omit=frozenset(),
    ),
    tool(
        "list_memory_versions",
        "List versions of a memory",
        _SERVICE + "ListMemoryVersions",
        Effect.READS,
        "Page through the versions of a memory: author, time and changed fields of each.",
        "memory_id",
        "page_size",
        "page_token",
        omit=frozenset(),
    ),
    tool(
        "list_memory_types",
        "List types of memories",
        _SERVICE + "ListMemoryTypes",
        Effect.READS,
        "List the types of memories, each with the schema of its data.",
    ),
    tool(
        "explain_score",
        "Explain a score",
        _SERVICE + "ExplainScore",
        Effect.READS,
        "Explain the confidence and importance of a memory, term by term.",
        "memory_id",
        omit=frozenset(),
    ),
    tool(
        "promote_memory",
        "Promote a memory",
        _SERVICE + "PromoteMemory",
        Effect.CHANGES,
        "Move a memory one level up: contextual, operational, tactical, strategic.",
        "memory_id",
        "revision",
        is_idempotent=False,
    ),
    tool(
        "demote_memory",
        "Demote a memory",
        _SERVICE + "DemoteMemory",
        Effect.CHANGES,
        "Move a memory one level down.",
        "memory_id",
        "revision",
        is_idempotent=False,
    ),
)
