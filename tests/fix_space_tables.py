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
    "memory.archives",
    "memory.block_agents",
    "memory.block_agents_history",
    "memory.blocks",
    "memory.changes",
    "memory.external_ids",
    "memory.fact_keys",
    "memory.memories",
    "memory.pages",
    "memory.pending_memories",
    "memory.revisions",
    "memory.snapshot_items",
    "memory.snapshots",
    "memory.tasks",
    "memory.versions",
    "memory.webhooks",
    "recall.documents",
    "recall.documents_history",
    "session.agent_states",
    "session.archived_messages",
    "session.archived_sessions",
    "session.extraction_backfills",
    "session.extraction_failures",
    "session.extraction_messages",
    "session.extractions",
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
    "session.unreferenced_files",
    "tenancy.subject_properties",
    "tenancy.subjects",
    "tenancy.subjects_history",
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
# Of these rows only those of blocks have a wall of their own; the others are read with their memories.
BLOCK_REVISIONS = f"((kind <> 'block'::text) OR{SPACE})"
SPACE_POLICIES = {
    *((name, SPACE, None, "ALL", "{public}") for name in SPACE_TABLES - {"memory.revisions"}),
    ("memory.revisions", BLOCK_REVISIONS, None, "ALL", "{public}"),
    ("memory.links", LINK, None, "ALL", "{public}"),
    ("memory.access_log", ACCESS, None, "ALL", "{public}"),
}
# A space is deleted when nothing lies in it. Webhooks are active while those who made them see their space. A receipt
# is shown to who sees its items.
SPACE_CROSSINGS = (
    {("skein_recall", "memory.archived_memories", "space_id", "SELECT")}
    | {
        ("skein_tenancy", table, column, "SELECT")
        for table in (
            "memory.memories",
            "memory.pending_memories",
            "memory.archived_memories",
            "memory.pages",
            "memory.snapshots",
            "memory.blocks",
            "session.sessions",
            "session.agent_states",
        )
        for column in ("tenant_id", "space_id")
    }
    # Which space an item lies in explains who sees it.
    | {("skein_tenancy", "memory.memories", "memory_id", "SELECT")}
    | {
        ("skein_memory", f"tenancy.{table}", column, "SELECT")
        for table, columns in (
            ("space_grants", ("tenant_id", "space_id", "principal", "expire_time")),
            ("space_bindings", ("tenant_id", "principal")),
        )
        for column in columns
    }
    # A session moves with all that refers to it.
    | {
        ("skein_session", table, "space_id", "UPDATE")
        for table in (
            "memory.changes",
            "recall.documents",
            "recall.documents_history",
            "session.sessions_history",
            "session.messages_history",
            "session.title_terms",
            "session.title_terms_history",
        )
    }
    | {("skein_memory", "memory.block_agents_history", "space_id", "UPDATE")}
    | {
        ("skein_session", "memory.changes", column, "SELECT")
        for column in ("tenant_id", "entity_id", "entity_type", "space_id")
    }
    | {
        # Of the zones of a person, the first space's counts.
        ("skein_memory", "tenancy.subjects", "space_id", "SELECT"),
        ("skein_session", "tenancy.subjects", "space_id", "SELECT"),
        ("skein_recall", "tenancy.subjects", "space_id", "SELECT"),
        ("skein_recall", "tenancy.subjects_history", "space_id", "SELECT"),
    }
)
