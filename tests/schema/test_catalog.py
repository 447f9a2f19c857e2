"""What the catalog must show for tenants to be isolated and for the tables to be distributable."""

from __future__ import annotations

from typing import TypeAlias

import asyncpg
from fix_audit_policies import AUDIT_POLICIES
from fix_space_tables import SPACE_CROSSINGS, SPACE_POLICIES

from skein_cluster import registry
from skein_kit.database.connection_settings import database_role

Catalog: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
AUTH_SESSION_COLUMNS = (
    "tenant_id", "auth_session_id", "account_id", "client_id", "create_time", "expire_time", "revoke_time",
)  # fmt: skip

# All tables without a tenant: directories, secrets of the cluster, registries, people and applications.
GLOBAL_TABLES = {
    "skein.page_token_keys",
    "skein.migrations",
    "skein.servers",
    "tenancy.organizations",
    "tenancy.organization_quotas",
    "auth.accounts",
    "auth.attempts",
    "auth.check_keys",
    "auth.clients",
    "auth.device_codes",
    "auth.identities",
    "auth.legacy_tokens",
    "auth.one_time_tokens",
    "auth.operator_keys",
    "auth.recovery_codes",
    "auth.signing_keys",
    "recall.embedding_models",
    "recall.model_activations",
    "recall.reindexes",
    "memory.master_keys",
}
# The one policy, and what some tables show beyond the tenant: the directory to the operator's transactions, and to a
# person what is theirs in every tenant.
TENANT = "(tenant_id = (NULLIF(current_setting('skein.tenant_id'::text, true), ''::text))::uuid)"
# A credential that is bound to an agent sees no memories of others.
AGENT = (
    "((scope = 'global'::text) OR ((COALESCE(current_setting('skein.agent_id'::text, true), ''::text) = ''::text) OR"
    " (COALESCE(current_setting('skein.agent_id'::text, true), ''::text) = agent_id)) OR"
    " ((agent_id IS NULL) AND (scope <> 'agent'::text)))"
)
OPERATOR = "(current_setting('skein.operator'::text, true) = 'on'::text)"
ACCOUNT = "(account_id = (NULLIF(current_setting('skein.account_id'::text, true), ''::text))::uuid)"
OTHER_POLICIES = {
    "tenancy.tenants": f"({TENANT} OR {OPERATOR})",
    "tenancy.quotas": f"({TENANT} OR {OPERATOR})",
    "tenancy.collected_usage": f"({TENANT} OR {OPERATOR})",
    "tenancy.usage": f"({TENANT} OR {OPERATOR})",
    "tenancy.deletions": OPERATOR,
    "recall.model_choices": f"({TENANT} OR {OPERATOR})",
    "recall.reindex_progress": f"({TENANT} OR {OPERATOR})",
    "memory.erasures": f"({TENANT} OR {OPERATOR})",
    "tenancy.memberships": f"({TENANT} OR {ACCOUNT})",
    "auth.auth_sessions": f"({TENANT} OR {ACCOUNT})",
}
# Tables in which a function of the owner looks for tenants with work, in the transactions of operators.
DUE_TABLES = {
    "auth.api_keys",
    "auth.audit_checkpoints",
    "auth.audit_events",
    "auth.auth_sessions",
    "auth.requests",
    "auth.service_accounts",
    "auth.usage",
    "memory.archives",
    "memory.block_agents",
    "memory.block_agents_history",
    "memory.changes",
    "memory.deliveries",
    "memory.memories",
    "memory.pending_memories",
    "memory.requests",
    "memory.revisions",
    "memory.snapshots",
    "memory.source_trust_history",
    "memory.trust_work",
    "memory.tenant_keys",
    "memory.usage",
    "memory.webhooks",
    "recall.corpora",
    "recall.documents",
    "recall.removals",
    "session.agent_states",
    "session.context_ledgers",
    "session.extraction_backfills",
    "session.extraction_messages",
    "session.extractions",
    "session.messages",
    "session.items",
    "session.requests",
    "session.sessions",
    "session.unreferenced_files",
    "session.usage",
    "tenancy.agents",
    "tenancy.invitations",
    "tenancy.policies",
    "tenancy.policies_history",
    "tenancy.rate_limit_buckets",
    "tenancy.requests",
    "tenancy.subjects_history",
}
# Indexes that do not lead with the tenant: for what is asked over all tenants, by the policies above.
OTHER_INDEXES = {
    "auth.audit_events_by_time",
    "auth.auth_sessions_account",
    "auth.auth_sessions_client",
    "tenancy.deletions_due",
    "tenancy.memberships_account",
}
# Tables with rows of no tenant (the nil tenant, which has no row), and reports that outlive their tenants. What tenants
# have in them is removed by name when a tenant is deleted.
NOT_CASCADING = {
    "auth.audit_checkpoints",
    "auth.audit_events",
    "auth.authorization_codes",
    "auth.erasure_certificates",
    "auth.refresh_tokens",
    "auth.requests",
    "auth.auth_sessions",
    "recall.requests",
    "tenancy.rate_limit_buckets",
    "tenancy.deletions",
    "tenancy.requests",
}
# The job queue's own tables are the named exemption from the tenant rules.
QUEUE_SCHEMA = "worker"
# What a role may do outside of its own schema, all of it.
CROSSINGS = {
    ("skein_auth", "skein.page_token_keys", "SELECT"),
    ("skein_memory", "skein.page_token_keys", "SELECT"),
    ("skein_recall", "skein.page_token_keys", "SELECT"),
    ("skein_session", "skein.page_token_keys", "SELECT"),
    ("skein_tenancy", "skein.page_token_keys", "SELECT"),
    ("skein_memory", "recall.documents", "DELETE"),
    ("skein_memory", "recall.documents", "INSERT"),
    ("skein_memory", "recall.documents", "SELECT"),
    ("skein_memory", "recall.postings", "DELETE"),
    ("skein_memory", "recall.postings", "INSERT"),
    ("skein_memory", "recall.postings", "SELECT"),
    ("skein_session", "recall.documents", "DELETE"),
    ("skein_session", "recall.documents", "INSERT"),
    ("skein_session", "recall.documents", "SELECT"),
    ("skein_session", "recall.postings", "DELETE"),
    ("skein_session", "recall.postings", "INSERT"),
    ("skein_session", "recall.postings", "SELECT"),
    # A service that removes a document records it; one that receives a vector with an item stores both.
    ("skein_memory", "recall.removals", "INSERT"),
    ("skein_session", "recall.removals", "INSERT"),
    # The search of messages is a search of words as well.
    ("skein_session", "recall.corpora", "SELECT"),
    ("skein_session", "recall.removals", "SELECT"),
    ("skein_memory", "recall.embedding_models", "SELECT"),
    ("skein_session", "recall.embedding_models", "SELECT"),
    ("skein_memory", "recall.model_choices", "SELECT"),
    ("skein_session", "recall.model_choices", "SELECT"),
    # A policy names a model that is offered.
    ("skein_tenancy", "recall.embedding_models", "SELECT"),
    ("skein_memory", "recall.embeddings_all_minilm_l6_v2", "INSERT"),
    ("skein_session", "recall.embeddings_all_minilm_l6_v2", "INSERT"),
    ("skein_memory", "recall.reindexes", "SELECT"),
    # The trust in profiles is that in their writers.
    ("skein_tenancy", "memory.source_trust", "SELECT"),
    ("skein_tenancy", "memory.source_trust_history", "SELECT"),
    ("skein_tenancy", "as_of.source_trust", "SELECT"),
    # Messages that wait for approval have events.
    ("skein_session", "memory.changes", "INSERT"),
    # A purge of messages removes the memories that wait for approval and name them.
    ("skein_session", "memory.pending_memories", "DELETE"),
    # The erasure of a person clears receipts; the difference of two answers names events.
    ("skein_memory", "recall.receipts", "SELECT"),
    ("skein_session", "recall.receipts", "SELECT"),
    ("skein_recall", "memory.changes", "SELECT"),
    # Who made a vector that came with a memory.
    ("skein_memory", "recall.vector_origins", "INSERT"),
    ("skein_session", "recall.reindexes", "SELECT"),
    # A vector is brought for an item by the id that another system gave it.
    ("skein_recall", "memory.external_ids", "SELECT"),
    ("skein_recall", "session.message_external_ids", "SELECT"),
    # A message is found by the title of its session.
    ("skein_recall", "session.title_terms", "SELECT"),
    ("skein_recall", "memory.memories", "SELECT"),
    ("skein_recall", "memory.tags", "SELECT"),
    ("skein_recall", "memory.properties", "SELECT"),
    ("skein_recall", "memory.links", "SELECT"),
    *(("skein_recall", f"{schema}.trusted_links", "SELECT") for schema in ("memory", "as_of")),
    ("skein_recall", "memory.aliases", "SELECT"),
    ("skein_recall", "memory.trust", "SELECT"),
    ("skein_recall", "memory.source_trust", "SELECT"),
    # What removes an item keeps its former rows in the index, and a purge takes those away.
    *(
        (role, f"recall.{table}_history", privilege)
        for role in ("skein_memory", "skein_session")
        for table in ("documents", "embeddings_all_minilm_l6_v2", "postings")
        for privilege in ("DELETE", "INSERT", "SELECT")
    ),
    *(
        ("skein_recall", f"as_of.{view}", "SELECT")
        for view in ("corpora", "documents", "embeddings_all_minilm_l6_v2", "frequencies", "postings", "removals")
    ),
    # What was known at a time is read from former rows, too.
    *(
        ("skein_recall", f"memory.{table}", "SELECT")
        for table in ("aliases_history", "revisions", "source_trust_history", "trust_history", "versions")
    ),
    *(
        (role, f"as_of.{view}", "SELECT")
        for role in ("skein_memory", "skein_recall")
        for view in ("aliases", "links", "memories", "source_trust", "tags", "trust")
    ),
    *(
        ("skein_memory", f"as_of.{view}", "SELECT")
        for view in ("block_agents", "blocks", "conflict_resolutions", "sources", "trusted_links")
    ),
    ("skein_session", "as_of.sessions", "SELECT"),
    ("skein_tenancy", "as_of.subjects", "SELECT"),
    # What a purge removes is counted for answers as of a time.
    *((role, "recall.purged_items", "INSERT") for role in ("skein_memory", "skein_session")),
    # The chain of a memory's sources may end in a message, which is erased with its trust.
    *(("skein_session", "memory.trust_work", privilege) for privilege in ("SELECT", "INSERT", "UPDATE")),
    # And a purge of a person notes what was made of the messages.
    *(("skein_session", "memory.lineage_purges", privilege) for privilege in ("SELECT", "INSERT")),
    ("skein_session", "memory.archived_sources", "SELECT"),
    *(("skein_session", f"memory.{table}", "SELECT") for table in ("sources", "sources_history")),
    ("skein_session", "memory.source_trust", "SELECT"),
    ("skein_memory", "session.messages", "SELECT"),
    ("skein_recall", "session.messages", "SELECT"),
    # What was known at a time: former rows, and the views that show them with those that are still valid.
    *(
        (role, table, "SELECT")
        for role in ("skein_memory", "skein_recall")
        for table in ("session.messages_history", "as_of.messages")
    ),
    ("skein_session", "as_of.messages", "SELECT"),
    ("skein_recall", "session.title_terms_history", "SELECT"),
    *((role, "as_of.title_terms", "SELECT") for role in ("skein_recall", "skein_session")),
    *(
        (role, table, "SELECT")
        for role in ("skein_memory", "skein_recall", "skein_session")
        for table in ("tenancy.policies_history", "as_of.policies")
    ),
    # Services that add rows read the tenant's quotas; tenancy reads the usage.
    ("skein_auth", "tenancy.quotas", "SELECT"),
    ("skein_memory", "tenancy.quotas", "SELECT"),
    ("skein_session", "tenancy.quotas", "SELECT"),
    # Services that store memories and messages read the tenant's policy.
    ("skein_memory", "tenancy.policies", "SELECT"),
    ("skein_session", "tenancy.policies", "SELECT"),
    # A person may want no extraction, or no model.
    ("skein_session", "tenancy.subject_properties", "SELECT"),
    ("skein_recall", "tenancy.policies", "SELECT"),
    # Services that search record it; recall also counts its hits as used.
    *(
        (role, "memory.access_log", privilege)
        for role in ("skein_recall", "skein_session")
        for privilege in ("SELECT", "INSERT", "UPDATE")
    ),
    # Searches are recorded with a hash under the tenant's key; an erased session is noted for the access log.
    *(
        (role, "memory.access_keys", privilege)
        for role in ("skein_recall", "skein_session")
        for privilege in ("SELECT", "INSERT")
    ),
    *(("skein_session", "memory.erasures", privilege) for privilege in ("SELECT", "INSERT")),
    *(("skein_recall", "memory.access_counts", privilege) for privilege in ("SELECT", "INSERT", "UPDATE")),
    # The services that do a tenant's background work read its pause and its limits; tenancy records who set them. They
    # insert the row before the first batch: Citus names all of its columns.
    *(
        (role, "tenancy.jobs", privilege)
        for role in ("skein_memory", "skein_recall", "skein_session")
        for privilege in ("SELECT", "INSERT")
    ),
    # Who changed what is recorded in the transaction of the change.
    ("skein_recall", "auth.audit_events", "INSERT"),
    ("skein_tenancy", "auth.audit_events", "INSERT"),
    ("skein_tenancy", "auth.usage", "SELECT"),
    # What a grant made asks whether the grant has ended.
    ("skein_tenancy", "auth.live_grants", "SELECT"),
    ("skein_memory", "auth.live_grants", "SELECT"),
    ("skein_tenancy", "memory.usage", "SELECT"),
    ("skein_tenancy", "session.usage", "SELECT"),
}
# What a role may do to single columns of another's table, all of it.
COLUMN_CROSSINGS = SPACE_CROSSINGS | {
    # The erasure of a person clears the requests of receipts.
    *(
        (role, "recall.receipts", column, "UPDATE")
        for role in ("skein_memory", "skein_session")
        for column in ("request_id", "request", "query", "subject_ids")
    ),
    # A replay of an answer tells archived items from purged ones.
    *(("skein_recall", "memory.archived_memories", column, "SELECT") for column in ("tenant_id", "memory_id")),
    *(
        ("skein_recall", "session.archived_messages", column, "SELECT")
        for column in ("tenant_id", "message_id", "space_id")
    ),
    # A receipt is read by who sees the blocks and the profile of its text.
    *(
        ("skein_recall", "memory.blocks", column, "SELECT")
        for column in ("tenant_id", "block_id", "create_time", "space_id")
    ),
    *(("skein_recall", f"tenancy.{table}", "create_time", "SELECT") for table in ("subjects", "subjects_history")),
    # The purge of a person clears the audit events that are about the person.
    *(("skein_tenancy", "auth.audit_events", column, "SELECT") for column in ("tenant_id", "subject_target")),
    *(("skein_tenancy", "auth.audit_events", column, "UPDATE") for column in ("subject_target", "subject_salt")),
    # A purge of messages removes the memories that wait for approval and name them.
    *(("skein_session", "memory.pending_memories", column, "SELECT") for column in ("tenant_id", "source_ids")),
    # A purge of messages marks them as erased sources.
    *(
        (role, "memory.sources_history", column, "UPDATE")
        for role in ("skein_memory", "skein_session")
        for column in ("erased_trust", "start_character", "end_character")
    ),
    *(
        ("skein_session", "memory.sources", column, "UPDATE")
        for column in ("erased_trust", "start_character", "end_character")
    ),
    # A purge of messages clears the former summaries of their session.
    ("skein_session", "session.sessions_history", "summary", "UPDATE"),
    # What takes batches from a job's limits and records its progress; it changes neither pause nor limit.
    *(
        (role, "tenancy.jobs", column, "UPDATE")
        for role in ("skein_memory", "skein_recall", "skein_session")
        for column in (
            *("tokens", "refill_time", "day_time", "day_cost", "run_start_time", "done_count", "remaining_count"),
            *("recent_rate", "last_batch_time", "is_running"),
        )
    ),
    *(
        ("skein_memory", "recall.documents", column, "UPDATE")
        for column in ("type", "scope", "source", "importance", "agent_id", "subject_id", "session_id", "expire_time")
    ),
    # The terms of a new header are counted again.
    ("skein_memory", "recall.documents", "is_counted", "UPDATE"),
    # Memories move between spaces.
    ("skein_memory", "recall.documents", "space_id", "UPDATE"),
    ("skein_memory", "recall.documents_history", "space_id", "UPDATE"),
    ("skein_memory", "memory.pending_memories", "space_id", "UPDATE"),
    ("skein_memory", "recall.documents", "transaction", "UPDATE"),
    ("skein_memory", "recall.documents", "words_version", "UPDATE"),
    # Messages inherit the agent and the subject of their session.
    *(("skein_session", "recall.documents", column, "UPDATE") for column in ("agent_id", "subject_id")),
    # Who takes messages away locks what the index knows of them, and only who may change a row may lock it.
    ("skein_session", "recall.documents", "is_counted", "UPDATE"),
    # What belongs to an agent asks whether it is deleted; the agent's row goes when nothing of it is left elsewhere.
    *(
        (role, "tenancy.agents", column, "SELECT")
        for role in ("skein_auth", "skein_session", "skein_memory")
        for column in ("tenant_id", "agent_id", "delete_time", "purge_time")
    ),
    *(
        ("skein_tenancy", table, column, "SELECT")
        for table, columns in (
            ("memory.block_agents", ("tenant_id", "agent_id")),
            ("session.agent_states", ("tenant_id", "agent_id")),
            ("auth.api_keys", ("tenant_id", "agent_id", "revoke_time")),
            ("auth.service_accounts", ("tenant_id", "agent_id", "disabled")),
        )
        for column in columns
    ),
    # What is read of grants as their reader, by auth.live_grants.
    *(
        (role, table, column, "SELECT")
        for role in ("skein_tenancy", "skein_memory")
        for table, columns in (
            ("auth.auth_sessions", AUTH_SESSION_COLUMNS),
            ("auth.clients", ("client_id", "revoke_time")),
            ("auth.accounts", ("account_id", "status")),
        )
        for column in columns
    ),
    *(
        (role, "tenancy.memberships", column, "SELECT")
        for role in ("skein_auth", "skein_memory")
        for column in ("tenant_id", "account_id", "role")
    ),
    # Recall drops what it holds of tenants in which something was erased.
    *(("skein_recall", "memory.erasures", column, "SELECT") for column in ("tenant_id", "erase_time")),
    # Recorded searches may name an erased person by the display name.
    *(
        (role, "tenancy.subjects", column, "SELECT")
        for role, own in (("skein_memory", ("display_name", "former_names")), ("skein_session", ()))
        for column in ("tenant_id", "subject_id", "timezone", "delete_time", *own)
    ),
    # Days that conditions and questions about a person name are of that person's zone.
    *(
        ("skein_recall", table, column, "SELECT")
        for table, last in (("tenancy.subjects", ()), ("tenancy.subjects_history", ("until_time",)))
        for column in ("tenant_id", "subject_id", "timezone", "delete_time", "record_time", *last)
    ),
    # Tenancy marks the usage that it collected.
    *(("skein_tenancy", f"{schema}.usage", "is_collected", "UPDATE") for schema in ("auth", "memory", "session")),
    # A tenant's history begins when the tenant was created.
    *(
        (role, "tenancy.tenants", column, "SELECT")
        for role in ("skein_memory", "skein_recall", "skein_session")
        for column in ("tenant_id", "create_time")
    ),
    # While a machine of Citus is away, auth lists all tenants instead of those with work.
    ("skein_auth", "tenancy.tenants", "tenant_id", "SELECT"),
    # A reindex goes through the tenants that there are.
    *(("skein_recall", "tenancy.tenants", column, "SELECT") for column in ("tenant_id", "is_active")),
}
ROLES = [database_role(name) for name in registry.WITH_DATABASE]

