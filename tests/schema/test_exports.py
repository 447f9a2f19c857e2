"""What of a tenant an export takes along, table by table, and why not where it does not."""

from __future__ import annotations

import asyncpg
from fix_catalogue import over

from skein_importers.records import FIELDS, ITEMS, Kind

# The records of `skein export` that hold what a table keeps.
EXPORTED = {
    "memory.aliases": Kind.ALIAS,
    "memory.block_agents": Kind.BLOCK_ATTACHMENT,
    "memory.blocks": Kind.BLOCK,
    "memory.conflict_resolutions": Kind.CONFLICT,
    "memory.memories": Kind.MEMORY,
    "memory.external_ids": Kind.MEMORY,
    "memory.fact_keys": Kind.MEMORY,
    "memory.links": Kind.LINK,
    "memory.pages": Kind.PAGE,
    "memory.source_trust": Kind.TRUST,
    "memory.tags": Kind.MEMORY,
    "session.agent_states": Kind.AGENT_STATE,
    "session.items": Kind.ITEM,
    "session.message_external_ids": Kind.MESSAGE,
    "session.messages": Kind.MESSAGE,
    "session.sessions": Kind.SESSION,
    "tenancy.agent_tools": Kind.TOOL_ATTACHMENT,
    "tenancy.agents": Kind.AGENT,
    "tenancy.policies": Kind.POLICY,
    "tenancy.subjects": Kind.SUBJECT,
    "tenancy.tools": Kind.TOOL,
}
MADE_ANEW = "made of what is imported"
CREDENTIALS = "a credential or a grant opens one cluster, and its secret is nowhere"
OF_THIS_CLUSTER = "tells of calls to this cluster"
IN_A_FILE = "lies in cold storage: `skein export` says how many, and `skein archive unarchive` brings them back first"
HISTORY = "an export is the memory as it is; a backup has its history"
LEFT_OUT = {
    "auth.api_keys": CREDENTIALS,
    "auth.audit_checkpoints": OF_THIS_CLUSTER,
    "auth.audit_events": OF_THIS_CLUSTER,
    "auth.authorization_codes": CREDENTIALS,
    "auth.erasure_certificates": OF_THIS_CLUSTER,
    "auth.refresh_tokens": CREDENTIALS,
    "auth.requests": OF_THIS_CLUSTER,
    "auth.service_accounts": CREDENTIALS,
    "auth.auth_sessions": CREDENTIALS,
    "auth.usage": MADE_ANEW,
    "memory.access_keys": OF_THIS_CLUSTER,
    "session.extractions": OF_THIS_CLUSTER,
    "session.extraction_messages": OF_THIS_CLUSTER,
    "session.extracted_messages": OF_THIS_CLUSTER,
    "session.extraction_failures": OF_THIS_CLUSTER,
    "session.extraction_backfills": OF_THIS_CLUSTER,
    "session.context_ledgers": "names what prompts of this day have; a prompt begins anew",
    "memory.access_log": OF_THIS_CLUSTER,
    "memory.access_counts": HISTORY,
    "memory.aliases_history": HISTORY,
    "memory.archived_memories": IN_A_FILE,
    "memory.archived_sources": IN_A_FILE,
    "memory.archives": IN_A_FILE,
    "memory.block_agents_history": HISTORY,
    "memory.conflict_resolutions_history": HISTORY,
    "memory.changes": HISTORY,
    "memory.deliveries": OF_THIS_CLUSTER,
    "memory.properties": MADE_ANEW,
    "memory.sources": "the chain of sources is in the portions of ExportData; a record names none",
    "memory.source_trust_history": HISTORY,
    "memory.sources_history": HISTORY,
    "memory.trust": MADE_ANEW,
    "memory.trust_work": MADE_ANEW,
    "memory.lineage_purges": "is over when a Forget has ended",
    "memory.erasures": OF_THIS_CLUSTER,
    "memory.requests": OF_THIS_CLUSTER,
    "memory.revisions": HISTORY,
    "memory.secrets": "sealed under this cluster's master key, and leaves it one by one (`RevealSecret`)",
    "memory.snapshot_items": HISTORY,
    "memory.snapshots": HISTORY,
    "memory.tasks": MADE_ANEW,
    "memory.tenant_keys": "useless without this cluster's master key",
    "memory.tombstone_salts": "a digest says nothing in another tenant",
    "memory.tombstones": "a digest says nothing in another tenant",
    "memory.oldest_memories": MADE_ANEW,
    "memory.usage": MADE_ANEW,
    "memory.trust_history": HISTORY,
    "memory.versions": HISTORY,
    "memory.pending_memories": "is no memory before an approver of this tenant says so",
    "memory.pending_rows": IN_A_FILE,
    "memory.webhooks": "would tell two clusters' changes to one receiver, with a secret that is shown once",
    "session.unreferenced_files": IN_A_FILE,
    "session.message_order": MADE_ANEW,
    "session.messages_history": HISTORY,
    "session.requests": OF_THIS_CLUSTER,
    "session.session_properties": MADE_ANEW,
    "session.sessions_history": HISTORY,
    "session.title_terms": MADE_ANEW,
    "session.title_terms_history": HISTORY,
    "session.archived_messages": IN_A_FILE,
    "session.archived_sessions": IN_A_FILE,
    "session.tombstone_salts": "a digest says nothing in another tenant",
    "session.tombstones": "a digest says nothing in another tenant",
    "session.usage": MADE_ANEW,
    "tenancy.rate_limit_buckets": OF_THIS_CLUSTER,
    "tenancy.jobs": OF_THIS_CLUSTER,
    "tenancy.collected_usage": MADE_ANEW,
    "tenancy.deletions": OF_THIS_CLUSTER,
    "tenancy.invitations": CREDENTIALS,
    "tenancy.quotas": "what the operator of a cluster grants",
    "tenancy.memberships": "people are members of a cluster's accounts; the operator invites them",
    "tenancy.policies_history": HISTORY,
    "tenancy.requests": OF_THIS_CLUSTER,
    "tenancy.space_bindings": CREDENTIALS,
    "tenancy.space_grants": CREDENTIALS,
    "tenancy.spaces": "ExportData is refused in a tenant that has some",
    "tenancy.subject_properties": MADE_ANEW,
    "tenancy.subjects_history": HISTORY,
    "tenancy.tenants": "the tenant that is imported into",
    "tenancy.usage": MADE_ANEW,
}
_TABLES = """
    SELECT n.nspname || '.' || c.relname AS name
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped
    WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname NOT IN ('pg_catalog', 'information_schema')
"""


async def test_every_table_of_tenants_is_exported_or_says_why_not(
    catalog: asyncpg.Connection[asyncpg.Record],
) -> None:
    tables = {row["name"] for row in await catalog.fetch(_TABLES)}
    # The search index is made of what is imported, model by model.
    owned = {name for name in tables if not name.startswith("recall.")}

    assert owned == EXPORTED.keys() | LEFT_OUT.keys()
    assert not EXPORTED.keys() & LEFT_OUT.keys()


@over("kind", sorted(set(EXPORTED.values())))
def test_every_exported_record_has_a_form_that_is_imported(kind: Kind) -> None:
    assert kind in FIELDS or kind in ITEMS
