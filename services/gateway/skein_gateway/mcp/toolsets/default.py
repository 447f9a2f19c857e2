"""The tools that most agents need, and no more: a model's attention is scarce."""

from __future__ import annotations

from skein_gateway.mcp.text_output import context_text, forget_text, messages_text, recall_text, subgraph_text
from skein_gateway.mcp.tool import Argument, Effect, optional, required, tool

# The most useful filter conditions; `where` covers all others.
CONDITIONS = ("types", "tags", "subject_id", "agent_id", "session_id", "since", "until", "where")
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
    "(contains) IN AND OR NOT; fields as in a memory, metadata.x.y, data.x.y."
)
_MODE = (
    "hybrid (the default) searches by meaning and words; keyword finds only what contains a word of the query; "
    "semantic searches by meaning alone."
)
_FILTER = {
    "types": ("types", "Only memories of any of these types."),
    "tags": ("tags_any", "Only memories with at least one of these tags."),
    "subject_id": ("subject_id", "Only what is about this person."),
    "agent_id": ("agent_id", "Only what belongs to this agent."),
    "session_id": ("session_id", "Only what belongs to this session."),
    "since": ("start_time", "Created at or after this time (RFC 3339)."),
    "until": ("end_time", "Created before this time (RFC 3339)."),
    "where": ("where", _WHERE),
}
_MEMORY = {
    "title": "A short name.",
    "tags": "Words to find it by.",
    "type": "note (the default), fact, user_preference, decision, task, objective, episodic, ... ; lower case.",
    "key": "For a fact: the name by which it is unique per subject, e.g. user.city.",
    "importance": "How much it matters, 0 to 1.",
    "confidence": "How sure it is, 0 to 1.",
    "source": "Where it comes from: calendar, https://...",
    "subject_id": "The person it is about.",
    "expire_time": "From when on no call finds it (RFC 3339, in the future).",
}


def conditions(prefix: str) -> tuple[Argument, ...]:
    """Return the arguments that set a MemoryFilter."""
    return tuple(optional(name, f"{prefix}.{_FILTER[name][0]}", _FILTER[name][1]) for name in CONDITIONS)


def memory_arguments(prefix: str = "memory") -> tuple[Argument, ...]:
    """Return the arguments that set the fields of a memory."""
    return tuple(optional(name, f"{prefix}.{name}", _MEMORY.get(name, "")) for name in MEMORY_FIELDS)