TABLES = """
    SELECT n.nspname || '.' || c.relname AS name, n.nspname AS schema, c.relkind, c.relispartition, c.relrowsecurity,
           c.relforcerowsecurity, pg_get_userbyid(c.relowner) AS owner,
           EXISTS (SELECT FROM pg_attribute a
                   WHERE a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped) AS has_tenant
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1
"""


async def test_every_table_has_a_tenant_or_is_a_named_exception(catalog: Catalog) -> None:
    rows = await catalog.fetch(TABLES)

    without = {row["name"] for row in rows if not row["has_tenant"] and row["schema"] != QUEUE_SCHEMA}
    assert without == GLOBAL_TABLES


async def test_row_level_security_is_enabled_and_forced_on_every_tenant_table_and_partition(catalog: Catalog) -> None:
    rows = [row for row in await catalog.fetch(TABLES) if row["has_tenant"]]

    assert len(rows) > 20
    assert [row["name"] for row in rows if not (row["relrowsecurity"] and row["relforcerowsecurity"])] == []


async def test_every_tenant_table_has_its_policies_and_partitions_have_none(catalog: Catalog) -> None:
    rows = [row for row in await catalog.fetch(TABLES) if row["has_tenant"]]
    policies = await catalog.fetch(
        "SELECT schemaname || '.' || tablename AS name, qual, with_check, cmd, roles::text FROM pg_policies"
    )

    named = {row["name"] for row in rows}
    expected: set[tuple[str | None, ...]] = (
        {
            (row["name"], OTHER_POLICIES.get(row["name"], TENANT), None, "ALL", "{public}")
            for row in rows
            if not row["relispartition"]
        }
        | {(name, OPERATOR, None, "SELECT", "{skein_owner}") for name in DUE_TABLES}
        | SPACE_POLICIES
    )
    expected.add(("tenancy.jobs", f"({OPERATOR} AND (kind = 'reindex'::text))", None, "SELECT", "{skein_recall}"))
    expected |= {(name, AGENT, None, "ALL", "{public}") for name in ("memory.memories", "memory.versions")}
    expected |= {(name, None, check, command, "{public}") for name, command, check in AUDIT_POLICIES}
    assert {tuple(policy) for policy in policies if policy["name"] in named} == expected
    assert named >= set(OTHER_POLICIES)


