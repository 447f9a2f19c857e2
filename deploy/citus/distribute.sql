-- Made by deploy/citus/distribute.py; do not edit. For psql, as a superuser, on a coordinator that has its
-- workers, in a database that `skein migrate --citus` has just brought to the newest schema. What was done
-- before a failure stays, and a second run goes on from there. See README.md.
\set ON_ERROR_STOP on

DO $$
BEGIN
    IF NOT (SELECT rolcanlogin AND rolbypassrls FROM pg_roles WHERE rolname = 'skein_owner')
        OR current_setting('citus.propagate_set_commands', true) IS DISTINCT FROM 'local'
        OR current_setting('citus.enable_local_reference_table_foreign_keys', true) IS DISTINCT FROM 'off'
        OR current_setting('citus.override_table_visibility', true) IS DISTINCT FROM 'off'
    THEN
        RAISE 'The database is not prepared for Citus: run skein migrate --citus, and connect again.';
    END IF;
END
$$;
SET citus.multi_shard_modify_mode = 'sequential';

-- Citus refuses triggers, so no former rows are kept. Those of partitions go with their table's.
SELECT format('DROP TRIGGER %I ON %s', tgname, tgrelid::regclass)
FROM pg_trigger
WHERE tgname IN ('keep_updated', 'keep_deleted') AND tgparentid = 0
\gexec

-- A copy on every machine.
SELECT format('SELECT create_reference_table(%L)', name)
FROM unnest(ARRAY[
    'auth.accounts',
    'auth.clients',
    'auth.operator_keys',
    'recall.embedding_models',
    'tenancy.organizations',
    'auth.identities',
    'auth.one_time_tokens',
    'auth.recovery_codes',
    'auth.device_codes',
    'recall.reindexes',
    'tenancy.organization_quotas',
    'tenancy.tenants'
]) WITH ORDINALITY AS tables (name, place)
WHERE name::regclass NOT IN (SELECT logicalrelid FROM pg_dist_partition WHERE repmodel = 't')
ORDER BY place
\gexec

-- By tenant; all rows of a tenant lie on one machine.
SELECT format('SELECT create_distributed_table(%L, ''tenant_id'')', name)
FROM unnest(ARRAY[
    'auth.audit_checkpoints'
]) WITH ORDINALITY AS tables (name, place)
WHERE name::regclass NOT IN (SELECT logicalrelid FROM pg_dist_partition WHERE partmethod = 'h')
ORDER BY place
\gexec
SELECT format('SELECT create_distributed_table(%L, ''tenant_id'', colocate_with => ''auth.audit_checkpoints'')', name)
FROM unnest(ARRAY[
    'auth.audit_events',
    'auth.erasure_certificates',
    'auth.requests',
    'recall.requests',
    'tenancy.deletions',
    'tenancy.rate_limit_buckets',
    'tenancy.requests',
    'auth.auth_sessions',
    'auth.authorization_codes',
    'auth.refresh_tokens',
    'auth.service_accounts',
    'auth.usage',
    'memory.access_keys',
    'memory.access_log',
    'memory.aliases_history',
    'memory.archives',
    'memory.block_agents_history',
    'memory.blocks',
    'memory.changes',
    'memory.conflict_resolutions_history',
    'memory.erasures',
    'memory.lineage_purges',
    'memory.memories',
    'memory.oldest_memories',
    'memory.pages',
    'memory.pending_memories',
    'memory.requests',
    'memory.snapshots',
    'memory.source_trust',
    'memory.source_trust_history',
    'memory.sources_history',
    'memory.tenant_keys',
    'memory.tombstone_salts',
    'memory.tombstones',
    'memory.trust_history',
    'memory.trust_work',
    'memory.usage',
    'memory.webhooks',
    'recall.corpora',
    'recall.documents',
    'recall.documents_history',
    'recall.embeddings_all_minilm_l6_v2_history',
    'recall.frequencies',
    'recall.model_choices',
    'recall.postings_history',
    'recall.purged_items',
    'recall.receipts',
    'recall.reindex_progress',
    'recall.removals',
    'recall.search_counts',
    'session.agent_states',
    'session.context_ledgers',
    'session.extracted_messages',
    'session.extraction_backfills',
    'session.extraction_failures',
    'session.extraction_messages',
    'session.extractions',
    'session.message_external_ids',
    'session.messages_history',
    'session.requests',
    'session.sessions',
    'session.sessions_history',
    'session.title_terms_history',
    'session.tombstone_salts',
    'session.tombstones',
    'session.unreferenced_files',
    'session.usage',
    'tenancy.agents',
    'tenancy.collected_usage',
    'tenancy.invitations',
    'tenancy.jobs',
    'tenancy.memberships',
    'tenancy.policies',
    'tenancy.policies_history',
    'tenancy.quotas',
    'tenancy.space_bindings',
    'tenancy.spaces',
    'tenancy.subjects',
    'tenancy.subjects_history',
    'tenancy.tools',
    'tenancy.usage',
    'auth.api_keys',
    'memory.archived_memories',
    'memory.block_agents',
    'memory.access_counts',
    'memory.aliases',
    'memory.conflict_resolutions',
    'memory.external_ids',
    'memory.fact_keys',
    'memory.links',
    'memory.properties',
    'memory.revisions',
    'memory.sources',
    'memory.tags',
    'memory.tasks',
    'memory.trust',
    'memory.versions',
    'memory.snapshot_items',
    'memory.secrets',
    'memory.deliveries',
    'recall.embeddings_all_minilm_l6_v2',
    'recall.postings',
    'recall.vector_origins',
    'session.archived_sessions',
    'session.items',
    'session.message_order',
    'session.messages',
    'session.session_properties',
    'session.title_terms',
    'tenancy.space_grants',
    'tenancy.subject_properties',
    'tenancy.agent_tools',
    'memory.archived_sources',
    'memory.pending_rows',
    'session.archived_messages'
]) WITH ORDINALITY AS tables (name, place)
WHERE name::regclass NOT IN (SELECT logicalrelid FROM pg_dist_partition WHERE partmethod = 'h')
ORDER BY place
\gexec

-- On the coordinator alone, as they are:
--   auth.attempts
--   auth.check_keys
--   auth.legacy_tokens
--   auth.signing_keys
--   memory.master_keys
--   recall.model_activations
--   skein.migrations
--   skein.page_token_keys
--   skein.servers
--   worker.pgqueuer
--   worker.pgqueuer_log
--   worker.pgqueuer_schedules
--   worker.pgqueuer_statistics
