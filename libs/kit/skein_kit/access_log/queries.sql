-- insert_accesses --
-- Insert access events.
INSERT INTO memory.access_log
    (tenant_id, access_event_id, memory_id, operation, method, principal, session_id, agent_id, subject_id, claimed_agent_id,
     claimed_session_id, item_count, request_data, success, error_code, error_reason, client_address, request_id,
     create_time, call_count, found_nothing, space_ids, space_grant_ids)
VALUES
    (:tenant_id, :access_event_id, :memory_id, :operation, :method, :principal, :session_id, :agent_id, :subject_id,
     :claimed_agent_id, :claimed_session_id, :item_count, :request_data, :success, :error_code, :error_reason,
     :client_address, :request_id, :create_time, :call_count, :found_nothing, :space_ids, :space_grant_ids);

-- narrow_accesses --
-- Keep of the spaces that some calls reached that of each row's memory, with its grant.
UPDATE memory.access_log AS l
SET space_ids = ARRAY[m.space_id],
    space_grant_ids = ARRAY[l.space_grant_ids[array_position(l.space_ids, m.space_id)]]
FROM memory.memories AS m
WHERE l.tenant_id = :tenant_id AND l.access_event_id >= :first_id AND l.request_id = ANY (:request_ids::text[])
    AND cardinality(l.space_ids) > 1
    AND m.tenant_id = :tenant_id AND m.memory_id = l.memory_id AND m.space_id = ANY (l.space_ids);

-- finish_access --
-- Set the result of an access whose event was inserted before it began.
UPDATE memory.access_log
SET success = :success, error_code = :error_code, error_reason = :error_reason, item_count = :item_count,
    found_nothing = :found_nothing
WHERE tenant_id = :tenant_id AND access_event_id = ANY (:access_event_ids::uuid[]);

-- count_accesses --
-- Add to the use counts of memories.
INSERT INTO memory.access_counts AS present (tenant_id, last_access_time, memory_id, access_count)
VALUES (:tenant_id, :last_access_time, :memory_id, :access_count)
ON CONFLICT ON CONSTRAINT access_counts_pkey DO UPDATE
    SET access_count = present.access_count + excluded.access_count,
        last_access_time = greatest(present.last_access_time, excluded.last_access_time);

-- read_access_key --
-- Read the key of a tenant for the hashes of its access log.
SELECT secret FROM memory.access_keys WHERE tenant_id = :tenant_id;

-- create_access_key --
-- Insert the key of a tenant for the hashes of its access log, unless it has one.
INSERT INTO memory.access_keys (tenant_id, secret)
VALUES (:tenant_id, :secret)
ON CONFLICT ON CONSTRAINT access_keys_pkey DO NOTHING;