async def test_the_operator_s_directories_are_shown_to_the_operator_only(catalog: Catalog) -> None:
    policies = await catalog.fetch(
        "SELECT schemaname || '.' || tablename AS name, qual FROM pg_policies "
        "WHERE tablename IN ('organizations', 'organization_quotas')"
    )

    assert {tuple(policy) for policy in policies} == {
        ("tenancy.organizations", OPERATOR),
        ("tenancy.organization_quotas", OPERATOR),
    }


async def test_every_index_of_a_tenant_table_leads_with_the_tenant(catalog: Catalog) -> None:
    rows = await catalog.fetch(
        f"""
        SELECT t.name, i.indexrelid::regclass::text AS index,
               (SELECT a.attname FROM pg_attribute a WHERE a.attrelid = i.indrelid AND a.attnum = i.indkey[0]) AS first
        FROM ({TABLES}) t JOIN pg_index i ON i.indrelid = t.name::regclass
        WHERE t.has_tenant AND t.name <> 'tenancy.tenants'
        """  # noqa: S608 - a constant of this file.
    )

    assert {row["index"] for row in rows if row["first"] != "tenant_id"} == OTHER_INDEXES


async def test_no_foreign_key_crosses_tenants(catalog: Catalog) -> None:
    rows = await catalog.fetch(
        f"""
        SELECT t.name, k.conname, k.confrelid::regclass::text AS target,
               (SELECT array_agg(a.attname::text ORDER BY place.n) FROM unnest(k.conkey) WITH ORDINALITY place(num, n)
                JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = place.num) AS own,
               (SELECT array_agg(a.attname::text ORDER BY place.n) FROM unnest(k.confkey) WITH ORDINALITY place(num, n)
                JOIN pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = place.num) AS theirs
        FROM ({TABLES}) t JOIN pg_constraint k ON k.conrelid = t.name::regclass AND k.contype = 'f'
        WHERE t.has_tenant AND t.name <> 'tenancy.tenants'
        """  # noqa: S608 - a constant of this file.
    )

    assert len(rows) > 10
    within = [row for row in rows if row["target"] not in GLOBAL_TABLES]
    assert [row["conname"] for row in within if (row["own"][0], row["theirs"][0]) != ("tenant_id", "tenant_id")] == []


