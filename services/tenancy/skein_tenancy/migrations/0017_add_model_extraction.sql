-- Facts by a language model: what a tenant wants remembered, the memory types of its facts, and its own endpoint.
SET LOCAL lock_timeout = '5s';

ALTER TABLE tenancy.policies DROP CONSTRAINT policies_extraction_known;
ALTER TABLE tenancy.policies
    ADD CONSTRAINT policies_extraction_known CHECK (extraction IN ('off', 'rules', 'model'));
ALTER TABLE tenancy.policies
    ADD COLUMN extraction_instructions text
        CONSTRAINT policies_extraction_instructions_length CHECK (length(extraction_instructions) <= 2000);
ALTER TABLE tenancy.policies ADD COLUMN extraction_types text[];
-- The tenant's own endpoint and model, and the memory of the vault with its key.
ALTER TABLE tenancy.policies
    ADD COLUMN extraction_url text
        CONSTRAINT policies_extraction_url_length CHECK (length(extraction_url) BETWEEN 1 AND 2048);
ALTER TABLE tenancy.policies
    ADD COLUMN extraction_model text
        CONSTRAINT policies_extraction_model_length CHECK (length(extraction_model) BETWEEN 1 AND 255);
ALTER TABLE tenancy.policies
    ADD COLUMN extraction_key_id text
        CONSTRAINT policies_extraction_key_id_length CHECK (length(extraction_key_id) BETWEEN 1 AND 255);

-- The history has the columns of the table in their order, and until_time behind them.
DROP VIEW as_of.policies;
DROP INDEX tenancy.policies_history_until;
ALTER TABLE tenancy.policies_history RENAME COLUMN until_time TO former_until_time;
ALTER TABLE tenancy.policies_history ADD COLUMN extraction_instructions text;
ALTER TABLE tenancy.policies_history ADD COLUMN extraction_types text[];
ALTER TABLE tenancy.policies_history ADD COLUMN extraction_url text;
ALTER TABLE tenancy.policies_history ADD COLUMN extraction_model text;
ALTER TABLE tenancy.policies_history ADD COLUMN extraction_key_id text;
ALTER TABLE tenancy.policies_history ADD COLUMN until_time timestamptz;
-- The owner sees no tenant's rows otherwise.
ALTER TABLE tenancy.policies_history NO FORCE ROW LEVEL SECURITY;
UPDATE tenancy.policies_history SET until_time = former_until_time;
ALTER TABLE tenancy.policies_history FORCE ROW LEVEL SECURITY;
ALTER TABLE tenancy.policies_history DROP COLUMN former_until_time;
ALTER TABLE tenancy.policies_history ALTER COLUMN until_time SET NOT NULL;
CREATE INDEX policies_history_until ON tenancy.policies_history (tenant_id, until_time);
CREATE VIEW as_of.policies WITH (security_invoker = true) AS
SELECT tenant_id, decay_days, max_inferred_edges, min_link_suggestion_score, retention_days, private_mode,
    snapshot_retention, path_max_hops, subgraph_default_radius, importance_formula, memory_types, revision, update_time,
    audit_strict, audit_query_text, session_idle_minutes, archive_days, webhook_max_failures, capacity_strategic,
    capacity_tactical, capacity_operational, capacity_contextual, enforce_level_capacities, search_language,
    recall_fusion, recall_weights, recall_min_relevance, recall_min_best_relevance, recall_token_vectors,
    expiry_grace_hours, guard_secrets, guard_personal_data, guard_ignored_kinds, approval, approval_expiry_days,
    recall_receipts, time_zone, embedding_model, extraction, extraction_roles, extraction_messages,
    extraction_quiet_seconds, extraction_instructions, extraction_types, extraction_url, extraction_model,
    extraction_key_id, record_time
FROM tenancy.policies
WHERE record_time <= (SELECT skein.as_of_time())
UNION ALL
SELECT tenant_id, decay_days, max_inferred_edges, min_link_suggestion_score, retention_days, private_mode,
    snapshot_retention, path_max_hops, subgraph_default_radius, importance_formula, memory_types, revision, update_time,
    audit_strict, audit_query_text, session_idle_minutes, archive_days, webhook_max_failures, capacity_strategic,
    capacity_tactical, capacity_operational, capacity_contextual, enforce_level_capacities, search_language,
    recall_fusion, recall_weights, recall_min_relevance, recall_min_best_relevance, recall_token_vectors,
    expiry_grace_hours, guard_secrets, guard_personal_data, guard_ignored_kinds, approval, approval_expiry_days,
    recall_receipts, time_zone, embedding_model, extraction, extraction_roles, extraction_messages,
    extraction_quiet_seconds, extraction_instructions, extraction_types, extraction_url, extraction_model,
    extraction_key_id, record_time
FROM tenancy.policies_history
WHERE record_time <= (SELECT skein.as_of_time()) AND until_time > (SELECT skein.as_of_time());
GRANT SELECT ON as_of.policies TO skein_session, skein_memory, skein_recall;

ALTER TABLE tenancy.jobs DROP CONSTRAINT jobs_kind_known;
ALTER TABLE tenancy.jobs ADD CONSTRAINT jobs_kind_known CHECK (kind IN (
    'embedding', 'reindex', 'decay', 'consolidation', 'import', 'retention', 'expiry', 'archive', 'session_archive',
    'summaries', 'extraction', 'model_extraction'));

-- A person's preference "extraction" says that no language model reads what they say.
GRANT SELECT ON tenancy.subject_properties TO skein_session;