TOOLS = (
    tool(
        "remember",
        "Remember",
        "memory.v1.MemoryService/CreateMemory",
        Effect.ADDS,
        "Save one thing worth knowing later: a fact, a preference, a decision, a task. One thought a call, in words "
        "that stand by themselves. Returns its id, its scores and memories that it could be linked with.",
        required("content", "memory.content", "What to remember, understandable without this conversation."),
        *memory_arguments(),
        fixed={"suggest_links": True},
    ),
    tool(
        "recall",
        "Recall",
        "gateway.v1.GatewayService/Recall",
        Effect.READS,
        "Search memories, past conversations and core memory by meaning and words, best first, each with why it was "
        "found. Use it before answering whatever may have been said or decided before.",
        required("query", "query", "What to look for: a question or a few words."),
        optional("mode", "mode", _MODE),
        optional("limit", "limit", "How many hits; 10 when left out."),
        optional("arms", "arms", "Search only these; all when left out."),
        *conditions("filter"),
        optional("min_similarity", "min_similarity", "Leave out what is less alike in meaning than this, 0 to 1."),
        optional("include_superseded", "show_superseded", "Also what a newer memory replaced."),
        render=recall_text,
    ),
    tool(
        "build_context",
        "Build context",
        "gateway.v1.GatewayService/BuildContext",
        Effect.READS,
        "Pack what is known about a question into one text of limited length, with citations. Use it at the start of "
        "a task instead of several searches.",
        required("query", "recall.query", "The question or the task."),
        optional("mode", "recall.mode", _MODE),
        optional("token_budget", "token_budget", "How long the text may be, in tokens; 2000 when left out."),
        *conditions("recall.filter")[:5],
        optional("conversation_id", "session_id", "A session whose newest messages come along."),
        render=context_text,
    ),
    tool(
        "get_memory",
        "Read a memory",
        "memory.v1.MemoryService/GetMemory",
        Effect.READS,
        "Read one memory whole, by its id or external id.",
        "memory_id",
        optional("as_of_time", "as_of_time", "What it said at this time (RFC 3339)."),
    ),
    tool(
        "list_memories",
        "List memories",
        "memory.v1.MemoryService/ListMemories",
        Effect.READS,
        "Page through memories by conditions, newest first. Use recall to search by what they say.",
        *conditions("filter"),
        optional("key", "filter.key", "The fact of this key."),
        "order_by",
        "page_size",
        "page_token",
        optional("include_archived", "show_archived", "Archived ones as well."),
    ),
    tool(
        "update_memory",
        "Change a memory",
        "memory.v1.MemoryService/UpdateMemory",
        Effect.CHANGES,
        "Correct or complete a memory; omitted fields stay, null clears. Earlier versions are kept.",
        required("memory_id", "memory.memory_id", "Which one."),
        optional("content", "memory.content", "What it says from now on."),
        *memory_arguments(),
        optional(
            "archive_time", "memory.archive_time", "A time archives it (kept, not recalled); null brings it back."
        ),
        optional("revision", "memory.revision", "Refuse unless this is its revision; any when left out."),
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
        optional("memory_ids", "selection.memory_ids", "Which ones."),
        *conditions("selection.filter"),
        optional("purge", "purge", "Remove for good, with every copy. Only when a person asked for that."),
        optional("dry_run", "dry_run", "Say what would go, and delete nothing."),
        "page_size",
        "page_token",
        fixed={"selection": {}},
        render=forget_text,
    ),
    tool(
        "link_memories",
        "Link two memories",
        "memory.v1.LinkService/UpsertLink",
        Effect.CHANGES,
        "Say how one memory relates to another: related, supports, contradicts, supersedes, causes, example_of, "
        "follow_up. An existing link gets these values.",
        required("from_memory_id", "link.from_memory_id"),
        required("to_memory_id", "link.to_memory_id"),
        optional("relation", "link.relation", "related when left out."),
        optional("label", "link.label", "In words."),
        optional("weight", "link.weight", "How strong, 0 to 1; 1 when left out."),
    ),
    tool(
        "neighbours",
        "Look around a memory",
        "memory.v1.LinkService/TraverseLinks",
        Effect.READS,
        "Return a memory and those linked with it, nearest first, with what they say, and the links among them.",
        "memory_id",
        optional("hops", "hops", "How many links away; 1 when left out."),
        optional("relations", "filter.relations", "Follow only these relations."),
        optional("max_nodes", "max_nodes", "How many memories; 80 when left out."),
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
        "Add a line to the end of a block of core memory. What it would make too long is refused.",
        "block_id",
        required("text"),
        optional("revision", "revision", "Refuse unless this is its revision."),
    ),
    tool(
        "replace_in_block",
        "Change core memory",
        "memory.v1.BlockService/ReplaceInBlock",
        Effect.CHANGES,
        "Replace a passage of a block, which must be in it once, or remove it with an empty new_text.",
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
        "List conversations, those that changed last first.",
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
        "Append turns to a conversation, which is opened when there is none of that id. Only new turns: nothing is "
        "replaced.",
        required("session_id", "session_id", "Any id of your own, e.g. of this chat."),
        required(
            "messages",
            "messages",
            "The turns, oldest first.",
            only=("role", "content", "name", "subject_id", "agent_id", "external_id", "create_time"),
        ),
        fixed={"create_session": True},
        render=messages_text,
    ),
)
