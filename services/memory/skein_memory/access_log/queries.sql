-- list_accesses --
-- Read the newest accesses of a range of ids; a null condition does not restrict.
SELECT access_event_id, operation, method, principal, memory_id, session_id, agent_id, subject_id, claimed_agent_id,
    claimed_session_id, item_count, request_data, success, error_code, error_reason, client_address,
    request_id, create_time, call_count, space_ids, space_grant_ids
FROM memory.access_log
WHERE tenant_id = :tenant_id AND access_event_id >= :from_id AND access_event_id < :before_id
    AND (:memory_id::uuid IS NULL OR memory_id = :memory_id)
    AND (:session_id::text IS NULL OR session_id = :session_id)
    AND (:agent_id::text IS NULL OR agent_id = :agent_id)
    AND (:claimed_agent_id::text IS NULL OR claimed_agent_id = :claimed_agent_id)
    AND (:claimed_session_id::text IS NULL OR claimed_session_id = :claimed_session_id)
    AND (:operation::text IS NULL OR operation = :operation)
    AND (NOT :failed_only::boolean OR success IS NOT true)
    AND (NOT :unanswered_only::boolean OR found_nothing)
ORDER BY access_event_id DESC
LIMIT :count;

-- drop_access_log --
-- Remove the months of all tenants' access logs that end before a time; return how many.
SELECT memory.drop_access_log(:before::timestamptz);
