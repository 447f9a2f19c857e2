"""The tools that every agent needs, and those that most need. Each tool costs tokens of the model's context."""

from __future__ import annotations

from skein_gateway.mcp.text_output import made_text, messages_text, recall_text, subgraph_text
from skein_gateway.mcp.tool import Argument, Effect, optional, required, tool

# Fields of a memory that a model may set.
MEMORY_FIELDS = (
    "title",
    "type",
    "tags",
    "key",
    "importance",
    "confidence",
    "source",
    "subject_id",
    "agent_id",
    "session_id",
    "data",
    "expire_time",
)
_WHERE = (
    'A condition, e.g. type = "fact" AND tags:any("tea", "coffee") AND NOT title:"draft". Operators = != < <= > >= : '
    "(contains) IN AND OR NOT; fields as in a memory, metadata.x.y, data.x.y. Dates are whole days."
)
_WHERE_OF_ITEMS = f"{_WHERE} Of messages too: kind (memory, message), role, name (of the speaker)."
_MODE = (
    "hybrid (the default) searches by meaning and words; keyword finds only what contains a word of the query; "
    "semantic searches by meaning alone."
)
_AS_OF = "What was known at this time (RFC 3339)."
_VALID_AT = "Memories true at this time (RFC 3339)."
SUBJECT = "Only what is this person's or about nobody."
# The most useful filter conditions; `where` covers all others.
_FILTER = {
    "types": ("types", "Only memories of any of these types."),
    "tags": ("tags_any", "Only memories with at least one of these tags."),
    "subject_id": ("subject_id", "Only items about this person."),
    "agent_id": ("agent_id", "Only items of this agent."),
    "session_id": ("session_id", "Only items of this session."),
    "since": ("start_time", "Created at or after this time (RFC 3339)."),
    "until": ("end_time", "Created before this time (RFC 3339)."),
    "where": ("where", _WHERE),
}
_MEMORY = {
    "title": "A short name.",
    "tags": "Tags to find it by.",
    "type": "note (the default), fact, user_preference, decision, task, objective, episodic, ... ; lower case.",
    "key": "For a fact: its unique name per subject, e.g. user.city.",
    "importance": "Importance, 0 to 1.",
    "confidence": "Confidence, 0 to 1.",
    "source": "Source: calendar, https://...",
    "subject_id": "Person whom it is about.",
    "expire_time": "Time after which no call finds it (RFC 3339).",
}


def conditions(prefix: str) -> tuple[Argument, ...]:
    """Return the arguments that set a MemoryFilter."""
    return tuple(optional(name, f"{prefix}.{path}", text) for name, (path, text) in _FILTER.items())


def recall_conditions(prefix: str = "") -> dict[str, Argument]:
    """Return the arguments of a recall that restrict it, by name; `prefix` ends in a point."""
    restrictions = {argument.name: argument for argument in conditions(f"{prefix}filter")}
    return restrictions | {
        "subject_id": optional("subject_id", f"{prefix}subject_id", SUBJECT),
        "where": optional("where", f"{prefix}filter.where", _WHERE_OF_ITEMS),
    }


def memory_arguments(prefix: str = "memory") -> tuple[Argument, ...]:
    """Return the arguments that set the fields of a memory."""
    return tuple(optional(name, f"{prefix}.{name}", _MEMORY.get(name, "")) for name in MEMORY_FIELDS)


# What is stored already is not stored again, for callers who may read it.
RETURN_SIMILAR = {"on_similar": ("memory.read", "ON_SIMILAR_RETURN")}
ON_SIMILAR = "If a stored memory has the same words: return it (the default), keep both, or reinforce it."
ON_CONFLICT = "If another fact has the key: fail (the default), update it, return it, or end it and supersede it."

