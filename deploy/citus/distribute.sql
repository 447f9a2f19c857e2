-- Made by deploy/citus/distribute.py; do not edit. For psql, as a superuser, on a coordinator that has its
-- workers, in a database that `skein migrate` has just brought to the newest schema. See README.md.
\set ON_ERROR_STOP on

-- Where each transaction's tenant is said must reach the workers.
SELECT format('ALTER DATABASE %I SET citus.propagate_set_commands = ''local''', current_database())
\gexec
SET citus.multi_shard_modify_mode = 'sequential';

-- A copy on every machine.
SELECT create_reference_table('auth.accounts');
SELECT create_reference_table('auth.clients');
SELECT create_reference_table('auth.operator_keys');
SELECT create_reference_table('memory.master_keys');
SELECT create_reference_table('recall.embedding_models');
SELECT create_reference_table('tenancy.organizations');
SELECT create_reference_table('auth.identities');
SELECT create_reference_table('auth.one_time_tokens');
SELECT create_reference_table('auth.recovery_codes');
SELECT create_reference_table('auth.device_codes');
SELECT create_reference_table('tenancy.organization_quotas');
SELECT create_reference_table('tenancy.tenants');
SELECT create_reference_table('auth.legacy_tokens');
SELECT create_reference_table('recall.reindexes');

-- By tenant; all rows of a tenant lie on one machine.
SELECT create_distributed_table('auth.audit_events', 'tenant_id');
SELECT create_distributed_table('auth.requests', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('recall.requests', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('tenancy.deletions', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('tenancy.rate_limit_buckets', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('tenancy.requests', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('auth.auth_sessions', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('auth.authorization_codes', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('auth.refresh_tokens', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('auth.service_accounts', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('auth.usage', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('memory.access_keys', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('memory.access_log', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('memory.archives', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('memory.blocks', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('memory.changes', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('memory.erasures', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('memory.memories', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('memory.requests', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('memory.snapshots', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('memory.source_trust', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('memory.tenant_keys', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('memory.tombstone_salts', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('memory.tombstones', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('memory.usage', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('memory.webhooks', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('recall.corpora', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('recall.documents', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('recall.frequencies', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('recall.removals', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('session.agent_states', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('session.message_external_ids', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('session.requests', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('session.sessions', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('session.tombstone_salts', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('session.tombstones', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('session.unreferenced_files', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('session.usage', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('tenancy.agents', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('tenancy.collected_usage', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('tenancy.invitations', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('tenancy.memberships', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('tenancy.policies', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('tenancy.quotas', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('tenancy.subjects', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('tenancy.tools', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('tenancy.usage', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('recall.reindex_progress', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('auth.api_keys', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('memory.archived_memories', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('memory.block_agents', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('memory.access_counts', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('memory.aliases', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('memory.conflict_resolutions', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('memory.external_ids', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('memory.fact_keys', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('memory.links', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('memory.properties', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('memory.revisions', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('memory.tags', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('memory.tasks', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('memory.versions', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('memory.snapshot_items', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('memory.secrets', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('memory.deliveries', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('recall.embeddings_all_minilm_l6_v2', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('recall.postings', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('recall.vector_origins', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('session.archived_sessions', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('session.items', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('session.message_order', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('session.messages', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('session.session_properties', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('session.title_terms', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('tenancy.subject_properties', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('tenancy.agent_tools', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('memory.pending_rows', 'tenant_id', colocate_with => 'auth.audit_events');
SELECT create_distributed_table('session.archived_messages', 'tenant_id', colocate_with => 'auth.audit_events');

-- On the coordinator alone, as they are:
--   auth.attempts
--   auth.check_keys
--   auth.signing_keys
--   skein.migrations
--   skein.page_token_keys
--   worker.pgqueuer
--   worker.pgqueuer_log
--   worker.pgqueuer_schedules
--   worker.pgqueuer_statistics
