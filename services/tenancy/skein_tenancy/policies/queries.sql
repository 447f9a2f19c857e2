-- get_policy --
-- Read the policy of a tenant; NULL for each value that it did not set.
SELECT decay_days, max_inferred_edges, min_link_suggestion_score, retention_days, private_mode, snapshot_retention,
    path_max_hops, subgraph_default_radius, importance_formula, memory_types, audit_strict, audit_query_text,
    session_idle_minutes, archive_days, webhook_max_failures, enforce_level_capacities, capacity_strategic, capacity_tactical,
    capacity_operational, capacity_contextual, search_language, recall_fusion, recall_weights, recall_min_relevance,
    recall_min_best_relevance, recall_token_vectors,
    expiry_grace_hours, guard_secrets, guard_personal_data, guard_ignored_kinds, approval,
    approval_expiry_days, recall_receipts, time_zone, embedding_model, extraction, extraction_roles,
    extraction_messages, extraction_quiet_seconds, extraction_instructions, extraction_types,
    extraction_url, extraction_model, extraction_key_id, revision, update_time
FROM tenancy.policies
WHERE tenant_id = :tenant_id;

-- list_offered_models --
-- List the embedding models that tenants may choose.
SELECT m.model
FROM recall.embedding_models AS m
WHERE m.is_offered
ORDER BY m.model;

-- insert_policy --
-- Insert the row of a tenant that changes its policy for the first time.
INSERT INTO tenancy.policies (tenant_id, update_time)
VALUES (:tenant_id, :update_time)
ON CONFLICT ON CONSTRAINT policies_pkey DO NOTHING;

-- lock_policy --
-- Read a policy and keep others from changing it until the transaction ends.
SELECT decay_days, max_inferred_edges, min_link_suggestion_score, retention_days, private_mode, snapshot_retention,
    path_max_hops, subgraph_default_radius, importance_formula, memory_types, audit_strict, audit_query_text,
    session_idle_minutes, archive_days, webhook_max_failures, enforce_level_capacities, capacity_strategic, capacity_tactical,
    capacity_operational, capacity_contextual, search_language, recall_fusion, recall_weights, recall_min_relevance,
    recall_min_best_relevance, recall_token_vectors,
    expiry_grace_hours, guard_secrets, guard_personal_data, guard_ignored_kinds, approval,
    approval_expiry_days, recall_receipts, time_zone, embedding_model, extraction, extraction_roles,
    extraction_messages, extraction_quiet_seconds, extraction_instructions, extraction_types,
    extraction_url, extraction_model, extraction_key_id, revision, update_time
FROM tenancy.policies
WHERE tenant_id = :tenant_id
FOR NO KEY UPDATE;

-- update_policy --
-- Change a policy that the transaction has locked.
UPDATE tenancy.policies
SET decay_days = :decay_days, max_inferred_edges = :max_inferred_edges,
    min_link_suggestion_score = :min_link_suggestion_score, retention_days = :retention_days,
    private_mode = :private_mode, snapshot_retention = :snapshot_retention, path_max_hops = :path_max_hops,
    subgraph_default_radius = :subgraph_default_radius, importance_formula = :importance_formula,
    memory_types = :memory_types, audit_strict = :audit_strict, audit_query_text = :audit_query_text,
    session_idle_minutes = :session_idle_minutes, archive_days = :archive_days,
    webhook_max_failures = :webhook_max_failures, enforce_level_capacities = :enforce_level_capacities,
    capacity_strategic = :capacity_strategic, capacity_tactical = :capacity_tactical,
    capacity_operational = :capacity_operational, capacity_contextual = :capacity_contextual,
    search_language = :search_language, recall_fusion = :recall_fusion, recall_weights = :recall_weights,
    recall_min_relevance = :recall_min_relevance,
    recall_min_best_relevance = :recall_min_best_relevance, recall_token_vectors = :recall_token_vectors,
    expiry_grace_hours = :expiry_grace_hours, guard_secrets = :guard_secrets,
    guard_personal_data = :guard_personal_data, guard_ignored_kinds = :guard_ignored_kinds, approval = :approval,
    approval_expiry_days = :approval_expiry_days, recall_receipts = :recall_receipts, time_zone = :time_zone,
    embedding_model = :embedding_model, extraction = :extraction, extraction_roles = :extraction_roles,
    extraction_messages = :extraction_messages, extraction_quiet_seconds = :extraction_quiet_seconds,
    extraction_instructions = :extraction_instructions, extraction_types = :extraction_types,
    extraction_url = :extraction_url, extraction_model = :extraction_model, extraction_key_id = :extraction_key_id,
    revision = revision + 1,
    update_time = :update_time
WHERE tenant_id = :tenant_id
RETURNING decay_days, max_inferred_edges, min_link_suggestion_score, retention_days, private_mode, snapshot_retention,
    path_max_hops, subgraph_default_radius, importance_formula, memory_types, audit_strict, audit_query_text,
    session_idle_minutes, archive_days, webhook_max_failures, enforce_level_capacities, capacity_strategic, capacity_tactical,
    capacity_operational, capacity_contextual, search_language, recall_fusion, recall_weights, recall_min_relevance,
    recall_min_best_relevance, recall_token_vectors,
    expiry_grace_hours, guard_secrets, guard_personal_data, guard_ignored_kinds, approval,
    approval_expiry_days, recall_receipts, time_zone, embedding_model, extraction, extraction_roles,
    extraction_messages, extraction_quiet_seconds, extraction_instructions, extraction_types,
    extraction_url, extraction_model, extraction_key_id, revision, update_time;
