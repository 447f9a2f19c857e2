-- read_policy --
-- Read the policy of a tenant; null for each default that it has not changed.
SELECT decay_days, max_inferred_edges, min_link_suggestion_score, retention_days, private_mode, snapshot_retention,
    path_max_hops, subgraph_default_radius, importance_formula, memory_types, audit_strict, audit_query_text,
    session_idle_minutes, archive_days, webhook_max_failures, enforce_level_capacities, capacity_strategic, capacity_tactical,
    capacity_operational, capacity_contextual, search_language, recall_fusion, recall_weights, recall_min_relevance,
    recall_min_best_relevance, recall_token_vectors,
    expiry_grace_hours, guard_secrets, guard_personal_data, guard_ignored_kinds, approval,
    approval_expiry_days, recall_receipts, time_zone, embedding_model, extraction, extraction_roles,
    extraction_messages, extraction_quiet_seconds, extraction_instructions, extraction_types,
    extraction_url, extraction_model, extraction_key_id
FROM tenancy.policies
WHERE tenant_id = :tenant_id;

-- read_zone_of_subject --
-- Read the time zone of a person, if the person has one; of several spaces, that of the first.
SELECT timezone
FROM tenancy.subjects
WHERE tenant_id = :tenant_id AND subject_id = :subject_id AND delete_time IS NULL AND timezone <> ''
ORDER BY space_id
LIMIT 1;

-- read_zone_of_subject_then --
-- Read the time zone that a person had at a time, if any; of several spaces, that of the first.
SELECT known.timezone
FROM (
    SELECT s.timezone, s.delete_time, s.space_id
    FROM tenancy.subjects AS s
    WHERE s.tenant_id = :tenant_id AND s.subject_id = :subject_id AND s.record_time <= :at
    UNION ALL
    SELECT h.timezone, h.delete_time, h.space_id
    FROM tenancy.subjects_history AS h
    WHERE h.tenant_id = :tenant_id AND h.subject_id = :subject_id AND h.record_time <= :at AND h.until_time > :at
) AS known
WHERE known.delete_time IS NULL AND known.timezone <> ''
ORDER BY known.space_id
LIMIT 1;

-- read_tenant_create_time --
-- Read when a tenant was created.
SELECT create_time
FROM tenancy.tenants
WHERE tenant_id = :tenant_id;