async def test_a_tenant_s_rows_cascade_from_the_tenant(catalog: Catalog) -> None:
    rows = await catalog.fetch(
        f"""
        WITH RECURSIVE below AS (
            SELECT 'tenancy.tenants'::regclass::oid AS table_id
            UNION
            SELECT k.conrelid FROM pg_constraint k JOIN below ON k.confrelid = below.table_id
            WHERE k.contype = 'f' AND k.confdeltype = 'c'
        )
        SELECT t.name FROM ({TABLES}) t
        WHERE t.has_tenant AND NOT t.relispartition AND t.name::regclass::oid NOT IN (SELECT table_id FROM below)
        """  # noqa: S608 - a constant of this file.
    )

    assert {row["name"] for row in rows} == NOT_CASCADING


async def test_service_roles_are_plain_and_own_nothing(catalog: Catalog) -> None:
    roles = await catalog.fetch(
        "SELECT rolname, rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolinherit FROM pg_roles "
        "WHERE rolname = ANY ($1) OR rolname = 'skein_owner'",
        ROLES,
    )
    owned = await catalog.fetch(
        "SELECT c.relname FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner WHERE r.rolname = ANY ($1)", ROLES
    )

    assert {row["rolname"] for row in roles} == {*ROLES, "skein_owner"}
    assert [row["rolname"] for row in roles if any(list(row)[1:])] == []
    assert owned == []


