"""The tables that row-level security walls by spaces, and their policies as Postgres writes them."""

from __future__ import annotations

# What lies in a space that the transaction does not see is hidden.
SPACE = """
CASE
    WHEN (COALESCE(current_setting('skein.spaces'::text, true), ''::text) = ''::text) THEN ((space_id = '00000000-0000-0000-0000-000000000000'::uuid) OR (current_setting('skein.all_spaces'::text, true) = 'on'::text) OR (current_setting('skein.operator'::text, true) = 'on'::text))
    ELSE (space_id = ANY ((current_setting('skein.spaces'::text, true))::uuid[]))
END"""  # noqa: E501 - as Postgres writes it.
# What has a space, besides what says who sees it. The rest of an item's rows is read with the item alone.
SPACE_TABLES = {
    "memory.archived_memories",
    "memory.changes",
    "memory.external_ids",
    "memory.fact_keys",
    "memory.memories",
    "memory.pending_memories",
    "memory.tasks",
    "memory.versions",
    "recall.documents",
    "recall.documents_history",
}
# What lies in the default space alone.
DEFAULT_SPACE = """
CASE
    WHEN (COALESCE(current_setting('skein.spaces'::text, true), ''::text) = ''::text) THEN true
    ELSE ('00000000-0000-0000-0000-000000000000'::uuid = ANY ((current_setting('skein.spaces'::text, true))::uuid[]))
END"""
DEFAULT_SPACE_TABLES = {
    "memory.archives",
    "memory.block_agents",
    "memory.block_agents_history",
    "memory.blocks",
    "memory.snapshot_items",
    "memory.snapshots",
    "session.agent_states",
    "session.archived_messages",
    "session.archived_sessions",
    "session.items",
    "session.message_external_ids",
    "session.message_order",
    "session.messages",
    "session.messages_history",
    "session.session_properties",
    "session.sessions",
    "session.sessions_history",
    "session.title_terms",
    "session.title_terms_history",
}
# A link is seen by who sees both of its memories.
LINK = """
CASE
    WHEN (COALESCE(current_setting('skein.spaces'::text, true), ''::text) = ''::text) THEN (((from_space_id = '00000000-0000-0000-0000-000000000000'::uuid) AND (to_space_id = '00000000-0000-0000-0000-000000000000'::uuid)) OR (current_setting('skein.all_spaces'::text, true) = 'on'::text) OR (current_setting('skein.operator'::text, true) = 'on'::text))
    ELSE ((from_space_id = ANY ((current_setting('skein.spaces'::text, true))::uuid[])) AND (to_space_id = ANY ((current_setting('skein.spaces'::text, true))::uuid[])))
END"""  # noqa: E501 - as Postgres writes it.
# A call in the access log by who sees all that it reached.
ACCESS = """
CASE
    WHEN (COALESCE(current_setting('skein.spaces'::text, true), ''::text) = ''::text) THEN true
    ELSE (COALESCE(space_ids, '{00000000-0000-0000-0000-000000000000}'::uuid[]) <@ (current_setting('skein.spaces'::text, true))::uuid[])
END"""  # noqa: E501 - as Postgres writes it.
SPACE_POLICIES = (
    {(name, SPACE, None, "ALL", "{public}") for name in SPACE_TABLES}
    | {(name, DEFAULT_SPACE, None, "ALL", "{public}") for name in DEFAULT_SPACE_TABLES}
    | {("memory.links", LINK, None, "ALL", "{public}"), ("memory.access_log", ACCESS, None, "ALL", "{public}")}
)
# A space is deleted when nothing lies in it.
SPACE_CROSSINGS = {
    ("skein_tenancy", f"memory.{table}", column, "SELECT")
    for table in ("memories", "pending_memories", "archived_memories")
    for column in ("tenant_id", "space_id", *(("memory_id",) if table == "memories" else ()))
}