# What a client gets that names no toolset: without schemas of their results, which cost more than all else.
CORE_TOOLS = (
    tool(
        "remember",
        "Remember",
        "memory.v1.MemoryService/CreateMemory",
        Effect.ADDS,
        "Store one thing worth knowing later: a fact, a preference, a decision, a task. One thought per call, in words "
        "that need no context. Returns its id, its scores and memories to link it with.",
        required("content", "memory.content", "Content to store, understandable without this conversation."),
        *memory_arguments(),
        optional("on_similar", "on_similar", ON_SIMILAR),
        optional("on_conflict", "on_conflict", ON_CONFLICT),
        fixed={"suggest_links": True},
        defaults=RETURN_SIMILAR,
        has_output_schema=False,
    ),
    tool(
        "recall",
        "Recall",
        "gateway.v1.GatewayService/Recall",
        Effect.READS,
        "Search memories, past conversations and core memory by meaning and words, best first, with the "
        "components of its score. Use it before you answer a question about earlier statements or decisions.",
        required("query", "query", "A question or a few words."),
        optional("mode", "mode", _MODE),
        optional("limit", "limit", "Most hits; default 10, and 25 for a query that asks for all of something."),
        optional("branches", "branches", "Search only these; default: all."),
        *recall_conditions().values(),
        optional("min_similarity", "min_similarity", "Least similarity in meaning, 0 to 1; other hits are omitted."),
        optional("min_relevance", "min_relevance", "Least probability of helping, 0 to 1; 0 shows weak hits too."),
        optional("min_trust", "min_trust", "Least trust along the chain of sources, 0 to 1; 0.5 is neutral."),
        optional("include_superseded", "show_superseded", "Also memories that a newer one replaced."),
        optional("as_of_time", "as_of_time", _AS_OF),
        optional("valid_at_time", "filter.valid_at_time", _VALID_AT),
        render=recall_text,
        has_output_schema=False,
    ),
    tool(
        "build_context",
        "Build context",
        "gateway.v1.GatewayService/BuildContext",
        Effect.READS,
        "Pack the best items about a question into one short text with citations, at the start of a task.",
        required("query", "recall.query", "The question or the task."),
        optional("mode", "recall.mode", _MODE),
        optional("token_budget", "token_budget", "Longest text, in tokens; default 2000."),
        optional("min_trust", "recall.min_trust", "Least trust along the chain of sources, 0 to 1; 0.5 is neutral."),
        optional("cite_origins", "cite_origins", "Cite each memory to the origins of its chain."),
        *(each for each in recall_conditions("recall.").values() if each.name not in {"since", "until", "where"}),
        optional("as_of_time", "recall.as_of_time", _AS_OF),
        optional("valid_at_time", "recall.filter.valid_at_time", _VALID_AT),
        optional("conversation_id", "session_id", "Session whose newest messages are added."),
        render=made_text,
        has_output_schema=False,
    ),
)

