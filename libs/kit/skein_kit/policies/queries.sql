-- read_policy --
-- Read the policy of a tenant; null for each default that it has not changed.
SELECT decay_days, max_inferred_edges, min_link_suggestion_score, retention_days, private_mode, snapshot_retention,
    path_max_hops, subgraph_default_radius, importance_formula, memory_types, audit_strict, audit_query_text,
    session_idle_minutes, archive_days, webhook_max_failures, enforce_level_capacities, capacity_strategic, capacity_tactical,
    capacity_operational, capacity_contextual, search_language, recall_fusion, recall_weights, recall_min_relevance,
    recall_min_best_relevance, recall_token_vectors,
    expiry_grace_hours, guard_secrets, guard_personal_data, guard_ignored_kinds, approval,
    approval_expiry_days, recall_receipts, time_zone, embedding_model
FROM tenancy.policies
WHERE tenant_id = :tenant_id;

-- read_tenant_create_time --
-- Read when a tenant was created.
SELECT create_time
FROM tenancy.tenants
WHERE tenant_id = :tenant_id;