async def test_each_role_reaches_its_own_schema_and_the_listed_crossings_only(catalog: Catalog) -> None:
    grants = await catalog.fetch(
        """
        SELECT grantee, table_schema AS schema, table_schema || '.' || table_name AS name, privilege_type
        FROM information_schema.role_table_grants WHERE grantee = ANY ($1)
        """,
        ROLES,
    )

    outside = {
        (grant["grantee"], grant["name"], grant["privilege_type"])
        for grant in grants
        if database_role(grant["schema"]) != grant["grantee"]
    }
    assert outside == CROSSINGS


async def test_each_role_reaches_the_listed_columns_of_others_only(catalog: Catalog) -> None:
    grants = await catalog.fetch(
        """
        SELECT acl.grantee::regrole::text, n.nspname || '.' || c.relname, a.attname, acl.privilege_type
        FROM pg_attribute a
        JOIN pg_class c ON c.oid = a.attrelid
        JOIN pg_namespace n ON n.oid = c.relnamespace
        CROSS JOIN LATERAL aclexplode(a.attacl) AS acl
        WHERE n.nspname NOT IN ('pg_catalog', 'information_schema')
        """
    )

    assert {tuple(grant) for grant in grants} == COLUMN_CROSSINGS


async def test_no_role_is_granted_a_partition(catalog: Catalog) -> None:
    rows = await catalog.fetch(
        """
        SELECT g.grantee, g.table_schema || '.' || g.table_name AS name
        FROM information_schema.role_table_grants g
        JOIN pg_class c ON c.oid = format('%I.%I', g.table_schema, g.table_name)::regclass
        WHERE c.relispartition AND g.grantee = ANY ($1 || '{PUBLIC}'::text[])
        """,
        ROLES,
    )

    assert rows == []