TOOLS = (
    tool(
        "get_memory",
        "Read a memory",
        "memory.v1.MemoryService/GetMemory",
        Effect.READS,
        "Read one memory completely, by its id or external id.",
        "memory_id",
        optional("as_of_time", "as_of_time", "Its version at this time (RFC 3339)."),
    ),
    tool(
        "list_memories",
        "List memories",
        "memory.v1.MemoryService/ListMemories",
        Effect.READS,
        "Page through memories by conditions, newest first. Use recall to search their content.",
        *conditions("filter"),
        optional("key", "filter.key", "Only the fact with this key."),
        "order_by",
        "page_size",
        "page_token",
        optional("include_archived", "show_archived", "Also archived memories."),
    ),
    tool(
        "update_memory",
        "Change a memory",
        "memory.v1.MemoryService/UpdateMemory",
        Effect.CHANGES,
        "Correct or complete a memory; omitted fields stay, null clears. Earlier versions are kept.",
        required("memory_id", "memory.memory_id", "Id of the memory."),
        optional("content", "memory.content", "New content."),
        *memory_arguments(),
        optional(
            "archive_time", "memory.archive_time", "A time archives it, so that recall omits it; null unarchives it."
        ),
        optional("revision", "memory.revision", "Refuse unless this is its revision; default: any."),
        masked_field="memory",
        key_fields=frozenset({"memory_id", "revision"}),
        is_idempotent=False,
    ),
    tool(
        "forget",
        "Forget memories",
        "memory.v1.MemoryService/DeleteMemories",
        Effect.CHANGES,
        "Delete memories by id or by conditions, up to 200 a call; at least one of them is needed. They can be "
        "undeleted unless purge is set. Try conditions with dry_run first.",
        optional("memory_ids", "selection.memory_ids", "Ids of the memories."),
        *conditions("selection.filter"),
        optional("purge", "purge", "Purge for good, with every copy. Only when a person requested it."),
        optional("dry_run", "dry_run", "Return what would be deleted, and delete nothing."),
        "page_size",
        "page_token",
        fixed={"selection": {}},
        empty="No memory matches.",
        confirmation="Purge these memories for good, with every copy?",
        confirmed_argument="purge",
    ),
    tool(
        "link_memories",
        "Link two memories",
        "memory.v1.LinkService/UpsertLink",
        Effect.CHANGES,
        "Link one memory to another: related, supports, contradicts, supersedes, causes, example_of, "
        "follow_up. An existing link gets these values.",
        required("from_memory_id", "link.from_memory_id"),
        required("to_memory_id", "link.to_memory_id"),
        optional("relation", "link.relation", "Default: related."),
        optional("label", "link.label", "Description of the link."),
        optional("weight", "link.weight", "Strength, 0 to 1; default 1."),
    ),
    tool(
        "neighbours",
        "List linked memories",
        "memory.v1.LinkService/TraverseLinks",
        Effect.READS,
        "Return a memory and those linked with it, nearest first, with their content, and the links among them.",
        "memory_id",
        optional("hops", "hops", "Most links away; default 1."),
        optional("relations", "filter.relations", "Follow only these relations."),
        optional("max_nodes", "max_nodes", "Most memories; default 80."),
        fixed={"include_memories": True},
        render=subgraph_text,
    ),
    tool(
        "read_blocks",
        "Read core memory",
        "memory.v1.BlockService/ListBlocks",
        Effect.READS,
        "Read core memory: blocks of text about an agent (persona), a person (human) or anything else, by label.",
        optional("label", "label", "Only blocks of this label: persona, human, ..."),
        optional("subject_id", "subject_id", "Only blocks about this person."),
        "page_size",
        "page_token",
    ),
    tool(
        "append_to_block",
        "Append to core memory",
        "memory.v1.BlockService/AppendToBlock",
        Effect.ADDS,
        "Add a line to the end of a block of core memory. A line that would exceed the limit of the block is refused.",
        "block_id",
        required("text"),
        optional("revision", "revision", "Refuse unless this is its revision."),
    ),
    tool(
        "replace_in_block",
        "Change core memory",
        "memory.v1.BlockService/ReplaceInBlock",
        Effect.CHANGES,
        "Replace a passage that occurs once in a block; an empty new_text removes it.",
        "block_id",
        "old_text",
        "new_text",
        optional("revision", "revision", "Refuse unless this is its revision."),
        is_idempotent=False,
    ),
    tool(
        "list_sessions",
        "List sessions",
        "session.v1.SessionService/ListSessions",
        Effect.READS,
        "List conversations, last changed first.",
        "subject_id",
        "agent_id",
        "states",
        optional("since", "start_time", "Created at or after this time (RFC 3339)."),
        optional("until", "end_time", "Created before this time (RFC 3339)."),
        "page_size",
        "page_token",
    ),
    tool(
        "read_session",
        "Read a session",
        "session.v1.SessionService/ListMessages",
        Effect.READS,
        "Read the messages of a conversation, oldest first unless newest_first is set.",
        "session_id",
        "newest_first",
        "page_size",
        "page_token",
        render=messages_text,
    ),
    tool(
        "append_messages",
        "Save messages",
        "session.v1.SessionService/AppendMessages",
        Effect.ADDS,
        "Append turns to a conversation; an unknown id creates it. Send only new turns: nothing is replaced.",
        required("session_id", "session_id", "Any id that you choose, e.g. of this chat."),
        required(
            "messages",
            "messages",
            "The turns, oldest first.",
            only=("role", "content", "name", "subject_id", "agent_id", "external_id", "create_time"),
        ),
        optional("subject_id", "subject_id", "Who talks."),
        fixed={"create_session": True},
        render=messages_text,
    ),
)