async def test_functions_that_run_as_the_owner_fix_their_search_path_and_are_granted_narrowly(catalog: Catalog) -> None:
    rows = await catalog.fetch(
        """
        SELECT p.oid::regprocedure::text AS name, p.proconfig,
               has_function_privilege('public', p.oid, 'EXECUTE') AS for_everybody
        FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
        WHERE p.prosecdef AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'public')
        """
    )

    assert {row["name"].split("(")[0] for row in rows} == {
        "memory.drop_access_log",
        "recall.drop_receipts",
        "recall.ensure_month",
        "memory.ensure_month",
        "memory.refresh_statistics",
        # Each removes what a checkpoint covers and has expired, or what is left of a deleted tenant.
        "auth.expire_audit_checkpoint",
        "auth.purge_audit_checkpoints",
        "auth.purge_audit_events",
        # Each returns ids of tenants with work, and nothing else.
        "auth.list_expiry_tenants",
        "auth.list_unchained_tenants",
        "memory.list_decay_tenants",
        "memory.list_expiry_tenants",
        "memory.list_lifecycle_tenants",
        "memory.list_snapshot_tenants",
        "memory.list_trust_tenants",
        "memory.list_webhook_tenants",
        "recall.list_backlog_tenants",
        "recall.list_choosing_tenants",
        "recall.list_model_tenants",
        *(f"session.list_{work}_tenants" for work in ("expiry", "extraction", "lifecycle", "unread")),
        "tenancy.list_expiry_tenants",
        "tenancy.list_usage_tenants",
        "session.ensure_month",
        "recall.delete_model",
        "recall.register_endpoint",
        "recall.register_model",
        "recall.distribute_vectors",
        "worker.measure_replicas",
        "worker.measure_transactions",
    }
    assert [row["name"] for row in rows if row["for_everybody"]] == []
    assert [
        row["name"] for row in rows if not any(entry.startswith("search_path=") for entry in row["proconfig"])
    ] == []


async def test_nothing_needs_an_extension_beyond_vector_or_a_sequence(catalog: Catalog) -> None:
    extensions = await catalog.fetch("SELECT extname FROM pg_extension")
    sequences = await catalog.fetch(
        "SELECT sequence_schema || '.' || sequence_name AS name FROM information_schema.sequences "
        "WHERE sequence_schema <> $1",
        QUEUE_SCHEMA,
    )

    assert {row["extname"] for row in extensions} == {"plpgsql", "vector"}
    assert sequences == []


async def test_no_tenant_table_uses_an_enum(catalog: Catalog) -> None:
    rows = await catalog.fetch(
        "SELECT t.typname FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace "
        "WHERE t.typtype = 'e' AND n.nspname <> $1",
        QUEUE_SCHEMA,
    )

    assert rows == []
